"""OpenAPI v2 and v3 documents.

Spec: apiserver.md 14 (`/openapi/v3`: an index of relative URLs with hashes, one document per group version),
`/openapi/v2` (one document for all). Built on first request and kept as bytes. Hashes depend on the field table and
the served kinds.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from weir.apiserver.discovery import is_served
from weir.apiserver.openapi.paths import paths_of, structs_of, to_version_2
from weir.apiserver.openapi.schemas import model_name, with_references
from weir.apiserver.transport.protobuf import bytes_field, varint
from weir.objects import schema
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS

# ── protobuf encoding of the OpenAPI v2 document ──
# kubectl up to 1.26 reads `/openapi/v2` only as protobuf (message Document of the package openapi.v2). The field
# numbers below are that package's, for the parts weir's document uses.


#: What clients ask for, and what they are answered with: `@` is not allowed in a media type, and strict parsers
#: (kubectl 1.20's) refuse an answer that says it.
MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
ANSWERED: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

Json = dict[str, Any]


def encode(document: Json) -> bytes:
    """Return *document* as the protobuf message Document."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(
        bytes_field(2, _text(1, path) + bytes_field(2, _path_item(item)))
        for path, item in document["paths"].items()
    )
    definitions = b"".join(
        bytes_field(1, _text(1, name) + bytes_field(2, _schema(item)))
        for name, item in document["definitions"].items()
    )
    return (
        _text(1, document["swagger"])
        + bytes_field(2, info)
        + bytes_field(8, paths)
        + bytes_field(9, definitions)
    )


def _text(field: int, text: str) -> bytes:
    return bytes_field(field, text.encode()) if text else b""


def _texts(field: int, texts: list[str]) -> bytes:
    return b"".join(bytes_field(field, text.encode()) for text in texts)


def _true(field: int, value: bool) -> bytes:
    return varint(field << 3) + b"\x01" if value else b""


def _any(field: int, value: Any) -> bytes:
    """Any holds YAML text; JSON is YAML."""
    return bytes_field(field, _text(2, msgspec.json.encode(value).decode() + "\n"))


