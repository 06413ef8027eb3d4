"""OpenAPI documents including custom kinds.

Read by `kubectl explain` and `apply`. Rebuilt on first request after a change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from weir.apiserver.openapi import documents
from weir.apiserver.openapi.documents import encode
from weir.apiserver.openapi.paths import paths_of, structs_of, to_version_2
from weir.apiserver.openapi.schemas import custom_model, reference, with_references
from weir.compat.customresources.served import CustomResourceKind, shown_kinds
from weir.objects.served_kinds import ServedKinds

Json = dict[str, Any]
_CONVENTIONS: Final = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_META, _LIST_META = "meta.v1.ObjectMeta", "meta.v1.ListMeta"
_META_TEXTS: Final = {
    _META: f"Standard object's metadata. More info: {_CONVENTIONS}#metadata",
    _LIST_META: f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds",
}
_TYPE_META: Final[Json] = {
    "apiVersion": {
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should "
        "convert recognized schemas to the latest internal value, and may reject unrecognized values. "
        f"More info: {_CONVENTIONS}#resources",
        "type": "string",
    },
    "kind": {
        "description": "Kind is a string value representing the REST resource this object represents. Servers may "
        "infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. "
        f"More info: {_CONVENTIONS}#types-kinds",
        "type": "string",
    },
}
#: the same of an object inside another
_EMBEDDED_TYPE_META: Final[Json] = {
    "apiVersion": {
        "description": "apiVersion defines the versioned schema of this representation of an object. "
        f"More info: {_CONVENTIONS}#resources",
        "type": "string",
    },
    "kind": {
        "description": "kind is a string value representing the type of this object. In CamelCase. "
        f"More info: {_CONVENTIONS}#types-kinds",
        "type": "string",
    },
}
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
#: what version 2 cannot say of values
_NOT_IN_2: Final = ("nullable", "default", "anyOf", "oneOf", "allOf", "not")


class ServedOpenApi:
    """The documents of one server."""

    def __init__(self, served: ServedKinds, off: frozenset[str]) -> None:
        self._served, self._off = served, off
        self._version = -1
        self._made: dict[str, Any] = {}
        self._groups: dict[str, list[CustomResourceKind]] = {}

    def _kept(self, key: str, make: Callable[[], Any]) -> Any:
        if self._version != self._served.version:
            self._version, self._made, self._groups = self._served.version, {}, {}
            for kind in shown_kinds(self._served):
                if isinstance(kind, CustomResourceKind):
                    self._groups.setdefault(f"apis/{kind.group}/{kind.version}", []).append(kind)
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def v3_index(self) -> Json:
        """Return the index of `/openapi/v3`."""
        found: Json = self._kept("index", self._index)
        return found

    def _index(self) -> Json:
        paths = dict(documents.v3_index(self._off)["paths"])
        for path, kinds in self._groups.items():
            state = hashlib.sha512(b"".join(kind.says.text for kind in kinds))
            state.update(msgspec.json.encode([[kind.kind, kind.plural, kind.verbs] for kind in kinds]))
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={state.hexdigest().upper()}"}
        return {"paths": dict(sorted(paths.items()))}

    def v3(self, path: str) -> bytes | None:
        """Return the document at `/openapi/v3/<path>`, or None when there is none."""
        self.v3_index()
        if path not in self._groups:
            return documents.v3(path, self._off)
        found: bytes = self._kept(path, lambda: self._document_3(self._groups[path]))
        return found

    def _document_3(self, kinds: list[CustomResourceKind]) -> bytes:
        structs = {name for name in structs_of([*kinds]) if not name.startswith(".")} | {_META, _LIST_META}
        schemas = with_references(structs, 3)
        for kind in kinds:
            schemas |= _models(kind, 3)
        return msgspec.json.encode(
            {
                "openapi": "3.0.0",
                "info": documents.INFO,
                "paths": paths_of([*kinds]),
                "components": {
                    "schemas": dict(sorted(schemas.items())),
                    "securitySchemes": documents.SECURITY,
                },
            }
        )

    def v2(self) -> bytes:
        """Return the document of `/openapi/v2` as JSON."""
        self.v3_index()
        if not self._groups:
            return documents.v2(self._off)
        found: bytes = self._kept("v2", lambda: msgspec.json.encode(self._document_2()))
        return found

    def v2_protobuf(self) -> bytes:
        """Return the document of `/openapi/v2` in the form older clients ask for."""
        self.v3_index()
        if not self._groups:
            return documents.v2_protobuf(self._off)
        found: bytes = self._kept("v2 protobuf", lambda: encode(self._document_2()))
        return found

    def _document_2(self) -> Json:
        whole: Json = msgspec.json.decode(documents.v2(self._off))
        for kinds in self._groups.values():
            whole["paths"] |= to_version_2(paths_of([*kinds]))
            for kind in kinds:
                whole["definitions"] |= _models(kind, 2)
        return whole


def _models(kind: CustomResourceKind, version: int) -> Json:
    """Return the schemas of a kind and of its list, by model name."""
    gvk = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    said: Json = {}
    if kind.says.selectable:
        said["x-kubernetes-selectable-fields"] = [
            {"fieldPath": ".".join(path)} for path in kind.says.selectable
        ]
    found = kind.says.schema_document()
    if found is None or (version == 2 and found.get(_PRESERVES)):
        # kubectl takes what is not described there for unknown: so nothing is described, not even the metadata
        model: Json = {"type": "object"}
    else:
        model = _published(found, version)
        own = {**_TYPE_META, "metadata": _referring(_META, version)}
        model["properties"] = {**model.get("properties", {}), **own}
    model |= {"x-kubernetes-group-version-kind": [gvk], **said}
    name = custom_model(kind)
    items = reference(name, version)
    listed: Json = {
        "description": f"{kind.list_kind} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_TYPE_META,
            "metadata": _referring(_LIST_META, version),
            "items": {
                "type": "array",
                "items": items,
                "description": f"List of {kind.plural}. More info: {_CONVENTIONS}",
            },
        },
        "x-kubernetes-group-version-kind": [{**gvk, "kind": kind.list_kind}],
        **said,
    }
    return {name[1:]: model, name[1:].removesuffix(kind.kind) + kind.list_kind: listed}


def _referring(struct: str, version: int) -> Json:
    found = reference(struct, version)
    said = {"description": _META_TEXTS[struct]}
    return {**said, **found} if version == 2 else {**said, "allOf": [found]}


def _published(found: Json, version: int) -> Json:
    """Return a schema as clients read it: in version 2 without what that cannot say."""
    out = _in_version_2(found) if version == 2 else dict(found)
    if isinstance(out.get("properties"), dict):
        out["properties"] = {name: _published(one, version) for name, one in out["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(out.get(name), dict):
            out[name] = _published(out[name], version)
    if out.get("x-kubernetes-embedded-resource") and not (version == 2 and out.get(_PRESERVES)):
        own = {**_EMBEDDED_TYPE_META, "metadata": _referring(_META, version)}
        out["properties"] = {**out.get("properties", {}), **own}
        required = out.get("required") or []
        out["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]
    return out


def _in_version_2(found: Json) -> Json:
    """Return what version 2 can say of one schema, those inside it left as they are.

    kubectl takes a schema with a type, items or properties for the whole truth: what may be null or hold more than
    is described has none of them.
    """
    out = {name: one for name, one in found.items() if name not in _NOT_IN_2}
    if found.get("nullable") or found.get(_PRESERVES):
        out.pop("items", None)
        out.pop("properties", None)
    kind = found.get("type")
    if (
        found.get("nullable")
        or (kind == "array" and "items" not in out)
        or (kind == "object" and found.get(_PRESERVES))
    ):
        out.pop("type", None)
    additional = found.get("additionalProperties")
    if isinstance(additional, dict) and additional.get("nullable"):
        out.pop("required", None)
    elif "required" in out:
        described = out.get("properties") or {}
        out["required"] = [name for name in out["required"] if not described.get(name, {}).get("nullable")]
        if not out["required"]:
            del out["required"]
    return out
