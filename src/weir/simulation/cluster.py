"""A whole cluster in one process: API server, scheduler, controllers and simulated nodes.

For tests and simulations: memory store, in-process clients, virtual time, nothing that happens outside of its calls.
An hour passes in milliseconds, and the same seed gives the same history.

    with Cluster(nodes=2) as cluster:
        cluster.apply(manifest)
        cluster.advance(300)
        print(cluster.events())

Not here: the components and their clients (weir.simulation.control_plane), sockets and TLS (weir.apiserver.run).
"""

from __future__ import annotations

import asyncio
import builtins
import gc
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from weir.apiserver.registry import codec
from weir.apiserver.run import Options, Running, build
from weir.apiserver.transport.http import Request
from weir.client.api import STRATEGIC_MERGE_PATCH, Client
from weir.client.cache import Informer, decode_document
from weir.client.local import LocalTransport
from weir.client.version_skew import forget
from weir.clock import VirtualClock
from weir.controllers.nodes.lifecycle import OWNED
from weir.errors import NotFound
from weir.gates import GatesLike
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS, by_kind, hub_of
from weir.objects.pod_usage import UsageModel
from weir.objects.times import format_time
from weir.observe.metrics import render_together
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.pod_class import PodClass
from weir.simulation.component_gates import ComponentGates
from weir.simulation.control_plane import ControlPlane
from weir.simulation.drivers.faults import POOL, with_fault
from weir.simulation.first_objects import ensure_storage_class
from weir.simulation.kubelet.heartbeat_flush import HeartbeatFlush
from weir.simulation.kubelet.heartbeat_ledger import HeartbeatLedger
from weir.simulation.kubelet.node_classes import CLASSES, NodeClass, node_document
from weir.simulation.kubelet.run import Hosts
from weir.simulation.named_kinds import kind_called, kind_of
from weir.store import Event, KeyValue, Write
from weir.store.compact import keep_up
from weir.store.log import next_version
from weir.store.memory import MemoryStore
from weir.taints.notation import parse_taint, taint_document

if TYPE_CHECKING:
    from weir.explain.explanation import Explanation
    from weir.simulation.outside import Outside

__all__ = ["Cluster", "ComponentGates"]

Document = dict[str, Any]
Listener = Callable[[Document | None, Document | None], None]
Observer = Callable[[datetime, Document | None, Document | None], None]
T = TypeVar("T")
NODES: Final = by_kind("v1", "Node")
PODS: Final = by_kind("v1", "Pod")
EVENTS: Final = by_kind("v1", "Event")
SETTLE_SECONDS: Final = 0.001
WAIT_SECONDS: Final = 0.02  # between two questions about what goes on outside
USAGE: Final = UsageModel()
UPKEEP_SECONDS: Final = 60.0  # how long an event may outlive its hour


class ClusterClosed(RuntimeError):
    """The cluster was asked for something after `close`."""


