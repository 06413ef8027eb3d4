"""Node feasibility by the scheduler's engine; explain has no filters of its own.

Spec: core.md 3.7, all filters.
Rejections are the plugins' reasons (weir.scheduler.reasons). The scheduler stops at the first filter that rejects a
node; here every filter runs, to report all reasons and to prove a fix against all of them. Missing data of a snapshot
(allocatable, storage, devices) is not held against nodes, and the result names it. A pod with nodeName bypasses the
scheduler: kubelet admission decides (core.md 6), which considers NoExecute taints only. The node table is built once
per World; each pod and set of gates is evaluated over columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Protocol

import msgspec
import numpy as np

from weir.explain.countable import PLENTY, PLENTY_OF_THE_REST, countable, countable_node, countable_pod
from weir.explain.devices import born, claims_in, considered, evicted_at_once, missing
from weir.explain.reasons import Gated
from weir.explain.storage import UNBORN, made_claims, storage_in
from weir.explain.verdict import NodeVerdict
from weir.gates import Gates
from weir.objects.core import Node, Pod, Taint, read
from weir.objects.requests import PODS, node_allocatable, pod_requests
from weir.scheduler.claim_reasons import ClaimUnusable
from weir.scheduler.claims import Claims
from weir.scheduler.cycle import Engine
from weir.scheduler.default_spread_selector import Controller, DefaultSpreadSelectors, Service
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.dynamic_resources import BoundDynamicResources
from weir.scheduler.plugins.taint_toleration import BoundTaintToleration
from weir.scheduler.plugins.volume_binding import BoundVolumeBinding
from weir.scheduler.plugins.volume_zone import BoundVolumeZone
from weir.scheduler.pod_class import PodClass, PodClasses, SeatedPods
from weir.scheduler.preemption import priority
from weir.scheduler.reasons import OtherNode, Reason, UntoleratedTaint
from weir.scheduler.volumes import Storage
from weir.taints.eviction import Stay, stay
from weir.taints.toleration import EVICTING
from weir.world import World

#: What a kubelet looks at before it runs a pod that names its node.
_OF_KUBELET: Final = frozenset(
    {
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeBinding",
        "NodeDeclaredFeatures",
    }
)


class Judge(Protocol):
    """Judges nodes for one pod in one world; another engine can stand in for the one here."""

    def __call__(self, node: Node) -> NodeVerdict: ...

    def blockers(self) -> tuple[Reason, ...]:
        """Return what keeps the pod off every node."""
        ...

    def fitting(self) -> frozenset[str]:
        """Return the nodes that take the pod."""
        ...


#: Makes a Judge for a pod in a world.
JudgeFor = Callable[[Pod, World, Gates], Judge]


@dataclass
class Engines:
    """The scheduler's engine over one World, with a Judge per pod."""

    world: World
    without: str = ""  #: the key of a pod that is not counted: the one being explained
    resources: frozenset[str] = (
        frozenset()
    )  #: resources to know of from the start, so that all pods share one table
    templates: Mapping[str, Any] = field(
        default_factory=dict
    )  #: claim templates of a StatefulSet, by claim name
    _tables: dict[tuple[str, ...], NodeTable] = field(default_factory=dict)
    _engines: dict[tuple[tuple[str, ...], Gates], Engine] = field(default_factory=dict)
    _claims: dict[Gates, Claims | None] = field(default_factory=dict)
    _storage: Storage | None = None
    _owners: DefaultSpreadSelectors | None = None
    _aside: frozenset[str] = frozenset()
    _taken_out: list[tuple[NodeTable, str, str, PodClass]] = field(default_factory=list)
    _promised: tuple[Pod, ...] | None = None  #: waiting pods that were promised room somewhere

    def __call__(self, pod: Pod, world: World, gates: Gates) -> EngineJudge:
        if world is not self.world:  # asked about a change of the cluster itself
            return EngineJudge(pod, self.of_world(world), gates)
        return EngineJudge(pod, self, gates)

    def of_world(self, world: World) -> Engines:
        """Return engines of a change of the world, without the pods that are left out here."""
        engines = Engines(world, self.without, self.resources, self.templates)
        engines._aside = self._aside
        return engines

    def engine(self, pod: Pod, gates: Gates) -> Engine:
        """Return the engine that judges *pod*."""
        names = tuple(sorted({*pod_requests(pod, set_aside=True), *self.resources, "cpu", "memory", PODS}))
        key = (names, gates)
        if key not in self._engines:
            if names not in self._tables:
                self._tables[names] = self._table(names)
            labels: Mapping[str, Mapping[str, str]] = {
                name: each.metadata.labels or {} for name, each in self.world.namespaces.items()
            }
            self._engines[key] = Engine(
                gates,
                table=self._tables[names],
                namespaces=labels,
                default_selector=self.owners(),
                storage=self.storage(),
                claims=self.claims(gates),
            )
        return self._engines[key]

    def claims(self, gates: Gates) -> Claims | None:
        """Return the world's devices and claims, or None when it says nothing about them."""
        if gates not in self._claims:
            self._claims[gates] = claims_in(self.world, gates) if considered(self.world, gates) else None
        return self._claims[gates]

    def storage(self) -> Storage:
        """Return the world's storage, with what a snapshot leaves out filled in."""
        if self._storage is None:
            self._storage = storage_in(self.world)
        return self._storage

    def owners(self) -> DefaultSpreadSelectors:
        """Return the services and controllers that pods without spread constraints are spread by."""
        if self._owners is None:
            self._owners = DefaultSpreadSelectors()
            documents = self.world.documents
            for service in documents.get("Service", {}).values():
                self._owners.put_service(None, read(Service, service))
            for replication in documents.get("ReplicationController", {}).values():
                self._owners.put_controller("ReplicationController", None, read(Service, replication))
            for kind in ("ReplicaSet", "StatefulSet"):
                for controller in documents.get(kind, {}).values():
                    self._owners.put_controller(kind, None, read(Controller, controller))
        return self._owners

    def nominated(self, pod: Pod, engine: Engine) -> dict[str, list[PodClass]]:
        """Return the waiting pods at least as important as *pod* that were promised room, by node."""
        by_node: dict[str, list[PodClass]] = {}
        if self._promised is None:
            promised = self.world.pods_like(
                lambda other: other.status.nominated_node_name and not other.terminated
            )
            self._promised = tuple(other for other in promised if not other.spec.node_name)
        for other in self._promised:
            node = other.status.nominated_node_name
            if other.key in (pod.key, self.without):
                continue
            if other.spec.scheduler_name != pod.spec.scheduler_name:
                continue  # a scheduler knows only of its own
            if priority(other) >= priority(pod):
                by_node.setdefault(node, []).append(engine.classes.of(other))
        return by_node

    @contextmanager
    def setting_aside(self, keys: Iterable[str]) -> Iterator[None]:
        """Judge as if the pods *keys* did not run, until the block ends."""
        self._aside = frozenset(keys)
        for table in self._tables.values():
            self._take_out(table)
        try:
            yield
        finally:
            for table, key, node_name, pod_class in self._taken_out:
                table.add_pod(key, pod_class, node_name)
            self._aside, self._taken_out = frozenset(), []

    def _take_out(self, table: NodeTable) -> None:
        """Stop counting the pods that are set aside, and remember them."""
        for key in self._aside:
            row = table.row_of_pod.get(key)
            if row is not None and (node := table.nodes[row]) is not None:
                self._taken_out.append((table, key, node.name, table.pods[row][key]))
                table.remove_pod(key)

    def _table(self, names: tuple[str, ...]) -> NodeTable:
        table, classes = NodeTable(), PodClasses()
        class_of: dict[int, PodClass] = {}  # by identity of the template, which many pods share
        by_node = {name: SeatedPods() for name in self.world.nodes}
        for key, node_name, template in self.world.seated_pods():
            there = by_node.get(node_name)
            if there is None or key == self.without:
                continue
            pod_class = class_of.get(id(template))
            if pod_class is None:
                pod_class = class_of[id(template)] = classes.of(unbound(self.world.pods[key]))
            there[key] = pod_class
        for node in self.world.nodes.values():
            table.put_node(with_room(node, names))
            table.load_pods(node.name, by_node[node.name])
        self._take_out(table)
        return table


