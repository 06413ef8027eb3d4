"""Manifests: Kubernetes' YAML, places, and text that means harm."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.objects.manifest import ManifestError, read_manifest, read_values

POD = """\
apiVersion: v1
kind: Pod
spec:
  tolerations:
  - key: sla
    value: "0950"
"""


def test_a_field_knows_its_line_and_column():
    (document,) = read_manifest(POD, "pod.yaml")
    assert str(document.place_of(("spec", "tolerations", 0, "value"))) == "pod.yaml:6:12"


def test_a_missing_field_is_placed_at_its_nearest_parent():
    (document,) = read_manifest(POD, "pod.yaml")
    assert str(document.place_of(("spec", "tolerations", 0, "effect"))) == "pod.yaml:5:5"


def test_members_of_a_list_keep_their_own_places():
    text = "kind: List\nitems:\n- kind: Pod\n- kind: Node\n  metadata: {name: n}\n"
    (document,) = read_manifest(text, "list.yaml")
    members = list(document.items())
    assert [str(member.place_of(("kind",))) for member in members] == ["list.yaml:3:9", "list.yaml:4:9"]


def test_members_of_a_typed_list_get_its_kind():
    (document,) = read_manifest(
        '{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n"}}]}'
    )
    assert [member.value["kind"] for member in document.items()] == ["Node"]


def test_merge_keys_are_applied_and_own_keys_win():
    (value,) = read_values("base: &b {a: 1, b: 2}\nmine: {<<: *b, b: 3}\n")
    assert value["mine"] == {"a": 1, "b": 3}


def test_a_key_written_twice_is_reported_and_the_last_one_counts():
    (document,) = read_manifest("a: 1\na: 2\n", "f")
    assert document.value == {"a": 2} and [str(place) for _, place in document.duplicates] == ["f:2:1"]


def bomb():
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    names = "abcdefghij"
    for last, name in pairwise(names):
        lines.append(f"{name}: &{name} [{','.join([f'*{last}'] * 9)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text, problem",
    [
        (bomb(), "aliases repeat too much"),
        ("[" * 100_000, "nested more than 200 levels"),
        ("- " * 100_000, "nested more than 200 levels"),
        ("\n".join(" " * n + "a:" for n in range(1500)), "nested more than 200 levels"),
        ("? " * 50_000, "mapping key"),
        ("a: &x [*x]", "contains itself"),
        (b"\x00\x01\x7fELF", "not text"),
        (b"\xff\xfa\xfb", "not text"),
        ("? [a]\n: 1", "mapping key"),
        ("x: 'open", "unexpected end"),
        ("a: *nope", "unknown anchor 'nope'"),
        ("a: <<\n<<: 1", "map merge"),
    ],
    ids=range(12),
)
def test_hostile_text_ends_in_one_error_with_its_place(text, problem):
    with pytest.raises(ManifestError) as refused:
        read_manifest(text, "bad.yaml")
    assert problem in str(refused.value) and str(refused.value).startswith("bad.yaml:")


@given(st.text() | st.binary())
def test_any_text_is_read_or_refused(text):
    try:
        read_manifest(text)
    except ManifestError as error:
        assert "\n" not in str(error)
