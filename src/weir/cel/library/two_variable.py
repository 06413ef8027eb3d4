"""Comprehensions with two variables: `m.transformMap(k, v, …)` and the insertion behind them.

Spec: cel.md 7. The macros are expanded by the parser; what remains is `cel.@mapInsert`, a name users cannot write.
Inserting a key twice is an error, where a map literal lets the last one win.
"""

from __future__ import annotations

from typing import Any, Final

from weir.cel.ast import MAP_INSERT
from weir.cel.env import Library
from weir.cel.errors import EvaluationError
from weir.cel.library.conversions import string_of_bool
from weir.cel.library.declare import functions, plain
from weir.cel.types import K, V, map_of
from weir.cel.values import ABSENT, Value, find_key
from weir.cel.work import spend

_MAP: Final = map_of(K, V)


def insert(into: dict[Any, Any], key: Value, value: Value) -> dict[Any, Any]:
    """Return *into* with one more entry, as a new map."""
    spend(len(into) >> 2)
    return insert_in_place(dict(into), key, value)


def insert_all(into: dict[Any, Any], entries: dict[Any, Any]) -> dict[Any, Any]:
    """Return *into* with the entries of another map, as a new map."""
    spend((len(into) >> 2) + len(entries) * 4)
    return insert_all_in_place(dict(into), entries)


def insert_in_place(into: dict[Any, Any], key: Value, value: Value) -> dict[Any, Any]:
    """Add one entry to a map that no other step holds yet, and return it."""
    if find_key(into, key) is not ABSENT:
        shown = string_of_bool(key) if key.__class__ is bool else str(key)
        raise EvaluationError(f"insert failed: key {shown} already exists")
    into[key] = value
    return into


def insert_all_in_place(into: dict[Any, Any], entries: dict[Any, Any]) -> dict[Any, Any]:
    """Add the entries of another map to a map that no other step holds yet, and return it."""
    for key, value in entries.items():
        insert_in_place(into, key, value)
    return into


LIBRARY: Final = Library(
    "two_variable",
    functions(
        plain(MAP_INSERT, "@mapInsert_map_map", (_MAP, _MAP), _MAP, insert_all, fails=True),
        plain(MAP_INSERT, "@mapInsert_map_key_value", (_MAP, K, V), _MAP, insert, fails=True),
    ),
    macros=frozenset({"two_variable"}),
)
