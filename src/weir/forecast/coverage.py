"""What a forecast cannot tell: questions that need a whole control plane with its API server.

Each reason names what the question or the cluster has that only a copy of the control plane plays
(weir.simulation.cluster).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weir.simulation.drivers.device_models import DEVICES

Document = Mapping[str, Any]
_KINDS: Final = {
    "ResourceQuota": "quotas are counted by the API server",
    "HorizontalPodAutoscaler": "an autoscaler reads what pods use from the API server",
    "CustomResourceDefinition": "custom resources are served by the API server",
}
#: What judges or changes every object that is applied.
_ADMISSION: Final = frozenset(
    {
        "MutatingAdmissionPolicy",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingWebhookConfiguration",
    }
)


def needs_control_plane(documents: Iterable[Document]) -> str:
    """Return why a cluster of *documents* cannot be forecast without a control plane, "" if it can."""
    for document in documents:
        kind, metadata = document.get("kind"), document.get("metadata") or {}
        if kind in _KINDS:
            return _KINDS[str(kind)]
        if kind == "Namespace" and metadata.get("deletionTimestamp"):
            return f"namespace {metadata.get('name')} is being emptied through the API server"
        if kind == "Node" and DEVICES in (metadata.get("annotations") or {}):
            return f"simulated drivers publish the devices of node {metadata.get('name')}"
    return ""


def manifests_need_control_plane(manifests: Iterable[Document], documents: Iterable[Document]) -> str:
    """Return why *manifests* cannot be applied to a cluster of *documents* without a control plane, "" if they can."""
    for manifest in manifests:
        kind = str(manifest.get("kind"))
        if kind in _KINDS:
            return _KINDS[kind]
        if kind in _ADMISSION:
            return f"a {kind} is called by the API server"
        if kind == "Namespace":
            return "what belongs to a namespace from its start is made by a control plane"
    judges = next((str(each["kind"]) for each in documents if each.get("kind") in _ADMISSION), "")
    return f"what is applied passes a {judges}, which the API server calls" if judges else ""
