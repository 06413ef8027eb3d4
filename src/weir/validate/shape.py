"""JSON type check of documents from files.

Spec: apiserver.md 2 "Decoding" says what the server answers instead. The API server decodes before it validates, so
validators rely on types. For a document from a file this check comes first: each wrong type is one FieldError, and no
other rule runs. Unknown fields are ignored here (weir.validate.unknown_fields).
"""

from __future__ import annotations

import datetime
from typing import Any, Final

from weir.objects import kinds, schema
from weir.validate.field import Errors, type_invalid
from weir.values.quantity import QuantityError, parse_quantity

_BITS: Final = {"int": 64, "int64": 64, "int32": 32, "int16": 16, "int8": 8}
_UNSIGNED: Final = {"uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8}
_LONGEST_SHOWN: Final = 60
#: Lists report this many wrong entries; a megabyte of them says no more than the first few.
_MOST_ERRORS: Final = 50


def validate_shape(document: Any) -> Errors:
    """Yield every value of *document* that has another JSON type than its field."""
    for count, error in enumerate(_validate_root(document)):
        if count >= _MOST_ERRORS:
            return
        yield error


def document_version(document: dict[str, Any]) -> str:
    """Return the apiVersion of a document; one that has none is read as the first version that serves its kind.

    >>> document_version({"kind": "Deployment"})
    'apps/v1'
    """
    version, kind = document.get("apiVersion"), document.get("kind")
    if version or not kind:
        return str(version or "")
    return next((row.api_version for row in kinds.KINDS if row.kind == kind), "")


def _validate_root(document: Any) -> Errors:
    if not isinstance(document, dict):
        yield _wrong("<root>", document, "an object")
        return
    for name in ("apiVersion", "kind"):
        if not isinstance(document.get(name), str | None):
            yield _wrong(name, document[name], "a string")
            return
    root = schema.find_root(document_version(document), document.get("kind") or "")
    if root is not None:
        yield from _validate_struct(document, root, "")
    elif (meta := document.get("metadata")) is not None:
        yield from _validate_value(
            meta, schema.Shape("struct", "", True, None, "meta.v1.ObjectMeta"), "metadata"
        )


def _validate_struct(value: dict[Any, Any], struct: schema.Struct, at: str) -> Errors:
    for name, item in value.items():
        if not isinstance(name, str):
            yield _wrong(at or "<root>", name, "an object whose keys are strings")
        elif item is not None and (field := struct.fields.get(name)) is not None:
            yield from _validate_value(item, field.shape, f"{at}.{name}" if at else name)


def _validate_value(value: Any, shape: schema.Shape, at: str) -> Errors:
    kind = shape.kind
    if kind == "struct":
        if isinstance(value, dict):
            yield from _validate_struct(value, schema.struct(shape.struct_name), at)
        else:
            yield _wrong(at, value, "an object")
    elif kind == "list":
        yield from _validate_list(value, shape, at)
    elif kind == "map":
        yield from _validate_map(value, shape, at)
    elif kind == "Quantity":
        yield from _validate_quantity(value, at)
    elif expected := _scalar_problem(value, kind):
        yield _wrong(at, value, expected)


def _validate_list(value: Any, shape: schema.Shape, at: str) -> Errors:
    if not isinstance(value, list):
        yield _wrong(at, value, "a list")
        return
    assert shape.item is not None
    for i, item in enumerate(value):
        if item is None:
            yield _wrong(f"{at}[{i}]", item, _article(shape.item))
        else:
            yield from _validate_value(item, shape.item, f"{at}[{i}]")


def _validate_map(value: Any, shape: schema.Shape, at: str) -> Errors:
    if not isinstance(value, dict):
        yield _wrong(at, value, "an object")
        return
    assert shape.item is not None
    for key, item in value.items():
        if not isinstance(key, str):
            yield _wrong(at, key, "an object whose keys are strings")
        elif item is None:
            yield _wrong(f"{at}[{key}]", item, _article(shape.item))
        else:
            yield from _validate_value(item, shape.item, f"{at}[{key}]")


def _validate_quantity(value: Any, at: str) -> Errors:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        yield _wrong(at, value, "a quantity")
        return
    try:
        # The sum of a quantity and its kin must stay printable: amounts beyond any machine are refused too.
        parse_quantity(value if isinstance(value, str) else str(value)).milli_value  # noqa: B018
    except QuantityError as error:
        yield type_invalid(at, _shown(value), str(error))


def _scalar_problem(value: Any, kind: str) -> str:
    """Return what *value* should have been, or "" when it is that."""
    if kind == "string":
        return "" if isinstance(value, str) else "a string"
    if kind == "bool":
        return "" if isinstance(value, bool) else "a boolean"
    if kind in _BITS or kind in _UNSIGNED:
        if isinstance(value, bool) or not isinstance(value, int):
            return "an integer"
        bits = _BITS.get(kind)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if bits else (0, (1 << _UNSIGNED[kind]) - 1)
        return "" if low <= value <= high else f"an integer between {low} and {high}"
    if kind == "float64":
        return "" if isinstance(value, int | float) and not isinstance(value, bool) else "a number"
    if kind == "IntOrString":
        fine = isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
        return "" if fine else "an integer or a string"
    if kind in ("Time", "MicroTime"):
        return "" if isinstance(value, str | datetime.date) else "a time"
    if kind in ("Duration", "bytes"):
        return "" if isinstance(value, str | bytes) else "a string"
    if kind == "FieldsV1":
        return "" if isinstance(value, dict) else "an object"
    return ""  # RawExtension and any: whatever is there


def _article(shape: schema.Shape) -> str:
    return {"struct": "an object", "list": "a list", "map": "an object", "bool": "a boolean"}.get(
        shape.kind, "a value" if shape.kind not in ("string",) else "a string"
    )


def _wrong(at: str, value: Any, expected: str) -> Any:
    return type_invalid(at, _shown(value), f"must be {expected}, not {_kind_of(value)}")


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list | tuple | set):
        return "a list"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def _shown(value: Any) -> Any:
    """Return *value* as a message can print it on one short line."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        text = str(value) if -(10**_LONGEST_SHOWN) < value < 10**_LONGEST_SHOWN else "a huge number"
        return value if len(text) <= _LONGEST_SHOWN and text not in ("nan", "inf", "-inf") else text
    if isinstance(value, list | tuple | set):
        return f"list of {len(value)}"
    if isinstance(value, dict):
        return f"object of {len(value)}"
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
