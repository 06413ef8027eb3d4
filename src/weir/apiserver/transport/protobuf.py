r"""Reads and writes Kubernetes' protobuf messages as documents.

Spec: apiserver.md 3 "Representations". A body is the four bytes `k8s\0` and an envelope: apiVersion, kind and the raw
message. Field numbers and types are data (`protobuf_fields.json`): name, type and flags (`*` an explicit zero is kept,
`<` lies flat in its parent, `[` list, `{` map). The bytes are those of Kubernetes' own serializer: fields by number,
map keys sorted, and a field without a flag is written even when it is empty; the reader leaves such zeros out again.
tests/kubernetes/test_protobuf.py holds both against Kubernetes.

Readers and writers of messages are closures made from the table on first use: docs/decisions/0160 has the figures.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from weir.caches import bounded
from weir.errors import BadRequest
from weir.objects.kinds import find_kind
from weir.objects.times import format_micro_time, format_time

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
MAX_DEPTH = 64
Document = dict[str, Any]
Fields = dict[int, tuple[str, str, str]]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)  # Go's zero time, which JSON writes as null
_INTSTR_TYPE, _INTSTR_INT, _INTSTR_TEXT = 1, 2, 3
_SCHEMA = "apiextensions.v1.JSONSchemaProps"
#: Of no group: the answers to requests of any.
_META = {"DeleteOptions", "Status", "PartialObjectMetadata", "PartialObjectMetadataList"}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _Cut(ValueError):
    """The bytes end before the message does, or are no message."""


@cache
def _messages() -> dict[str, Fields]:
    text = resources.files("weir.apiserver.transport").joinpath("protobuf_fields.json").read_bytes()
    found: dict[str, dict[str, list[str]]] = msgspec.json.decode(text)
    messages = {
        name: {int(number): (field[0], field[1], field[2]) for number, field in fields.items()}
        for name, fields in found.items()
    }
    messages["meta.v1.PartialObjectMetadata"] = {1: ("metadata", "m:meta.v1.ObjectMeta", "")}
    lists = {
        f"{name}List": {1: ("metadata", "m:meta.v1.ListMeta", ""), 2: ("items", f"m:{name}", "[")}
        for name in messages
    }
    return {**lists, **messages}


@bounded(1024)
def _message_name(api_version: str, kind: str) -> str:
    """Return the name of the message of a kind, empty when it is not known."""
    group, _, version = api_version.rpartition("/")
    if kind in _META and (kind == "DeleteOptions" or version.startswith("v1")):
        return f"meta.v1.{kind}"
    name = f"{(group or 'core').partition('.')[0]}.{version}.{kind}"
    known = name in _messages() and find_kind(api_version, kind.removesuffix("List"))
    return name if known else ""


# ------------------------------------------------------------------------------------------------ writing


def is_written(api_version: str, kind: str) -> bool:
    """Return whether objects of a kind have a message.

    >>> is_written("v1", "Pod"), is_written("example.com/v1", "Lamp")
    (True, False)
    """
    return bool(_message_name(api_version, kind))


def to_bytes(document: Document) -> bytes | None:
    """Return an object or a list as a body; None when its kind has no message."""
    api_version, kind = document.get("apiVersion", ""), document.get("kind", "")
    if not is_written(api_version, kind):
        return None
    return object_bytes(api_version, kind, raw_field(api_version, kind, document))


def raw_field(api_version: str, kind: str, document: Document) -> bytes:
    """Return the message of an object as field 2, which it is both of an envelope and of a list."""
    message = _writer(_message_name(api_version, kind))(document)
    return b"\x12%b%b" % (varint(len(message)), message)


def object_bytes(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return a body: the envelope around what `raw_field` returns."""
    return b"%b%b%b%b" % (MAGIC, _type_meta(api_version, kind), raw, _ENVELOPE_END)


def list_parts(api_version: str, kind: str, metadata: Document, items: Sequence[bytes]) -> list[bytes]:
    """Return the body of a list in parts: its head, what `raw_field` returned for each object, its end."""
    meta = _writer("meta.v1.ListMeta")(metadata)
    meta = b"\n%b%b" % (varint(len(meta)), meta)
    size = varint(len(meta) + sum(map(len, items)))
    head = b"%b%b\x12%b%b" % (MAGIC, _type_meta(api_version, kind), size, meta)
    return [head, *items, _ENVELOPE_END]


