"""The kubelets of a forecast: pods are admitted, live and end by the rules of simulated nodes.

Pods with a lifetime (weir.forecast.lifetimes) start and end after its seconds; the others are played one by one by the
rules of weir.simulation.kubelet.pod_worker. A pod that the scheduler placed has room on its node: only other pods are
held against those that are there already. Nodes do not report: one that is well stays in time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from weir import errors
from weir.client.cache import Cache, ObjectKey
from weir.forecast.client import ObjectsClient
from weir.forecast.controllers import EventLog
from weir.forecast.lifetimes import Lifetime, Lifetimes, Step
from weir.forecast.objects import MOST_STATUSES, Objects
from weir.forecast.timeline import Timeline
from weir.forecast.views import Views
from weir.forecast.work_queue import WorkQueue
from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.kinds import NODES, PODS
from weir.objects.times import format_time
from weir.observe.logs import Log
from weir.simulation.kubelet.admit import admit_scheduled, admit_system
from weir.simulation.kubelet.behaviour import Life
from weir.simulation.kubelet.heartbeats import HeartbeatLedger
from weir.simulation.kubelet.node_classes import is_off
from weir.simulation.kubelet.pod_worker import PodKey, PodWorker, grace_of, pod_key
from weir.taints.expression import Expressions

Document = dict[str, Any]


class _BoundPods:
    """The pods on nodes, as an informer of kubelets shows them."""

    def __init__(self, objects: Objects, shared: Cache[Pod]) -> None:
        self._objects, self._shared = objects, shared

    def get(self, key: ObjectKey) -> Document | None:
        return self.find(key.namespace, key.name)

    def find(self, namespace: str, name: str) -> Document | None:
        """Return a pod that has a node, or None."""
        found = self._objects.find(PODS, namespace, name)
        return found if found is not None and found["spec"].get("nodeName") else None

    def by_index(self, name: str, value: str) -> list[Document]:
        """Return the pods on a node, in the order in which they came."""
        metadatas = (view.metadata for view in self._shared.by_index(name, value))
        return [self._objects.get(PODS, each.namespace, each.name) for each in metadatas]


class Kubelets(PodWorker):
    """The kubelets of all nodes."""

    def __init__(
        self,
        timeline: Timeline,
        objects: Objects,
        client: ObjectsClient,
        shared: Cache[Any],
        views: Views,
        gates: Gates,
        seed: int,
        ledger: HeartbeatLedger,
        life_of: Callable[[Document], Life],
    ) -> None:
        self._objects, self._ledger, self._shared_views = objects, ledger, views
        self._timeline, self._lifetimes = timeline, Lifetimes(objects)
        self._node_lives: dict[str, tuple[Document, Life]] = {}
        self._evaluate = Expressions().evaluate
        self._live: dict[str, tuple[Lifetime, float]] = {}  # uid → lifetime, when it was admitted
        self._stopping: set[str] = set()
        #: by the identity of a status that pods share: itself, step, now, when admitted, and what came of it
        self._reached: dict[int, tuple[Document, Step, str, float, Document]] = {}
        self._bound = _BoundPods(objects, shared)
        queue = WorkQueue(timeline, self._sync, self._failed)
        super().__init__(
            client,
            gates,
            timeline,
            self._bound,  # type: ignore[arg-type]
            queue,  # type: ignore[arg-type]
            EventLog(client, timeline, "kubelet", []),
            random.Random(seed + 200),
            life_of,
            Log("weir.forecast"),
        )
        objects.listen(NODES, self._node_changed)
        objects.listen(PODS, self._pod_changed)

    def start(self) -> None:
        """Look at every node and pod there is."""
        for node in self._objects.documents(NODES):
            self._node_changed(None, node)
        for pod in self._objects.documents(PODS):
            self._pod_changed(None, pod)

    # ── changes ──────────────────────────────────────────────────────────────────────────────────

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None or is_off(new):
            self._ledger.forget((new or old or {})["metadata"]["name"])
        else:
            self._ledger.begin(new["metadata"]["name"])
        if new is not None and (old is None or (is_off(old) and not is_off(new))):
            for pod in self._pods.by_index("node", new["metadata"]["name"]):
                self.write_again(pod)
                self._queue.add(pod_key(pod))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            assert old is not None
            if old["spec"].get("nodeName"):
                self.forget(old["metadata"]["uid"])
                self._live.pop(old["metadata"]["uid"], None)
                self._stopping.discard(old["metadata"]["uid"])
        elif new["spec"].get("nodeName"):
            uid = new["metadata"]["uid"]
            if uid not in self._live:
                bound = old is not None and not old["spec"].get("nodeName")
                if (
                    uid not in self._lives
                    and (bound or old is None)
                    and self._begin_lifetime(new, bound=bound)
                ):
                    return
                self._queue.add(pod_key(new))
            elif uid not in self._stopping and new["metadata"].get("deletionTimestamp"):
                self._stopping.add(uid)
                self._stop_lifetime(new)

    def _node_of(self, pod: Document) -> Document | None:
        """Return the node of a pod, if it is at work."""
        node = self._objects.find(NODES, "", pod["spec"]["nodeName"])
        return None if node is None or is_off(node) else node

    def _life_on(self, node: Document) -> Life:
        name = node["metadata"]["name"]
        known = self._node_lives.get(name)
        if known is None or known[0] is not node:
            known = self._node_lives[name] = (node, self._life_of(node))
        return known[1]

    # ── pods with a lifetime ─────────────────────────────────────────────────────────────────────

    def _begin_lifetime(self, pod: Document, *, bound: bool) -> bool:
        """Let a pod live its lifetime, if it has one; of pods that are there already, those that run undisturbed."""
        node, metadata, status = self._node_of(pod), pod["metadata"], pod.get("status") or {}
        if node is None or metadata.get("deletionTimestamp"):
            return False
        if not bound and (
            status.get("phase") != "Running" or not _is_ready(status) or _has_restarted(status)
        ):
            return False
        lifetime = self._lifetimes.of(pod, self._life_on(node))
        if lifetime is None:
            return False
        now = self._timeline.time()
        if not bound:
            self._live[metadata["uid"]] = (lifetime, now - lifetime.steps[-1].after)
            return True
        view, node_view = self._shared_views.pod(pod), self._shared_views.node(node)
        if not (admit_system(pod, node) and admit_scheduled(view, node_view, self._gates, self._evaluate)):
            return False  # what refuses it writes so
        self._live[metadata["uid"]] = (lifetime, now)
        self._admitted.add(metadata["uid"])
        for step in lifetime.steps:
            self._timeline.after(step.after, lambda step=step: self._reach(pod, step))  # type: ignore[misc]
        return True

    def _reach(self, pod: Document, step: Step) -> None:
        """Write the status of a pod that came to its next state."""
        metadata = pod["metadata"]
        uid = metadata["uid"]
        if uid not in self._live or uid in self._stopping:
            return
        found = self._bound.find(metadata["namespace"], metadata["name"])
        if found is None or found["metadata"]["uid"] != uid or self._node_of(found) is None:
            return
        now, before, began = self._objects.now, found["status"], self._live[uid][1]
        alike = self._reached.get(id(before))
        if alike is None or alike[:4] != (before, step, now, began) or alike[0] is not before:
            start = self._timeline.at(began - self._timeline.time() + self._timeline.monotonic())
            if len(self._reached) >= MOST_STATUSES:
                self._reached.clear()
            status = _reached(before, step, now, format_time(start))
            alike = self._reached[id(before)] = (before, step, now, began, status)
        self._objects.put(PODS, {**found, "metadata": dict(found["metadata"]), "status": alike[4]})

    def _stop_lifetime(self, pod: Document) -> None:
        """Let a pod that is being deleted end after its time."""
        lifetime, began = self._live[pod["metadata"]["uid"]]
        now = self._timeline.time()
        grace, age = grace_of(pod["metadata"], now), now - began
        if age < lifetime.steps[-1].after:
            seconds = lifetime.stops_after(age, grace)
        else:
            seconds = lifetime.seconds_to_stop(grace)
        self._timeline.after(seconds, lambda: self._end(pod))

    def _end(self, pod: Document) -> None:
        """Let the object of a pod go whose last container has ended."""
        metadata = pod["metadata"]
        found = self._bound.find(metadata["namespace"], metadata["name"])
        if found is None or found["metadata"]["uid"] != metadata["uid"] or self._node_of(found) is None:
            return
        if found["metadata"].get("finalizers"):  # set meanwhile
            self._live.pop(metadata["uid"], None)
            self._queue.add(pod_key(found))
            return
        self._objects.remove(PODS, found)

    # ── pods that are played by themselves ───────────────────────────────────────────────────────

    def _others(self, pod: Document) -> Iterator[Pod]:
        for other in self._pods.by_index("node", pod["spec"]["nodeName"]):
            uid = other["metadata"]["uid"]
            if uid == pod["metadata"]["uid"]:
                continue
            life = self._lives.get(uid)
            if uid in self._live or (uid in self._admitted and life is not None and not life.over):
                view = self._shared_views.pod(other)
                if not view.terminated:
                    yield view

    async def _preempt(self, victim: Pod) -> None:
        uid = victim.metadata.uid
        if self._live.pop(uid, None) is not None:
            pod = self._objects.get(PODS, victim.metadata.namespace, victim.metadata.name)
            node = self._node_of(pod)
            assert node is not None
            await self._begin(pod, node)
        await super()._preempt(victim)

    async def _sync(self, key: PodKey) -> None:
        pod = self._bound.find(key.namespace, key.name)
        if pod is None or pod["metadata"]["uid"] in self._live:
            return
        node = self._node_of(pod)
        if node is not None:
            await self.sync(pod, node)

    def _failed(self, key: PodKey, error: Exception) -> None:
        if not isinstance(error, errors.WeirError):
            self._log.exception("a kubelet of a forecast failed", key=str(key))


def _reached(before: Document, step: Step, now: str, start: str) -> Document:
    """Return the status of a pod at *step*; what was so before keeps the time since when it is."""
    since = {each["type"]: each for each in before.get("conditions") or ()}
    conditions = []
    for each in step.status["conditions"]:
        earlier = since.pop(each["type"], None)
        same = earlier is not None and earlier.get("status") == each["status"]
        at = earlier.get("lastTransitionTime") if same and earlier is not None else now
        conditions.append({**each, "lastTransitionTime": at})
    return {**before, **step.status, "startTime": start, "conditions": [*since.values(), *conditions]}


def _is_ready(status: Document) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())


def _has_restarted(status: Document) -> bool:
    """Return whether a container does not simply run."""
    parts = ("containerStatuses", "initContainerStatuses")
    return any(
        each.get("restartCount") or not (each.get("state") or {}).get("running")
        for part in parts
        for each in status.get(part) or ()
    )
