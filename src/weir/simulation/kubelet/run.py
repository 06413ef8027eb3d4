"""Runs simulated kubelets for thousands of nodes in one process.

Every node with the label `weir.dev/simulated=true` is simulated. The annotation `weir.dev/failed` switches a node
off.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from weir import errors
from weir.client.api import Client
from weir.client.cache import Informer, ObjectKey, decode_described, wait_all_synced
from weir.client.events import Recorder
from weir.client.queue import WorkQueue, work
from weir.clock import Clock
from weir.gates import Gates
from weir.objects.kinds import NODES, PODS
from weir.observe.logs import Log
from weir.observe.process_metrics import publish_features
from weir.simulation.drivers.publisher import MARKS
from weir.simulation.drivers.run import Drivers
from weir.simulation.kubelet.behaviour import Life, LifeError
from weir.simulation.kubelet.heartbeats import HeartbeatLedger, Reports
from weir.simulation.kubelet.node_classes import LIFE, SIMULATED, is_off
from weir.simulation.kubelet.pod_worker import KubeletMetrics, PodKey, PodWorker, pod_key

WORKERS: Final = 16

Document = dict[str, Any]


def life_of(node: Document) -> Life:
    """Return the behaviour of pods on *node*, from its annotation."""
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
    marks: Mapping[str, str] = field(default_factory=lambda: MARKS)  #: labels of what their drivers publish


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
        self.metrics = KubeletMetrics()
        publish_features(self.metrics.registry, gates)
        self._recorder = Recorder(client, clock, "kubelet")
        self._nodes: Informer[Document] = Informer(
            client, NODES, clock, decode_described, label_selector=self._hosts.selector, seed=seed
        )
        self._pods: Informer[Document] = Informer(
            client, PODS, clock, decode_described, field_selector="spec.nodeName!=", seed=seed + 1
        )
        self._pods.cache.add_index("node", _node_of)
        self.metrics.nodes.child().look = lambda: len(self._nodes.cache)
        self._drivers = Drivers(client, clock, self._nodes, self._recorder, self._log, self._hosts.marks)
        self.reports = Reports(
            client, clock, self._nodes.cache, self._chance, failed=self._failed, ledger=ledger
        )
        self._worker = PodWorker(
            client,
            gates,
            clock,
            self._pods.cache,
            self._queue,
            self._recorder,
            self._chance,
            self._hosts.life,
            self._log,
            self.metrics,
        )

    async def run(self) -> None:
        """Play until cancelled."""
        parts = [self._nodes.run(), self._pods.run(), self._recorder.run()]
        if self._gates.enabled("DynamicResourceAllocation"):
            parts.append(self._drivers.run())
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            await wait_all_synced([self._nodes, self._pods])
            self._log.v(1, "Caches populated", kinds=2)
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
                self._worker.write_again(pod)
                self._queue.add(pod_key(pod))

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
            self._worker.forget(old["metadata"]["uid"])
            return
        self._queue.add(pod_key(new))

    def _failed(self, key: Hashable, error: Exception) -> None:
        if isinstance(error, errors.WeirError):
            self._log.v(4, "will be tried again", key=str(key), err=str(error))
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
        if node is not None and not is_off(node):  # ours to play, and at work
            await self._worker.sync(pod, node)


def _node_of(pod: Document) -> tuple[str, ...]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()


__all__ = ["Hosts", "Kubelets", "is_off", "life_of"]