def event_frame(type: str, body: bytes) -> bytes:
    """Return a watch event as one frame: its length in four bytes, its type, and the body of its object.

    >>> event_frame("ADDED", b"k8s\\0").hex()
    '0000000f0a05414444454412060a046b387300'
    """
    event = b"\n%c%b\x12%b\n%b%b" % (
        len(type),
        type.encode(),
        varint(1 + len(size := varint(len(body))) + len(body)),
        size,
        body,
    )
    return len(event).to_bytes(4) + event


#: The content's encoding and type, of which there are none.
_ENVELOPE_END = b"\x1a\x00\x22\x00"


@bounded(1024)
def _type_meta(api_version: str, kind: str) -> bytes:
    meta = _text(1, api_version) + _text(2, kind)
    return bytes_field(1, meta)


Write = Callable[[Any], bytes]
_ONE_BYTE = [bytes([number]) for number in range(128)]


def varint(number: int) -> bytes:
    """Return a whole number as a varint, a negative one in 64 bits."""
    if 0 <= number < 128:
        return _ONE_BYTE[number]
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@cache
def _writer(message: str) -> Write:
    """Return what writes a document as *message*: what stands for no value, in the fields' order, filled in."""
    template: list[bytes] = []
    rows: dict[str, tuple[int, Write]] = {}
    flat: list[tuple[int, Write]] = []
    for at, (number, (name, code, flags)) in enumerate(sorted(_messages()[message].items())):
        write_field, absent = _field_writer(number, code, flags)
        template.append(absent)
        if "<" in flags:
            flat.append((at, write_field))
        else:
            rows[name] = at, write_field

    def write(document: Document) -> bytes:
        parts = template.copy()
        for name, value in document.items():
            if value is not None and (row := rows.get(name)) is not None:
                at, write_field = row
                parts[at] = write_field(value)
        for at, write_field in flat:
            parts[at] = write_field(document)
        return b"".join(parts)

    return write


def _field_writer(number: int, code: str, flags: str) -> tuple[Write, bytes]:
    """Return what writes the value of a field, and what stands for no value."""
    if "{" in flags:
        return _map_writer(number, code), b""
    one, zero = _value_writer(number, code)
    if "[" in flags:
        return (lambda values: b"".join([one(value) for value in values])), b""
    return one, b"" if flags or code == "y" else one(zero)


def _map_writer(number: int, code: str) -> Write:
    tag = varint(number << 3 | _BYTES)
    value_writer, zero = _value_writer(2, code)

    def write(entries: dict[str, Any]) -> bytes:
        parts = []
        for key in sorted(entries):
            text, value = key.encode(), entries[key]
            size = len(text)
            entry = b"\n%b%b" % (_ONE_BYTE[size] if size < 128 else varint(size), text)
            if value is not None or code != "y":
                entry += value_writer(zero if value is None else value)
            size = len(entry)
            parts.append(b"%b%b%b" % (tag, _ONE_BYTE[size] if size < 128 else varint(size), entry))
        return b"".join(parts)

    return write


def _value_writer(number: int, code: str) -> tuple[Write, Any]:
    """Return what writes one value under a field's number, and the value that is written where there is none."""
    if code in ("i", "b"):
        tag = varint(number << 3 | _VARINT)
        return (lambda value: tag + varint(value)), 0
    if code == "d":
        tag = varint(number << 3 | _FIXED64)
        return (lambda value: tag + struct.pack("<d", value)), 0
    tag = varint(number << 3 | _BYTES)
    content, zero = (_message_writer(code[2:]), {}) if code.startswith("m:") else _CONTENT[code]

    def write(value: Any) -> bytes:
        data = content(value)
        size = len(data)
        return tag + _ONE_BYTE[size] + data if size < 128 else b"%b%b%b" % (tag, varint(size), data)

    return write, zero


