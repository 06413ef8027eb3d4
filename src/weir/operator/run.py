"""Composition of the operator: informers, the hooks on every replica, the controller on the leader.

Spec: stock.md. Hooks are answered as soon as this replica's caches are synced, elected or not. The order at the start:
what the cluster has itself, the sentinel, the copies of its objects, the table; then hooks, then acting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypedDict, TypeVar

import msgspec

from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.cache import Informer, wait_all_synced
from weir.client.events import Recorder
from weir.client.leases import Elector, Leadership, Timing
from weir.clock import Clock
from weir.lowering.names import NAMESPACE, OPERATOR, SENTINEL
from weir.objects.kinds import DAEMON_SETS, ENDPOINT_SLICES, NODES, PERSISTENT_VOLUMES, PODS
from weir.observe.endpoint import Pages, pages
from weir.observe.logs import Log
from weir.operator.aside import Aside
from weir.operator.barrier import Barrier
from weir.operator.controller import Controller
from weir.operator.entries import Entries
from weir.operator.hooks import Hooks, Shown
from weir.operator.keys_in_use import KeysInUse
from weir.operator.known_triples import KnownTriples
from weir.operator.metrics import OperatorMetrics
from weir.operator.native import has_numeric
from weir.operator.node_taints import NodeTaints
from weir.operator.pending import PendingPods
from weir.operator.precautions import Precautions
from weir.operator.refused_pods import RefusedPods
from weir.operator.rules import Rules, daemon_index, node_index
from weir.operator.sentinel import Sentinel
from weir.operator.stand_by import StandBy
from weir.operator.views import LoweredPod, pod_decoder

_AGAIN_SECONDS: Final = 1.0

T = TypeVar("T")
Document = dict[str, Any]


class _Meta(TypedDict, total=False):
    name: Any
    namespace: Any
    uid: Any
    resourceVersion: Any
    labels: Any
    annotations: Any


class _Taints(TypedDict, total=False):
    taints: Any


class _Node(TypedDict, total=False):
    metadata: _Meta
    spec: _Taints


class _Template(TypedDict, total=False):
    template: Any


class _DaemonSet(TypedDict, total=False):
    metadata: _Meta
    spec: _Template


class _Volume(TypedDict, total=False):
    metadata: _Meta


def _decoder(shape: Any) -> Callable[[bytes | msgspec.Raw], Document]:
    """Return what decodes only the fields of *shape*: the copies hold a whole cluster."""
    decode: Callable[[bytes | msgspec.Raw], Document] = msgspec.json.Decoder(shape).decode
    return decode


class Operator:
    """One replica."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        namespace: str = NAMESPACE,
        identity: str = OPERATOR,
        leader_elect: bool = False,
        timing: Timing | None = None,
        grace_seconds: int | None = None,
        seed: int | None = None,
    ) -> None:
        self._client, self._clock, self._namespace = client, clock, namespace
        self._identity, self._elect, self._timing = identity, leader_elect, timing
        self._log = Log("weir.operator")
        self.metrics = OperatorMetrics()
        self._recorder = Recorder(client, clock, OPERATOR)

        self._pods: Informer[LoweredPod] = Informer(
            client, PODS, clock, pod_decoder((namespace, SENTINEL)), seed=seed
        )
        self._nodes = Informer(client, NODES, clock, _decoder(_Node), seed=seed)
        self._daemonsets = Informer(client, DAEMON_SETS, clock, _decoder(_DaemonSet), seed=seed)
        self._volumes = Informer(client, PERSISTENT_VOLUMES, clock, _decoder(_Volume), seed=seed)
        self._slices = Informer(
            client,
            ENDPOINT_SLICES,
            clock,
            msgspec.json.Decoder(dict[str, Any]).decode,
            namespace=namespace,
            label_selector=f"kubernetes.io/service-name={SENTINEL}",
            seed=seed,
        )
        self._informers: tuple[Informer[Any], ...] = (
            self._nodes,
            self._daemonsets,
            self._volumes,
            self._slices,
            self._pods,
        )
        pods = self._pods.cache
        pods.add_index("node", node_index)
        pods.add_index("daemon", daemon_index)
        self.known = KnownTriples(client, clock, namespace)
        self.known.dropped = self.metrics.dropped.child().inc
        self.taints = NodeTaints(self._nodes.cache)
        self._aside = Aside(clock)
        self.entries = Entries(client, self.metrics, self._recorder, self._aside)
        self.rules = Rules(clock, pods, self._daemonsets.cache, self._volumes.cache)
        self.sentinel = Sentinel(client, clock, namespace, pods, self._slices.cache, self.metrics)
        self._pending = PendingPods(pods, self.known, self.entries)
        self.barrier = Barrier(
            clock,
            pods,
            self.known,
            self.sentinel,
            self.entries,
            self._pending,
            self.metrics,
            self.taints,
        )
        self.controller = Controller(
            client,
            clock,
            pods,
            self._nodes.cache,
            self.rules,
            self.known,
            self.entries,
            self._pending,
            self.metrics,
            self.taints,
            KeysInUse(client, pods, self.rules),
        )
        self._precautions = Precautions(
            client,
            clock,
            namespace,
            self.barrier,
            self.entries,
            self.metrics,
            self._recorder,
            grace_seconds,
        )
        self._stand_by = StandBy(
            clock,
            pods,
            self.controller.release,
            self.controller.failed,
            leads=lambda: bool(self.metrics.leader.value),
        )
        self._refused = RefusedPods(client, clock)
        self._precautions.changed = self.controller.look_at_every_grace
        self._hooks = Hooks(
            clock,
            self.known,
            self.rules,
            self.barrier,
            self.entries,
            self.metrics,
            self._recorder,
            self.controller.label_nodes,
            Shown(client, self._nodes.cache, self._daemonsets.cache),
            self._aside,
        )
        self._ready = asyncio.Event()
        self.metrics.known.look = lambda: float(len(self.known.known))
        self.metrics.lowered.look = lambda: float(sum(1 for pod in pods if pod.lowered))

    @property
    def ready(self) -> bool:
        """Whether hooks can be answered."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        """Return when hooks can be answered."""
        await self._ready.wait()

    def pages(self) -> Pages:
        """Return what the operator serves about itself."""
        return pages(self.metrics.registry.render, lambda: self.ready)

    async def review(self, path: str, review: Mapping[str, Any]) -> Document:
        """Return the answer of the webhook at *path*."""
        await self._ready.wait()
        return await self._hooks.review(path, review)

    async def run(self) -> None:
        """Answer and act until cancelled."""
        tasks = [asyncio.ensure_future(self._recorder.run())]
        try:
            self.entries.native_numeric = await self._patiently(
                lambda: has_numeric(self._client, self._namespace), "asking for native operators"
            )
            await self._patiently(self.sentinel.ensure, "making the sentinel")
            await self._patiently(self._precautions.look, "looking at the control plane")
            tasks += [asyncio.ensure_future(informer.run()) for informer in self._informers]
            await wait_all_synced(self._informers)
            await self._patiently(self.known.read, "reading the table of taints")
            self._ready.set()
            self._log.info(
                "Ready",
                nativeNumeric=self.entries.native_numeric,
                namespace=self._namespace,
                identity=self._identity,
            )
            tasks += [
                asyncio.ensure_future(each)
                for each in (
                    self._precautions.run(),
                    self._stand_by.run(),
                    self._refused.run(),
                    self._act(),
                )
            ]
            await asyncio.gather(*tasks)
        finally:
            self._ready.clear()
            for task in tasks:
                task.cancel()
            await self._pending.stop()
            self._aside.stop()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _act(self) -> None:
        if not self._elect:
            await self.controller.run()
            return
        elector = Elector(
            self._client,
            self._clock,
            name=OPERATOR,
            namespace=self._namespace,
            identity=self._identity,
            timing=self._timing,
        )

        async def act(leadership: Leadership) -> None:
            self._log.info("Elected", identity=self._identity)
            await self.controller.run()

        await elector.run(act)

    async def _patiently(self, ask: Callable[[], Awaitable[T]], what: str) -> T:
        """Return the answer, however long the API server or the rights take to come."""
        while True:
            try:
                return await ask()
            except (errors.ApiError, Unreachable) as error:
                self._log.warning("Cannot start yet", step=what, error=str(error))
                await self._clock.sleep(_AGAIN_SECONDS)
