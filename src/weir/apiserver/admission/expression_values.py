"""CEL variables of webhook and policy expressions for one write.

Spec: admissionregistration.k8s.io/v1; cel.md 9.1. `object` and `oldObject` are documents in the version of the
matched rule; `request` is that of an AdmissionReview without the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.apiserver.admission.attributes import NAMESPACE, Attributes, Reader
from weir.apiserver.admission.versions import seen_as
from weir.apiserver.auth.cel_authorizer import CelAuthorizer, Decide, ResourceCheck, no_opinion
from weir.apiserver.auth.rbac import Action
from weir.apiserver.webhooks.review import printed, request_of
from weir.errors import NotFound
from weir.objects.kind import Kind

Document = Mapping[str, Any]


def expression_values(
    a: Attributes, decide: Decide | None, kind: Kind | None = None, namespace: Document | None = None
) -> dict[str, Any]:
    """Return what expressions may name; *kind* is the version that the rule names."""
    asker = CelAuthorizer(decide or no_opinion, a.user)
    asked = Action("", a.requested.group, a.requested.plural, a.subresource, a.namespace, a.name)
    kind = kind or a.requested
    return {
        "object": seen_as(a, kind, printed(a)),
        "oldObject": seen_as(a, kind, a.old),
        "namespaceObject": namespace,
        "request": request_of(a, "", kind),
        "authorizer": asker,
        "authorizer.requestResource": ResourceCheck(asker, asked),
    }


def namespace_object(a: Attributes, reader: Reader) -> Document | None:
    """Return the namespace of a write as expressions see it, None for one about the cluster; raises NotFound."""
    if not a.namespace or a.kind is NAMESPACE:
        return None
    found = reader.get_now(NAMESPACE, "", a.namespace)
    if found is None:
        raise NotFound.object(NAMESPACE, a.namespace)
    metadata = {
        name: value
        for name, value in found["metadata"].items()
        if name not in ("managedFields", "ownerReferences", "selfLink")
    }
    return {"metadata": metadata, "spec": found.get("spec") or {}, "status": found.get("status") or {}}
