"""Lists every object of several kinds from a live cluster.

Each kind is read in the newest served version. A kind that is forbidden or not served is left out and named with the
reason. Each kind is listed at its own revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.client.api import Client
from weir.errors import Forbidden, NotFound
from weir.objects.kind import Kind
from weir.objects.kinds import find_kind

_RESOURCE: Final = tuple(f"resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1beta1", "v1alpha3"))
#: Every kind that decides where pods run and how long, with its versions, newest first.
VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Node": ("v1",),
    "Pod": ("v1",),
    "Namespace": ("v1",),
    "PersistentVolume": ("v1",),
    "PersistentVolumeClaim": ("v1",),
    "StorageClass": ("storage.k8s.io/v1",),
    "DeviceClass": _RESOURCE,
    "ResourceSlice": _RESOURCE,
    "ResourceClaim": _RESOURCE,
    "ResourceClaimTemplate": _RESOURCE,
    "DeviceTaintRule": _RESOURCE,
    "Deployment": ("apps/v1",),
    "ReplicaSet": ("apps/v1",),
    "StatefulSet": ("apps/v1",),
    "DaemonSet": ("apps/v1",),
    "Job": ("batch/v1",),
    "CronJob": ("batch/v1",),
    "ReplicationController": ("v1",),
    "Event": ("v1",),
    "LimitRange": ("v1",),
    "ResourceQuota": ("v1",),
    "ServiceAccount": ("v1",),
    "PriorityClass": ("scheduling.k8s.io/v1",),
    "RuntimeClass": ("node.k8s.io/v1",),
    "PodDisruptionBudget": ("policy/v1",),
    "CSINode": ("storage.k8s.io/v1",),
    "CSIDriver": ("storage.k8s.io/v1",),
    "CSIStorageCapacity": ("storage.k8s.io/v1",),
    "VolumeAttachment": ("storage.k8s.io/v1",),
    "Service": ("v1",),
    "ControllerRevision": ("apps/v1",),
    "HorizontalPodAutoscaler": ("autoscaling/v2",),
}
PLACEMENT: Final = tuple(list(VERSIONS)[:6])
DEVICES: Final = tuple(list(VERSIONS)[6:11])
#: What else creating and placing a pod reads: admission, drivers of volumes, budgets, what pods are spread by.
CREATION: Final = (
    "LimitRange", "ResourceQuota", "ServiceAccount", "PriorityClass", "RuntimeClass", "PodDisruptionBudget",
    "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment", "Service", "ReplicationController",
    "ReplicaSet", "StatefulSet",
)  # fmt: skip

#: Kinds that a simulated copy of the cluster needs.
WHAT_IF: Final = tuple(kind for kind in VERSIONS if kind not in ("Event", "CronJob"))

Tick = Callable[[int, int], None]


#: Why a kind is missing.
MAY_NOT_LIST: Final = "you may not list them"
NOT_SERVED: Final = "the server does not have that kind"


@dataclass(frozen=True)
class Missing:
    """A kind that could not be read, and why: an answer that needs it cannot be given."""

    kind: str
    plural: str
    why: str


@dataclass(frozen=True)
class Snapshot:
    """The objects of a cluster, as documents that name their kind, and the kinds that could not be read."""

    documents: list[Any]
    missing: tuple[Missing, ...] = ()
    listed: tuple[str, ...] = ()  #: kinds of which every object was read, or that the cluster does not serve


async def snapshot(
    client: Client,
    kinds: Iterable[str] = (*PLACEMENT, *DEVICES),
    tick: Tick | None = None,
    namespace: str = "",
) -> Snapshot:
    """Return every object of *kinds*, or of one *namespace*; *tick* receives how many kinds are read, of how many."""
    wanted = tuple(kinds)
    documents: list[Any] = []
    missing: list[Missing] = []
    listed: list[str] = []
    for done, name in enumerate(wanted):
        absent: Missing | None = None
        for version in VERSIONS[name]:
            kind = find_kind(version, name)
            if kind is None:
                continue
            absent = None
            try:
                documents += await _all(client, kind, namespace if kind.namespaced else "")
            except NotFound:
                absent = Missing(name, kind.plural, NOT_SERVED)
                continue
            except Forbidden:
                absent = Missing(name, kind.plural, MAY_NOT_LIST)
            break
        if absent is not None:
            missing.append(absent)
        if absent is None or absent.why == NOT_SERVED:
            listed.append(name)
        if tick is not None:
            tick(done + 1, len(wanted))
    return Snapshot(documents, tuple(missing), tuple(listed))


async def _all(client: Client, kind: Kind, namespace: str) -> list[Any]:
    listed = await client.list(kind, namespace)
    return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in listed.documents()]
