"""Field sets of a document, and of the changes between two documents.

Spec: apiserver.md 6 "managedFields" (`.` on Update: what is newly present, unless the kind's zero value already
prints it).
Walks a document along its structure (weir.apiserver.patches.structure). Two items of a keyed list with the same key
are one leaf; an empty object or list is a leaf.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weir.apiserver.patches.fieldset import FieldSet, is_member, union
from weir.apiserver.patches.structure import DEDUCED, LEAF, Node, Relation, item_key, value_key

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
    found = Comparison({}, {}, {})
    if old != new:
        _compare_different(old, new, node, *found)
    return found


def written_and_removed(old: dict[str, Any], new: dict[str, Any], node: Node) -> tuple[FieldSet, FieldSet]:
    """Return what the change from one document to another added or modified, and what it removed.

    Like compare(), but with added and modified in one set.
    """
    written: FieldSet = {}
    removed: FieldSet = {}
    _compare_different(old, new, node, written, written, removed)
    return written, removed


_NOTHING: Final = object()
_ITSELF: Final[FieldSet] = {".": {}}


def _compare_different(
    old: Any, new: Any, node: Node, added: FieldSet, modified: FieldSet, removed: FieldSet
) -> None:
    """Put into the sets what changed between two values; *added* and *modified* may be the same set."""
    relation = node.relation
    if relation is _LEAF or (not old and not new) or (relation is _MAP and not _are_objects(old, new)):
        modified["."] = {}
    elif relation is _KEYED or relation is _SET:
        _compare_items(old or (), new or (), node, Comparison(added, modified, removed))
    else:
        _compare_fields(old or {}, new or {}, node, added, modified, removed)


def _compare_fields(
    old: dict[str, Any],
    new: dict[str, Any],
    node: Node,
    added: FieldSet,
    modified: FieldSet,
    removed: FieldSet,
) -> None:
    table, other = (node.table, node.other) if node.relation is _STRUCT else (_NO_TABLE, node.item)
    for key, before in old.items():
        after = new.get(key, _NOTHING)
        if before is after or before == after:
            continue
        path, child = table.get(key) or ("f:" + key, other)
        if after is _NOTHING:
            removed[path] = {} if child is None else present(before, child)
        elif child is None:
            modified[path] = {}
        else:
            _compare_below(before, after, child, path, added, modified, removed)
    for key, after in new.items():
        if key not in old:
            path, child = table.get(key) or ("f:" + key, other)
            added[path] = {} if child is None else present(after, child)


_NO_TABLE: Final[dict[str, tuple[str, Node | None]]] = {}


def _compare_below(
    before: Any, after: Any, node: Node, path: str, added: FieldSet, modified: FieldSet, removed: FieldSet
) -> None:
    one: FieldSet = {}
    two: FieldSet = one if added is modified else {}
    three: FieldSet = {}
    _compare_different(before, after, node, one, two, three)
    if one:
        added[path] = {} if one == _ITSELF else one
    if two and two is not one:
        modified[path] = {} if two == _ITSELF else two
    if three:
        removed[path] = {} if three == _ITSELF else three


def _are_objects(old: Any, new: Any) -> bool:
    return isinstance(old or {}, dict) and isinstance(new or {}, dict)


def _compare_items(old: Any, new: Any, node: Node, into: Comparison) -> None:
    left, right = _by_key(old, node), _by_key(new, node)
    if len(left) < len(old) or len(right) < len(new):
        doubled_left, doubled_right = index_items(old, node), index_items(new, node)
        _compare_doubled(doubled_left, doubled_right, node, into)
        several = {
            key for items in (doubled_left, doubled_right) for key, found in items.items() if len(found) > 1
        }
        left = {key: item for key, item in left.items() if key not in several}
        right = {key: item for key, item in right.items() if key not in several}
    child = node.item or LEAF
    for key, before in left.items():
        after = right.get(key, _NOTHING)
        if after is _NOTHING:
            into.removed[key] = present(before, child)
        elif before != after:
            _compare_below(before, after, child, key, *into)
    for key, after in right.items():
        if key not in left:
            into.added[key] = present(after, child)


def _by_key(items: Any, node: Node) -> dict[str, Any]:
    """Return the items by their path elements; of some with the same the last."""
    if node.relation is _SET:
        return {value_key(item): item for item in items}
    keys = node.keys
    return {item_key(item, keys): item for item in items}


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


# ── merging of a configuration into an object, and removal of a field set ──
# Spec: apiserver.md 7 "Apply". The two operations of server-side apply on objects: merging (the configuration wins,
# keyed lists merge by key, sets unite) and removal. Removing everything inside an object or list leaves null; null over
# an object keeps the object.


class _Nothing:
    """No value at all, which null is not."""


NOTHING = _Nothing()
#: Bound once: looking a member up in an enum is slow where every field of every apply passes.
_LISTS = (Relation.KEYED, Relation.SET)


def overlay(live: Any, configuration: Any, node: Node) -> Any:
    """Return *configuration* merged over *live*; NOTHING when the result is empty."""
    if live is NOTHING:
        live = None if isinstance(configuration, dict | list) else NOTHING
        if live is NOTHING:
            return configuration
    if configuration is NOTHING:
        return live
    if node.relation is _LEAF or (not live and not configuration):
        return configuration
    if node.relation is _MAP and not (isinstance(live or {}, dict) and isinstance(configuration or {}, dict)):
        return configuration
    if node.relation in _LISTS:
        merged: Any = _overlay_items(live or [], configuration or [], node)
    else:
        merged = _overlay_fields(live or {}, configuration or {}, node)
    return merged if merged else NOTHING


def _overlay_fields(live: dict[str, Any], configuration: dict[str, Any], node: Node) -> dict[str, Any]:
    out = {}
    for key in {**live, **configuration}:
        if key not in configuration:
            out[key] = live[key]
            continue
        child = node.child(key) or LEAF
        if child.relation is _LEAF:
            out[key] = configuration[key]
            continue
        value = overlay(live.get(key, NOTHING), configuration[key], child)
        if value is not NOTHING:
            out[key] = value
    return out


def _element(item: Any, node: Node) -> str:
    return value_key(item) if node.relation is Relation.SET else item_key(item, node.keys)


def _overlay_items(live: list[Any], configuration: list[Any], node: Node) -> list[Any]:
    """Merge two lists by key: the order of the configuration for its items, the others where they stood."""
    left = [_element(item, node) for item in live]
    right = [_element(item, node) for item in configuration]
    new = dict(zip(right, configuration, strict=True))
    old = {key: items[0] for key, items in index_items(live, node).items() if len(items) == 1}
    shared = [key for key in right if key in set(left)]
    done: set[str] = set()
    out: list[Any] = []

    def take(key: str) -> None:
        done.add(key)
        merged = overlay(old.get(key, NOTHING), new[key], node.item or LEAF)
        if merged is not NOTHING:
            out.append(merged)
        if shared and shared[0] == key:
            shared.pop(0)

    at, to = 0, 0
    while at < len(left) or to < len(right):
        if at < len(left) and to < len(right):
            if left[at] == right[to]:
                take(right[to])
                at, to = at + 1, to + 1
                continue
            if left[at] in new and shared and shared[0] != left[at]:
                at += 1  # its turn comes where the configuration has it
                continue
        if at < len(left):
            if left[at] not in new:
                out.append(live[at])
                at += 1
                continue
            if left[at] in done:
                at += 1
        if to < len(right):
            take(right[to])
            to += 1
    return out


def remove_fields(value: Any, removed: FieldSet, node: Node) -> Any:
    """Return *value* without the members of *removed*; None when nothing is left of an object or list."""
    if not value or node.relation is _LEAF:
        return None if node.atomic or isinstance(value, dict | list) else value
    if node.relation in _LISTS:
        items = []
        for item in value:
            below = removed.get(_element(item, node))
            if below is None:
                items.append(item)
            elif not is_member(below):
                items.append(remove_fields(item, below, node.item or LEAF))
        return items or None
    out = {}
    for key, item in value.items():
        below = removed.get("f:" + key)
        if below is None:
            out[key] = item
        elif not is_member(below):
            out[key] = remove_fields(item, below, node.child(key) or LEAF)
    return out or None


def ensure_named(fields: FieldSet, node: Node) -> FieldSet:
    """Return *fields* with every declared field that has members below it made a member itself."""
    out: FieldSet = {}
    for key, below in fields.items():
        if key == "." or not below:
            out[key] = below
            continue
        named = node.relation is _STRUCT and key[:2] == "f:" and key[2:] in node.fields
        if key[:2] == "f:":
            child = node.child(key[2:]) or LEAF
        else:
            child = node.item or LEAF
        inner = ensure_named(below, child)
        out[key] = {".": {}, **inner} if named else inner
    return out
