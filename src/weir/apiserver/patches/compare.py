"""Which fields does a document have, and which did a change add, modify or remove?

Spec: apiserver.md 6 "managedFields" (`.` on Update: what is newly present, unless the kind's zero value already
prints it). Walks a document along its structure (weir.apiserver.patches.structure).
What surprises: two items of a keyed list with the same key are owned as one leaf; an empty object or list is a leaf.
Not here: whose fields they are (weir.apiserver.patches.managedfields).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from weir.apiserver.patches.fieldset import FieldSet, union
from weir.apiserver.patches.structure import DEDUCED, LEAF, Node, Relation, item_key, value_key

__all__ = ["Comparison", "compare", "created", "field_set", "index_items", "present"]


#: Bound once: looking a member up in an enum is slow where every field of every write passes.
_LEAF, _STRUCT, _MAP = Relation.LEAF, Relation.STRUCT, Relation.MAP
_KEYED, _SET = Relation.KEYED, Relation.SET


class Comparison(NamedTuple):
    """What a change did, as three sets without a common path."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


def present(value: Any, node: Node) -> FieldSet:
    """Return the set below a value that is wholly new (or wholly gone), its own `.` included."""
    relation = node.relation
    if relation is _LEAF or not value or (relation is _MAP and type(value) is not dict):
        return {}
    out: FieldSet = {".": {}}
    if relation is _STRUCT:
        table = node.table
        for key, item in value.items():
            path, child = table.get(key) or ("f:" + key, node.other)
            out[path] = {} if child is None or not item else present(item, child)
    elif relation is _MAP:
        child = node.item or LEAF
        if child.relation is _LEAF:
            for key in value:
                out["f:" + key] = {}
        else:
            for key, item in value.items():
                out["f:" + key] = present(item, child)
    elif relation is _KEYED:
        _present_items(value, node, out)
    elif relation is _SET:
        for item in value:
            out[value_key(item)] = {}
    return out


def _present_items(items: list[Any], node: Node, out: FieldSet) -> None:
    child = node.item or LEAF
    for item in items:
        key = item_key(item, node.keys)
        out[key] = {} if key in out else present(item, child)


def created(new: dict[str, Any], zero: dict[str, Any], node: Node, skip: FieldSet) -> FieldSet:
    """Return what a new document adds to its kind's zero value: compare() for the way every create takes.

    *skip* holds paths to leave out, with everything below them.
    """
    out: FieldSet = {}
    table = node.table
    for key, item in new.items():
        path, child = table.get(key) or ("f:" + key, node.other)
        left_out = skip.get(path)
        if left_out is not None and (not left_out or child is None):
            continue
        if key not in zero:
            out[path] = {} if child is None or not item else present(item, child)
            continue
        before = zero[key]
        if before == item:
            continue
        if child is None or not (before or item):
            out[path] = {}
        elif child.relation is _STRUCT and isinstance(item, dict):
            if below := created(item, before or {}, child, left_out or {}):
                out[path] = below
        elif not before and item and child.relation is not _LEAF:
            below = present(item, child)
            del below["."]  # the zero value has it already
            out[path] = below
        else:
            added, modified, _ = compare(before, item, child)
            if below := union(added, modified):
                out[path] = {} if below == {".": {}} else below
    return out


def compare(old: Any, new: Any, node: Node) -> Comparison:
    """Return what changed between two values that are both there."""
    return Comparison({}, {}, {}) if old == new else _compare_different(old, new, node)


def _compare_different(old: Any, new: Any, node: Node) -> Comparison:
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    found = Comparison(added, modified, removed)
    relation = node.relation
    if relation is _LEAF or (not old and not new) or (relation is _MAP and not _are_objects(old, new)):
        modified["."] = {}
        return found
    if relation in (_KEYED, _SET):
        left, right = index_items(old or (), node), index_items(new or (), node)
        pairs = _item_pairs(left, right, node)
        if len(left) < len(old or ()) or len(right) < len(new or ()):
            _compare_doubled(left, right, node, found)
    else:
        pairs = _field_pairs(old or {}, new or {}, node)
    for key, before, after, child in pairs:
        if before is _NOTHING:
            added[key] = present(after, child)
        elif after is _NOTHING:
            removed[key] = present(before, child)
        else:
            below = _compare_different(before, after, child)
            for part, into in zip(below, (added, modified, removed), strict=True):
                if part:
                    into[key] = {} if part == {".": {}} else part
    return found


