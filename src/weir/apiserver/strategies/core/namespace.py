"""Strategies of Namespace, whose finalizer keeps it until its content is gone, and of LimitRange.

Spec: apiserver.md 5.2 (Namespace), 8 "Delete" (namespace).
"""

from __future__ import annotations

from weir.apiserver.strategies.strategy import Context, Document, Strategy, keep
from weir.objects.kind import Kind


class LimitRangeStrategy(Strategy):
    """LimitRanges may come without a name, as they could from the first."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Give a name where there is none."""
        super().prepare_create(kind, new, context)
        if not new["metadata"].get("name"):
            new["metadata"]["name"] = new["metadata"]["uid"]


FINALIZER = "kubernetes"


class NamespaceStrategy(Strategy):
    """What the server does to namespaces."""

    is_emptied_first = True

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

    def hand_over(self, document: Document, now: str) -> Document:
        """Terminate the namespace; its controller takes its finalizer away."""
        if document["metadata"].get("deletionTimestamp"):
            return document
        return {
            **document,
            "metadata": {**document["metadata"], "deletionTimestamp": now},
            "status": {**(document.get("status") or {}), "phase": "Terminating"},
        }
