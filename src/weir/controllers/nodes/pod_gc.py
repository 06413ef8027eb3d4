"""Pod garbage collector: removes terminated, orphaned and stuck pods.

These are terminated pods beyond a threshold, pods whose node is gone (after a quarantine, in case it comes back),
unscheduled pods with a deletionTimestamp, and terminating pods on a node tainted out-of-service. Only such pods are
visited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.controllers.runtime.controller import Action, Controller, Delete, Patch, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Node, Pod
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import NODES, PODS
from weir.objects.times import format_time
from weir.taints.wellknown import OUT_OF_SERVICE

CHECK_SECONDS: Final = 20.0
KEEP_ENDED: Final = 12500
QUARANTINE: Final = timedelta(seconds=40)


class CheckKey(NamedTuple):
    """Time to look at every pod."""

    due: str = "check"


class PodGc(Controller):
    """The pod garbage collector."""

    name = "pod-garbage-collector"
    kinds: Sequence[Kind] = (NODES, PODS)
    reads = {PODS: ("spec",)}
    first_keys = (CheckKey(),)

    def __init__(self, gates: Gates, *, keep_ended: int = KEEP_ENDED) -> None:
        self._keep_ended = keep_ended
        self._unsure: dict[str, None] = {}  # nodes that may be missing
        self._missing: dict[str, datetime] = {}  # node → since when it has been missing

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[CheckKey]:
        """Nothing is urgent here; but a pod that is bound, or a node that goes, makes the node worth a look."""
        if kind is NODES:
            if new is None:
                self._unsure[old.name] = None
        elif new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
            self._unsure[new.spec.node_name] = None
        return iter(())

    def reconcile(self, key: CheckKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield which pods to remove now, and when to look again."""
        yield from self._ended(listers.pods_ending("ended"))
        yield from self._orphans(listers, now)
        for pod in listers.pods_ending("deleting"):
            if not pod.spec.node_name or _out_of_service(listers.node(pod.spec.node_name)):
                yield _remove(pod)
        yield WakeAt(key, now + timedelta(seconds=CHECK_SECONDS))

    def _ended(self, ended: list[Pod]) -> Iterator[Action]:
        surplus = len(ended) - self._keep_ended
        if surplus > 0:
            ended.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
            for pod in ended[:surplus]:
                yield _remove(pod)

    def _orphans(self, listers: Listers, now: datetime) -> Iterator[Action]:
        missing = [name for name in self._unsure if listers.node(name) is None and listers.pods_on(name)]
        self._unsure = dict.fromkeys(missing)
        self._missing = {name: self._missing.get(name, now) for name in sorted(missing)}
        for pod in [pod for name in self._missing for pod in listers.pods_on(name)]:
            since = self._missing.get(pod.spec.node_name)
            if since is None or now - since < QUARANTINE:
                continue
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": format_time(now),
            }
            status: dict[str, Any] = {"conditions": [condition]}
            if not pod.terminated:
                status["phase"] = "Failed"
            metadata = pod.metadata
            patch = {"metadata": {"uid": metadata.uid}, "status": status}
            yield Patch(PODS, metadata.name, metadata.namespace, patch, STRATEGIC_MERGE_PATCH, "status")
            yield _remove(pod)


def _out_of_service(node: Node | None) -> bool:
    if node is None:
        return False
    ready = node.status.condition("Ready")
    marked = any(taint.key == OUT_OF_SERVICE for taint in node.taints)
    return marked and (ready is None or ready.status != "True")


def _remove(pod: Pod) -> Delete:
    metadata = pod.metadata
    return Delete(PODS, metadata.name, metadata.namespace, metadata.uid, grace_period_seconds=0)