def _are_objects(old: Any, new: Any) -> bool:
    return isinstance(old or {}, dict) and isinstance(new or {}, dict)


class _Mark:
    """A value that is no value."""


_NOTHING = _Mark()


def _field_pairs(old: dict[str, Any], new: dict[str, Any], node: Node) -> list[tuple[str, Any, Any, Node]]:
    out = []
    for key, before in old.items():
        after = new.get(key, _NOTHING)
        if before is not after and (after is _NOTHING or before != after):
            out.append(("f:" + key, before, after, node.child(key) or LEAF))
    for key, after in new.items():
        if key not in old:
            out.append(("f:" + key, _NOTHING, after, node.child(key) or LEAF))
    return out


def _item_pairs(
    old: dict[str, list[Any]], new: dict[str, list[Any]], node: Node
) -> list[tuple[str, Any, Any, Node]]:
    item = node.item or LEAF
    out = []
    for key in {**old, **new}:
        left, right = old.get(key, ()), new.get(key, ())
        if len(left) > 1 or len(right) > 1 or left == right:
            continue
        out.append((key, left[0] if left else _NOTHING, right[0] if right else _NOTHING, item))
    return out


def _compare_doubled(
    old: dict[str, list[Any]], new: dict[str, list[Any]], node: Node, into: Comparison
) -> None:
    """Items that share their key are one leaf: it comes, changes and goes as a whole."""
    item = node.item or LEAF
    for key in {**old, **new}:
        left, right = old.get(key, []), new.get(key, [])
        if len(left) > 1 and len(right) > 1:
            if left != right:
                into.modified[key] = {}
        elif len(left) > 1:
            if right:
                into.added[key] = present(right[0], item)
            into.removed[key] = {}
        elif len(right) > 1:
            if left:
                into.removed[key] = present(left[0], item)
            into.added[key] = {}


def index_items(items: Any, node: Node) -> dict[str, list[Any]]:
    """Return the items of a keyed list or a set by their path elements, in order."""
    out: dict[str, list[Any]] = {}
    for item in items:
        if node.relation is _SET:
            out.setdefault(value_key(item), []).append(item)
        else:
            out.setdefault(item_key(item, node.keys), []).append(item)
    return out


def field_set(value: Any, node: Node) -> FieldSet:
    """Return the fields a configuration names: leaves and list items, no `.` for objects that have fields."""
    relation = node.relation
    out: FieldSet = {}
    if relation is _KEYED:
        for key, items in index_items(value or (), node).items():
            below = field_set(items[0], node.item or LEAF) if len(items) == 1 else {}
            out[key] = {".": {}, **below} if below else {}
    elif relation is _SET:
        for item in value or ():
            out[value_key(item)] = {}
    elif isinstance(value, dict) and relation is _STRUCT:
        table = node.table
        for key, item in value.items():
            path, below_it = table.get(key) or ("f:" + key, node.other)
            if below_it is None or item is None or item == {}:
                out[path] = {}
            elif below := field_set(item, below_it):
                out[path] = below if key in table else {".": {}, **below}
            elif key not in table:
                out[path] = {}
    elif isinstance(value, dict) and relation is not _LEAF:
        child = node.item or LEAF
        for key, item in value.items():
            leaf = child.relation is _LEAF or item is None or item == {}
            leaf = leaf or (child is DEDUCED and not isinstance(item, dict))
            below = {} if leaf else field_set(item, child)
            out["f:" + key] = {".": {}, **below} if below else {}
    return out
