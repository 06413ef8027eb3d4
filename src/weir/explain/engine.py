"""Does this node take this pod? The scheduler's own engine answers; explain only finds the words.

Spec: core.md 3.7, all filters. The engine alone decides which filters refuse a node. Where weir.explain.node can say
more about a refusal than the filter itself does, its words are used; any other filter speaks for itself.
What surprises: the scheduler stops at the first filter that refuses a node; here every filter is asked, because
a person wants all the reasons at once, and so that a proposed change is proven against all of them.
A snapshot is rarely whole. What it does not say is not held against a node: room on nodes without allocatable,
claims when none were collected (the disks that pods name themselves are judged all the same), classes
nobody described. The answer names it under "not considered".
A pod that names its node never meets the scheduler: for it the kubelet's rules hold (weir.explain.node).
Cost: the table of nodes is built once for a world; each pod and each set of gates is judged over columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from weir.explain.devices import born, claims_in, considered, missing
from weir.explain.devices import reasons as device_reasons
from weir.explain.node import Filters, Room, is_bound
from weir.explain.reasons import FilterRefusal, Reason
from weir.explain.verdict import NodeVerdict
from weir.gates import Gates
from weir.objects.core import Node, ObjectMeta, PersistentVolume, Pod, StorageClass
from weir.objects.requests import PODS, Amounts, node_allocatable, pod_requests
from weir.scheduler.claims import Claims
from weir.scheduler.cycle import Engine
from weir.scheduler.framework import Code, Status
from weir.scheduler.node_table import USED_CPU, USED_MEMORY, USED_PODS, NodeTable
from weir.scheduler.plugins import device_plugins, volume_plugins
from weir.scheduler.plugins.dynamic_resources import NAME as DEVICES
from weir.scheduler.plugins.dynamic_resources import BoundDynamicResources
from weir.scheduler.plugins.volume_restrictions import NAME as RESTRICTIONS
from weir.scheduler.plugins.volume_restrictions import BoundVolumeRestrictions, VolumeRestrictions
from weir.scheduler.pod_class import PodClass, PodClasses
from weir.scheduler.volumes import BIND_COMPLETED, Storage, storage_class_of
from weir.world import World

#: More than any pod asks for, and little enough to be multiplied: what a node that does not say is taken to have.
_PLENTY: Final = {"cpu": str(2**40), PODS: str(2**40)}
_PLENTY_OF_THE_REST: Final = str(2**50)


@dataclass
class Engines:
    """The scheduler's engine over one world; a Judge for every pod that is asked about."""

    world: World
    without: str = ""  #: the key of a pod that is not counted: the one being explained
    resources: frozenset[str] = (
        frozenset()
    )  #: resources to know of from the start, so that all pods share one table
    _tables: dict[tuple[str, ...], NodeTable] = field(default_factory=dict)
    _engines: dict[tuple[tuple[str, ...], Gates], Engine] = field(default_factory=dict)
    _claims: dict[Gates, Claims | None] = field(default_factory=dict)
    _storage: Storage | None = None

    def __call__(self, pod: Pod, world: World, gates: Gates) -> EngineJudge:
        if world is not self.world:  # asked about a change of the cluster itself
            return EngineJudge(pod, Engines(world, self.without, self.resources), gates)
        return EngineJudge(pod, self, gates)

    def engine(self, pod: Pod, gates: Gates) -> Engine:
        """Return the engine that judges *pod*."""
        names = tuple(sorted({*pod_requests(pod, set_aside=True), *self.resources, "cpu", "memory", PODS}))
        key = (names, gates)
        if key not in self._engines:
            if names not in self._tables:
                self._tables[names] = self._table(names)
            volumes = volume_plugins(self.storage(), gates) if self.world.claims else (_NamedDisks(),)
            labels: Mapping[str, Mapping[str, str]] = {
                name: each.metadata.labels or {} for name, each in self.world.namespaces.items()
            }
            claims = self.claims(gates)
            devices = device_plugins(claims, gates, lambda: "") if claims is not None else ()
            self._engines[key] = Engine(
                gates, table=self._tables[names], namespaces=labels, volumes=volumes, devices=devices
            )
        return self._engines[key]

    def claims(self, gates: Gates) -> Claims | None:
        """Return the world's devices and claims, or None when it says nothing about them."""
        if gates not in self._claims:
            self._claims[gates] = claims_in(self.world, gates) if considered(self.world, gates) else None
        return self._claims[gates]

    def _table(self, names: tuple[str, ...]) -> NodeTable:
        table, classes = NodeTable(), PodClasses()
        for node in self.world.nodes.values():
            table.put_node(with_room(node, names))
            pods = self.world.pods_on(node.name)
            there = ((pod.key, classes.of(unbound(pod))) for pod in pods if pod.key != self.without)
            table.load_pods(node.name, there)
        return table

    def storage(self) -> Storage:
        """Return the world's storage, with what a snapshot leaves out filled in so that it refuses nobody."""
        if self._storage is None:
            world = self.world
            self._storage = Storage(dict(world.volumes), {}, dict(world.storage_classes))
            for key, claim in world.claims.items():
                metadata = msgspec.structs.replace(
                    claim.metadata, namespace=claim.metadata.namespace or "default"
                )
                if is_bound(claim, world):
                    # Claims written by hand rarely carry what the volume controller notes on them.
                    noted = {**(claim.metadata.annotations or {}), BIND_COMPLETED: "yes"}
                    metadata = msgspec.structs.replace(metadata, annotations=noted)
                    if not world.volumes:
                        name = claim.spec.volume_name
                        self._storage.volumes[name] = PersistentVolume(metadata=ObjectMeta(name=name))
                elif storage_class_of(claim) not in world.storage_classes and not claim.spec.volume_name:
                    name = storage_class_of(claim) or "\x00unknown"
                    self._storage.classes[name] = StorageClass(
                        metadata=ObjectMeta(name=name),
                        provisioner="unknown",
                        volume_binding_mode="WaitForFirstConsumer",
                    )
                    spec = msgspec.structs.replace(claim.spec, storage_class_name=name)
                    claim = msgspec.structs.replace(claim, spec=spec)
                self._storage.claims[key] = msgspec.structs.replace(claim, metadata=metadata)
        return self._storage