class Cluster:
    """A cluster under virtual time. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        *,
        clock: VirtualClock | None = None,
        seed: int = 0,
        gates: GatesLike | Mapping[str, GatesLike] | ComponentGates = None,
        nodes: int = 0,
        controllers: Iterable[str] = ("*",),
        every_heartbeat: bool = False,
        holding: Iterable[Document] = (),
        hosts: Hosts | None = None,
        scheduler: SchedulerConfig | None = None,
        seats: Mapping[str, builtins.list[tuple[str, PodClass]]] | None = None,
        usage: UsageModel = USAGE,
        event_reasons: frozenset[str] | None = None,
    ) -> None:
        """*gates* default to everything on; a mapping from component to gates sets them apart.

        *holding* is there from the start and stored as it is, unchecked: each object with its kind and uid. *hosts*
        says which nodes are played, and how; the simulated ones unless given. *scheduler* configures its profiles and
        plugins (weir.scheduler.config.read_config). *seats* are pods by node that only take room, in the eyes of the
        scheduler, without being in the API. *usage* says what pods use that do not say it themselves
        (weir.objects.pod_usage). Events are written of *event_reasons* only, where given.

        Reports of nodes that are not observed are not carried out one by one unless *every_heartbeat* is asked for;
        apart from resourceVersions and counts of requests the history is the same.
        """
        self.clock = clock or VirtualClock()
        self._controllers, self._seed, self._every_heartbeat = list(controllers), seed, every_heartbeat
        self._hosts, self._scheduler, self._seats, self._usage = hosts, scheduler, seats, usage
        self._event_reasons = event_reasons
        self._outside: Outside | None = None
        self._followers: builtins.list[asyncio.Task[None]] = []
        self._onlookers = HeartbeatFlush(lambda asked: self._running.server.handle(asked))
        self._loop = asyncio.new_event_loop()
        self._gates = ComponentGates.of(gates)
        self._calm = ExitStack()
        self._calm.enter_context(calm_collector())
        try:
            self._running, self.client = self._wait(self._build(seed, holding))
            if not holding:
                self._wait(ensure_storage_class(self.client))
            self._wait(self._begin())
            if nodes:
                self.add_nodes(nodes)
        except BaseException:
            self._calm.close()
            self._loop.close()
            raise
        self._open = True

    async def _build(self, seed: int, holding: Iterable[Document]) -> tuple[Running, Client]:
        items = _stored(holding)
        self._first_revision = 1 + len(items)
        # Other names and uids than those of a cluster of the same seed that the objects may come from.
        chance = random.Random(f"{seed} after {len(items)} objects" if items else seed)
        options = Options(
            data_dir=Path(),  # nothing is written: the store is in memory and there are no keys
            store="memory",
            insecure=True,
            gates=self._gates.apiserver,
            release=self._gates.release,
            authorization_modes=("AlwaysAllow",),
            usage=self._usage,
            random_bytes=chance.randbytes,
            admin_token=secrets.token_urlsafe(32),  # the same after a restart: programs outside have it
            aggregation=False,  # nobody asks, and every object made here would change the names that chance draws
            priority_and_fairness=False,  # nobody has to wait where time stands still until all have been served
        )
        keep = options.compaction_seconds
        store = MemoryStore(
            time=self.clock.time, keep_seconds=keep, revision=self._first_revision, items=items
        )
        running = await build(options, store, self.clock)
        running.chores.append(
            asyncio.ensure_future(keep_up(store, self.clock, interval_seconds=UPKEEP_SECONDS))
        )
        return running, Client(self._transport(), clock=self.clock, user_agent="weir")

    def _transport(self) -> LocalTransport:
        """Return the way to whichever server runs now: one that was restarted has another token."""

        def request(
            method: str, path: str, query: str, headers: Mapping[bytes, bytes], body: bytes
        ) -> Request:
            token = f"Bearer {self._running.admin_token}".encode()
            return Request(method, path, query, {**headers, b"authorization": token}, body)

        return LocalTransport(self._onlookers.handle, request)

    async def _begin(self) -> None:
        self.plane = ControlPlane(
            self._running,
            self.clock,
            self._gates,
            controllers=self._controllers,
            seed=self._seed,
            ledger=None if self._every_heartbeat else HeartbeatLedger(self.clock),
            hosts=self._hosts,
            scheduler=self._scheduler,
            seats=self._seats,
            event_reasons=self._event_reasons,
        )
        self._onlookers.look_at(self.plane.kubelets.reports)
        self.plane.start()
        await self.clock.settle()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise ClusterClosed("this cluster is closed: nothing runs in it any more")
        if self._outside is not None:
            return self._outside.wait(work)
        return self._loop.run_until_complete(work)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it, let every component react, and raise what ended one."""
        result = self._wait(work)
        self._wait(self.clock.settle())
        self.plane.check()
        return result

    def set_gates(self, gates: GatesLike | Mapping[str, GatesLike] | ComponentGates) -> None:
        """Restart every component with other feature gates, on what is stored: an upgrade or a downgrade."""
        self._gates = ComponentGates.of(gates)
        self._wait(self.plane.kubelets.reports.catch_up())
        self._wait(self.plane.stop())
        self._wait(self._restart_server())
        self._wait(self._begin())

    async def _restart_server(self) -> None:
        """Put another server on the same store, as a new version of it would be."""
        old = self._running
        self._running = await build(
            replace(old.options, gates=self._gates.apiserver, release=self._gates.release),
            old.store,
            self.clock,
        )
        self._running.chores, self._running.port = old.chores, old.port
        self._running.listener, self._running.connections = old.listener, old.connections
        old.server.watches.close()  # who followed the old one comes to the new one
        await old.webhook_client.close()

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def advance(self, by: float | timedelta) -> None:
        """Let time pass (seconds, or a timedelta): whatever is due meanwhile happens at its time."""
        self._do(self.clock.advance(by))

    @property
    def now(self) -> datetime:
        return self.clock.now()

    # ── programs outside of this process ─────────────────────────────────────────────────────────

    @property
    def address(self) -> str:
        """The URL at which programs of this machine reach the API server; it listens from the first question on."""
        return self._door().address

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of `address` with all rights, for KUBECONFIG; it goes with the cluster."""
        return self._door().kubeconfig

    def _door(self) -> Outside:
        from weir.simulation.outside import Outside

        if self._loop.is_closed():
            raise ClusterClosed("this cluster is closed: nothing runs in it any more")
        if self._outside is None:
            self._outside = Outside(self._loop, lambda: self._running, self._onlookers.handle)
        return self._outside

    def wait_for(self, question: Callable[[], T], within: float = 30.0) -> T:
        """Ask until the answer is true, and return it: for what programs outside do, in their own time.

        The cluster's time passes meanwhile as the machine's does. Raises TimeoutError after *within* seconds.
        """
        began = asked = time.monotonic()
        while not (answer := question()):
            now = time.monotonic()
            if now - began > within:
                raise TimeoutError(f"not so within {within:g} s; the last answer was {answer!r}")
            self.advance(now - asked)
            asked = now
            time.sleep(WAIT_SECONDS)
        return answer

    # ── objects ──────────────────────────────────────────────────────────────────────────────────

    def apply(self, *objects: Document | str) -> builtins.list[Document]:
        """Create or change objects, as documents or as YAML text; return what the server made of them."""
        return [self._do(self._apply(document)) for each in objects for document in _documents(each)]

    async def _apply(self, document: Document) -> Document:
        kind = self._kind_of(document)
        metadata = dict(document["metadata"])
        if kind.namespaced:
            metadata.setdefault("namespace", "default")
        whole = {**document, "metadata": metadata}
        return await self.client.apply(kind, whole, field_manager="weir", force=True)

    def create(self, document: Document) -> Document:
        """Create one object; raises what the server answers."""
        kind = self._kind_of(document)
        namespace = document["metadata"].get("namespace", "default") if kind.namespaced else ""
        return self._do(self.client.create(kind, document, namespace))

    def _kind_of(self, document: Any) -> Kind:
        return kind_of(document, self._running.server.served)

    def _kind(self, name: str) -> Kind:
        return kind_called(name, self._running.server.served)

    def patch(self, kind: str, name: str, patch: Document, namespace: str = "default") -> Document:
        """Change an object by a JSON merge patch."""
        row = self._kind(kind)
        return self._do(self.client.patch(row, name, patch, namespace if row.namespaced else ""))

    def patch_all(self, kind: str, patches: Mapping[str, Document], namespace: str = "default") -> None:
        """Change several objects by JSON merge patches, all before any component sees the first."""
        row = self._kind(kind)

        async def act() -> None:
            where = namespace if row.namespaced else ""
            for name, patch in patches.items():
                await self.client.patch(row, name, patch, where)

        self._do(act())

    def patch_status(self, kind: str, name: str, status: Document, namespace: str = "default") -> Document:
        """Change an object's status by a strategic merge patch: conditions are merged by their type."""
        row = self._kind(kind)
        where = namespace if row.namespaced else ""
        patch = self.client.patch(
            row, name, {"status": status}, where, patch_type=STRATEGIC_MERGE_PATCH, subresource="status"
        )
        return self._do(patch)

    def get(self, kind: str, name: str, namespace: str = "default") -> Document | None:
        """Return one object, or None."""
        row = self._kind(kind)
        return self._wait(self.client.find(row, name, namespace if row.namespaced else ""))

    def list(self, kind: str, namespace: str = "", selector: str = "") -> builtins.list[Document]:
        """Return the objects of a kind, of all namespaces unless one is named."""
        listed = self._wait(self.client.list(self._kind(kind), namespace, label_selector=selector))
        return listed.documents()

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object, if it is there."""
        row = self._kind(kind)

        async def act() -> None:
            try:
                await self.client.delete(row, name, namespace if row.namespaced else "")
            except NotFound:
                return

        self._do(act())

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────

    def add_nodes(
        self,
        count: int = 1,
        *,
        name: str = "node",
        node_class: str | NodeClass = "default",
        taints: Iterable[str] = (),
        labels: Mapping[str, str] | None = None,
        devices: int | None = None,
    ) -> None:
        """Add simulated nodes called NAME-0, NAME-1, …; taints are written as kubectl writes them.

        Each gets *devices* devices of its class, or GPUs where the class has none.
        """
        chosen = _class(node_class, devices)
        wanted = tuple(parse_taint(text) for text in taints)

        async def act() -> None:
            there = {each["metadata"]["name"] for each in (await self.client.list(NODES)).documents()}
            free = (f"{name}-{number}" for number in range(len(there) + count))
            printed = format_time(self.now)
            for candidate in [each for each in free if each not in there][:count]:
                document = node_document(candidate, chosen, wanted, dict(labels or {}), printed)
                await self.client.create(NODES, document)

        self._do(act())
        self.advance(SETTLE_SECONDS)

    def add_node(
        self,
        name: str,
        *,
        node_class: str | NodeClass = "default",
        taints: Iterable[str] = (),
        labels: Mapping[str, str] | None = None,
        devices: int | None = None,
    ) -> None:
        """Add one simulated node of exactly this name."""
        chosen = _class(node_class, devices)
        wanted = tuple(parse_taint(text) for text in taints)
        printed = format_time(self.now)
        self.create(node_document(name, chosen, wanted, dict(labels or {}), printed))
        self.advance(SETTLE_SECONDS)

    def taint(self, node: str, *taints: str) -> None:
        """Give a node exactly these taints, beside those its conditions stand for."""
        found = self.get("Node", node)
        if found is None:
            raise NotFound(f'nodes "{node}" not found')
        own = [t for t in found["spec"].get("taints") or () if t["key"] in OWNED]
        wanted = [taint_document(parse_taint(text)) for text in taints]
        self.patch("Node", node, {"spec": {"taints": [*own, *wanted]}})

    def degrade(self, node: str, device: str = POOL, **fault: Any) -> None:
        """Let something happen to a device of a simulated node, or to all of them: as in a class file's schedule,
        `degrade("node-0", "gpu-0", taint="hot:NoSchedule", forSeconds=60)`, `unplugged=True`, `repaired=""`."""
        found = self.get("Node", node)
        if found is None:
            raise NotFound(f'nodes "{node}" not found')
        annotations = with_fault(found["metadata"].get("annotations") or {}, device, fault, self.now)
        self.patch("Node", node, {"metadata": {"annotations": annotations}})

    # ── telling ──────────────────────────────────────────────────────────────────────────────────

    def events(self, reason: str = "", namespace: str = "") -> builtins.list[Document]:
        """Return the events, in the order in which they were written."""
        found = [each for each in self.list("Event", namespace) if not reason or each["reason"] == reason]
        return sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))

    def metrics(self, component: str = "") -> str:
        """Return the metrics of all components on one page, or one component's as it serves them itself."""
        registries = self.plane.registries()
        if component and component not in registries:
            raise ValueError(f"no component is called {component!r}: there are {', '.join(registries)}")
        return (registries[component].render() if component else render_together(registries)).decode()

    def follow(self, kind: str, listener: Listener) -> None:
        """Call *listener* with (before, after) for every object of a kind, those there now first."""
        informer: Informer[Document] = Informer(
            self.client, self._kind(kind), self.clock, decode_document, seed=0
        )
        informer.cache.listen(listener)

        async def act() -> None:
            self._followers.append(asyncio.ensure_future(informer.run()))

        self._do(act())

    @property
    def revision(self) -> int:
        """The revision of the latest write."""
        return self._running.store.revision

    def observe(self, kind: str, observer: Observer) -> None:
        """Call *observer* with (time, before, after) at the moment of every write to an object of a kind.

        What was written since the cluster began is told first; objects that it was holding are not.
        """
        row = self._kind(kind)

        def deliver(changes: Sequence[Event]) -> None:
            for change in changes:
                before = codec.decode(row, change.before.value) if change.before is not None else None
                after = codec.decode(row, change.now.value) if change.now is not None else None
                observer(self.now, before, after)

        async def act() -> None:
            self._running.store.watch(row.prefix, self._first_revision, deliver)

        self._wait(act())

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Let *work* go on beside the cluster's components, until it ends or the cluster is closed."""

        async def act() -> None:
            self._followers.append(asyncio.ensure_future(work))

        self._do(act())

    def explain(
        self, pod: Document | str, namespace: str = "default", *, stored: bool | None = None
    ) -> Explanation:
        """Return where a pod fits and why not elsewhere: a document, or the name of a pod that is there.

        *stored* says that a document comes from the cluster, as it is or was; a name always does.
        """
        from weir.client.snapshot import CREATION, DEVICES, PLACEMENT
        from weir.explain.pod import explain
        from weir.explain.subject import Subject
        from weir.world import World

        stored = isinstance(pod, str) if stored is None else stored
        document = self.get("Pod", pod, namespace) if isinstance(pod, str) else pod
        if document is None:
            raise NotFound(f'pods "{pod}" not found')
        if "scheduler" in self._gates.older:  # through its eyes, as with its gates
            document = msgspec.json.decode(forget(msgspec.json.encode(document)))
        kinds = (*PLACEMENT, *DEVICES, *CREATION)
        world = World.of(({"kind": kind, **each} for kind in kinds for each in self._all(kind)), kinds)
        return explain(Subject.of({"kind": "Pod", **document}, stored=stored), world, self._gates.scheduler)

    def _all(self, kind: str) -> builtins.list[Document]:
        """Return every object of a kind; an older server may not have it."""
        try:
            return self.list(kind)
        except NotFound:
            return []

    def history(self) -> bytes:
        """Return everything the cluster holds, events included, as one text: equal for equal seeds."""
        served = [kind for kind in KINDS if kind.stored and "list" in kind.verbs]
        lines = []
        for kind in served:
            for item in self._wait(self.client.list(kind)).items:
                lines.append(kind.plural.encode() + b" " + msgspec.json.encode(item))
        return b"\n".join(lines)

    # ── end ──────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """End everything."""
        if self._open:
            self._open = False
            try:
                self._wait(self._unfollow())
                self._wait(self.plane.stop())
                self._wait(self._running.stop())
            finally:
                self._wait(_cancel_others())
                if self._outside is not None:
                    self._outside.close()
                self._loop.close()
                self._calm.close()

    async def _unfollow(self) -> None:
        for task in self._followers:
            task.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


