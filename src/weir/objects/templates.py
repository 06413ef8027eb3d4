"""Paths of pod templates in workloads, and the placeholder container of pods that never start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: Kind → path of the pod template (an object with metadata and spec). A Pod is its own template.
TEMPLATE_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "ReplicationController": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def find_template(document: Any) -> dict[str, Any] | None:
    """Return the pod template inside *document* (the pod itself for a Pod), or None when it has none.

    >>> find_template({"kind": "Job", "spec": {"template": {"spec": {"containers": []}}}})
    {'spec': {'containers': []}}
    """
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in TEMPLATE_PATHS:
        return None
    for part in TEMPLATE_PATHS[kind]:
        document = document.get(part) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else None


IMAGE: Final = "registry.k8s.io/pause:3.10"


def never_runs(image: str = IMAGE, **more: Any) -> dict[str, Any]:
    """Return the container; *more* are further fields of it.

    >>> never_runs()
    {'name': 'never-runs', 'image': 'registry.k8s.io/pause:3.10'}
    """
    return {"name": "never-runs", "image": image, **more}