class _NamedDisks:
    """VolumeRestrictions where nobody collected claims: only the disks that pods name themselves are judged."""

    name = RESTRICTIONS

    def bind(self, pod: PodClass, table: NodeTable) -> BoundVolumeRestrictions | None:
        named = tuple(
            volume
            for volume in pod.pod.spec.volumes or ()
            if volume.persistent_volume_claim is None and volume.ephemeral is None
        )
        bare = msgspec.structs.replace(pod.pod, spec=msgspec.structs.replace(pod.pod.spec, volumes=named))
        return VolumeRestrictions(Storage()).bind(PodClasses().of(bare), table)


def with_room(node: Node, names: tuple[str, ...]) -> Node:
    """Return *node* with plenty of everything it does not say anything about."""
    said = node_allocatable(node)
    if said is not None and PODS in said:
        return node
    amounts: dict[str, Any] = dict(node.status.allocatable or node.status.capacity or {})
    amounts.setdefault(PODS, _PLENTY[PODS])
    if said is None:
        amounts = {name: _PLENTY.get(name, _PLENTY_OF_THE_REST) for name in names}
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=amounts))


def unbound(pod: Pod) -> Pod:
    """Return *pod* as the scheduler saw it before it had a node."""
    spec = msgspec.structs.replace(pod.spec, node_name="")
    metadata = msgspec.structs.replace(pod.metadata, namespace=pod.metadata.namespace or "default")
    return msgspec.structs.replace(pod, spec=spec, metadata=metadata)


