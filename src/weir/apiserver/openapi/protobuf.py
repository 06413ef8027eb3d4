"""Protobuf encoding of the OpenAPI v2 document.

kubectl up to 1.26 reads `/openapi/v2` only as protobuf (message Document of the package openapi.v2). The field
numbers below are that package's, for the parts weir's document uses.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["ANSWERED", "MEDIA_TYPE", "encode"]

#: What clients ask for, and what they are answered with: `@` is not allowed in a media type, and strict parsers
#: (kubectl 1.20's) refuse an answer that says it.
MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
ANSWERED: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

Json = dict[str, Any]


def encode(document: Json) -> bytes:
    """Return *document* as the protobuf message Document."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(
        _message(2, _text(1, path) + _message(2, _path_item(item)))
        for path, item in document["paths"].items()
    )
    definitions = b"".join(
        _message(1, _text(1, name) + _message(2, _schema(item)))
        for name, item in document["definitions"].items()
    )
    return _text(1, document["swagger"]) + _message(2, info) + _message(8, paths) + _message(9, definitions)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode()) if text else b""


def _texts(field: int, texts: list[str]) -> bytes:
    return b"".join(_message(field, text.encode()) for text in texts)


def _true(field: int, value: bool) -> bytes:
    return _varint(field << 3) + b"\x01" if value else b""


def _any(field: int, value: Any) -> bytes:
    """Any holds YAML text; JSON is YAML."""
    return _message(field, _text(2, msgspec.json.encode(value).decode() + "\n"))


def _extensions(field: int, value: Json) -> bytes:
    return b"".join(
        _message(field, _text(1, key) + _any(2, item)) for key, item in value.items() if key.startswith("x-")
    )


def _schema(value: Json) -> bytes:
    out = (
        _text(1, value.get("$ref", ""))
        + _text(2, value.get("format", ""))
        + _text(4, value.get("description", ""))
    )
    if "default" in value:
        out += _any(5, value["default"])
    out += _true(16, value.get("uniqueItems", False)) + _texts(19, value.get("required", []))
    if "additionalProperties" in value:
        out += _message(21, _message(1, _schema(value["additionalProperties"])))
    if "type" in value:
        out += _message(22, _text(1, value["type"]))
    if "items" in value:
        out += _message(23, _message(1, _schema(value["items"])))
    if "properties" in value:
        fields = (
            _message(1, _text(1, key) + _message(2, _schema(item)))
            for key, item in value["properties"].items()
        )
        out += _message(25, b"".join(fields))
    return out + _extensions(31, value)


_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _path_item(item: Json) -> bytes:
    out = b"".join(
        _message(_METHODS[method], _operation(item[method])) for method in _METHODS if method in item
    )
    return out + b"".join(_message(9, _parameter(parameter)) for parameter in item.get("parameters", ()))


def _operation(value: Json) -> bytes:
    out = _texts(1, value["tags"]) + _text(3, value["description"]) + _text(5, value["operationId"])
    out += _texts(6, value["produces"]) + _texts(7, value["consumes"])
    out += b"".join(_message(8, _parameter(parameter)) for parameter in value.get("parameters", ()))
    responses = (
        _message(1, _text(1, code) + _message(2, _message(1, _response(answer))))
        for code, answer in value["responses"].items()
    )
    return out + _message(9, b"".join(responses)) + _texts(10, value["schemes"]) + _extensions(13, value)


def _response(answer: Json) -> bytes:
    out = _text(1, answer["description"])
    return out + _message(2, _message(1, _schema(answer["schema"]))) if "schema" in answer else out


def _parameter(value: Json) -> bytes:
    """Return one ParametersItem: a body, a query or a path parameter."""
    if value["in"] == "body":
        body = _text(2, "body") + _text(3, "body") + _true(4, value.get("required", False))
        return _message(1, _message(1, body + _message(5, _schema(value["schema"]))))
    shared = _true(1, value.get("required", False)) + _text(2, value["in"])
    shared += _text(3, value.get("description", "")) + _text(4, value["name"])
    if value["in"] == "query":
        rest = _text(6, value["type"]) + _true(20, value.get("uniqueItems", False))
        return _message(1, _message(2, _message(3, shared + rest)))
    rest = _text(5, value["type"]) + _true(19, value.get("uniqueItems", False))
    return _message(1, _message(2, _message(4, shared + rest)))
