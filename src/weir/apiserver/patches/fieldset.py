"""Sets of field paths in the managedFields encoding.

Spec: apiserver.md 6 "Encoding". A set is a dict: `f:<field>`, `k:{keys}` or `v:<value>` → the set below it. An empty
dict is a member; `.` marks an element that is a member and has members below. Operations never change their arguments
but may share parts of them: treat every set as frozen. `difference`, `intersection` and `without` take time in the size
of their first argument alone: an object has thousands of managers, each compared with one large change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, Final

import msgspec

from weir.caches import bounded

FieldSet = dict[str, Any]
_MEMBER: Final[FieldSet] = {}


def is_field_set(value: Any) -> bool:
    """Whether *value*, which a client wrote, has the form of a set.

    >>> is_field_set({"f:a": {".": {}, "f:b": {}}}), is_field_set({"f:a": 5}), is_field_set({"k:x": {}})
    (True, False, False)
    """
    if not isinstance(value, dict):
        return False
    return all(
        (key == "." and below == {}) or (_is_element(key) and is_field_set(below))
        for key, below in value.items()
    )


def _is_element(key: str) -> bool:
    if key[:2] == "f:":
        return True
    if key[:2] not in ("k:", "v:", "i:"):
        return False
    try:
        found = msgspec.json.decode(key[2:])
    except ValueError:
        return False
    return isinstance(found, dict) if key[0] == "k" else True


def is_member(below: FieldSet) -> bool:
    """Whether an element whose value is *below* is itself in the set."""
    return not below or "." in below


def _joined(member: bool, children: FieldSet) -> FieldSet | None:
    """Return the value of an element from its membership and its children; None when nothing is left."""
    if not children:
        return _MEMBER if member else None
    return {".": {}, **children} if member else children


def _children(below: FieldSet) -> FieldSet:
    return {key: value for key, value in below.items() if key != "."} if "." in below else below


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths in either set.

    >>> union({"f:a": {}}, {"f:a": {"f:b": {}}})
    {'f:a': {'.': {}, 'f:b': {}}}
    """
    if not one or not other:
        return one or other
    out = dict(one)
    for key, below in other.items():
        mine = out.get(key)
        if mine is None:
            out[key] = below
        elif mine != below:
            member = is_member(mine) or is_member(below)
            out[key] = _joined(member, union(_children(mine), _children(below)))
    return out


def union_all(sets: Iterable[FieldSet]) -> FieldSet:
    """Return the paths in any of *sets*, joined in pairs so that many small sets are not copied many times.

    >>> union_all([{"f:a": {}}, {"f:b": {}}, {"f:a": {"f:c": {}}}])
    {'f:a': {'.': {}, 'f:c': {}}, 'f:b': {}}
    """
    left = list(sets)
    while len(left) > 1:
        pairs = zip_longest(left[::2], left[1::2], fillvalue=_MEMBER)
        left = [union(one, other) for one, other in pairs]
    return left[0] if left else {}


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths of *one* that are not in *other*.

    >>> difference({"f:a": {".": {}, "f:b": {}}}, {"f:a": {}})
    {'f:a': {'f:b': {}}}
    """
    if not other or one.keys().isdisjoint(other.keys()):
        return one
    out = {}
    for key, below in one.items():
        theirs = other.get(key)
        if theirs is None:
            out[key] = below
            continue
        member = is_member(below) and not is_member(theirs)
        left = _joined(member, difference(_children(below), theirs))
        if left is not None:
            out[key] = left
    return out


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths in both sets.

    >>> intersection({"f:a": {}, "f:b": {}}, {"f:b": {}, "f:c": {}})
    {'f:b': {}}
    """
    out: FieldSet = {}
    if one.keys().isdisjoint(other.keys()):
        return out
    for key, below in one.items():
        theirs = other.get(key)
        if theirs is None:
            continue
        both = _joined(is_member(below) and is_member(theirs), intersection(_children(below), theirs))
        if both is not None:
            out[key] = both
    return out


def without(one: FieldSet, removed: FieldSet) -> FieldSet:
    """Return *one* without the members of *removed* and everything below them."""
    if not removed or one.keys().isdisjoint(removed.keys()):
        return one
    out = {}
    for key, below in one.items():
        cut = removed.get(key)
        if cut is None:
            out[key] = below
        elif not is_member(cut):
            left = _joined(is_member(below), without(_children(below), cut))
            if left is not None:
                out[key] = left
    return out


def keep_only(one: FieldSet, patterns: Iterable[tuple[str, ...]]) -> FieldSet:
    """Return the paths of *one* at or below one of *patterns*; `*` in a pattern is any element."""
    out: FieldSet = {}
    patterns = list(patterns)
    for key, below in one.items():
        if key == ".":
            continue
        rests = [pattern[1:] for pattern in patterns if pattern and pattern[0] in (key, "*")]
        if any(not rest for rest in rests):
            out[key] = below
        elif rests and (kept := keep_only(below, rests)):
            out[key] = kept
    return out


def paths(one: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every member's path, elements as they are written."""
    for key, below in one.items():
        if key == ".":
            continue
        path = (*prefix, key)
        if is_member(below):
            yield path
        yield from paths(below, path)


# ── the order a set is written in ────────────────────────────────────────────────────────────────

#: Fields come before keys, keys before values, values before indexes.
_KINDS: Final = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


def ordered(fields: FieldSet) -> FieldSet:
    """Return the set in the order it is written: at each level `.`, then what lies below, sorted.

    >>> ordered({'v:"a"': {}, "f:b": {"f:c": {}, ".": {}}, "f:a": {}})
    {'f:a': {}, 'f:b': {'.': {}, 'f:c': {}}, 'v:"a"': {}}
    >>> list(ordered({'k:{"port":80}': {}, 'k:{"port":9}': {}}))
    ['k:{"port":9}', 'k:{"port":80}']
    """
    keys: Iterable[str] = fields
    if len(fields) > 1:
        keys = sorted(fields)
        if keys[-1][0] > "f":  # "." and names sort by their text, everything else by what it says
            keys.sort(key=_rank)
    return {key: ordered(below) if (below := fields[key]) else below for key in keys}


@bounded(4096)  # the same few keys are in the sets of every object
def _rank(element: str) -> tuple[int, Any]:
    kind, text = element[0], element[2:]
    rank = _KINDS[kind]
    return (rank, text) if rank < 2 else (rank, _value_rank(msgspec.json.decode(text)))


def _value_rank(value: Any) -> tuple[Any, ...]:
    """Return what values are compared by: numbers, texts, booleans, lists, objects and null, in this order."""
    if value is None:
        return (5,)
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, value
    if isinstance(value, list):
        return 3, tuple(map(_value_rank, value))
    return 4, tuple((name, _value_rank(value[name])) for name in sorted(value))