@dataclass
class TableRoom(Room):
    """What runs on each node, as the engine's table has it."""

    table: NodeTable | None = None

    def used(self, node: str) -> tuple[Amounts, int]:
        assert self.table is not None
        row = self.table.row_of[node]
        state = self.table.state
        amounts = {name: int(column.used[row]) for name, column in self.table.resources.items()}
        amounts |= {"cpu": int(state[USED_CPU, row]), "memory": int(state[USED_MEMORY, row])}
        return amounts, int(state[USED_PODS, row])


class EngineJudge:
    """The Judge that asks the scheduler's engine."""

    def __init__(self, pod: Pod, engines: Engines, gates: Gates) -> None:
        self._world = engines.world
        self._engine: Engine | None = None
        claims = engines.claims(gates) if not pod.spec.node_name else None
        if claims is not None:
            pod = born(pod, engines.world, claims)
        self._pod, self._claims = pod, claims
        if not pod.spec.node_name:
            with suppress(OverflowError):  # amounts that no node has, and no column holds
                self._engine = engines.engine(pod, gates)
        room = Room(engines.world, engines.without)
        if self._engine is not None:
            room = TableRoom(engines.world, engines.without, table=self._engine.table)
        self._words = Filters(pod, engines.world, gates, room)
        self._names = tuple(sorted({*pod_requests(pod, set_aside=True), "cpu", "memory", PODS}))
        self._unusable = bool(self._words.blockers())
        self._refusals: dict[int, list[Status]] | None = None

    def blockers(self) -> tuple[Reason, ...]:
        return (*self._words.blockers(), *self._no_claims())

    def _no_claims(self) -> Iterator[Reason]:
        """Yield why the pod's device claims keep it from every node."""
        plugin = self._devices()
        problem = plugin.prefilter() if plugin is not None else None
        if problem is not None:
            yield missing(self._pod, self._world, problem.message)

    def _devices(self) -> BoundDynamicResources | None:
        if self._engine is None or self._claims is None:
            return None
        plugins = self._engine.attended(self._pod).bound.of_pods
        return next((plugin for plugin in plugins if isinstance(plugin, BoundDynamicResources)), None)

    def __call__(self, node: Node) -> NodeVerdict:
        said = self._words(node)
        if self._engine is None:
            return said
        try:
            refusals = self._refused(self._engine, node)
        except OverflowError:
            return said
        reasons: list[Reason] = []
        for status in refusals:
            if self._unusable and status.plugin.startswith("Volume"):
                continue  # claims that cannot be used speak for all nodes at once
            words = [reason for reason in said.reasons if reason.plugin == status.plugin]
            reasons += words or self._in_its_words(status, node)
        victims = self._words.preemption_may_help(node, reasons)
        return NodeVerdict(said.node, tuple(reasons), said.stay, said.disliked, victims)

    def _in_its_words(self, status: Status, node: Node) -> Iterator[Reason]:
        plugin = self._devices() if status.plugin == DEVICES else None
        if plugin is None:
            yield from _in_its_own_words(status)
        elif plugin.prefilter() is None:  # claims that cannot be used speak for all nodes at once
            yield from device_reasons(status, plugin, self._world.nodes.get(node.name, node))

    def _refused(self, engine: Engine, node: Node) -> list[Status]:
        """Return what every filter that refuses *node*, which may be changed from the world's, says."""
        table = engine.table
        known = self._world.nodes.get(node.name)
        if node is known:
            if self._refusals is None:
                self._refusals = engine.attended(self._pod).refusals(table.ordered)
            return self._refusals.get(table.row_of[node.name], [])
        table.put_node(with_room(node, self._names))
        try:
            row = table.row_of[node.name]
            return engine.attended(self._pod).refusals(np.array([row], np.int64)).get(row, [])
        finally:
            if known is not None:
                table.put_node(with_room(known, self._names))
            else:
                table.remove_node(node.name)


def _in_its_own_words(status: Status) -> Iterator[Reason]:
    """Yield the reasons of a filter for which explain has no words of its own."""
    for text in status.reasons:
        yield FilterRefusal(status.plugin, text, resolvable=status.code is Code.UNSCHEDULABLE)
