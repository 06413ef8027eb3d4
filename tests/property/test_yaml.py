"""The YAML reader reads what a JSON or YAML writer meant, knows where it stands, and refuses what is too much."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.objects.manifest import ManifestError, TooManyValues, read_manifest, read_values, read_yaml
from weir.objects.yaml_reader import plain_scalar


class Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


words = st.text("abcXYZ019 -_.:/'\"#{}[],&*!|>%@`~?=\\é\n", max_size=12) | st.sampled_from(
    ["yes", "null", "~", "1e3", "0x1f", "0o7", "1_000", "-5", "1.5", "2024-01-15", "a: b", "a #b", "x" * 90]
)
#: The other writer leaves words unquoted that mean a number to Kubernetes.
texts = words.filter(lambda word: plain_scalar(word) == word if word else True)
long_texts = st.lists(st.sampled_from(["kubelet", "disk:", "it's", "#1"]), min_size=15, max_size=30).map(
    " ".join
)


def values(scalars: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    one = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | scalars
    return st.recursive(
        one, lambda v: st.lists(v, max_size=4) | st.dictionaries(keys, v, max_size=4), max_leaves=20
    )


@given(value=st.dictionaries(texts, values(texts | long_texts, texts), min_size=1, max_size=4))
@pytest.mark.parametrize("style", [None, True, False])
@settings(max_examples=tries(30, 100))
def test_what_a_yaml_writer_writes_is_read_as_it_meant(style, value):
    text = yaml.dump(value, Dumper=Dumper, default_flow_style=style, width=40, allow_unicode=True)
    assert read_values(text) == [document.value for document in read_manifest(text)] == [value]


def scalars_of(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if inner is None:
        yield path, value
    for key, each in inner or ():
        yield from scalars_of(each, (*path, key))


@given(value=values(words, words), indent=st.sampled_from([None, 2]))
@settings(max_examples=tries(60, 150))
def test_json_is_read_as_json_and_each_value_has_its_place(value, indent):
    text = json.dumps(value, indent=indent)
    documents = read_manifest(text)
    assert [document.value for document in documents] == ([] if value is None else [value])
    lines = text.split("\n")
    for path, scalar in scalars_of(value) if documents else ():
        place = documents[0].place_of(path)
        assert lines[place.line - 1][place.column - 1 :].startswith(json.dumps(scalar))


PIECES = ["a: ", "b", "\n", "  ", "- ", "[", "]", "{", "}", ",", ": ", "&x ", "*x", "'", '"']
PIECES += ["---\n", "<<: ", "#", "|\n"]


@given(text=st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_places_change_no_value_and_no_error(text):
    def outcome(read: Any) -> object:
        try:
            return [(document.value, document.duplicates) for document in read(text, "f")]
        except ManifestError as error:
            return error.place, error.problem.split(" (", 1)[0]

    with_places, without = outcome(read_manifest), outcome(read_yaml)
    assert with_places == without or "template" in str(with_places)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: *missing", "unknown anchor 'missing' referenced"),
        ("a: &x [*x]", "anchor 'x' value contains itself"),
        ("? [a]\n: b", "a mapping key must be a plain word"),
        ("a: 1\n<<: [b]", "map merge requires map or sequence of maps"),
        ("[" * 300, "nested more than 200 levels deep"),
        ("a: b: c", "mapping values are not allowed"),
        ("a:\n\tb: 1", "cannot start any token"),
        ("a: 'x", "unexpected end of stream"),
        ("- a\nb: 1", "did not find expected '-' indicator"),
        ("a: [1", "did not find expected ',' or ']'"),
    ],
)
def test_what_cannot_be_read_is_named(text, words):
    for read in (read_yaml, read_values, read_manifest):
        with pytest.raises(ManifestError, match=words):
            read(text)


def test_an_anchor_may_be_given_again_and_an_alias_may_be_a_key():
    text = "a: &x 1\nb: &x 2\nc: *x\n*x : d\n"
    assert read_values(text) == [{"a": 1, "b": 2, "c": 2, "2": "d"}]


def test_an_alias_reaches_across_items_and_ends_with_its_document():
    assert read_values("items:\n- a: &x 1\n- b: *x\n") == [{"items": [{"a": 1}, {"b": 1}]}]
    with pytest.raises(ManifestError, match="unknown anchor"):
        read_values("a: &x 1\n---\nb: *x\n")


def test_several_documents_are_read_and_empty_ones_left_out():
    assert read_values("---\na: 1\n---\n# nothing\n---\n- b\n") == [{"a": 1}, ["b"]]


@pytest.mark.parametrize(
    "text",
    [
        "a: [" + "b," * 2000 + "]",
        "".join(f"k{number}: v\n" for number in range(1000)),
        "a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nd: &d [*c, *c, *c, *c]\ne: [*d, *d]",
        "a: &a {"
        + ", ".join(f"k{number}: v" for number in range(400))
        + "}\n"
        + "".join(f"b{number}: {{<<: [*a, *a]}}\n" for number in range(4)),
    ],
)
def test_a_text_of_too_many_values_is_refused_at_the_first_of_them(text):
    with pytest.raises(TooManyValues, match="more than 1000 values"):
        read_yaml(text, most=1000)
    assert read_values(text)  # a manifest's bound is higher
