"""OpenAPI operations of every path.

Spec: apiserver.md 14. Written in version 3 and converted to version 2. Clients use them to find the kind behind a
path (`explain`), `fieldValidation` support and the patch types of a kind (`apply`).
"""

from __future__ import annotations

from typing import Any, Final

from weir.apiserver.openapi.schemas import custom_model, reference
from weir.compat.customresources.served import CustomResourceKind
from weir.objects import schema
from weir.objects.kind import Kind, Subresource
from weir.objects.kinds import find_kind

Json = dict[str, Any]

_ANSWERS: Final = ("application/json", "application/yaml")
_STREAMS: Final = (*_ANSWERS, "application/json;stream=watch")
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_CUSTOM_PATCHES: Final = _PATCHES[:-1]


def _query(name: str, kind: str, description: str) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": kind, "uniqueItems": True},
    }


_PRETTY: Final = _query("pretty", "string", "If 'true', then the output is pretty printed.")
_DRY_RUN: Final = _query("dryRun", "string", "'All': go through every stage, store nothing.")
_MANAGER: Final = _query("fieldManager", "string", "The name under which the written fields are owned.")
_VALIDATION: Final = _query(
    "fieldValidation", "string", "What to do about unknown and duplicate fields: Ignore, Warn or Strict."
)
_FORCE: Final = _query("force", "boolean", "Apply only: take fields that others own.")
_LIST: Final = (
    _query("allowWatchBookmarks", "boolean", "Send bookmarks, so that a watch can be resumed cheaply."),
    _query("continue", "string", "Where to go on, from the previous page of the list."),
    _query("fieldSelector", "string", "Only objects whose fields match."),
    _query("labelSelector", "string", "Only objects whose labels match."),
    _query("limit", "integer", "At most this many objects in one page."),
    _query("resourceVersion", "string", "How recent the answer must be."),
    _query("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    _query("sendInitialEvents", "boolean", "Begin a watch with all objects there are."),
    _query("timeoutSeconds", "integer", "How long a list or watch may take."),
    _query("watch", "boolean", "Stream changes instead of answering with a list."),
)
_DELETE: Final = (
    _DRY_RUN,
    _query("gracePeriodSeconds", "integer", "How long the object may take to end; 0 is at once."),
    _query("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    _query("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
)
_NAME: Final[Json] = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "name of the object",
    "schema": {"type": "string", "uniqueItems": True},
}
_NAMESPACE: Final[Json] = {
    **_NAME,
    "name": "namespace",
    "description": "object name and auth scope, such as for teams",
}
_OPTIONS: Final = "meta.v1.DeleteOptions"
_STATUS: Final = "meta.v1.Status"


def structs_of(kinds: list[Kind]) -> set[str]:
    """Return the structs the operations of *kinds* speak about."""
    found = {_OPTIONS, _STATUS}
    for kind in kinds:
        found |= {name for name in _models_of(kind) if name is not None}
        for subresource in kind.subresources:
            if (spoken := _spoken_at(kind, subresource)) is not None:
                found.add(spoken)
    return found


def _models_of(kind: Kind) -> tuple[str | None, str | None]:
    """Return the structs of a kind and of its list, None where there is none."""
    if isinstance(kind, CustomResourceKind):
        name = custom_model(kind)
        return name, name.removesuffix(kind.kind) + kind.list_kind
    roots = (schema.find_root(kind.api_version, name) for name in (kind.kind, kind.kind + "List"))
    one, several = (None if root is None else root.name for root in roots)
    return one, several


def _spoken_at(kind: Kind, subresource: Subresource) -> str | None:
    group, version = (
        (subresource.group, subresource.version) if subresource.version else (kind.group, kind.version)
    )
    if not subresource.kind and isinstance(kind, CustomResourceKind):
        return custom_model(kind)
    root = schema.find_root(f"{group}/{version}" if group else version, subresource.kind or kind.kind)
    return root.name if root is not None else None


def paths_of(kinds: list[Kind]) -> Json:
    """Return the paths of *kinds*, which share a group and version."""
    found: Json = {}
    for kind in kinds:
        if kind.plural:
            found.update(_paths_of_kind(kind))
    return dict(sorted(found.items()))


def _paths_of_kind(kind: Kind) -> Json:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scoped = f"{base}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    scope = [_NAMESPACE] if kind.namespaced else []
    name = ("Namespaced" if kind.namespaced else "") + kind.kind
    root, listed = _models_of(kind)
    assert root is not None
    maker, streams = _Maker(kind), "watch" in kind.verbs
    out: Json = {}
    collection: Json = {}
    if "list" in kind.verbs and listed is not None:
        collection["get"] = maker.operation("list", "list", name, listed, _LIST, streams=streams)
    if "create" in kind.verbs:
        collection["post"] = maker.write("create", "post", name, root, 201)
    if "deletecollection" in kind.verbs:
        collection["delete"] = maker.delete("deleteCollection", "deletecollection", name, _STATUS, _LIST)
    if collection:
        out[scoped] = {**collection, "parameters": [*scope, _PRETTY]}
    if kind.namespaced and "list" in kind.verbs and listed is not None:
        everywhere = maker.operation(
            "list", "list", f"{kind.kind}ForAllNamespaces", listed, _LIST, streams=streams
        )
        out[f"{base}/{kind.plural}"] = {"get": everywhere, "parameters": [_PRETTY]}
    one: Json = {}
    if "get" in kind.verbs:
        one["get"] = maker.operation("read", "get", name, root)
    if "update" in kind.verbs:
        one["put"] = maker.write("replace", "put", name, root)
    if "patch" in kind.verbs:
        one["patch"] = maker.patch("patch", name, root)
    if "delete" in kind.verbs:
        one["delete"] = maker.delete("delete", "delete", name, _STATUS)
    if one:
        out[f"{scoped}/{{name}}"] = {**one, "parameters": [_NAME, *scope, _PRETTY]}
    for subresource in kind.subresources:
        if operations := _subresource(kind, subresource, name):
            place = f"{scoped}/{{name}}/{subresource.name}"
            out[place] = {**operations, "parameters": [_NAME, *scope, _PRETTY]}
    return out


def _subresource(kind: Kind, subresource: Subresource, name: str) -> Json:
    spoken = _spoken_at(kind, subresource)
    if spoken is None:
        return {}
    other = find_kind(_version_of(kind, subresource), subresource.kind) if subresource.kind else None
    maker = _Maker(kind, other)
    full = name + subresource.name[:1].upper() + subresource.name[1:]
    out: Json = {}
    if "get" in subresource.verbs:
        out["get"] = maker.operation("read", "get", full, spoken)
    if "create" in subresource.verbs and "get" not in subresource.verbs:
        out["post"] = maker.write("create", "post", full, spoken, 201)
    if "update" in subresource.verbs:
        out["put"] = maker.write("replace", "put", full, spoken)
    if "patch" in subresource.verbs:
        out["patch"] = maker.patch("patch", full, spoken)
    return out


def _version_of(kind: Kind, subresource: Subresource) -> str:
    if not subresource.version:
        return kind.api_version
    return f"{subresource.group}/{subresource.version}" if subresource.group else subresource.version


class _Maker:
    """Makes the operations of one kind; *spoken* is the kind of the body where it is another."""

    def __init__(self, kind: Kind, spoken: Kind | None = None) -> None:
        self._kind = kind
        self._spoken = spoken or kind
        group = (kind.group or "core").partition(".")[0]
        self._tag = f"{group}_{kind.version}"
        self._middle = group[:1].upper() + group[1:] + kind.version[:1].upper() + kind.version[1:]

    def operation(
        self,
        word: str,
        action: str,
        name: str,
        answer: str,
        queries: tuple[Json, ...] = (),
        *,
        streams: bool = False,
    ) -> Json:
        """Return one operation that answers with *answer*."""
        out: Json = {
            "tags": [self._tag],
            "description": f"{word} {self._kind.kind}",
            "operationId": f"{word}{self._middle}{name}",
            "responses": {
                "200": _answer(answer, _STREAMS if streams else _ANSWERS),
                "401": {"description": "Unauthorized"},
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": self._spoken.group,
                "kind": self._spoken.kind,
                "version": self._spoken.version,
            },
        }
        if queries:
            out["parameters"] = list(queries)
        return out

    def write(self, word: str, action: str, name: str, struct: str, code: int = 200) -> Json:
        """Return an operation that takes and answers with the same kind."""
        out = self.operation(word, action, name, struct, (_DRY_RUN, _MANAGER, _VALIDATION))
        out["requestBody"] = {"required": True, "content": {"*/*": {"schema": reference(struct, 3)}}}
        if code != 200:
            out["responses"][str(code)] = {**out["responses"]["200"], "description": "Created"}
        return out

    def patch(self, word: str, name: str, struct: str) -> Json:
        """Return the patch operation, with the patch types the kind takes."""
        out = self.operation(word, "patch", name, struct, (_DRY_RUN, _MANAGER, _VALIDATION, _FORCE))
        body = {"schema": {"type": "object"}}
        types = _CUSTOM_PATCHES if isinstance(self._kind, CustomResourceKind) else _PATCHES
        out["requestBody"] = {"required": True, "content": dict.fromkeys(types, body)}
        out["responses"]["201"] = {**out["responses"]["200"], "description": "Created"}
        return out

    def delete(self, word: str, action: str, name: str, answer: str, queries: tuple[Json, ...] = ()) -> Json:
        """Return a delete operation."""
        known = {query["name"] for query in _DELETE}
        both = (*_DELETE, *(query for query in queries if query["name"] not in known))
        out = self.operation(word, action, name, answer, both)
        out["requestBody"] = {"content": {"*/*": {"schema": reference(_OPTIONS, 3)}}}
        return out


def _answer(struct: str, types: tuple[str, ...]) -> Json:
    body = {"schema": reference(struct, 3)}
    return {"description": "OK", "content": dict.fromkeys(types, body)}


# ── version 2 ────────────────────────────────────────────────────────────────────────────────────


def to_version_2(paths: Json) -> Json:
    """Return *paths* in the form of OpenAPI version 2."""
    return {
        path: {
            method: _operation_2(value) if isinstance(value, dict) else [_parameter_2(item) for item in value]
            for method, value in item.items()
        }
        for path, item in paths.items()
    }


def _operation_2(operation: Json) -> Json:
    out = {
        key: value
        for key, value in operation.items()
        if key not in ("requestBody", "parameters", "responses")
    }
    parameters = [_parameter_2(item) for item in operation.get("parameters", ())]
    out["consumes"] = ["*/*"]
    if body := operation.get("requestBody"):
        types = list(body["content"])
        parameters.insert(
            0,
            {
                "name": "body",
                "in": "body",
                "required": body.get("required", False),
                "schema": _schema_2(body["content"][types[0]]["schema"]),
            },
        )
        out["consumes"] = types
    if parameters:
        out["parameters"] = parameters
    answers = operation["responses"]
    out["produces"] = list(answers["200"].get("content", {}))
    out["responses"] = {code: _response_2(answer) for code, answer in answers.items()}
    out["schemes"] = ["https"]
    return out


def _parameter_2(parameter: Json) -> Json:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter["schema"]}


def _response_2(answer: Json) -> Json:
    out = {"description": answer["description"]}
    for content in answer.get("content", {}).values():
        out["schema"] = _schema_2(content["schema"])
        break
    return out


def _schema_2(value: Json) -> Json:
    if "$ref" in value:
        return {"$ref": value["$ref"].replace("#/components/schemas/", "#/definitions/")}
    return value