def _message_writer(message: str) -> Write:
    """Return the writer of *message*, which may hold itself: it is made when it is first needed."""

    def write(document: Document) -> bytes:
        return _writer(message)(document)

    return write


def bytes_field(number: int, content: bytes) -> bytes:
    """Return a field that holds *content*: a message, or bytes."""
    return b"%b%b%b" % (varint(number << 3 | _BYTES), varint(len(content)), content)


def _text(number: int, text: str) -> bytes:
    return bytes_field(number, text.encode())


def _write_time(value: str | None) -> bytes:
    if value is None:
        return b""
    when = datetime.fromisoformat(value)
    if when == _ZERO_TIME:
        return b""
    seconds = int(when.replace(microsecond=0).timestamp())
    return b"\x08%b\x10%b" % (varint(seconds), varint(when.microsecond * 1000))


def _write_int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00" + _text(_INTSTR_TEXT, value)
    return b"\x08\x00\x10%b\x1a\x00" % varint(value)


def _write_json(value: Any) -> bytes:
    if value is None:
        return b""
    return bytes_field(1, _encode(value))


def _write_schema(number: int, schema: Document) -> bytes:
    return bytes_field(number, _writer(_SCHEMA)(schema))


def _write_schema_or_schemas(value: Document | list[Document]) -> bytes:
    if isinstance(value, dict):
        return _write_schema(1, value)
    return b"".join([_write_schema(2, schema) for schema in value])


def _write_schema_or_bool(value: Document | bool) -> bytes:
    if isinstance(value, dict):
        return b"\x08\x01" + _write_schema(2, value)
    return b"\x08%b" % varint(value)


def _write_schema_or_names(value: Document | list[str]) -> bytes:
    return _write_schema(1, value) if isinstance(value, dict) else _write_texts(value, 2)


def _write_texts(values: Sequence[str], number: int = 1) -> bytes:
    return b"".join([_text(number, value) for value in values])


_CONTENT: dict[str, tuple[Write, Any]] = {
    "s": (str.encode, ""),
    "y": (base64.b64decode, ""),
    "Q": (lambda value: _text(1, value if isinstance(value, str) else str(value)), "0"),
    "T": (_write_time, None),
    "U": (_write_time, None),
    "I": (_write_int_or_string, 0),
    "R": (_write_json, None),
    "L": (_write_texts, []),
    "A": (_write_schema_or_schemas, []),
    "B": (_write_schema_or_bool, False),
    "S": (_write_schema_or_names, []),
}


# ------------------------------------------------------------------------------------------------ reading

#: Reads the value that lies in `data[at:end]`, in a message at some depth.
Read = Callable[[bytes, int, int, int], Any]
_DROP_ZERO, _KEEP_ZERO, _LIST, _MAP, _FLAT = range(5)


def to_document(body: bytes) -> Document:
    """Return the document a protobuf body stands for; raises 400."""
    if not body.startswith(MAGIC):
        raise BadRequest("the body is not a protobuf message of Kubernetes: it does not start with k8s\\0")
    try:
        envelope = _read_parts(body, len(MAGIC), len(body))
        type_meta = _read_parts(_raw(envelope, 1))
        api_version, kind = _raw(type_meta, 1).decode(), _raw(type_meta, 2).decode()
        message, raw = _message_name(api_version, kind), _raw(envelope, 2)
        document = _read_message(message, raw, 0, len(raw), 0) if message else {}
    except (_Cut, IndexError, UnicodeDecodeError, struct.error) as error:
        raise BadRequest(f"the protobuf body cannot be read: {error}") from None
    return {"kind": kind, "apiVersion": api_version, **document}


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise _Cut("unexpected end of a number")


@cache
def _read_table(message: str) -> dict[int, tuple[str, Read, int]]:
    """Return name, reader and use of each field of *message*, by number and wire type."""
    return {
        number << 3 | _wire(code, flags): (
            name,
            _entry_reader(code) if "{" in flags else _value_reader(code),
            _USES[flags],
        )
        for number, (name, code, flags) in _messages()[message].items()
    }


_USES = {"": _DROP_ZERO, "*": _KEEP_ZERO, "[": _LIST, "{": _MAP, "<": _FLAT}


