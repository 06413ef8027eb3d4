"""Merging of a configuration into an object, and removal of a field set.

Spec: apiserver.md 7 "Apply". The two operations of server-side apply on objects: merging (the configuration wins,
keyed lists merge by key, sets unite) and removal. Removing everything inside an object or list leaves null; null over
an object keeps the object.
"""

from __future__ import annotations

from typing import Any

from weir.apiserver.patches.compare import index_items
from weir.apiserver.patches.fieldset import FieldSet, is_member
from weir.apiserver.patches.structure import LEAF, Node, Relation, item_key, value_key

__all__ = ["ensure_named", "overlay", "remove_fields"]


class _Nothing:
    """No value at all, which null is not."""


NOTHING = _Nothing()
#: Bound once: looking a member up in an enum is slow where every field of every apply passes.
_LEAF, _STRUCT, _MAP = Relation.LEAF, Relation.STRUCT, Relation.MAP
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