@contextmanager
def engines_for(pod: Pod, world: World, *, without: str, templates: Mapping[str, Any]) -> Iterator[Engines]:
    """Give the engines that judge *pod* in a world without the pod *without*.

    They are kept with the world for the next question; not for pods with volumes or claims, which leave traces, nor
    while another question has them.
    """
    if not (templates or pod.spec.volumes or pod.spec.resource_claims):
        turn, engines = world.memory.setdefault(__name__, (Lock(), Engines(world)))
        if turn.acquire(blocking=False):
            try:
                with engines.setting_aside([without] if without else []):
                    yield engines
            finally:
                turn.release()
            return
    yield Engines(world, without, templates=templates)


def with_room(node: Node, names: tuple[str, ...]) -> Node:
    """Return *node* with plenty of everything it does not say anything about."""
    allocatable = node_allocatable(node)
    if allocatable is not None and PODS in allocatable:
        return node
    amounts: dict[str, Any] = dict(node.status.allocatable or node.status.capacity or {})
    amounts.setdefault(PODS, PLENTY[PODS])
    if allocatable is None:
        amounts = {name: PLENTY.get(name, PLENTY_OF_THE_REST) for name in names}
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=amounts))


def unbound(pod: Pod) -> Pod:
    """Return *pod* as the scheduler saw it before it had a node."""
    spec = msgspec.structs.replace(pod.spec, node_name="")
    metadata = msgspec.structs.replace(pod.metadata, namespace=pod.metadata.namespace or "default")
    return msgspec.structs.replace(pod, spec=spec, metadata=metadata)


