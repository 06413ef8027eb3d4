"""The reader for strangers' YAML says what the reader with places says, and never holds more than it may."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weir.objects.manifest import ManifestError, read_manifest
from weir.objects.yaml_values import TooManyValues, read_yaml

WORDS = st.sampled_from(
    ["a", "b", "on", "0o17", "1_000", "1.5", "~", "x: y", "é", "multi\nline", "", "<<", "0"]
)
VALUES = st.recursive(
    st.one_of(WORDS, st.integers(-(2**65), 2**65), st.booleans(), st.none(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=20,
)
PIECES = st.lists(
    st.sampled_from(
        [
            "a: ",
            "b",
            "\n",
            "  ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ",",
            ": ",
            "&x ",
            "*x",
            "'",
            '"',
            "---\n",
            "<<: ",
            "#",
            "|\n",
        ]
    ),
    max_size=30,
).map("".join)


def both(text: str) -> tuple[object, object]:
    def said(read):
        try:
            return read(text)
        except ManifestError as error:
            return f"refused at line {error.place.line}"

    with_places = said(
        lambda text: [
            (document.value, [(str(path[-1]), place.line) for path, place in document.duplicates])
            for document in read_manifest(text, "body")
        ]
    )
    return said(lambda text: [(found.value, found.duplicates) for found in read_yaml(text)]), with_places


@given(value=VALUES, flow=st.sampled_from([None, True, False]))
def test_what_is_dumped_is_read_as_by_the_reader_with_places(value, flow):
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    mine, plain = both(text)
    assert mine == plain


@given(text=PIECES)
def test_odd_texts_are_read_or_refused_alike(text):
    mine, plain = both(text)
    # An anchor may be given again and an alias may lack one to the server's reader: those words are its own.
    if not (isinstance(plain, str) and "x" in text):
        assert mine == plain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: *nobody", "unknown anchor 'nobody' referenced"),
        ("a: &x [*x]", "anchor 'x' value contains itself"),
        ("? [a]\n: b", "a mapping key must be a plain word"),
        ("a: 1\n<<: [b]", "map merge requires map or sequence of maps"),
        ("[" * 300, "nested more than 200 levels deep"),
    ],
)
def test_what_cannot_be_read_is_named(text, words):
    with pytest.raises(ManifestError, match=words):
        read_yaml(text)


def test_an_anchor_may_be_given_again_and_an_alias_may_be_a_key():
    (found,) = read_yaml("a: &x 1\nb: &x 2\nc: *x\n*x : d\n")
    assert found.value == {"a": 1, "b": 2, "c": 2, "2": "d"}


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
