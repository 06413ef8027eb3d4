"""Workloads and pods as documents, and what controllers decide about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from weir.controllers.runtime.listers import Listers
from weir.gates import ALL_FEATURES

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KINDS = {
    "ConfigMap": "v1",
    "Secret": "v1",
    "ResourceQuota": "v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "DaemonSet": "apps/v1", "StatefulSet": "apps/v1",
    "Job": "batch/v1", "CronJob": "batch/v1", "Pod": "v1", "Service": "v1", "ControllerRevision": "apps/v1",
    "Endpoints": "v1", "Node": "v1",
}  # fmt: skip


def printed(at=T0):
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def made(kind, name, *, labels=None, owner=None, uid="", **rest):
    """Return an object as the server keeps it."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": printed(),
        "labels": labels or {},
        **rest.pop("metadata", {}),
    }
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return {"apiVersion": KINDS[kind], "kind": kind, "metadata": metadata, **rest}


def pod(name, *, owner=None, labels=None, phase="Running", ready=True, node="n0", status=None, **rest):
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": printed()}]
    return made(
        "Pod",
        name,
        owner=owner,
        labels=labels or {"app": "web"},
        spec={"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})},
        status={"phase": phase, "conditions": conditions, **(status or {})},
        **rest,
    )


def workload(kind, name="web", *, status=None, metadata=None, labels=None, template=None, **spec):
    labels = labels or {"app": "web"}
    inner = template or {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    document = made(
        kind, name, spec={"selector": {"matchLabels": labels}, "template": inner, **spec}, status=status or {}
    )
    document["metadata"].update(metadata or {})
    return document


def decide(controller, key, documents, now=T0):
    """Return what *controller* wants done about *key* in a cluster of *documents*."""
    listers = Listers.of(documents, controller.kinds)
    return list(controller.reconcile(key, listers, now))


def of(controller_class):
    return controller_class(ALL_FEATURES)


def only(kind, actions):
    """Return the actions of one type."""
    return [action for action in actions if isinstance(action, kind)]
