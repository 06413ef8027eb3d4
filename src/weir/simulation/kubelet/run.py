"""Thousands of kubelets in one process: they report, admit pods, and let them live and end.

Every node with the label `weir.dev/simulated=true` is played, wherever it was created. The annotation
`weir.dev/failed` switches a node off as if its plug were pulled, and taking it away switches it on again.
Not here: when nodes report (weir.simulation.kubelet.heartbeats), admission (.admit), what happens when (.phases), node
classes (.classes), devices and their driver (.driver_run).
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir import errors
from weir.client.api import STRATEGIC_MERGE_PATCH, Client
from weir.client.cache import Informer, ObjectKey, decode_described, wait_all_synced
from weir.client.events import ObjectReference, Recorder
from weir.client.queue import WorkQueue, work
from weir.clock import Clock
from weir.gates import Gates
from weir.objects.core import Node, Pod, ViewError, read
from weir.objects.kinds import by_kind
from weir.objects.resource import ResourceClaim
from weir.objects.times import format_time
from weir.observe.logs import Log
from weir.simulation.drivers.run import Drivers
from weir.simulation.kubelet.admit import Admission, admit, needs_admission
from weir.simulation.kubelet.claim_preparation import REASON as UNPREPARED
from weir.simulation.kubelet.claim_preparation import claim_names, unprepared
from weir.simulation.kubelet.heartbeat_ledger import HeartbeatLedger
from weir.simulation.kubelet.heartbeats import Reports
from weir.simulation.kubelet.node_classes import LIFE, SIMULATED, is_off
from weir.simulation.kubelet.pod_lifecycle import (
    Life,
    LifeError,
    ended_status,
    exit_code,
    lasts_seconds,
    stage_of,
    started_status,
)

PODS: Final = by_kind("v1", "Pod")
NODES: Final = by_kind("v1", "Node")
CLAIMS: Final = by_kind("resource.k8s.io/v1", "ResourceClaim")
PREPARE_AGAIN_SECONDS: Final = 5.0
WORKERS: Final = 16

Document = dict[str, Any]


class PodKey(msgspec.Struct, frozen=True):
    """A pod that something may have to happen to."""

    namespace: str
    name: str


def life_of(node: Document) -> Life:
    """Return how pods live on *node*, as its annotation says."""
    text = (node["metadata"].get("annotations") or {}).get(LIFE)
    if not text:
        return Life()
    try:
        return Life.read(msgspec.json.decode(text, type=dict[str, Any]))
    except (LifeError, msgspec.DecodeError):
        return Life()


@dataclass(frozen=True)
class Hosts:
    """Which nodes are played, and how."""

    selector: str = f"{SIMULATED}=true"  #: labels of the nodes; "" is every node
    report: bool = True  #: whether they renew their Leases and report their status
    life: Callable[[Document], Life] = life_of  #: how pods live on a node


class Kubelets:
    """All simulated kubelets of one process, over one client."""

    def __init__(
        self,
        client: Client,
        gates: Gates,
        clock: Clock,
        *,
        seed: int = 0,
        log: Log | None = None,
        ledger: HeartbeatLedger | None = None,
        hosts: Hosts | None = None,
    ) -> None:
        """With *ledger* (virtual time) reports that are not observed are postponed.

        *hosts* says which nodes are played, and how; the simulated ones unless given.
        """
        self._client, self._gates, self._clock = client, gates, clock
        self._hosts, self._ledger = hosts or Hosts(), ledger
        self._chance = random.Random(seed)
        self._log = log or Log("weir.simulation.kubelet")
        self._queue: WorkQueue[PodKey] = WorkQueue(clock)
        self._recorder = Recorder(client, clock, "kubelet")
        self._nodes: Informer[Document] = Informer(
            client, NODES, clock, decode_described, label_selector=self._hosts.selector, seed=seed
        )
        self._pods: Informer[Document] = Informer(
            client, PODS, clock, decode_described, field_selector="spec.nodeName!=", seed=seed + 1
        )
        self._pods.cache.add_index("node", _node_of)
        self._drivers = Drivers(client, clock, self._nodes, self._recorder, self._log)
        self._admitted: set[str] = set()  # uids of pods that were asked about
        self._views: dict[
            str, tuple[Document, Pod]
        ] = {}  # uid → the document last read as a view, and that view
        self._due: dict[str, tuple[str, float]] = {}  # uid → (stage, when it ends)
        self.reports = Reports(
            client, clock, self._nodes.cache, self._chance, failed=self._failed, ledger=ledger
        )
        self._addresses = 0
        self._expressions: Any = None

    async def run(self) -> None:
        """Play until cancelled."""
        parts = [self._nodes.run(), self._pods.run(), self._recorder.run()]
        if self._gates.enabled("DynamicResourceAllocation"):
            parts.append(self._drivers.run())
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            await wait_all_synced([self._nodes, self._pods])
            self._nodes.cache.listen(self._node_changed)
            self._pods.cache.listen(self._pod_changed)
            tasks += [
                asyncio.ensure_future(work(self._queue, self._pod, failed=self._failed))
                for _ in range(WORKERS)
            ]
            if self._hosts.report:
                tasks += self.reports.start()
            await asyncio.gather(*tasks)
        finally:
            self._queue.close()
            self.reports.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # ── changes ──────────────────────────────────────────────────────────────────────────────────

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        if self._hosts.report:
            self.reports.changed(old, new)
        elif self._ledger is not None:
            self._note_silently(old, new)
        if new is not None and (old is None or (is_off(old) and not is_off(new))):
            for pod in self._pods.cache.by_index("node", new["metadata"]["name"]):
                self._queue.add(_pod_key(pod))

    def _note_silently(self, old: Document | None, new: Document | None) -> None:
        """Let node lifecycle know which nodes are alive, where none of them says so itself."""
        assert self._ledger is not None
        if new is None or is_off(new):
            self._ledger.forget((new or old or {})["metadata"]["name"])
        else:
            self._ledger.begin(new["metadata"]["name"])

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            assert old is not None
            self._forget(old["metadata"]["uid"])
            return
        self._queue.add(_pod_key(new))

    def _forget(self, uid: str) -> None:
        self._admitted.discard(uid)
        self._views.pop(uid, None)
        self._due.pop(uid, None)

    def _failed(self, key: Hashable, error: Exception) -> None:
        if isinstance(error, errors.WeirError):
            self._log.debug("will be tried again", key=str(key), error=str(error))
            return
        try:
            raise error
        except Exception:
            self._log.exception("a simulated kubelet failed", key=str(key))

    # ── pods ─────────────────────────────────────────────────────────────────────────────────────

    async def _pod(self, key: PodKey) -> None:
        pod = self._pods.cache.get(ObjectKey(key.namespace, key.name))
        if pod is None:
            return
        node = self._nodes.cache.get(ObjectKey("", pod["spec"]["nodeName"]))
        if node is None or is_off(node):
            return  # not ours to play, or the node is off
        uid = pod["metadata"]["uid"]
        if uid not in self._admitted:
            self._admitted.add(uid)
            if not pod.get("status", {}).get("startTime") and not await self._admit(pod, node):
                return
        stage = stage_of(pod)
        if stage is None:
            self._due.pop(uid, None)
            return
        now = self._clock.monotonic()
        known = self._due.get(uid)
        if known is None or known[0] != stage.name:
            life = self._hosts.life(node)
            known = self._due[uid] = (stage.name, now + lasts_seconds(stage, pod, life, self._chance))
        if math.isinf(known[1]):
            return  # it is unknown when it ends
        if now < known[1]:
            self._queue.add_after(key, known[1] - now)
            return
        await self._finish_stage(stage.name, pod, node)

    async def _finish_stage(self, stage: str, pod: Document, node: Document) -> None:
        now = format_time(self._clock.now())
        if stage == "terminate":
            metadata = pod["metadata"]
            try:
                await self._client.delete(
                    PODS,
                    metadata["name"],
                    metadata["namespace"],
                    grace_period_seconds=0,
                    uid=metadata["uid"],
                    read=False,
                )
            except (errors.NotFound, errors.Conflict):
                self._forget(metadata["uid"])
        elif stage == "start":
            if not await self._prepared(pod):
                return
            self._addresses += 1
            number = self._addresses
            pod_ip = f"10.{128 + (number >> 16 & 127)}.{number >> 8 & 255}.{number & 255}"
            await self._write(pod, started_status(pod, now, "127.0.0.1", pod_ip))
            for container in pod["spec"]["containers"]:
                self._tell(pod, "Normal", "Started", f"Container started: {container['name']}")
        else:
            code = exit_code(pod, self._hosts.life(node), self._chance)
            await self._write(pod, ended_status(pod, now, code))

    async def _prepared(self, pod: Document) -> bool:
        """Return whether the pod has the devices it claims; if not, it is tried again."""
        status = pod.get("status") or {}
        if not (pod["spec"].get("resourceClaims") or status.get("extendedResourceClaimStatus")):
            return True
        namespace = pod["metadata"]["namespace"]
        view, claims = read(Pod, pod), {}
        for name in claim_names(view):
            found = await self._client.find(CLAIMS, name, namespace)
            if found is not None:
                claims[f"{namespace}/{name}"] = read(ResourceClaim, found)
        if problem := unprepared(view, claims):
            self._tell(pod, "Warning", UNPREPARED, problem)
            self._queue.add_after(_pod_key(pod), PREPARE_AGAIN_SECONDS)
            return False
        return True

    async def _admit(self, pod: Document, node: Document) -> bool:
        try:
            view, node_view = read(Pod, pod), read(Node, node)
            if not needs_admission(view):
                return True
            others = list(self._others(pod))
            answer = admit(view, node_view, others, self._gates, self._evaluate())
        except (ViewError, ValueError) as error:
            answer = Admission(
                "UnexpectedAdmissionError", f"Unexpected error while attempting to admit: {error}"
            )
        if answer:
            for victim in answer.victims:
                await self._push_off(victim)
            await self._write(pod, {"startTime": format_time(self._clock.now())})
            return True
        self._tell(pod, "Warning", answer.reason, answer.message)
        status = {"phase": "Failed", "reason": answer.reason, "message": answer.status_message}
        await self._write(pod, {**status, "startTime": format_time(self._clock.now())})
        return False

    def _others(self, pod: Document) -> Iterator[Pod]:
        """Yield the pods that were let in on the same node before and have not ended."""
        for other in self._pods.cache.by_index("node", pod["spec"]["nodeName"]):
            uid = other["metadata"]["uid"]
            if uid != pod["metadata"]["uid"] and uid in self._admitted:
                known = self._views.get(uid)
                if known is None or known[0] is not other:
                    known = self._views[uid] = (other, read(Pod, other))
                if not known[1].terminated:
                    yield known[1]

    async def _push_off(self, victim: Pod) -> None:
        status = {
            "phase": "Failed",
            "reason": "Preempting",
            "message": "Preempted in order to admit critical pod",
        }
        metadata = victim.metadata
        document = {"metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}}
        await self._write(document, status)

    def _evaluate(self) -> Any:
        if self._expressions is None:
            from weir.taints.expression import Expressions

            self._expressions = Expressions()
        return self._expressions.evaluate

    async def _write(self, pod: Document, status: Document) -> None:
        metadata = pod["metadata"]
        try:
            await self._client.patch(
                PODS,
                metadata["name"],
                {"metadata": {"uid": metadata["uid"]}, "status": status},
                metadata["namespace"],
                patch_type=STRATEGIC_MERGE_PATCH,
                subresource="status",
                read=False,
            )
        except (errors.NotFound, errors.Conflict):
            return  # gone, or another pod of the same name

    def _tell(self, pod: Document, type: str, reason: str, message: str) -> None:
        metadata = pod["metadata"]
        about = ObjectReference("Pod", metadata["name"], metadata["namespace"], metadata["uid"])
        self._recorder.record(about, type, reason, message)


def _node_of(pod: Document) -> tuple[str, ...]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()


def _pod_key(pod: Document) -> PodKey:
    return PodKey(pod["metadata"]["namespace"], pod["metadata"]["name"])


__all__ = ["Hosts", "Kubelets", "is_off", "life_of"]