class EngineJudge:
    """The Judge that asks the scheduler's engine."""

    def __init__(self, pod: Pod, engines: Engines, gates: Gates) -> None:
        self._nodes = engines.world.nodes
        self._cut = False  #: whether amounts had to be cut
        try:
            self._build(pod, engines, gates)
        except OverflowError:  # amounts that no node has, and no column holds
            self._cut = True
            self._build(countable_pod(pod, 2), engines.of_world(countable(engines.world)), gates)

    def _build(self, pod: Pod, engines: Engines, gates: Gates) -> None:
        self._world, self._gates = engines.world, gates
        storage = engines.storage()
        for claim in made_claims(pod, engines.templates, engines.world):
            storage.put("claims", None, claim)
        self._claims = engines.claims(gates)
        if self._claims is not None:
            pod = born(pod, engines.world, self._claims)
        if any(volume.ephemeral is not None for volume in pod.spec.volumes or ()) and not pod.metadata.uid:
            pod = with_uid(pod)
        self._pod = pod
        self.engine = engines.engine(pod, gates)
        self.nominated = engines.nominated(pod, self.engine)
        self._names = tuple(
            sorted({*pod_requests(pod, set_aside=True), *engines.resources, "cpu", "memory", PODS})
        )
        self._refusals: dict[int, list[Reason]] | None = None
        self._stays: dict[tuple[tuple[str, str, str], ...], Stay] = {}
        self._blockers: tuple[Reason, ...] = tuple(self._what_blocks())
        if len(self.engine.table):
            self.engine.start_cycle(pod).reasons(self.engine.table.ordered[:1])  # overflows here, not later

    @property
    def claims(self) -> Claims | None:
        """The claims and devices there are, or None when the world says nothing about them."""
        return self._claims

    @property
    def pod(self) -> Pod:
        """The pod that is judged: with the claims of its templates made."""
        return self._pod

    def blockers(self) -> tuple[Reason, ...]:
        return self._blockers

    def _what_blocks(self) -> Iterator[Reason]:
        if held := tuple(gate.name for gate in self._pod.spec.scheduling_gates or ()):
            yield Gated(held)
        texts: set[str] = set()
        for plugin in self.engine.start_cycle(self._pod).plugins.pre_filters:
            if isinstance(plugin, BoundVolumeBinding):
                for reason in plugin.unusable():
                    texts.add(reason.text)
                    yield reason
            elif isinstance(plugin, BoundVolumeZone):
                status = plugin.pre_filter()
                if status is not None and not texts:
                    yield ClaimUnusable("", status.message)
            elif isinstance(plugin, BoundDynamicResources) and not self._pod.spec.node_name:
                problem = plugin.pre_filter()
                if problem is not None:
                    yield missing(self._pod, self._world, problem.message)

    def __call__(self, node: Node) -> NodeVerdict:
        reasons, disliked = self._asked(node)
        if any(isinstance(reason, ClaimUnusable) for reason in self._blockers):
            # claims that cannot be used speak for all nodes at once
            reasons = [reason for reason in reasons if not reason.plugin.startswith("Volume")]
        if self._pod.spec.node_name:
            reasons = [reason for reason in reasons if self._counts(reason, node)]
        evicting = [taint for taint in node.taints if taint.effect in EVICTING]
        leave = () if reasons or node is not self._nodes.get(node.name) else self._evicting_devices(node.name)
        return NodeVerdict(node.name, tuple(reasons), self._stay(evicting), disliked, leave)

    def _evicting_devices(self, name: str) -> tuple[str, ...]:
        """Return the taints of the devices the pod would get there that make it leave at once."""
        if self._claims is None or self._blockers or self._pod.spec.node_name:
            return ()
        row = self.engine.table.row_of[name]
        taints: list[str] = []
        for plugin in self.engine.feasibility(self._pod).plugins.pre_filters:
            if isinstance(plugin, BoundDynamicResources):
                for claim in plugin.allocated_on(row):
                    taints += evicted_at_once(claim, self._claims, self._gates)
        return tuple(dict.fromkeys(taints))

    def fitting(self) -> frozenset[str]:
        """Return the nodes that take the pod: the engine's own short way, without reasons."""
        if self._pod.spec.node_name or self._blockers:
            names = self._nodes.values()
            return frozenset(node.name for node in names if not self._blockers and self(node).fits)
        return self.engine.fitting(self._pod, self.nominated)

    def some(self, names: Sequence[str]) -> list[NodeVerdict]:
        """Return the verdicts of the nodes *names*; other nodes' reasons are not computed."""
        table, before = self.engine.table, self._refusals
        if before is None:
            rows = np.array([table.row_of[name] for name in names], np.int64)
            self._refusals = self.engine.start_cycle(self._pod).reasons(rows)
            for name in self.nominated.keys() & set(names):
                self._refusals[table.row_of[name]] = self._with_nominated(name)
        try:
            return [self(self._nodes[name]) for name in names]
        finally:
            self._refusals = before

    def _counts(self, reason: Reason, node: Node) -> bool:
        """Return whether a pod that names its node is refused for *reason* by that node's kubelet."""
        if isinstance(reason, OtherNode) or node.name != self._pod.spec.node_name:
            return True
        if isinstance(reason, UntoleratedTaint):
            return reason.taint.effect in EVICTING
        return reason.plugin in _OF_KUBELET

    def _asked(self, node: Node) -> tuple[list[Reason], tuple[Taint, ...]]:
        """Return what every filter that refuses *node*, which may be changed from the world's, says."""
        table = self.engine.table
        original = self._world.nodes.get(node.name)
        if node is self._nodes.get(node.name):
            if self._refusals is None:
                self._refusals = self.engine.start_cycle(self._pod).reasons(table.ordered)
                for name in self.nominated:
                    if name in table.row_of:
                        self._refusals[table.row_of[name]] = self._with_nominated(name)
            row = table.row_of[node.name]
            return self._refusals.get(row, []), self._disliked(row)
        table.put_node(with_room(countable_node(node) if self._cut else node, self._names))
        try:
            return self._with_nominated(node.name), self._disliked(table.row_of[node.name])
        finally:
            if original is not None:
                table.put_node(with_room(original, self._names))
            else:
                table.remove_node(node.name)

    def _with_nominated(self, name: str) -> list[Reason]:
        """Return what filters say once the pods that were promised room there are counted."""
        table = self.engine.table
        row = table.row_of[name]
        keys = {f"\x00nominated/{number}": rival for number, rival in enumerate(self.nominated.get(name, ()))}
        for key, rival in keys.items():
            table.add_pod(key, rival, name)
        try:
            return self.engine.start_cycle(self._pod).reasons(np.array([row], np.int64)).get(row, [])
        finally:
            for key in keys:
                table.remove_pod(key)

    def _disliked(self, row: int) -> tuple[Taint, ...]:
        taints = next(
            (
                p
                for p in self.engine.feasibility(self._pod).plugins.filters
                if isinstance(p, BoundTaintToleration)
            ),
            None,
        )
        return taints.disliked(row) if taints is not None else ()

    def _stay(self, taints: list[Taint]) -> Stay:
        if not taints:
            return Stay(None)
        key = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        if key not in self._stays:
            self._stays[key] = stay([Taint(*each) for each in key], self._pod.tolerations, self._gates)
        return self._stays[key]


def with_uid(pod: Pod) -> Pod:
    """Return *pod* as its ephemeral volumes' claims name it, which are made for a pod that does not exist yet."""
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=UNBORN))