#: Objects made before the young are looked at, looks before the older ones are, and before all that live long.
_RARELY: Final = (1_000_000, 20, 100)


@contextmanager
def calm_collector() -> Iterator[None]:
    """Look for cycles rarely while a cluster lives: little of what is made has any, and each look walks all of it."""
    before = gc.get_threshold()
    gc.set_threshold(*(max(pair) for pair in zip(before, _RARELY, strict=True)))
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _stored(documents: Iterable[Document]) -> builtins.list[KeyValue]:
    """Return *documents* as they lie in a store, each at a revision of its own."""
    items: builtins.list[KeyValue] = []
    for document in documents:
        kind = by_kind(document["apiVersion"], document["kind"])
        hub, metadata = hub_of(kind), document["metadata"]
        write = Write(
            hub.key(metadata.get("namespace", ""), metadata["name"]),
            codec.encode(document, kind),
            stamp=codec.STAMP,
        )
        item = next_version(write, None, 1 + len(items), 0.0)
        assert item is not None
        items.append(item)
    return items


def _documents(given: Document | str) -> list[Document]:
    if isinstance(given, str):
        from weir.objects.manifest import read_values

        return [each for each in read_values(given, "<apply>") if each]
    if str(given.get("kind", "")).endswith("List") and "items" in given:
        return list(given["items"])
    return [given]


async def _cancel_others() -> None:
    """End every task of this loop: what Ctrl-C interrupted is still waiting in it."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _class(chosen: str | NodeClass, devices: int | None) -> NodeClass:
    found = CLASSES[chosen] if isinstance(chosen, str) else chosen
    return found if devices is None else found.with_devices(devices)
