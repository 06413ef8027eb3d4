"""Routing checks of custom resource requests.

Spec: apiserver.md 1.2. Built-in kinds have a route per method and path; custom resources share one, which has its own
errors and order: unknown subresource, verb, missing name. It uses the body's name on create, and answers HEAD.
"""

from __future__ import annotations

from weir import errors
from weir.apiserver.registry.patching import check_patch_type
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.paths import RequestInfo
from weir.customresources.served import CustomResourceKind
from weir.objects.kind import ALL_VERBS

__all__ = ["check_route"]

_OF_SUBRESOURCES = ("get", "patch", "update")


def check_route(request: Request, kind: CustomResourceKind, info: RequestInfo) -> None:
    """Raise what the route says to a request it does not take."""
    if info.subresource and kind.subresource(info.subresource) is None:
        raise errors.NotFound.object(kind, info.name)
    if info.verb not in (_OF_SUBRESOURCES if info.subresource else ALL_VERBS):
        verb = info.verb if info.verb in ALL_VERBS else ""
        raise errors.MethodNotAllowed(
            f'{verb} is not supported on resources of kind "{kind.plural}.{kind.group}"',
            details={"group": kind.group, "kind": kind.plural},
        )
    if not info.name and info.verb in ("update", "patch"):
        if info.verb == "patch":
            check_patch_type(request, kind)
        raise errors.BadRequest("name must be provided")
