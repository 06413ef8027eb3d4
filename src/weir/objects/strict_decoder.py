"""Exact decoder: decodes JSON values into structs with the errors of Go's decoder.

Spec: apiserver.md 2 "Decoding": wrong types, bad quantities and times, unknown and duplicate fields.
Used when weir.objects.fast_decoder rejects a body, and its oracle in tests. Go reports the first wrong type only
after reading everything, but a bad quantity or time at once; a duplicate struct or map is merged into the first, a
duplicate list replaces it; null leaves a field unchanged.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

from weir.objects import times
from weir.objects.jsontext import Fraction, Pairs, plain, whole_text
from weir.objects.schema import JSON_SCHEMA, Field, Shape, Struct, struct
from weir.values.duration import DurationError, format_duration, parse_duration
from weir.values.quantity import QuantityError, parse_quantity
from weir.values.quoting import quote

_INTEGERS: Final = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    "int": (-(2**63), 2**63 - 1),
}
_MOST_STRICT_PROBLEMS: Final = 100


_BYTES: Final = Shape("list", "[]uint8", False, Shape("uint8", "uint8", False))


class Unreadable(ValueError):
    """The value cannot become the kind; the message is the decoder's."""


class _Absent:
    """Marks "nothing was there", which null is not."""


_ABSENT: Final = _Absent()


def decode_exactly(value: Any, root: Struct, within: str = "") -> tuple[dict[str, Any], list[str]]:
    """Return *value* as the server prints it after reading it, and what strict decoding complains about.

    >>> from weir.objects.jsontext import parse_json
    >>> decode_exactly(parse_json(b'{"key": "a", "keys": "b", "key": "c"}'), struct("core.v1.Toleration"))
    ({'key': 'c'}, ['unknown field "keys"', 'duplicate field "key"'])
    """
    walk = _Walk()
    if type(value) is not Pairs:
        raise Unreadable(f"json: cannot unmarshal {json_word(value)} into Go value of type {_go_name(root)}")
    document = walk.struct(value, root, {}, "", ())
    if walk.wrong_type:
        raise Unreadable(walk.wrong_type)
    return printed(document, root), list(walk.strict)


def _go_name(root: Struct) -> str:
    return ".".join(root.name.split(".")[-2:])


