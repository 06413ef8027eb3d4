"""Applies manifests as `kubectl apply -f` does, object by object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from weir.forecast.coverage import manifests_need_control_plane
from weir.lowering.originals import evaluated
from weir.objects.kinds import find_kind
from weir.whatif.changes.change import ChangedCluster, ChangeError, unless_refused

Document = dict[str, Any]


@dataclass(frozen=True)
class Apply:
    """`kubectl apply -f`."""

    documents: tuple[Document, ...] = field(hash=False)

    def say(self) -> str:
        names = [
            f"{d.get('kind', '?').lower()}/{(d.get('metadata') or {}).get('name', '?')}"
            for d in self.documents
        ]
        return f"apply {' '.join(names)}"

    def control_plane_reason(self, documents: Sequence[Document]) -> str:
        """Return why a cluster of *documents* needs its API server for this, "" if it needs none."""
        return manifests_need_control_plane(filter(_is_object, self.documents), documents)

    def make(self, cluster: ChangedCluster) -> list[str]:
        for document in self.documents:
            if problem := why_not(document):
                raise ChangeError(problem)
            unless_refused(partial(cluster.apply, managed(document)))
        return []


def why_not(document: Any) -> str:
    """Return why *document* cannot be applied, whatever the cluster; "" if it can."""
    if not _is_object(document) or not document.get("apiVersion"):
        return "a document without a kind and an apiVersion cannot be applied"
    if not (document.get("metadata") or {}).get("name"):
        return f"a {document['kind']} without metadata.name cannot be applied"
    if find_kind(document["apiVersion"], document["kind"]) is None:
        return f"{document['apiVersion']} {document['kind']} is no kind that weir knows"
    return ""


def _is_object(document: Any) -> bool:
    return isinstance(document, dict) and bool(document.get("kind"))


def managed(document: Document) -> Document:
    """Return *document* as it can be applied: as its author wrote it, without what only a server writes."""
    document = evaluated(document)
    dropped = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")
    metadata = {name: value for name, value in document["metadata"].items() if name not in dropped}
    return {**document, "metadata": metadata}
