"""Strategies of Namespace, whose finalizer keeps it until its content is gone, and of LimitRange.

Spec: apiserver.md 5.2 (Namespace), 8 "Delete" (namespace).
"""

from __future__ import annotations

from collections.abc import Iterator

from weir.apiserver.strategies.core.pod_warnings import OLD_LABELS, OLD_VOLUMES
from weir.apiserver.strategies.strategy import Context, Strategy, keep
from weir.objects.kind import Document, Kind


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


# ── strategies of PersistentVolume (phase and its transition time) and PersistentVolumeClaim (data sources) ──
# Spec: apiserver.md 5.2 (PersistentVolume).


#: what a claim's dataSource may name
COPYABLE = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
OLD_SOURCES = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")


class PersistentVolumeStrategy(Strategy):
    """What the server does to persistent volumes."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Start pending, now."""
        new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": context.now}

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Note the time of a change of phase, unless the writer named it."""
        before, after = old.get("status") or {}, new.get("status") or {}
        if before.get("phase") != after.get("phase") and before.get("lastPhaseTransitionTime") == after.get(
            "lastPhaseTransitionTime"
        ):
            new["status"] = {**after, "lastPhaseTransitionTime": context.now}

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterator[str]:
        """Yield what will not work for long."""
        spec = new.get("spec") or {}
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            yield (
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
                "recommended approach is to use dynamic provisioning."
            )
        required = (spec.get("nodeAffinity") or {}).get("required") or {}
        for i, term in enumerate(required.get("nodeSelectorTerms") or ()):
            for j, expression in enumerate(term.get("matchExpressions") or ()):
                if (key := expression.get("key")) in OLD_LABELS:
                    at = f"spec.nodeAffinity.required.nodeSelectorTerms[{i}].matchExpressions[{j}].key"
                    yield f"{at}: {key} is {OLD_LABELS[key]}"
        for name in OLD_SOURCES:
            if spec.get(name) is not None:
                yield f"spec.{'storageOS' if name == 'storageos' else name}: {OLD_VOLUMES[name]}"


class PersistentVolumeClaimStrategy(Strategy):
    """What the server does to claims for storage."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Keep only sources that can be copied from, and let each of the two fields fill the other."""
        super().prepare_create(kind, new, context)
        spec = new.get("spec") or {}
        source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
        if source is not None:
            what = (source.get("apiGroup") or "", source.get("kind"))
            if what not in COPYABLE:
                spec.pop("dataSource")
                source = None
        if reference is not None and reference.get("namespace"):
            return
        if source is not None and reference is None:
            spec["dataSourceRef"] = {"apiGroup": None, **source}
        elif reference is not None and source is None:
            spec["dataSource"] = {"apiGroup": None, **reference}