def _extensions(field: int, value: Json) -> bytes:
    return b"".join(
        bytes_field(field, _text(1, key) + _any(2, item))
        for key, item in value.items()
        if key.startswith("x-")
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
        out += bytes_field(21, bytes_field(1, _schema(value["additionalProperties"])))
    if "type" in value:
        out += bytes_field(22, _text(1, value["type"]))
    if "items" in value:
        out += bytes_field(23, bytes_field(1, _schema(value["items"])))
    if "properties" in value:
        fields = (
            bytes_field(1, _text(1, key) + bytes_field(2, _schema(item)))
            for key, item in value["properties"].items()
        )
        out += bytes_field(25, b"".join(fields))
    return out + _extensions(31, value)


_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _path_item(item: Json) -> bytes:
    out = b"".join(
        bytes_field(_METHODS[method], _operation(item[method])) for method in _METHODS if method in item
    )
    return out + b"".join(bytes_field(9, _parameter(parameter)) for parameter in item.get("parameters", ()))


def _operation(value: Json) -> bytes:
    out = _texts(1, value["tags"]) + _text(3, value["description"]) + _text(5, value["operationId"])
    out += _texts(6, value["produces"]) + _texts(7, value["consumes"])
    out += b"".join(bytes_field(8, _parameter(parameter)) for parameter in value.get("parameters", ()))
    responses = (
        bytes_field(1, _text(1, code) + bytes_field(2, bytes_field(1, _response(answer))))
        for code, answer in value["responses"].items()
    )
    return out + bytes_field(9, b"".join(responses)) + _texts(10, value["schemes"]) + _extensions(13, value)


def _response(answer: Json) -> bytes:
    out = _text(1, answer["description"])
    return out + bytes_field(2, bytes_field(1, _schema(answer["schema"]))) if "schema" in answer else out


def _parameter(value: Json) -> bytes:
    """Return one ParametersItem: a body, a query or a path parameter."""
    if value["in"] == "body":
        body = _text(2, "body") + _text(3, "body") + _true(4, value.get("required", False))
        return bytes_field(1, bytes_field(1, body + bytes_field(5, _schema(value["schema"]))))
    shared = _true(1, value.get("required", False)) + _text(2, value["in"])
    shared += _text(3, value.get("description", "")) + _text(4, value["name"])
    if value["in"] == "query":
        rest = _text(6, value["type"]) + _true(20, value.get("uniqueItems", False))
        return bytes_field(1, bytes_field(2, bytes_field(3, shared + rest)))
    rest = _text(5, value["type"]) + _true(19, value.get("uniqueItems", False))
    return bytes_field(1, bytes_field(2, bytes_field(4, shared + rest)))


# ── openAPI v2 and v3 documents ──


_NONE: Final[frozenset[str]] = frozenset()

V2_PROTOBUF: Final = MEDIA_TYPE
V2_PROTOBUF_ANSWERED: Final = ANSWERED
INFO: Final = {"title": "Kubernetes", "version": "v1.37.0"}
SECURITY: Final = {
    "BearerToken": {
        "description": "Bearer Token authentication",
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
    }
}
#: Paths that answer with something small, and the struct they answer with.
_ROOTS: Final = {"api": "meta.v1.APIVersions", "apis": "meta.v1.APIGroupList"}


def _described() -> list[Kind]:
    """Return the kinds that have documents."""
    return [kind for kind in KINDS if kind.plural]


@cache
def _group_versions(off: frozenset[str]) -> dict[str, list[Kind]]:
    """Return the kinds behind every document that has kinds, by its path; *off* as in weir.apiserver.discovery."""
    found: dict[str, list[Kind]] = {}
    for kind in _described():
        if is_served(kind, off):
            path = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
            found.setdefault(path, []).append(kind)
    return found


@cache
def _paths(off: frozenset[str]) -> list[str]:
    """Return the path of every document."""
    groups = {f"apis/{kind.group}" for kind in _described() if kind.group and kind.group not in off}
    return sorted({*_group_versions(off), *groups, *_ROOTS, "version"})


@cache
def v3_index(off: frozenset[str] = _NONE) -> Json:
    """Return the index of `/openapi/v3`; *off* as in weir.apiserver.discovery.

    >>> v3_index()["paths"]["api/v1"]["serverRelativeURL"].partition("=")[0]
    '/openapi/v3/api/v1?hash'
    """
    table = files("weir.objects").joinpath("fields.json").read_bytes()
    served = msgspec.json.encode([[kind.api_version, kind.kind, kind.plural, kind.verbs] for kind in KINDS])
    state = hashlib.sha512(table + served + msgspec.json.encode([schema.ADDED, schema.ADDED_STRUCTS]))
    paths = {}
    for path in _paths(off):
        mine = state.copy()
        mine.update(path.encode())
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={mine.hexdigest().upper()}"}
    return {"paths": paths}


@cache
def v3(path: str, off: frozenset[str] = _NONE) -> bytes | None:
    """Return the document at `/openapi/v3/<path>`, or None when there is none."""
    if path not in _paths(off):
        return None
    kinds = _group_versions(off).get(path)
    if kinds is not None:
        structs, operations = structs_of(kinds), paths_of(kinds)
        place = "/" + path + "/"
        operations = {place: _discovery(path, "meta.v1.APIResourceList"), **operations}
        structs.add("meta.v1.APIResourceList")
    elif path == "version":
        structs, operations = set(), {"/version/": _version()}
    else:
        answer = _ROOTS.get(path, "meta.v1.APIGroup")
        structs, operations = {answer}, {f"/{path}/": _discovery(path, answer)}
    known = [name for name in structs if name in _known()]
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": INFO,
            "paths": operations,
            "components": {"schemas": with_references(set(known), 3), "securitySchemes": SECURITY},
        }
    )


@cache
def _known() -> frozenset[str]:
    return frozenset(schema.struct_names())


def _discovery(path: str, answer: str) -> Json:
    body = {"schema": {"$ref": "#/components/schemas/" + model_name(answer)}}
    if answer not in _known():
        body = {"schema": {"type": "object"}}
    words = [part[:1].upper() + part[1:] for part in path.replace(".", "/").split("/")]
    return {
        "get": {
            "tags": ["discovery"],
            "description": "get what is served below this path",
            "operationId": "get" + "".join(words) + "Discovery",
            "responses": {
                "200": {"description": "OK", "content": {"application/json": body}},
                "401": {"description": "Unauthorized"},
            },
        }
    }


def _version() -> Json:
    return {
        "get": {
            "tags": ["version"],
            "description": "get the version of the server",
            "operationId": "getCodeVersion",
            "responses": {
                "200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}},
                "401": {"description": "Unauthorized"},
            },
        }
    }


def _document_2(off: frozenset[str]) -> Json:
    structs: set[str] = set()
    operations: Json = {}
    for kinds in _group_versions(off).values():
        structs |= structs_of(kinds)
        operations |= paths_of(kinds)
    return {
        "swagger": "2.0",
        "info": INFO,
        "paths": to_version_2(operations),
        "definitions": with_references(structs, 2),
        "securityDefinitions": SECURITY,
        "security": [{"BearerToken": []}],
    }


@cache
def v2(off: frozenset[str] = _NONE) -> bytes:
    """Return the document of `/openapi/v2` as JSON."""
    return msgspec.json.encode(_document_2(off))


@cache
def v2_protobuf(off: frozenset[str] = _NONE) -> bytes:
    """Return the document of `/openapi/v2` in the form older clients ask for (media type V2_PROTOBUF)."""
    return encode(_document_2(off))
