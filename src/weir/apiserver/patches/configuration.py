"""Does an applied configuration fit its kind, in the words of server-side apply?

Spec: apiserver.md 7 "Apply" (unknown field). Apply reads a configuration before it is read as an object, and says what
is wrong in other words than the decoder: `.spec.bogus: field not declared in schema`.
Not here: the decoder (weir.objects.exact), rules about values (weir.validate).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from weir.apiserver.patches.strategic import go_text, go_type
from weir.apiserver.patches.structure import Unkeyed, item_key, key_defaults, value_key
from weir.objects import schema
from weir.values.quoting import compact_json, quote

__all__ = ["path_text", "problems_of"]

_UNTYPED: Final = ("Time", "MicroTime", "Quantity", "IntOrString", "Duration")


def problems_of(configuration: Any, root: schema.Struct) -> list[str]:
    """Return what is wrong with the shape of *configuration*; an unknown field ends the look at its object.

    >>> problems_of({"key": 5, "bogus": 1}, schema.struct("core.v1.Toleration"))
    ['.bogus: field not declared in schema', '.key: expected string, got &value.valueUnstructured{Value:5}']
    """
    found = _struct_problems(configuration, root)
    return [f"{path}: {text}" if path else text for path, text in found]


def _problems(value: Any, shape: schema.Shape, field: schema.Field | None) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if shape.kind == "struct":
        yield from _struct_problems(value, schema.struct(shape.struct_name))
    elif shape.kind == "list":
        yield from _list_problems(value, shape, field)
    elif shape.kind == "map":
        if not isinstance(value, dict):
            yield "", f"expected map, got &{{{go_text(value)}}}"
        else:
            for key in sorted(value):
                yield from _under("." + key, _problems(value[key], _item(shape), None))
    elif shape.kind in ("RawExtension", "FieldsV1", "any"):
        return
    else:
        yield from _scalar_problems(value, shape)


def _item(shape: schema.Shape) -> schema.Shape:
    assert shape.item is not None
    return shape.item


def _under(prefix: str, found: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for path, text in found:
        yield prefix + path, text


def _struct_problems(value: Any, of: schema.Struct) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield "", f"expected map, got &{{{go_text(value)}}}"
        return
    for key in sorted(value):
        field = of.fields.get(key)
        if field is None:
            yield "." + key, "field not declared in schema"
            continue
        yield from _under("." + key, _problems(value[key], field.shape, field))


def _list_problems(value: Any, shape: schema.Shape, field: schema.Field | None) -> Iterator[tuple[str, str]]:
    if not isinstance(value, list):
        yield "", f"expected list, got &{{{go_text(value)}}}"
        return
    item = _item(shape)
    keyed = field is not None and field.list_type in ("map", "set")
    seen = set()
    for index, entry in enumerate(value):
        at = f"[{index}]"
        if keyed and field is not None:
            try:
                element = _element(entry, field, item)
            except Unkeyed as problem:
                yield "", f"element {index}: {problem}"
                return
            at = element_text(element)
            if element in seen:
                yield "", f"duplicate entries for key {at}"
            seen.add(element)
        yield from _under(at, _problems(entry, item, None))


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


def _scalar_problems(value: Any, shape: schema.Shape) -> Iterator[tuple[str, str]]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if shape.kind in ("string", "bytes"):
        if not isinstance(value, str):
            yield "", f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    elif shape.kind == "bool":
        if not isinstance(value, bool):
            yield "", f"expected boolean, got &{{{go_text(value)}}}"
    elif shape.kind in _UNTYPED:
        if isinstance(value, dict | list):
            yield "", f"expected any scalar, got &{{{go_text(value)}}}"
    elif not number:
        yield "", f"expected numeric (int or float), got {go_type(value)}"


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


# ── paths as people read them ────────────────────────────────────────────────────────────────────


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