class _Walk:
    """One pass over a document: collects the first wrong type and every strict problem."""

    def __init__(self) -> None:
        self.wrong_type = ""
        self.strict: dict[str, None] = {}

    def struct(
        self, pairs: Pairs, of: Struct, into: dict[str, Any], path: str, stack: tuple[str, ...]
    ) -> dict[str, Any]:
        """Read *pairs* over what *into* already holds."""
        seen: set[str] = set()
        for key, value in pairs:
            at = f"{path}.{key}" if path else key
            field = of.fields.get(key)
            if field is None:
                self._complain("unknown", at)
                continue
            if key in seen:
                self._complain("duplicate", at)
            seen.add(key)
            inner = (*stack, field.embedded, key) if field.embedded else (*stack, key)
            result = self.value(value, field.shape, into.get(key, _ABSENT), at, (of.go, inner))
            if result is _ABSENT:
                into.pop(key, None)
            else:
                into[key] = result
        return into

    def value(self, value: Any, shape: Shape, old: Any, path: str, where: tuple[str, tuple[str, ...]]) -> Any:
        """Return *value* read as *shape*, or _ABSENT when it leaves nothing behind."""
        if value is None:
            return self._null(shape, old)
        match shape.kind:
            case "struct":
                if type(value) is not Pairs:
                    return self._mismatch(value, shape, old, where)
                into = old if isinstance(old, dict) else {}
                return self.struct(value, struct(shape.struct_name), into, path, where[1])
            case "list":
                if type(value) is not list:
                    return self._mismatch(value, shape, old, where)
                return self._list(value, shape, path, where)
            case "map":
                if type(value) is not Pairs:
                    return self._mismatch(value, shape, old, where)
                return self._map(value, shape, old, path, where)
            case "string":
                if type(value) is not str:
                    return self._mismatch(value, shape, old, where)
                return whole_text(value)
            case "bool":
                return value if type(value) is bool else self._mismatch(value, shape, old, where)
            case "float64":
                if type(value) is bool or not isinstance(value, int | float):
                    return self._mismatch(value, shape, old, where)
                return whole_number(float(value))
            case "bytes":
                if type(value) is list:  # Go also reads a list of numbers
                    return base64.b64encode(bytes(self._list(value, _BYTES, path, where))).decode()
                if type(value) is not str:
                    return self._mismatch(value, shape, old, where)
                return self._base64(value)
        if shape.kind in _INTEGERS:
            return self._integer(value, shape, old, where)
        return self._special(value, shape, old, where)

    def _null(self, shape: Shape, old: Any) -> Any:
        """Go's decoder sets pointers, lists and maps to nil and leaves other values as they were."""
        if (
            shape.kind in ("FieldsV1", "any", "RawExtension", "JSON")
            or shape.pointer
            or shape.kind in ("list", "map", "bytes")
        ):
            return _ABSENT
        return old if shape.kind in ("struct", *_INTEGERS, "string", "bool", "float64") else _ABSENT

    def _list(
        self, items: list[Any], shape: Shape, path: str, where: tuple[str, tuple[str, ...]]
    ) -> list[Any]:
        item = shape.item
        assert item is not None
        out = []
        for index, value in enumerate(items):
            result = self.value(value, item, _ABSENT, f"{path}[{index}]", where)
            out.append(_item(result, item))
        return out

    def _map(
        self, pairs: Pairs, shape: Shape, old: Any, path: str, where: tuple[str, tuple[str, ...]]
    ) -> dict[str, Any]:
        item = shape.item
        assert item is not None
        out: dict[str, Any] = old if isinstance(old, dict) else {}
        seen: set[str] = set()
        for key, value in pairs:
            at = f"{path}.{key}" if path else key
            if key in seen:
                self._complain("duplicate", at)
            seen.add(key)
            out[whole_text(key)] = _item(self.value(value, item, _ABSENT, at, where), item)
        return out

    def _base64(self, text: str) -> str:
        bad = base64_problem(text)
        if bad is not None:
            self.wrong_type = self.wrong_type or f"illegal base64 data at input byte {bad}"
            return ""
        return text.replace("\n", "").replace("\r", "")

    def _integer(self, value: Any, shape: Shape, old: Any, where: tuple[str, tuple[str, ...]]) -> Any:
        if type(value) is int:
            low, high = _INTEGERS[shape.kind]
            if low <= value <= high:
                return value
        return self._mismatch(value, shape, old, where, literal=True)

    def _special(self, value: Any, shape: Shape, old: Any, where: tuple[str, tuple[str, ...]]) -> Any:
        """Types that read themselves: what they cannot read ends the decoding at once."""
        match shape.kind:
            case "Quantity":
                text = value.strip() if type(value) is str else _raw(value)
                try:
                    return str(parse_quantity(text))
                except QuantityError as error:
                    raise Unreadable(str(error)) from None
            case "IntOrString":
                if type(value) is str:
                    return whole_text(value)
                low, high = _INTEGERS["int32"]
                if type(value) is int and low <= value <= high:
                    return value
                raise Unreadable(_text(value, "int32", where, literal=True))
            case "Time" | "MicroTime" | "Duration":
                if type(value) is not str:
                    raise Unreadable(_text(value, "string", where))
                try:
                    return _TEXTS[shape.kind](value)
                except (times.TimeError, DurationError) as error:
                    raise Unreadable(str(error)) from None
            case "SchemaOrArray" | "SchemaOrBool" | "SchemaOrStrings":
                return _schema_or(value, shape.kind, where)
        return plain(value)  # RawExtension, FieldsV1, any, JSON: kept as they are

    def _mismatch(
        self, value: Any, shape: Shape, old: Any, where: tuple[str, tuple[str, ...]], literal: bool = False
    ) -> Any:
        if not self.wrong_type:
            self.wrong_type = _text(value, shape.go, where, literal)
        return old

    def _complain(self, what: str, path: str) -> None:
        if len(self.strict) < _MOST_STRICT_PROBLEMS:
            self.strict[f"{what} field {quote(path)}"] = None


def whole_number(value: float) -> int | float:
    """Return a float64 as Go prints it: without a fraction where it has none.

    >>> whole_number(5.0), whole_number(0.5), whole_number(1e21)
    (5, 0.5, 1e+21)
    """
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _schema_or(value: Any, kind: str, where: tuple[str, tuple[str, ...]]) -> Any:
    """Read what is a schema or something else; such a value reads itself, and is not strict about fields."""
    of = struct(JSON_SCHEMA)
    if type(value) is Pairs:
        return _read_itself(value, of)
    if kind == "SchemaOrBool":
        if type(value) is not bool:
            raise Unreadable("boolean or JSON schema expected")
        return value
    if type(value) is not list:
        return None
    if kind == "SchemaOrStrings":
        for item in value:
            if type(item) is not str:
                raise Unreadable(f"json: cannot unmarshal {json_word(item)} into Go value of type string")
        return value or None
    for item in value:
        if type(item) is not Pairs:
            raise Unreadable(
                f"json: cannot unmarshal {json_word(item)} into Go value of type v1.JSONSchemaProps"
            )
    return [_read_itself(item, of) for item in value] or None