def _wire(code: str, flags: str) -> int:
    if "{" in flags:
        return _BYTES
    return {"i": _VARINT, "b": _VARINT, "d": _FIXED64}.get(code, _BYTES)


def _read_message(message: str, data: bytes, at: int, end: int, depth: int) -> Document:
    if depth > MAX_DEPTH:
        raise _Cut("messages are nested too deeply")
    fields = _read_table(message)
    found: Document = {}
    while at < end:
        key = data[at]
        at += 1
        if key > 127:
            key, at = _read_varint(data, at - 1)
        if key & 7 == _BYTES and (size := data[at]) < 128:
            start = at + 1
            at = start + size
        else:
            start, at = _extent(data, at, key & 7)
        if at > end:
            raise _Cut("unexpected end of a message")
        field = fields.get(key)
        if field is None:
            if key >> 3 in _messages()[message]:
                raise _Cut(f"wrong wire type {key & 7} of field {key >> 3}")
            continue
        name, read, use = field
        if start == at and use == _DROP_ZERO:  # empty texts and messages, of which there are many
            continue
        value = read(data, start, at, depth)
        if use == _DROP_ZERO:
            if value:
                found[name] = value
        elif use == _KEEP_ZERO:
            found[name] = value
        elif use == _LIST:
            if name in found:
                found[name].append(value)
            else:
                found[name] = [value]
        elif use == _MAP:
            found.setdefault(name, {})[value[0]] = value[1]
        else:
            found.update(value)
    return found


def _extent(data: bytes, at: int, wire: int) -> tuple[int, int]:
    """Return where the value that begins at *at* has its content, and where it ends."""
    if wire == _BYTES:
        size = data[at]
        at += 1
        if size > 127:
            size, at = _read_varint(data, at - 1)
        return at, at + size
    if wire == _VARINT:
        start = at
        while data[at] > 127:
            at += 1
        return start, at + 1
    if wire in (_FIXED64, _FIXED32):
        return at, at + (8 if wire == _FIXED64 else 4)
    raise _Cut(f"unknown wire type {wire}")


def _read_parts(data: bytes, at: int = 0, end: int = -1) -> dict[int, Any]:
    """Return the fields of a message without a table, by number: signed integers, and bytes."""
    end = len(data) if end < 0 else end
    parts: dict[int, Any] = {}
    while at < end:
        key, at = _read_varint(data, at)
        start, at = _extent(data, at, key & 7)
        if at > end:
            raise _Cut("unexpected end of a message")
        number = key >> 3
        parts[number] = _read_int(data, start, at, 0) if key & 7 == _VARINT else data[start:at]
    return parts


def _raw(parts: dict[int, Any], number: int) -> bytes:
    found = parts.get(number, b"")
    if not isinstance(found, bytes):
        raise _Cut("a number where bytes belong")
    return found


def _number(parts: dict[int, Any], number: int) -> int:
    found = parts.get(number, 0)
    if not isinstance(found, int):
        raise _Cut("bytes where a number belongs")
    return found


def _value_reader(code: str) -> Read:
    if code.startswith("m:"):
        message = code[2:]
        return lambda data, at, end, depth: _read_message(message, data, at, end, depth + 1)
    return _READERS[code]


def _entry_reader(code: str) -> Read:
    """Return what reads key and value of one map entry."""
    read = _value_reader(code)
    key_of_value = 2 << 3 | _wire(code, "")
    zero = b"\0" if _wire(code, "") == _VARINT else b""

    def read_entry(data: bytes, at: int, end: int, depth: int) -> tuple[str, Any]:
        name = ""
        found = read(zero, 0, len(zero), depth)
        while at < end:
            key, at = _read_varint(data, at)
            start, at = _extent(data, at, key & 7)
            if at > end:
                raise _Cut("unexpected end of a map entry")
            if key == (1 << 3 | _BYTES):
                name = data[start:at].decode()
            elif key == key_of_value:
                found = read(data, start, at, depth)
            elif key >> 3 in (1, 2):
                raise _Cut(f"wrong wire type {key & 7} in a map entry")
        return name, found

    return read_entry


