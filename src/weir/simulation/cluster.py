"""A whole cluster in one process: API server, scheduler, controllers and simulated nodes.

For tests and simulations: memory store, in-process clients, virtual time. Nothing happens outside of its calls, an
hour passes in milliseconds, and the same seed gives the same history.

    with Cluster(nodes=2) as cluster:
        cluster.apply(manifest)
        cluster.advance(300)
        print(cluster.events())
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from weir.apiserver.registry import codec
from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.client.cache import Informer, decode_document
from weir.client.snapshot import CREATION, DEVICES, PLACEMENT
from weir.client.version_skew import forget
from weir.controllers.nodes.condition_taints import OWNED
from weir.errors import NotFound
from weir.explain.explanation import Explanation
from weir.objects.kind import Document, Kind
from weir.objects.kinds import KINDS, NODES
from weir.objects.manifest import read_values
from weir.objects.times import format_time
from weir.observe.metrics import render_together
from weir.simulation.cluster_lifecycle import ClusterLifecycle
from weir.simulation.component_gates import ComponentGates
from weir.simulation.drivers.faults import POOL, with_fault
from weir.simulation.kubelet.node_classes import CLASSES, NodeClass, node_document
from weir.simulation.named_kinds import kind_called, kind_of
from weir.store import Event
from weir.taints.notation import parse_taint, taint_document
from weir.world import World

__all__ = ["Cluster", "ComponentGates"]

Listener = Callable[[Document | None, Document | None], None]
Observer = Callable[[datetime, Document | None, Document | None], None]
SETTLE_SECONDS: Final = 0.001


class Cluster(ClusterLifecycle):
    """A cluster under virtual time. Use it as a context manager, or call `close`."""

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
        found = [each for each in self.list("Event", namespace) if not reason or each.get("reason") == reason]
        return sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))

    def metrics(self, component: str = "") -> str:
        """Return the metrics of all components on one page, or one component's as it serves them itself."""
        registries = self.plane.registries()
        if component and component not in registries:
            raise ValueError(f"no component is called {component!r}: there are {', '.join(registries)}")
        return (registries[component].render() if component else render_together(registries)).decode()

    def follow(self, kind: str, listener: Listener) -> None:
        """Call *listener* with (before, after) for every object of a kind, existing ones first."""
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

        Writes since the cluster began are delivered first; objects that it was holding are not.
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

    def explain(
        self, pod: Document | str, namespace: str = "default", *, stored: bool | None = None
    ) -> Explanation:
        """Return where a pod fits and why not elsewhere: a document, or the name of a pod that is there.

        *stored* says that a document comes from the cluster, as it is or was; a name always does.
        """
        from weir.explain.pod import explain
        from weir.explain.subject import Subject

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


def _documents(given: Document | str) -> list[Document]:
    if isinstance(given, str):
        return [each for each in read_values(given, "<apply>") if each]
    if str(given.get("kind", "")).endswith("List") and "items" in given:
        return list(given["items"])
    return [given]


def _class(chosen: str | NodeClass, devices: int | None) -> NodeClass:
    found = CLASSES[chosen] if isinstance(chosen, str) else chosen
    return found if devices is None else found.with_devices(devices)
