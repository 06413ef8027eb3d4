"""Values packed in a `google.protobuf.Any`: its bytes, read as the message that its URL names.

Spec: cel.md 3.6. The messages known here are the well-known ones: an Any that names another, or whose bytes are not
that message, has no value, and the error prints it as Go prints messages.
Go puts one or two spaces between printed fields so that no one relies on it; here it is one. A
timestamp beyond the year 9999 is an error here and a value upstream. Messages nested deeper than `MOST_NESTED` count
as unreadable (upstream's bound is 10,000).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from weir.cel.errors import EvaluationError
from weir.cel.types import Type, object_named
from weir.cel.values import INT_MAX, INT_MIN, Duration, Timestamp, UInt, Value
from weir.cel.work import spend

PREFIX: Final = "google.protobuf."
#: A field as it stands in a message: its number, its wire type, and a number or bytes.
Raw = tuple[int, int, int | bytes]
_VARINT, _FIXED64, _BYTES, _START, _END, _FIXED32 = 0, 1, 2, 3, 4, 5
_LAST_FIELD: Final = 2**29 - 1
MOST_NESTED: Final = 100
#: The years 1 to 9999 in seconds.
TIMESTAMPS: Final = range(-62_135_596_800, 253_402_300_800)


class Unreadable(ValueError):
    """The bytes are not the message they should be."""


@dataclass(frozen=True, slots=True)
class Empty:
    """The message without fields; what it was sent nevertheless decides whether two are equal."""

    unknown: bytes = b""
    cel_type: ClassVar[Type] = object_named(PREFIX + "Empty")

    def __str__(self) -> str:
        return ""


def unpack(url: str, data: bytes) -> Value:
    """The value of an Any with these fields; raises EvaluationError when there is none.

    >>> unpack("type.googleapis.com/google.protobuf.Int32Value", b"\\x08\\x05")
    5
    """
    try:
        return _any(url, data, 0)
    except Unreadable:
        text = printed(url, data)
        raise EvaluationError(f"unsupported conversion to ref.Val: (*dynamicpb.Message){text}") from None


def printed(url: str, data: bytes) -> str:
    """The fields of an Any as Go prints them; one that holds another Any is shown with what is inside."""
    spend((len(url) + len(data)) * 5)
    opened = ""
    for _ in range(MOST_NESTED):
        if _message_of(url) != "Any":
            break
        try:
            inner = _any_fields(data)
        except Unreadable:
            break
        opened += f"[{url}]:{{"
        url, data = inner
    fields = [("type_url", url.encode()), ("value", data)]
    shown = " ".join(f'{name}:"{_quoted(value)}"' for name, value in fields if value)
    return opened + shown + "}" * opened.count("]:{")


def _message_of(url: str) -> str:
    name = url.rpartition("/")[2]
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else ""


def _quoted(value: bytes) -> str:
    text = value.decode("utf-8", "surrogateescape")
    return re.sub(r'[\x00-\x1f"\\\x7f\udc80-\udcff]', _escape, text)


def _escape(found: re.Match[str]) -> str:
    plain = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
    return plain.get(found[0]) or f"\\x{ord(found[0]) & 0xFF:02x}"


# -- messages -----------------------------------------------------------------------------------------------


def _any(url: str, data: bytes, depth: int) -> Value:
    read = _READERS.get(_message_of(url))
    if read is None or depth > MOST_NESTED:
        raise Unreadable
    return read(data, depth)


def _any_fields(data: bytes) -> tuple[str, bytes]:
    url, inner = "", b""
    for number, wire, value in _fields(data):
        if wire == _BYTES and isinstance(value, bytes):
            if number == 1:
                url = _text(value)
            elif number == 2:
                inner = value
    return url, inner


def _scalar(
    wire: int, empty: Value, convert: Callable[[int | bytes], Value]
) -> Callable[[bytes, int], Value]:
    """A message with one field, of which the last one counts."""

    def read(data: bytes, depth: int) -> Value:
        found = empty
        for number, kind, value in _fields(data):
            if number == 1 and kind == wire:
                found = convert(value)
        return found

    return read


def _signed(bits: int) -> Callable[[int | bytes], int]:
    def convert(value: int | bytes) -> int:
        low = int(value) & ((1 << bits) - 1)
        return low - (1 << bits) if low >> (bits - 1) else low

    return convert


def _float(form: str) -> Callable[[int | bytes], float]:
    def convert(value: int | bytes) -> float:
        size = struct.calcsize(form)
        return float(struct.unpack(form, int(value).to_bytes(size, "little"))[0])

    return convert


def _text(value: int | bytes) -> str:
    assert isinstance(value, bytes)
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unreadable from None


def _time(data: bytes) -> tuple[int, int]:
    seconds = nanos = 0
    for number, wire, value in _fields(data):
        if wire == _VARINT:
            if number == 1:
                seconds = _signed(64)(value)
            elif number == 2:
                nanos = _signed(32)(value)
    return seconds, nanos


def _timestamp(data: bytes, depth: int) -> Timestamp:
    seconds, nanos = _time(data)
    if seconds + nanos // 10**9 not in TIMESTAMPS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(seconds * 10**9 + nanos)


def _duration(data: bytes, depth: int) -> Duration:
    seconds, nanos = _time(data)
    return Duration(max(INT_MIN, min(INT_MAX, seconds * 10**9 + nanos)))


def _value(data: bytes, depth: int) -> Value:
    """A JSON value: the last of its fields counts; parts of one list or map add up."""
    if depth > MOST_NESTED:
        raise Unreadable
    found: Value = None
    last, parts = 0, b""
    for number, wire, value in _fields(data):
        expected = _VALUE_WIRES.get(number)
        if wire != expected:
            continue
        if number in (5, 6) and isinstance(value, bytes):
            spend(len(parts) >> 6)
            parts = parts + value if number == last else value
            found = (_struct if number == 5 else _list)(parts, depth + 1)
        elif number == 1:
            found = None
        else:
            found = {2: _float("<d"), 3: _text, 4: bool}[number](value)
        last = number
    return found


_VALUE_WIRES: Final = {1: _VARINT, 2: _FIXED64, 3: _BYTES, 4: _VARINT, 5: _BYTES, 6: _BYTES}


def _struct(data: bytes, depth: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for number, wire, entry in _fields(data):
        if number == 1 and wire == _BYTES and isinstance(entry, bytes):
            name, content = "", b""
            for part, kind, value in _fields(entry):
                if kind == _BYTES and isinstance(value, bytes):
                    if part == 1:
                        name = _text(value)
                    elif part == 2:
                        spend(len(content) >> 6)
                        content += value
            found[name] = _value(content, depth + 1)
    return found


def _list(data: bytes, depth: int) -> list[Value]:
    return [
        _value(value, depth + 1)
        for number, wire, value in _fields(data)
        if number == 1 and wire == _BYTES and isinstance(value, bytes)
    ]


def _empty(data: bytes, depth: int) -> Empty:
    for _ in _fields(data):  # they are only checked
        pass
    return Empty(data)


_READERS: Final[dict[str, Callable[[bytes, int], Value]]] = {
    "BoolValue": _scalar(_VARINT, False, bool),
    "BytesValue": _scalar(_BYTES, b"", lambda value: value),
    "DoubleValue": _scalar(_FIXED64, 0.0, _float("<d")),
    "FloatValue": _scalar(_FIXED32, 0.0, _float("<f")),
    "Int32Value": _scalar(_VARINT, 0, _signed(32)),
    "Int64Value": _scalar(_VARINT, 0, _signed(64)),
    "StringValue": _scalar(_BYTES, "", _text),
    "UInt32Value": _scalar(_VARINT, UInt(0), lambda value: UInt(int(value) & 0xFFFF_FFFF)),
    "UInt64Value": _scalar(_VARINT, UInt(0), lambda value: UInt(int(value))),
    "Value": _value,
    "Struct": _struct,
    "ListValue": _list,
    "Any": lambda data, depth: _any(*_any_fields(data), depth + 1),
    "Duration": _duration,
    "Timestamp": _timestamp,
    "Empty": _empty,
}


# -- the wire -----------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[Raw]:
    """The fields of a message in their order, groups left out; raises Unreadable."""
    at, groups = 0, []
    while at < len(data):
        spend(20)
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number <= _LAST_FIELD:
            raise Unreadable
        value: int | bytes = 0
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            raw, at = _take(data, at, size)
            value = int.from_bytes(raw, "little")
        elif wire == _BYTES:
            size, at = _varint(data, at)
            value, at = _take(data, at, size)
        elif wire == _START:
            groups.append(number)
        elif wire != _END or not groups or groups.pop() != number:
            raise Unreadable
        if not groups and wire != _END:
            yield number, wire, value
    if groups:
        raise Unreadable


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size > len(data) - at:
        raise Unreadable
    spend(size >> 6)
    return data[at : at + size], at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place in range(10):
        if at + place >= len(data):
            break
        byte = data[at + place]
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if number >= 2**64:
                break
            return number, at + place + 1
    raise Unreadable
