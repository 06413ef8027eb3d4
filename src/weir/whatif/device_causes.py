"""The cause of an eviction by a device taint, as decided by the controller that deletes the pod.

Valid only while the pod is being deleted: a moment before, the change may not have been made whole; a moment later the
pod, its claim and the controller's decision are gone. Other causes are in weir.whatif.history.
"""

from __future__ import annotations

from datetime import datetime

from weir.controllers.devices.eviction_queue import PodKey
from weir.controllers.devices.taint_eviction import DeviceTaintEviction
from weir.devices.eviction import Eviction, moment
from weir.objects.core import Taint
from weir.whatif.changes.change import ChangedCluster
from weir.whatif.history import Cause, PodLife, Why


def device_cause(cluster: ChangedCluster, began: datetime, life: PodLife) -> Cause:
    """Return the cause for a pod that is just being deleted because of its devices.

    A taint without timeAdded is one that the copy held when it *began*: to others the server gives it.
    """
    pod = PodKey(life.namespace, life.name, life.uid)
    for worker in cluster.plane.controllers.workers:
        if isinstance(worker.controller, DeviceTaintEviction) and pod in worker.controller.pending:
            return _cause(worker.controller.pending[pod], began)
    return Cause(Why.DEVICE_TAINT)


def _cause(eviction: Eviction, began: datetime) -> Cause:
    first = min(eviction.reasons, key=lambda reason: reason.due)
    found = first.taint.taint
    granted = int((first.due - (moment(found.time_added) or began)).total_seconds())
    taint = Taint(found.key, found.value, found.effect)
    return Cause(Why.DEVICE_TAINT, taint, str(first.taint.origin), granted if granted > 0 else None)
