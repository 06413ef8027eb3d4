"""RequestInfo: the verb, resource and name of a URL path.

Spec: apiserver.md 1.2 (unknown path, resource, method), 10.1 (the deprecated watch path). `/api/v1/…` and
`/apis/<group>/<version>/…` name resources, everything else is a plain path. An unknown resource of a known group
version is a Status 404; an unknown group or path a plain text 404.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote

from weir.caches import bounded
from weir.objects import kinds
from weir.objects.kind import Kind
from weir.objects.served_kinds import ServedKinds

_VERBS = {
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "GET": "get",
    "HEAD": "get",
}


class RequestInfo(NamedTuple):
    """The request in the words authorization and the verbs use."""

    path: str
    verb: str
    is_resource: bool = False
    api_group: str = ""
    api_version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    kind: Kind | None = None
    #: below a known group: an unknown version or resource gets a Status, not a plain page
    known_group: bool = False


_GROUPS = frozenset(kinds.groups())


@bounded(4096)
def parse(method: str, path: str, watch: bool = False) -> RequestInfo:
    """Return what *method* on *path* asks for; *watch* is whether the query says `watch=true`.

    >>> info = parse("PATCH", "/apis/apps/v1/namespaces/default/deployments/web/scale")
    >>> info.verb, info.api_group, info.namespace, info.resource, info.name, info.subresource
    ('patch', 'apps', 'default', 'deployments', 'web', 'scale')
    >>> parse("GET", "/api/v1/nodes").verb, parse("GET", "/api/v1/nodes", watch=True).verb
    ('list', 'watch')
    """
    return _parse(method, path, watch, kinds.find)


def parse_served(method: str, path: str, watch: bool, served: ServedKinds) -> RequestInfo:
    """Return what *method* on *path* asks for, custom kinds included."""
    info = parse(method, path, watch)
    if info.kind is None and info.is_resource and served:
        info = _parse(method, path, watch, served.find)
        kind = info.kind
        if kind is not None and kind.namespaced and not info.namespace and info.verb not in ("list", "watch"):
            info = info._replace(kind=None)  # across namespaces objects are only read
    return info


def _parse(method: str, path: str, watch: bool, find: Callable[[str, str, str], Kind | None]) -> RequestInfo:
    parts = unquote(path).rstrip("/").removeprefix("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(path, method.lower())
    deprecated_watch = rest[0] == "watch" and len(rest) > 1
    if deprecated_watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        elif group == "":
            namespace = rest[1]  # a namespace lies in itself, as authorization sees it
    resource, name = rest[0], rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:3])
    kind = find(group, version, resource)
    if len(rest) > 3 and subresource != "proxy":
        kind = None
    if kind is not None and namespace and not kind.namespaced and resource != "namespaces":
        kind = None
    if kind is not None and name and "get" not in kind.verbs and not kind.stored and not subresource:
        kind = None  # a review, a binding: there is nothing to find
    if kind is not None and kind.namespaced and name and not namespace:
        kind = None  # one object of a namespaced kind has no address outside its namespace
    verb = _VERBS.get(method, method.lower())
    if verb == "get" and not name:
        verb = "list"
    if (verb == "list" and watch) or (verb in ("get", "list") and deprecated_watch):
        verb = "watch"
    if verb == "delete" and not name:
        verb = "deletecollection"
    return RequestInfo(
        path,
        verb,
        True,
        group,
        version,
        namespace,
        resource,
        subresource,
        name,
        kind,
        known_group=group in _GROUPS,
    )
