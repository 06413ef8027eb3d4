"""Strategy of Namespace: the finalizer that keeps it until its content is gone.

Spec: apiserver.md 5.2 (Namespace), 8 "Delete" (namespace).
"""

from __future__ import annotations

from weir.apiserver.strategies.strategy import Context, Document, Strategy, keep
from weir.objects.kind import Kind

FINALIZER = "kubernetes"


class NamespaceStrategy(Strategy):
    """What the server does to namespaces."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Start active, held by the namespace controller's finalizer."""
        finalizers = new.setdefault("spec", {}).setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        new["status"] = {"phase": "Active"}

    def restrict(self, kind: Kind, new: Document, old: Document, subresource: str) -> None:
        """Only `/finalize` changes spec.finalizers."""
        if subresource == "finalize":
            finalizers = (new.get("spec") or {}).get("finalizers")
            new["spec"] = {"finalizers": finalizers} if finalizers else {}
            keep(new, old, "status")
            return
        super().restrict(kind, new, old, subresource)
        if subresource == "":
            keep(new, old, "spec")
