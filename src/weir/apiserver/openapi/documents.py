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
from weir.apiserver.openapi.protobuf import ANSWERED, MEDIA_TYPE, encode
from weir.apiserver.openapi.schemas import model_name, with_references
from weir.objects import schema
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS

__all__ = ["INFO", "SECURITY", "V2_PROTOBUF", "V2_PROTOBUF_ANSWERED", "v2", "v2_protobuf", "v3", "v3_index"]

Json = dict[str, Any]
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
