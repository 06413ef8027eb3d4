"""Completes a snapshot with what dumps leave out, so that a cluster can run on it.

A dump is rarely whole: `kubectl get nodes,pods -A` has no owners, no service accounts, no priority classes. In the copy
they must be there, or their pods would be collected as garbage and new ones refused. An owner that was not collected is
inferred from its pods: as many as there are now, alike. What a snapshot does not say is not held against a node or pod:
room on nodes without allocatable, volumes and devices when none were collected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from weir.explain.phrases import counted
from weir.objects.pod_usage import PREFIX, RESOURCES
from weir.simulation.kubelet.node_classes import FAILED
from weir.values.quantity import Quantity, find_quantity
from weir.whatif.missing_owners import VERSIONS, add_owners, add_revisions
from weir.whatif.pod_references import add_named
from weir.whatif.snapshot import Snapshot
from weir.world import flatten

Document = dict[str, Any]
_DEVICES: Final = frozenset(
    {"DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule"}
)
_PLENTY: Final = {
    "cpu": str(2**30),
    "memory": str(2**50),
    "ephemeral-storage": str(2**50),
    "pods": str(2**30),
}
_PLENTY_OF_THE_REST: Final = str(2**40)
#: The condition reported for a pod that runs, where its kubelet's report is missing.
_READY: Final = ("Initialized", "Ready", "ContainersReady", "PodScheduled")


@dataclass
class Completed:
    """Objects a cluster can live on, and what was made up for it."""

    documents: list[Document]
    notes: list[str] = field(default_factory=list)


def complete(documents: Iterable[Document], now: datetime) -> Completed:
    """Return *documents*, read as their kinds, with everything that a living cluster needs beside them."""
    snapshot = Snapshot(now)
    for document in flatten(documents):
        snapshot.add(document)
    _devices(snapshot)
    for pod in snapshot.of("Pod").values():
        _pod(snapshot, pod)
    add_owners(snapshot)
    add_revisions(snapshot)
    _nodes(snapshot)
    for pod in snapshot.of("Pod").values():
        add_named(snapshot, pod)
    _loads(snapshot)
    return Completed(list(snapshot.objects()), snapshot.notes)


def _devices(snapshot: Snapshot) -> None:
    """Where nothing about devices was collected, pods are taken to ask for none."""
    if any(snapshot.held.get(kind) for kind in _DEVICES):
        return
    asked = False
    for held in snapshot.held.values():
        for document in held.values():
            template = document if document["kind"] == "Pod" else (document.get("spec") or {}).get("template")
            if isinstance(template, dict) and (template.get("spec") or {}).pop("resourceClaims", None):
                asked = True
    if asked:
        snapshot.notes.append("devices: none were collected")


def _pod(snapshot: Snapshot, pod: Document) -> None:
    """Let a pod that runs say so as its kubelet would."""
    status = pod.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"
    for owner in pod["metadata"].get("ownerReferences") or ():
        owner["apiVersion"] = owner.get("apiVersion") or VERSIONS.get(owner.get("kind", ""), "v1")
        name = (pod["metadata"]["namespace"], owner.get("name", ""))
        if not owner.get("uid"):
            there = snapshot.of(owner.get("kind", "")).get(name)
            owner["uid"] = (
                there["metadata"]["uid"] if there else "/".join((owner.get("kind", "").lower(), *name))
            )
    if not pod["spec"].get("nodeName") or status["phase"] not in ("Running", ""):
        return
    since = status["startTime"] = status.get("startTime") or pod["metadata"]["creationTimestamp"]
    if not any(c.get("type") == "Ready" for c in status.get("conditions") or ()):
        status["conditions"] = [
            *(status.get("conditions") or ()),
            *({"type": type, "status": "True", "lastTransitionTime": since} for type in _READY),
        ]
    status["podIP"] = status.get("podIP") or "10.0.0.1"
    known = {each["name"]: each for each in status.get("containerStatuses") or ()}
    status["containerStatuses"] = [
        _running(each, known.get(each["name"]) or {}, since) for each in pod["spec"].get("containers") or ()
    ]


def _running(container: Document, said: Document, since: str) -> Document:
    """Return what a kubelet says of a container that runs, where *said* does not say how it is."""
    if said.get("state"):
        return said
    started = {"state": {"running": {"startedAt": since}}, "ready": True, "started": True}
    return {
        "restartCount": 0,
        "imageID": "",
        **said,
        "name": container["name"],
        "image": container.get("image", ""),
        **started,
    }


def _nodes(snapshot: Snapshot) -> None:
    """Give nodes that do not say what they have plenty, and switch off those that fell silent."""
    asked = {
        name: _PLENTY_OF_THE_REST
        for pod in snapshot.of("Pod").values()
        for container in (*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ()))
        for name in (container.get("resources") or {}).get("requests") or ()
    }
    unmeasured = 0
    for node in snapshot.of("Node").values():
        status = node.setdefault("status", {})
        said = status.get("allocatable") or status.get("capacity")
        if not said or "pods" not in said:
            unmeasured += not said
            status["allocatable"] = {
                **({} if said else {**asked, **_PLENTY}),
                "pods": _PLENTY["pods"],
                **(said or {}),
            }
        if any(
            c.get("type") == "Ready" and c.get("status") == "Unknown" for c in status.get("conditions") or ()
        ):
            node["metadata"]["annotations"] = {
                **(node["metadata"].get("annotations") or {}),
                FAILED: "silent",
            }
    if unmeasured:
        snapshot.notes.append(f"how much room {counted(unmeasured, 'node')} without allocatable would have")


def _loads(snapshot: Snapshot) -> None:
    """Let the pods of an autoscaler's target use together what it last measured: the load stays as it was."""
    for (namespace, _), autoscaler in snapshot.of("HorizontalPodAutoscaler").items():
        reference, status = autoscaler["spec"]["scaleTargetRef"], autoscaler.get("status") or {}
        target = snapshot.of(reference.get("kind", "")).get((namespace, reference.get("name", "")))
        for metric in status.get("currentMetrics") or ():
            measured = metric.get("resource") or {}
            value = find_quantity(str((measured.get("current") or {}).get("averageValue")))
            if target is None or value is None or measured.get("name") not in RESOURCES:
                continue
            total = Quantity(value.milli_value * (status.get("currentReplicas") or 0), -3)
            annotations = target["metadata"].setdefault("annotations", {})
            annotations.setdefault(f"{PREFIX}{measured['name']}-load", str(total))
