"""Converts a strategically merged object to its kind, with the real server's messages.

Spec: apiserver.md 7 "Patch" (result has a wrong type). The real server converts the result of this patch type without
JSON, so a wrong type has different messages, fields are checked in declaration order, and the value shown is the
patch. `2.0` is an integer here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from weir.apiserver.patches.strategic import go_text, merge_map, parse, schema_node
from weir.errors import DecodeError, Invalid
from weir.fields.field import invalid
from weir.objects import schema
from weir.objects.document import KindRow, check, copied, may_have_duplicates, root_of
from weir.objects.jsontext import Pairs, duplicate_fields, parse_json
from weir.objects.strict_decoder import Unreadable, decode_exactly
from weir.values.quoting import quote

_SCALARS: Final = frozenset(
    {"string", "bool", "float64", *(f"{u}int{n}" for u in ("", "u") for n in ("", 8, 16, 32, 64))}
)


def patch(
    document: dict[str, Any], body: bytes, kind: KindRow, *, field_validation: str = "Warn"
) -> tuple[dict[str, Any], list[str]]:
    """Return *document* with the strategic merge patch of *body* applied and read as its kind, and the warnings."""
    overlay = parse(body)
    doubled = _duplicates(body, overlay) if field_validation != "Ignore" else []
    merged = merge_map(copied(document), overlay, schema_node(kind))
    return read_merged(merged, overlay, kind, field_validation=field_validation, doubled=doubled)


def _duplicates(body: bytes, overlay: dict[str, Any]) -> list[str]:
    """Return what strict decoding complains about in the patch itself."""
    if not may_have_duplicates(body, overlay):
        return []
    return [f"duplicate field {quote(path)}" for path in duplicate_fields(parse_json(body))]


def read_merged(
    merged: dict[str, Any],
    overlay: Any,
    kind: KindRow,
    *,
    field_validation: str = "Warn",
    doubled: Sequence[str] = (),
) -> tuple[dict[str, Any], list[str]]:
    """Return the merged object read as its kind, and its warnings; what does not fit is a 422 that shows *overlay*."""
    shape = _shape(root_of(kind))
    try:
        try:
            read, problems = check(merged, kind, field_validation="Warn")
        except DecodeError:
            read, problems = check(_whole_numbers(merged, shape), kind, field_validation="Warn")
    except DecodeError as error:
        raise _refused(overlay, _problem(merged, shape) or error.message) from None
    problems = [*doubled, *sorted(problems)]
    if problems and field_validation == "Strict":
        raise _refused(overlay, "strict decoding error: " + ", ".join(problems))
    return read, problems if field_validation != "Ignore" else []


def _refused(overlay: Any, detail: str) -> Invalid:
    return Invalid.of("", "", "", [invalid("patch", go_text(overlay), detail)])


def _shape(root: schema.Struct) -> schema.Shape:
    return schema.Shape("struct", root.go, False, None, root.name)


def _kind(value: Any) -> str:
    """Return Go's word for the kind of a decoded JSON value."""
    if isinstance(value, bool):
        return "bool"
    return {dict: "map", list: "slice", str: "string", int: "int64", float: "float64"}.get(
        type(value), "invalid"
    )


def _problem(value: Any, shape: schema.Shape) -> str:
    """Return the first problem with *value*, looking at fields in declaration order; empty when there is none."""
    if value is None:
        return ""
    if shape.kind in _SCALARS:
        return _scalar_problem(value, shape)
    if shape.kind == "struct":
        if not isinstance(value, dict):
            return f"cannot restore struct from: {_kind(value)}"
        fields = schema.struct(shape.struct_name).fields.values()
        found = (_problem(value.get(field.name), field.shape) for field in fields)
    elif shape.kind == "list":
        if not isinstance(value, list):
            return f"cannot restore slice from {_kind(value)}"
        found = (_problem(item, _item(shape)) for item in value)
    elif shape.kind == "map":
        if not isinstance(value, dict):
            return f"cannot restore map from {_kind(value)}"
        found = (_problem(item, _item(shape)) for item in value.values())
    elif shape.kind == "bytes" and not isinstance(value, str):
        return f"cannot restore slice from {_kind(value)}"
    else:
        return _special_problem(value, shape)
    return next((problem for problem in found if problem), "")


def _item(shape: schema.Shape) -> schema.Shape:
    assert shape.item is not None
    return shape.item


def _scalar_problem(value: Any, shape: schema.Shape) -> str:
    fits: dict[str, tuple[str, ...]] = {
        "string": ("string",),
        "bool": ("bool",),
        "float64": ("int64", "float64"),
    }
    kind = _kind(value)
    if kind in fits.get(shape.kind, ("int64",)):
        return ""
    whole = kind == "float64" and float(value).is_integer()
    if shape.kind == "string":
        return f"cannot convert int64 to {shape.go}" if kind == "int64" else "unrecognized type: string"
    if shape.kind == "bool" or kind != "float64":
        return f"unrecognized type: {shape.kind}"
    return "" if whole else f"cannot convert float64 to {shape.go}"


def _special_problem(value: Any, shape: schema.Shape) -> str:
    """Types that read themselves say what they say everywhere, without naming a field."""
    wrapper = schema.Struct("weir.v1.Holder", [["value", shape.kind, ""]], False)
    try:
        decode_exactly(Pairs([("value", _paired(value))]), wrapper)
    except Unreadable as error:
        return str(error).replace("Go struct field Holder.value of", "Go value of")
    return ""


def _paired(value: Any) -> Any:
    if isinstance(value, dict):
        return Pairs((key, _paired(item)) for key, item in value.items())
    return [_paired(item) for item in value] if isinstance(value, list) else value


def _whole_numbers(value: Any, shape: schema.Shape) -> Any:
    """Return *value* with fractions that are whole numbers as integers, where integers are asked for."""
    if isinstance(value, float):
        return int(value) if shape.kind.startswith(("int", "uint")) and value.is_integer() else value
    if isinstance(value, dict):
        if shape.kind == "struct":
            fields = schema.struct(shape.struct_name).fields
            return {
                key: _whole_numbers(item, fields[key].shape) if key in fields else item
                for key, item in value.items()
            }
        if shape.kind == "map":
            return {key: _whole_numbers(item, _item(shape)) for key, item in value.items()}
    if isinstance(value, list) and shape.kind == "list":
        return [_whole_numbers(item, _item(shape)) for item in value]
    return value
