"""Why do taints of devices drive pods out? As the change left the devices, by pod.

Not here: why other pods go (weir.whatif.history), which evictions there are (weir.devices.inventory).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from weir.devices.eviction import Eviction
from weir.devices.inventory import Inventory
from weir.gates import Gates
from weir.objects.core import Taint
from weir.simulation.cluster import Cluster
from weir.whatif.history import Cause, Why

_KINDS: Final = ("ResourceSlice", "ResourceClaim", "DeviceTaintRule", "DeviceClass")


def device_causes(cluster: Cluster, gates: Gates) -> dict[str, Cause]:
    """Return the cause for every pod of *cluster* that has to leave because of its devices."""
    if not cluster.list("ResourceClaim"):
        return {}
    documents = [
        {"apiVersion": "resource.k8s.io/v1", "kind": kind, **each}
        for kind in _KINDS
        for each in cluster.list(kind)
    ]
    documents += [{"apiVersion": "v1", "kind": "Pod", **each} for each in cluster.list("Pod")]
    now = cluster.now
    found = Inventory.of(documents, gates).evictions(now)
    return {key: _cause(eviction, now) for key, eviction in found.items()}


def _cause(eviction: Eviction, now: datetime) -> Cause:
    first = min(eviction.reasons, key=lambda reason: reason.due)
    granted = int((first.due - now).total_seconds())
    taint = Taint(first.taint.taint.key, first.taint.taint.value, first.taint.taint.effect)
    return Cause(Why.DEVICE_TAINT, taint, str(first.taint.origin), granted if granted > 0 else None)
