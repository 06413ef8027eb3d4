"""Scale documents: made from a workload, and applied to it.

Spec: apiserver.md 12 "Subresources". For custom resources the definition gives the paths of the counts.
"""

from __future__ import annotations

from typing import Any

from weir.customresources.field_paths import find_at
from weir.customresources.served import CustomResourceKind
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.selectors import labels

__all__ = ["SCALE", "path_of", "replicas_of", "scale_of", "scaled"]

Document = dict[str, Any]
SCALE = by_kind("autoscaling/v1", "Scale")


def scale_of(kind: Kind, workload: Document) -> Document:
    """Return the Scale of a workload."""
    if isinstance(kind, CustomResourceKind):
        return _custom_scale(kind, workload)
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    status: Document = {"replicas": (workload.get("status") or {}).get("replicas", 0)}
    selector = spec.get("selector")
    if kind.kind == "ReplicationController":
        selector = {"matchLabels": selector} if selector else None
    text = str(labels.from_object(selector) or "")
    if text:
        status["selector"] = text
    return _shown(metadata, spec.get("replicas"), status)


def _shown(metadata: Document, replicas: int | None, status: Document) -> Document:
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in names if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _custom_scale(kind: CustomResourceKind, found: Document) -> Document:
    """Return the Scale of a custom resource, whose definition says where the counts stand."""
    paths = kind.says.scale
    replicas, selector = find_at(found, paths.get("statusReplicasPath") or ""), ""
    if paths.get("labelSelectorPath"):
        selector = find_at(found, paths["labelSelectorPath"])
    status: Document = {"replicas": replicas if isinstance(replicas, int) else 0}
    if isinstance(selector, str) and selector:
        status["selector"] = selector
    return _shown(found["metadata"], replicas_of(kind, found), status)


def scaled(kind: Kind, old: Document, replicas: int) -> Document:
    """Return *old* with as many replicas."""
    new = {**old, "metadata": dict(old["metadata"])}
    if not isinstance(kind, CustomResourceKind):
        return {**new, "spec": {**old["spec"], "replicas": replicas}}
    inside = new
    *way, last = path_of(kind).removeprefix(".").split(".")
    for name in way:
        inside[name] = dict(inside.get(name) or {})
        inside = inside[name]
    inside[last] = replicas
    return new


def path_of(kind: CustomResourceKind) -> str:
    """Return where the definition says that the wanted replicas stand."""
    return kind.says.scale.get("specReplicasPath") or ""


def replicas_of(kind: CustomResourceKind, workload: Document) -> int | None:
    """Return how many replicas a custom resource wants, None when it does not say."""
    found = find_at(workload, path_of(kind))
    return found if isinstance(found, int) else None
