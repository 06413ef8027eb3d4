"""Lists every object of several kinds from a live cluster, in pages.

Each kind is read in the newest served version, at its own revision. A kind that is forbidden or not served, or that
expires again and again while it is read, is left out and named with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.client.api import Client
from weir.errors import Forbidden, Gone, NotFound
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
EXPIRED: Final = "the list expired while it was read, again and again"

PAGE: Final = 500
#: So often a list is begun again that expired while it was read; the last time it is read whole.
_TRIES: Final = 3


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
        items, absent = await read_kind(client, name, namespace)
        documents += items
        if absent is not None:
            missing.append(absent)
        if absent is None or absent.why == NOT_SERVED:
            listed.append(name)
        if tick is not None:
            tick(done + 1, len(wanted))
    return Snapshot(documents, tuple(missing), tuple(listed))


async def read_kind(
    client: Client, name: str, namespace: str = "", tick: Tick | None = None
) -> tuple[list[Any], Missing | None]:
    """Return every object of a kind, or why there is none; *tick* receives how many are read, of how many."""
    absent: Missing | None = None
    for version in VERSIONS[name]:
        kind = find_kind(version, name)
        if kind is None:
            continue
        try:
            return await _all(client, kind, namespace if kind.namespaced else "", tick), None
        except NotFound:
            absent = Missing(name, kind.plural, NOT_SERVED)
        except Forbidden:
            return [], Missing(name, kind.plural, MAY_NOT_LIST)
        except Gone:
            return [], Missing(name, kind.plural, EXPIRED)
    return [], absent


async def _all(client: Client, kind: Kind, namespace: str, tick: Tick | None) -> list[Any]:
    """Return a collection read in pages. Raises Gone when it expired each time it was begun."""
    for number in range(1, _TRIES + 1):
        items: list[Any] = []
        try:
            async for page in client.pages(kind, namespace, limit=PAGE if number < _TRIES else 0):
                items += (
                    {"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in page.documents()
                )
                if tick is not None:
                    tick(len(items), len(items) + page.remaining)
        except Gone:
            if number == _TRIES:
                raise
        else:
            return items
    raise AssertionError