def _read_int(data: bytes, at: int, end: int, depth: int) -> int:
    number = data[at]
    if number > 127:
        number, _ = _read_varint(data, at)
        if number >= 1 << 63:
            number -= 1 << 64
    return number


def _read_quantity(data: bytes, at: int, end: int, depth: int) -> str:
    if data[at : at + 1] == b"\n" and at + 2 + data[at + 1] == end:  # all of it is one short text
        return data[at + 2 : end].decode()
    return _raw(_read_parts(data, at, end), 1).decode()


def _read_time(data: bytes, at: int, end: int, depth: int) -> str | None:
    moment = _moment(data, at, end)
    return None if moment is None else format_time(moment)


def _read_micro_time(data: bytes, at: int, end: int, depth: int) -> str | None:
    moment = _moment(data, at, end)
    return None if moment is None else format_micro_time(moment)


def _moment(data: bytes, at: int, end: int) -> datetime | None:
    parts = _read_parts(data, at, end)
    seconds, nanos = _number(parts, 1), _number(parts, 2)
    if not parts:
        return None
    try:
        when = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    except (OverflowError, ValueError, OSError):
        raise _Cut(f"{seconds} s and {nanos} ns is no time") from None
    return None if when == _ZERO_TIME else when


def _read_int_or_string(data: bytes, at: int, end: int, depth: int) -> int | str:
    parts = _read_parts(data, at, end)
    if _number(parts, _INTSTR_TYPE):
        return _raw(parts, _INTSTR_TEXT).decode()
    return _number(parts, _INTSTR_INT)


def _read_json(data: bytes, at: int, end: int, depth: int) -> Any:
    raw = _raw(_read_parts(data, at, end), 1)
    try:
        return _decode(raw) if raw else None
    except msgspec.DecodeError as error:
        raise _Cut(str(error)) from None


def _read_texts(data: bytes, at: int, end: int, depth: int, wanted: int = 1) -> list[str]:
    return [text.decode() for text in _repeated(data, at, end, wanted)]


def _repeated(data: bytes, at: int, end: int, wanted: int) -> list[bytes]:
    """Return the values of one repeated field of a message."""
    found = []
    while at < end:
        key, at = _read_varint(data, at)
        start, at = _extent(data, at, key & 7)
        if at > end:
            raise _Cut("unexpected end of a message")
        if key == (wanted << 3 | _BYTES):
            found.append(data[start:at])
    return found


def _read_schema(data: bytes, depth: int) -> Document:
    return _read_message(_SCHEMA, data, 0, len(data), depth + 1)


def _read_schema_or_schemas(data: bytes, at: int, end: int, depth: int) -> Any:
    schema = _repeated(data, at, end, 1)
    schemas = [_read_schema(each, depth) for each in _repeated(data, at, end, 2)]
    return schemas or (_read_schema(schema[-1], depth) if schema else None)


def _read_schema_or_bool(data: bytes, at: int, end: int, depth: int) -> Any:
    parts = _read_parts(data, at, end)
    return _read_schema(_raw(parts, 2), depth) if 2 in parts else bool(_number(parts, 1))


def _read_schema_or_names(data: bytes, at: int, end: int, depth: int) -> Any:
    schema = _repeated(data, at, end, 1)
    return _read_schema(schema[-1], depth) if schema else _read_texts(data, at, end, depth, 2)


_READERS: dict[str, Read] = {
    "s": lambda data, at, end, depth: data[at:end].decode(),
    "i": _read_int,
    "b": lambda data, at, end, depth: _read_int(data, at, end, depth) != 0,
    "d": lambda data, at, end, depth: struct.unpack("<d", data[at:end])[0],
    "y": lambda data, at, end, depth: base64.b64encode(data[at:end]).decode(),
    "Q": _read_quantity,
    "T": _read_time,
    "U": _read_micro_time,
    "I": _read_int_or_string,
    "R": _read_json,
    "L": _read_texts,
    "A": _read_schema_or_schemas,
    "B": _read_schema_or_bool,
    "S": _read_schema_or_names,
}
