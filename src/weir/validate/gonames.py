"""How does the API server print this part of an object when it refuses it?

Bad values and diffs of structs show the server's internal types: Go field names, every field in declaration order,
absent pointers, lists and maps as `null`, absent text as `""`. `gonames.json`, made by `tools/gonames` from those
types, says that for the structs that messages show: one line a struct, `GoName[=wireName][:type]` a field. Types: none
text, i integer, b boolean, q quantity, p null when absent, m map (keys sorted), Name a struct, *Name one that may be
absent, []Name a list.

Spec: core.md 2.1 "Error model" (values), 2.6 "Pod update" (the diff after the message).
Not here: which field is wrong (weir.validate.field).
"""

from __future__ import annotations

import difflib
import json
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from weir.validate.field import Document

_ZERO: Final = {"": "", "i": 0, "b": False, "q": "0", "p": None, "m": None}

_Field = tuple[str, str, str]


@cache
def _table() -> dict[str, str]:
    found: dict[str, str] = msgspec.json.decode(
        resources.files("weir.validate").joinpath("gonames.json").read_bytes()
    )
    return found


@cache
def _fields(struct: str) -> tuple[_Field, ...]:
    """Return (Go name, wire name, type) for each field of *struct*."""
    fields = []
    for item in _table()[struct].split():
        names, _, kind = item.partition(":")
        go, _, wire = names.partition("=")
        fields.append((go, wire or go[0].lower() + go[1:], kind))
    return tuple(fields)


def go_struct(struct: str, wire: Document | None) -> dict[str, Any] | None:
    """Return *wire* as the server's *struct* marshals; an absent one is null.

    >>> go_struct("Taint", {"key": "sla", "effect": "NoSchedule"})
    {'Key': 'sla', 'Value': '', 'Effect': 'NoSchedule', 'TimeAdded': None}
    """
    if wire is None:
        return None
    return {go: _go_value(kind, wire.get(name)) for go, name, kind in _fields(struct)}


def go_list(struct: str, wire: list[Document] | None) -> list[Any] | None:
    """Return a list of *struct*; an absent or empty one is null."""
    return [go_struct(struct, item) for item in wire] if wire else None


def _go_value(kind: str, value: Any) -> Any:
    if kind in _ZERO:
        if value is None:
            return _ZERO[kind]
        return dict(sorted(value.items())) if kind == "m" else value
    if kind.startswith("[]"):
        return go_list(kind[2:], value)
    if kind.startswith("*"):
        return go_struct(kind[1:], value)
    return go_struct(kind, value or {})


def equal(struct: str, old: Document | None, new: Document | None) -> bool:
    """Return whether two values of *struct* are semantically equal: empty lists and maps are absent ones.

    Fields the table does not name count as they stand.

    >>> equal("Toleration", {"key": "a", "value": ""}, {"key": "a"})
    True
    """
    if old is None or new is None:
        return old is new
    return _comparable(go_struct(struct, old)) == _comparable(go_struct(struct, new)) and (
        _unnamed(struct, old) == _unnamed(struct, new)
    )


def _comparable(value: Any) -> Any:
    """Return *value* with empty lists and maps as null."""
    if isinstance(value, dict):
        return {name: _comparable(item) for name, item in value.items()} or None
    if isinstance(value, list):
        return [_comparable(item) for item in value] or None
    return value


def _unnamed(struct: str, wire: Document) -> Document:
    """Return the fields of *wire* that the table does not name: those of newer versions, or weir's own."""
    named = {name for _, name, _ in _fields(struct)}
    return {name: value for name, value in wire.items() if name not in named}


def diff(struct: str, old: Document | None, new: Document | None) -> str:
    """Return the changed hunks between two values of *struct*, as the server appends them to a message.

    >>> print(diff("Taint", {"key": "a"}, {"key": "b"}))
    @@ -1,5 +1,5 @@
     {
    - "Key": "a",
    + "Key": "b",
      "Value": "",
      "Effect": "",
      "TimeAdded": null
    <BLANKLINE>
    """
    before, after = (
        json.dumps(go_struct(struct, side), indent=1, ensure_ascii=False).split("\n") for side in (old, new)
    )
    lines = difflib.unified_diff(before, after, n=3, lineterm="")
    return "\n".join(line for line in list(lines)[2:]) + "\n"
