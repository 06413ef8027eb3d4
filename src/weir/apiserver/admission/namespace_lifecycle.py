"""NamespaceLifecycle: rejects creates in missing or terminating namespaces.

Spec: core.md 7; apiserver.md 1.2 (create in a missing namespace). The three system namespaces cannot be deleted.
LocalSubjectAccessReview is allowed in a missing namespace, since an error would reveal more than the client may know.
"""

from __future__ import annotations

from weir.apiserver.admission.attributes import CREATE, DELETE, Attributes, Reader
from weir.errors import NotFound
from weir.objects.kind import Kind
from weir.objects.kinds import NAMESPACES

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle:
    name = "NamespaceLifecycle"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        if kind is NAMESPACES:
            return operation == DELETE
        return operation == CREATE and kind.namespaced and kind.kind != "LocalSubjectAccessReview"

    def admit(self, a: Attributes) -> None:
        if a.kind is NAMESPACES:
            if a.name in IMMORTAL:
                raise a.forbidden("this namespace may not be deleted")
            return
        namespace = self._reader.get_now(NAMESPACES, "", a.namespace)
        if namespace is None:
            raise NotFound.object(NAMESPACES, a.namespace)
        if (namespace.get("status") or {}).get("phase") == "Terminating":
            refused = a.forbidden(
                f"unable to create new content in namespace {a.namespace} because it is being terminated"
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {a.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            refused.details = {**(refused.details or {}), "causes": [cause]}
            raise refused
