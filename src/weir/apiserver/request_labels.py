"""Labels of request metrics.

As upstream: a request is counted once it reached a route. Others (unauthenticated, forbidden, unknown resource,
unsupported method or media type) are counted by the authentication and authorization metrics or not at all, so
clients cannot invent labels. Verbs are those of HTTP but for LIST, WATCH, APPLY and CONNECT, and deletecollection is
a DELETE; creates have the scope `resource`. Of the pages only health and OpenAPI v3 are counted, with their path as
subresource. Compared with a real server: tests/kubernetes/test_same_metrics.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weir.apiserver.registry.patching import APPLY_PATCH
from weir.apiserver.registry.subresources import STREAMS
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.paths import RequestInfo
from weir.customresources.served import CustomResourceKind

__all__ = ["COMPONENT", "Labels", "dry_run_label", "is_routed", "labels_of"]

COMPONENT = "apiserver"
_VERBS = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
    "get": "GET",
    "head": "GET",
    "list": "LIST",
    "watch": "WATCH",
}
_CONNECTS = frozenset({"log", *STREAMS})
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_OPENAPI = "/openapi/v3"
_APPLY = APPLY_PATCH.encode()


class Labels(NamedTuple):
    """How the metrics of requests name one."""

    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    scope: str
    component: str = COMPONENT


def labels_of(request: Request, info: RequestInfo, params: Mapping[str, str]) -> Labels | None:
    """Return the labels of *request*; None for unknown resources and pages that are not counted."""
    kind = info.kind
    if kind is None:
        return None if info.is_resource else _page(info)
    subresource = info.subresource
    if subresource and kind.subresource(subresource) is None:
        return None
    verb = "CONNECT" if subresource in _CONNECTS else _VERBS.get(info.verb, "other")
    if verb == "PATCH":
        if request.headers.get(b"content-type") == _APPLY:
            verb = "APPLY"
    elif verb == "GET" and params.get("watch", "0").lower() not in ("0", "false"):
        verb = "WATCH"  # of one object by its name, which upstream answers with the object
    if info.name or info.verb == "create":
        scope = "resource"
    else:
        scope = "namespace" if info.namespace else "cluster"
    return Labels(verb, info.api_group, info.api_version, info.resource, subresource, scope)


def _page(info: RequestInfo) -> Labels | None:
    path = info.path
    if path in _HEALTH:
        shown = path
    elif path == _OPENAPI or path.startswith(f"{_OPENAPI}/"):
        shown = "openapi/v3" if path == _OPENAPI else "openapi/v3/"
    else:
        return None
    return Labels(_VERBS.get(info.verb, info.verb.upper()), "", "", "", shown, "", "")


def is_routed(info: RequestInfo, code: int) -> bool:
    """Return whether a request that may be made and got this *code* had reached a route.

    A path that does not take the method, or gives nothing of the form that is asked for, has none. Custom resources
    share one route that finds out about forms by itself; patches of other kinds are chosen by their type.
    """
    if code == 405:
        return False
    if code in (406, 415) and not isinstance(info.kind, CustomResourceKind):
        return code == 415 and info.verb != "patch"
    return True


def dry_run_label(values: Sequence[str]) -> str:
    """Return how metrics show the values of `dryRun`.

    >>> dry_run_label([]), dry_run_label(["All", "All"]), dry_run_label(["Some"])
    ('', 'All', 'invalid')
    """
    if not values:
        return ""
    return "All" if all(value == "All" for value in values) else "invalid"
