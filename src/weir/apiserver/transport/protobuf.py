r"""Decodes protobuf request bodies into documents.

kubectl's typed commands (create deployment, auth can-i, drain) and Kubernetes' own components send protobuf by
default and do not fall back. Responses are JSON, which they all accept. A body is the four bytes `k8s\0` and an
envelope (apiVersion, kind, raw message). Field numbers and types are data (`protobuf_fields.json`): name, type, and
flags (`*` keeps an explicit zero, `<` lies flat in its parent, `[` list, `{` map). A zero value without `*` is left
out, because the writer always writes it.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from weir.errors import BadRequest
from weir.objects.kinds import find_kind
from weir.objects.times import format_micro_time, format_time

__all__ = ["MEDIA_TYPE", "to_document"]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
MAX_DEPTH = 64
Document = dict[str, Any]
Fields = dict[int, tuple[str, str, str]]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)  # Go's zero time, which JSON writes as null
_INTSTR_TYPE, _INTSTR_INT, _INTSTR_TEXT = 1, 2, 3


class _Cut(ValueError):
    """The bytes end before the message does, or are no message."""


@cache
def _messages() -> dict[str, Fields]:
    text = resources.files("weir.apiserver.transport").joinpath("protobuf_fields.json").read_bytes()
    found: dict[str, dict[str, list[str]]] = msgspec.json.decode(text)
    return {
        name: {int(number): (field[0], field[1], field[2]) for number, field in fields.items()}
        for name, fields in found.items()
    }


def to_document(body: bytes) -> Document:
    """Return the document a protobuf body stands for; raises 400."""
    if not body.startswith(MAGIC):
        raise BadRequest("the body is not a protobuf message of Kubernetes: it does not start with k8s\\0")
    try:
        envelope = dict(_fields(body[len(MAGIC) :]))
        type_meta = dict(_fields(_raw(envelope.get(1, b""))))
        api_version = _raw(type_meta.get(1, b"")).decode()
        kind = _raw(type_meta.get(2, b"")).decode()
        message = _message_name(api_version, kind)
        document = _message(message, _raw(envelope.get(2, b"")), 0) if message else {}
    except (_Cut, UnicodeDecodeError, struct.error) as error:
        raise BadRequest(f"the protobuf body cannot be read: {error}") from None
    return {"kind": kind, "apiVersion": api_version, **document}


def _message_name(api_version: str, kind: str) -> str:
    """Return the name of the message of a kind, empty when it is not known."""
    group, _, version = api_version.rpartition("/")
    name = f"{(group or 'core').partition('.')[0]}.{version}.{kind}"
    if kind == "DeleteOptions":
        name = "meta.v1.DeleteOptions"
    if name in _messages() and (find_kind(api_version, kind) or kind == "DeleteOptions"):
        return name
    return ""


# --------------------------------------------------------------------------------------------------- wire


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _Cut("unexpected end of a number")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of one message."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire == _BYTES:
            size, at = _varint(data, at)
            if at + size > end:
                raise _Cut("unexpected end of a message")
            yield number, data[at : at + size]
            at += size
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            if at + size > end:
                raise _Cut("unexpected end of a number")
            yield number, data[at : at + size]
            at += size
        else:
            raise _Cut(f"unknown wire type {wire}")


def _raw(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _Cut("a number where bytes belong")
    return value


def _signed(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise _Cut("bytes where a number belongs")
    return value - (1 << 64) if value >= 1 << 63 else value


# ----------------------------------------------------------------------------------------------- messages


def _message(name: str, data: bytes, depth: int) -> Document:
    if depth > MAX_DEPTH:
        raise _Cut("messages are nested too deeply")
    known = _messages()[name]
    found: Document = {}
    for number, value in _fields(data):
        field = known.get(number)
        if field is None:
            continue
        json_name, code, flags = field
        if "{" in flags:
            key, item = _entry(code, _raw(value), depth)
            found.setdefault(json_name, {})[key] = item
            continue
        shown = _value(code, value, depth)
        if "<" in flags:
            found.update(shown)
        elif "[" in flags:
            found.setdefault(json_name, []).append(shown)
        elif "*" in flags or shown not in (None, "", 0, False, {}, []):
            found[json_name] = shown
    return found


def _entry(code: str, data: bytes, depth: int) -> tuple[str, Any]:
    """Return key and value of one map entry."""
    parts = dict(_fields(data))
    key = _raw(parts.get(1, b"")).decode()
    default: int | bytes = 0 if code in ("i", "b") else b""
    return key, _value(code, parts.get(2, default), depth)


def _value(code: str, value: int | bytes, depth: int) -> Any:
    if code.startswith("m:"):
        return _message(code[2:], _raw(value), depth + 1)
    match code:
        case "s":
            return _raw(value).decode()
        case "i":
            return _signed(value)
        case "b":
            return bool(_signed(value))
        case "y":
            return base64.b64encode(_raw(value)).decode()
        case "d":
            data = _raw(value)
            return struct.unpack("<d" if len(data) == 8 else "<f", data)[0]
    parts = dict(_fields(_raw(value)))
    match code:
        case "Q":
            return _raw(parts.get(1, b"")).decode()
        case "T" | "U":
            return _time(parts, micro=code == "U")
        case "I":
            if parts.get(_INTSTR_TYPE):
                return _raw(parts.get(_INTSTR_TEXT, b"")).decode()
            return _signed(parts.get(_INTSTR_INT, 0))
        case "R":
            raw = _raw(parts.get(1, b""))
            try:
                return msgspec.json.decode(raw) if raw else None
            except msgspec.DecodeError as error:
                raise _Cut(str(error)) from None
        case "L":
            return [_raw(item).decode() for number, item in _fields(_raw(value)) if number == 1]
        case "D":
            return f"{_signed(parts.get(1, 0)) / 1e9:g}s"
        case "A" | "B" | "S":
            return _schema_or(code, _raw(value), parts, depth)
    raise _Cut(f"no reader for field type {code}")


def _schema_or(code: str, data: bytes, parts: dict[int, int | bytes], depth: int) -> Any:
    """Return what stands where a definition takes a schema or something else: schemas, a boolean, names."""
    schema = parts.get(2 if code == "B" else 1)
    several = [item for number, item in _fields(data) if number == 2] if code != "B" else []
    if several:
        return [_schema(item, depth) if code == "A" else _raw(item).decode() for item in several]
    if isinstance(schema, bytes):
        return _schema(schema, depth)
    return bool(_signed(parts.get(1, 0))) if code == "B" else None


def _schema(data: int | bytes, depth: int) -> Document:
    return _message("apiextensions.v1.JSONSchemaProps", _raw(data), depth + 1)


def _time(parts: dict[int, int | bytes], *, micro: bool) -> str | None:
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    if not parts:
        return None
    try:
        when = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    except (OverflowError, ValueError, OSError):
        raise _Cut(f"{seconds} s and {nanos} ns is no time") from None
    if when == _ZERO_TIME:
        return None
    return format_micro_time(when) if micro else format_time(when)
