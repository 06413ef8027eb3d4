"""Adds the objects that pods refer to: namespace, service account, classes and volumes.

Without them an API server refuses the next pod like it. Claims are taken to be bound to volumes that every node can
reach where none were collected.
"""

from __future__ import annotations

from typing import Any

from weir.whatif.inferred_owners import class_of
from weir.whatif.snapshot import Snapshot

Document = dict[str, Any]


def add_named(snapshot: Snapshot, pod: Document) -> None:
    """See to it that what the pod names is there: its namespace, account, classes and volumes."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    snapshot.ensure(
        "v1",
        "Namespace",
        "",
        namespace,
        {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
    )
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    for name in {"default", account}:
        snapshot.ensure("v1", "ServiceAccount", namespace, name, {})
    name = spec.get("priorityClassName") or (class_of(spec["priority"]) if spec.get("priority") else "")
    if name:
        value: Document = {"value": spec.get("priority") or 0}
        if spec.get("preemptionPolicy"):
            value["preemptionPolicy"] = spec["preemptionPolicy"]
        snapshot.ensure("scheduling.k8s.io/v1", "PriorityClass", "", name, value)
    if name := spec.get("runtimeClassName"):
        overhead = {"overhead": {"podFixed": spec["overhead"]}} if spec.get("overhead") else {}
        snapshot.ensure("node.k8s.io/v1", "RuntimeClass", "", name, {"handler": name, **overhead})
    for volume in spec.get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim and not snapshot.collected("PersistentVolumeClaim"):
            _volume(snapshot, namespace, claim)


def _volume(snapshot: Snapshot, namespace: str, claim: str) -> None:
    """Bind a claim that was not collected to a volume that goes everywhere."""
    name = f"{namespace}-{claim}"
    amount = {"storage": "1Gi"}
    snapshot.ensure(
        "v1",
        "PersistentVolumeClaim",
        namespace,
        claim,
        {
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": amount},
                "volumeName": name,
                "storageClassName": "",
            },
            "status": {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": amount},
        },
        {"pv.kubernetes.io/bind-completed": "yes"},
    )
    reference = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": namespace,
        "name": claim,
    }
    reference["uid"] = snapshot.of("PersistentVolumeClaim")[namespace, claim]["metadata"]["uid"]
    snapshot.ensure(
        "v1",
        "PersistentVolume",
        "",
        name,
        {
            "spec": {
                "capacity": amount,
                "accessModes": ["ReadWriteMany"],
                "claimRef": reference,
                "nfs": {"server": "not-collected", "path": "/"},
                "persistentVolumeReclaimPolicy": "Retain",
            },
            "status": {"phase": "Bound"},
        },
    )
    note = "where volumes can go: none were collected"
    if note not in snapshot.notes:
        snapshot.notes.append(note)
