"""Checks an applied configuration against its kind, with server-side apply's messages.

Spec: apiserver.md 7 "Apply" (unknown field). Apply validates a configuration before decoding, with its own messages:
`.spec.bogus: field not declared in schema`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from weir.apiserver.patches.strategic import go_text, go_type
from weir.apiserver.patches.structure import Unkeyed, item_key, key_defaults, value_key
from weir.caches import bounded
from weir.objects import schema
from weir.values.quoting import compact_json, quote

_UNTYPED: Final = ("Time", "MicroTime", "Quantity", "IntOrString", "Duration")
#: What a schema says nothing about: any value fits, and the decoder says what is wrong with it.
_ANYTHING: Final = frozenset(
    {"RawExtension", "FieldsV1", "any", "JSON", "SchemaOrArray", "SchemaOrBool", "SchemaOrStrings"}
)


def problems_of(configuration: Any, root: schema.Struct, at: str = "") -> list[str]:
    """Return what is wrong with the shape of *configuration*; an unknown field ends the look at its object.

    *at* is where the configuration stands in a larger one.

    >>> problems_of({"key": 5, "bogus": 1}, schema.struct("core.v1.Toleration"))
    ['.bogus: field not declared in schema']
    """
    found: list[str] = []
    _check_struct(configuration, root, at, found)
    return found


def _check_value(
    value: Any, shape: schema.Shape, field: schema.Field | None, at: str, found: list[str]
) -> None:
    """Add to *found* what is wrong with the shape of *value*, which stands at *at*."""
    if value is None:
        return
    if shape.kind == "struct":
        _check_struct(value, schema.struct(shape.struct_name), at, found)
    elif shape.kind == "list":
        _check_list(value, shape, field, at, found)
    elif shape.kind == "map":
        if not isinstance(value, dict):
            found.append(_message(at, f"expected map, got &{{{go_text(value)}}}"))
        else:
            for key in sorted(value):
                _check_value(value[key], _item(shape), None, f"{at}.{key}", found)
    elif shape.kind not in _ANYTHING:
        problem = scalar_problem(value, shape.kind)
        if problem:
            found.append(_message(at, problem))


def _message(at: str, problem: str) -> str:
    return f"{at}: {problem}" if at else problem


def _item(shape: schema.Shape) -> schema.Shape:
    assert shape.item is not None
    return shape.item


def _check_struct(value: Any, of: schema.Struct, at: str, found: list[str]) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        found.append(_message(at, f"expected map, got &{{{go_text(value)}}}"))
        return
    unknown = min((key for key in value if key not in of.fields), default=None)
    if unknown is not None:
        found.append(_message(f"{at}.{unknown}", "field not declared in schema"))
        return
    for key in sorted(value):
        field = of.fields[key]
        _check_value(value[key], field.shape, field, f"{at}.{key}", found)


def _check_list(
    value: Any, shape: schema.Shape, field: schema.Field | None, at: str, found: list[str]
) -> None:
    if not isinstance(value, list):
        found.append(_message(at, f"expected list, got &{{{go_text(value)}}}"))
        return
    item = _item(shape)
    keyed = field is not None and field.list_type in ("map", "set")
    seen = set()
    for index, entry in enumerate(value):
        where = f"[{index}]"
        if keyed and field is not None:
            try:
                element = _element(entry, field, item)
            except Unkeyed as problem:
                found.append(_message(at, f"element {index}: {problem}"))
                return
            where = element_text(element)
            if element in seen:
                found.append(_message(at, f"duplicate entries for key {where}"))
            seen.add(element)
        _check_value(entry, item, None, at + where, found)


def _element(entry: Any, field: schema.Field, item: schema.Shape) -> str:
    if field.list_type == "map":
        return item_key(entry, key_defaults(item.struct_name, field.keys))
    if isinstance(entry, dict):
        raise Unkeyed("associative list without keys has an element that's a map type")
    if isinstance(entry, list):
        raise Unkeyed("not supported: associative list with lists as elements")
    if entry is None:
        raise Unkeyed("associative list without keys has an element that's an explicit null")
    return value_key(entry)


def scalar_problem(value: Any, kind: str) -> str:
    """Return what is wrong with a value that is one word or number; empty when nothing is."""
    if kind in ("string", "bytes"):
        if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    elif kind == "bool":
        if not isinstance(value, bool):
            return f"expected boolean, got &{{{go_text(value)}}}"
    elif kind in _UNTYPED:
        if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{go_text(value)}}}"
    elif not isinstance(value, int | float) or isinstance(value, bool):
        return f"expected numeric (int or float), got {go_type(value)}"
    return ""


def _go_syntax(value: Any) -> str:
    """Return *value* as Go's `%#v` prints decoded JSON."""
    if isinstance(value, dict):
        inner = ", ".join(f"{quote(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    if isinstance(value, str):
        return quote(value)
    return "interface {}(nil)" if value is None else go_text(value)


# ── paths in messages ────────────────────────────────────────────────────────────────────────────


@bounded(1024)  # most lists are keyed by a few names
def element_text(element: str) -> str:
    """Return a path element as messages show it.

    >>> element_text('k:{"name":"c"}'), element_text("f:spec"), element_text('v:"x"')
    ('[name="c"]', '.spec', '[="x"]')
    """
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return "." + text
    if kind == "v:":
        return f"[={text}]"
    keys: dict[str, Any] = msgspec.json.decode(text)
    return "[" + ",".join(f"{name}={compact_json(value)}" for name, value in sorted(keys.items())) + "]"


def path_text(path: tuple[str, ...]) -> str:
    """Return a path of a field set as messages show it: `.spec.containers[name="c"].image`."""
    return "".join(map(element_text, path))