def _read_itself(value: Pairs, of: Struct) -> dict[str, Any]:
    walk = _Walk()
    read = walk.struct(value, of, {}, "", ())
    if walk.wrong_type:
        raise Unreadable(walk.wrong_type)
    return printed(read, of)


def _duration(text: str) -> str:
    return format_duration(parse_duration(text))


_TEXTS: Final[dict[str, Callable[[str], str]]] = {
    "Time": times.parse_time,
    "MicroTime": times.parse_micro_time,
    "Duration": _duration,
}


def _text(value: Any, go: str, where: tuple[str, tuple[str, ...]], literal: bool = False) -> str:
    word = json_word(value)
    if literal and word == "number":
        word = f"number {_raw(value)}"
    return f"json: cannot unmarshal {word} into Go struct field {where[0]}.{'.'.join(where[1])} of type {go}"


def json_word(value: Any) -> str:
    """Return Go's word for the JSON type of *value*."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Pairs | dict) else "array"


def _raw(value: Any) -> str:
    if type(value) is Fraction:
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def base64_problem(text: str) -> int | None:
    """Return the offset at which *text* stops being standard base64, or None when it is.

    >>> base64_problem("YQ=="), base64_problem("YQ"), base64_problem("x!")
    (None, 0, 1)
    """
    try:
        base64.b64decode(text, validate=True)
        return None
    except (binascii.Error, ValueError):
        pass
    alphabet = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    raw = text.encode("utf-8", "replace")
    quantum: list[int] = []
    index = 0
    while index < len(raw):
        byte = raw[index]
        if byte in b"\r\n":
            index += 1
            continue
        if byte == ord("="):
            return _padding_problem(raw, index, len(quantum) % 4)
        if byte not in alphabet:
            return index
        quantum.append(index)
        index += 1
    return index - len(quantum) % 4 if len(quantum) % 4 else None


def _padding_problem(raw: bytes, index: int, position: int) -> int | None:
    """Return where the padding that starts at *index* goes wrong."""
    rest = [i for i in range(index + 1, len(raw)) if raw[i] not in b"\r\n"]
    if position < 2:
        return index
    if position == 2:
        if not rest:
            return len(raw)
        if raw[rest[0]] != ord("="):
            return rest[0] - 1
        rest = rest[1:]
    return rest[0] if rest else None


def _item(result: Any, shape: Shape) -> Any:
    """Return what a list or map holds where null was written: the zero value, or null for pointers."""
    return zero_value(shape) if result is _ABSENT else result


def zero_value(shape: Shape) -> Any:
    """Return the JSON of Go's zero value of *shape*; structs come unprinted, as `{}`."""
    if shape.pointer:
        return None
    match shape.kind:
        case "struct":
            return {}
        case "string":
            return ""
        case "bool":
            return False
        case "Quantity":
            return "0"
        case "Duration":
            return "0s"
        case "IntOrString" | "float64":
            return 0
    return 0 if shape.kind in _INTEGERS else None


def printed(document: dict[str, Any], of: Struct) -> dict[str, Any]:
    """Return *document* with Go's zero values added or left out, fields in declaration order."""
    out: dict[str, Any] = {}
    for field in of.fields.values():
        value = document.get(field.name, _ABSENT)
        if value is _ABSENT:
            value = zero_value(field.shape)
        if not _omitted(value, field):
            out[field.name] = _print_value(value, field.shape)
    return out


def _omitted(value: Any, field: Field) -> bool:
    kind, pointer = field.shape.kind, field.shape.pointer
    if field.omit_zero and (value is None or value == zero_value(field.shape)):
        return True
    if not field.omit_empty:
        return False
    if pointer or kind in ("FieldsV1", "any"):
        return value is None
    if kind in ("list", "map", "bytes"):
        return not value
    return (kind in ("string", "bool", "float64") or kind in _INTEGERS) and not value


def _print_value(value: Any, shape: Shape) -> Any:
    if value is None:
        return None
    if shape.kind == "struct":
        return printed(value, struct(shape.struct_name))
    if shape.kind == "list" and shape.item is not None and shape.item.kind in ("struct", "list", "map"):
        return [_print_value(item, shape.item) for item in value]
    if shape.kind == "map" and shape.item is not None and shape.item.kind in ("struct", "list", "map"):
        return {key: _print_value(item, shape.item) for key, item in value.items()}
    return value
