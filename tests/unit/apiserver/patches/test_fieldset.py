"""Set algebra on FieldsV1, held against plain sets of paths."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.apiserver.patches.fieldset import (
    FieldSet,
    difference,
    intersection,
    keep_only,
    ordered,
    paths,
    union,
    without,
)

Path = tuple[str, ...]
ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"c"}', 'v:"x"'])
PATHS = st.frozensets(st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple), max_size=8)


def written(members: frozenset[Path]) -> FieldSet:
    """Return a set of paths as FieldsV1, by inserting one after the other."""
    root: dict[str, FieldSet] = {}
    for path in sorted(members, key=len):
        node = root
        for element in path[:-1]:
            if element not in node:
                node[element] = {"?": {}}  # not a member itself
            node = node[element]
        node.setdefault(path[-1], {})
    return _closed(root, members, ())


def _closed(node: FieldSet, members: frozenset[Path], at: Path) -> FieldSet:
    out: FieldSet = {}
    for element, below in node.items():
        if element == "?":
            continue
        path = (*at, element)
        inner = _closed(below, members, path)
        out[element] = {".": {}, **inner} if inner and path in members else inner
    return out


def read(fields: FieldSet) -> frozenset[Path]:
    return frozenset(paths(fields))


@given(PATHS)
def test_a_set_reads_as_it_was_written(members: frozenset[Path]) -> None:
    assert read(written(members)) == members


@given(PATHS, PATHS)
def test_union_is_the_union_of_the_paths(one: frozenset[Path], other: frozenset[Path]) -> None:
    assert union(written(one), written(other)) == written(one | other)


@given(PATHS, PATHS)
def test_difference_is_the_difference_of_the_paths(one: frozenset[Path], other: frozenset[Path]) -> None:
    assert difference(written(one), written(other)) == written(one - other)


@given(PATHS, PATHS)
def test_intersection_is_the_intersection_of_the_paths(one: frozenset[Path], other: frozenset[Path]) -> None:
    assert intersection(written(one), written(other)) == written(one & other)


@given(PATHS, PATHS)
def test_without_also_removes_what_lies_below(one: frozenset[Path], removed: frozenset[Path]) -> None:
    left = {path for path in one if not any(path[: len(cut)] == cut for cut in removed)}
    assert without(written(one), written(removed)) == written(frozenset(left))


@given(PATHS)
def test_keep_only_keeps_what_is_at_or_below_a_pattern(members: frozenset[Path]) -> None:
    kept = {path for path in members if path[0] == "f:a" or (len(path) > 1 and path[1] == "f:b")}
    assert read(keep_only(written(members), [("f:a",), ("*", "f:b")])) == kept


@given(PATHS, PATHS)
def test_the_algebra_leaves_its_arguments_alone(one: frozenset[Path], other: frozenset[Path]) -> None:
    left, right = written(one), written(other)
    union(left, right), difference(left, right), intersection(left, right), without(left, right)
    assert (left, right) == (written(one), written(other))


@pytest.mark.parametrize(
    "elements",
    [
        [".", "f:", "f:A", "f:a", "f:a-b", "f:ab", "f:é", 'k:{"a":1}', 'v:"x"', "i:0"],
        [
            'k:{"port":9}',
            'k:{"port":80}',
            'k:{"port":8080,"protocol":"TCP"}',
            'k:{"port":8080,"protocol":"UDP"}',
        ],
        ['k:{"name":"a"}', 'k:{"name":"a b"}', 'k:{"name":"a!"}', 'k:{"name":"a-b"}'],
        [
            "v:-1",
            "v:0.5",
            "v:2",
            "v:10",
            'v:"10"',
            'v:"2"',
            "v:false",
            "v:true",
            "v:[2]",
            "v:[10]",
            "v:{}",
            "v:null",
        ],
        ["i:2", "i:10"],
    ],
)
def test_elements_are_written_in_one_order(elements: list[str]) -> None:
    for start in range(len(elements)):
        mixed = [*elements[start:], *elements[:start]]
        assert list(ordered({key: {} for key in mixed})) == elements
        assert list(ordered({key: {} for key in reversed(mixed)})) == elements


@given(PATHS, PATHS)
def test_what_is_taken_away_leaves_a_set_in_order(one: frozenset[Path], other: frozenset[Path]) -> None:
    whole, right = ordered(written(one)), written(other)
    assert whole == written(one)
    for left in (difference(whole, right), intersection(whole, right), without(whole, right)):
        assert json.dumps(left) == json.dumps(ordered(left))
