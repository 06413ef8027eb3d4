"""The scheduler's cache: nodes, pods and assumed pods, kept current by watches.

Every change goes into the node table and to the queue, where it wakes the pods it may help. A scheduled pod is
assumed on its node until the watch confirms it or binding fails. A newly elected scheduler starts with a new cache.
"""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Callable, Mapping
from time import perf_counter

import msgspec

from weir.client.api import Client
from weir.clock import Clock
from weir.devices.tracker import Problem
from weir.gates import Gates
from weir.objects.core import Node, Pod, View
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.cycle import Engine
from weir.scheduler.informers import Informers
from weir.scheduler.metrics import SchedulerMetrics
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.dynamic_resources import NAME as DYNAMIC_RESOURCES
from weir.scheduler.pod_class import differently_resized
from weir.scheduler.profiling import PluginProfiler
from weir.scheduler.queue import SchedulingQueue
from weir.scheduler.queueing_hints import ClusterEvent, QueueingHints, node_events, pod_events
from weir.taints.expression import Expressions


class _Metadata(View, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class Namespace(View, frozen=True):
    metadata: _Metadata = _Metadata()


class ClusterState:
    """What one scheduler knows, from its beginning or its election on."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        gates: Gates,
        config: SchedulerConfig,
        metrics: SchedulerMetrics,
        seed: int,
        on_problem: Callable[[Problem], None],
        expressions: Expressions,
    ) -> None:
        self._clock, self._gates, self._config, self._metrics = clock, gates, config, metrics
        self.work = asyncio.Event()  #: set when a pod may be waiting for its turn
        self.namespaces: dict[str, dict[str, str]] = {}
        self.table = NodeTable()
        self.informers = Informers(
            client, clock, gates, self.on_event, seed, on_problem, expressions.evaluate
        )
        self.claims = self.informers.claims
        self.engines = {
            profile.name: Engine(
                gates,
                profile,
                table=self.table,
                namespaces=self.namespaces,
                expressions=expressions,
                default_selector=self.informers.spread_selectors,
                storage=self.informers.storage,
                claims=self.claims,
                share_id=self.informers.share_id,
                registry=config.registry,
            )
            for profile in config.profiles
        }
        self.profiler = PluginProfiler(metrics.plugin_duration) if config.profiling else None
        if self.profiler is not None:
            for engine in self.engines.values():
                engine.profile_plugins(self.profiler)
        self.hints = QueueingHints(
            {name: engine.profile.registered_events() for name, engine in self.engines.items()}
        )
        self.hints.timed = metrics.note_hint
        self.queue = SchedulingQueue(
            self.hints,
            pop_from_backoff=gates.enabled("SchedulerPopFromBackoffQ"),
            ungated=frozenset(p.name for p in config.profiles if not p.honours_gates),
            initial_backoff=config.initial_backoff_seconds,
            max_backoff=config.max_backoff_seconds,
            incoming=lambda queue, event: metrics.incoming.child(queue, event).inc(),
            claims=self.claims if self._looks_at_claims() else None,
        )
        self.pods: dict[str, Pod] = {}  #: pods on nodes, by key
        self.assumed: dict[str, Pod] = {}  #: pods as they will be on their node, until the watch confirms it
        self.nominated: dict[str, tuple[str, Pod]] = {}  #: key → node promised to it, and the pod

    def namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is None and old is not None:
            self.namespaces.pop(old.metadata.name, None)
        elif new is not None:
            self.namespaces[new.metadata.name] = new.metadata.labels or {}

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self.table.remove_node(old.name)
        else:
            self.table.put_node(new)
        for event in node_events(old, new):
            self.on_event(event)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self.pod_changed(old, None)  # a list after a gap shows another pod of the same name
            old = None
        if old is not None and new is not None and self._says_nothing_new(old, new):
            self.pods[new.key] = new
            return
        was_here = old is not None and bool(old.spec.node_name) and not old.terminated
        is_here = new is not None and bool(new.spec.node_name) and not new.terminated
        pod = new or old
        assert pod is not None
        key = pod.key
        if is_here or was_here:
            self._assigned_changed(key, old if was_here else None, new if is_here else None)
        if new is None and self.assumed.pop(key, None) is not None:
            # Bound and deleted between two looks: no watch showed it on its node, but it is counted there.
            self.table.remove_pod(key)
            self.on_event(ClusterEvent("AssignedPodDelete", pod, None))
        waits = new is not None and not new.spec.node_name and not new.terminated
        if waits and pod.spec.scheduler_name in self.engines:
            if pod.spec.resource_claims:
                self.claims.note_waiting(pod)
            if key not in self.assumed:  # what is counted on its node needs no promise of room there
                self._note_nomination(pod)
                self.queue.add(pod, self._clock.monotonic())
                self.work.set()
        elif new is None or new.spec.node_name or new.terminated:
            self.queue.delete(key)
            self.nominated.pop(key, None)
            self.claims.forget_waiting(key)

    def _says_nothing_new(self, old: Pod, new: Pod) -> bool:
        """Return whether a pod that counts on its node has another status that decides nothing here.

        Of two views with one spec the metadata differ in what says neither labels nor deletion.
        """
        return (
            old.spec is new.spec
            and bool(new.spec.node_name)
            and not new.terminated
            and not old.terminated
            and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
            and old.metadata.labels == new.metadata.labels
            and not differently_resized(old, new)
            and new.key in self.pods
        )

    def _assigned_changed(self, key: str, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            self.pods.pop(key, None)
            self.assumed.pop(key, None)
            self.table.remove_pod(key)
        else:
            known = self.pods.get(key)
            self.pods[key] = new
            assumed = self.assumed.pop(key, None)
            confirmed = assumed is not None and assumed.spec.node_name == new.spec.node_name
            changed = known is None or (
                (known.spec is not new.spec and known.spec != new.spec)
                or known.metadata.labels != new.metadata.labels
            )
            resized = known is not None and differently_resized(known, new)
            leaves = bool(new.metadata.deletion_timestamp)
            counted = self.table.class_of(key) if leaves and not changed and not resized else None
            if counted is not None:
                self.table.change_class(key, self.engine_of(new).classes.terminating(counted))
            elif leaves or resized or (changed and not confirmed):
                classes = self.engine_of(new).classes
                self.table.add_pod(key, classes.of(_unbound(new)), new.spec.node_name)
        for event in pod_events(old, new):
            self.on_event(event)

    def assume(self, pod: Pod, node: str) -> None:
        """Count *pod* on *node* from now on, as if it were bound."""
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        self.assumed[pod.key] = msgspec.structs.replace(pod, spec=spec)

    @property
    def counted(self) -> Mapping[str, Pod]:
        """All pods that count on a node, by key: those that the watch shows there, and those assumed."""
        return ChainMap(self.pods, self.assumed)

    def on_event(self, event: ClusterEvent) -> None:
        """Wake the pods that an event may help."""
        started = perf_counter()
        if self.queue.on_event(event, self._clock.monotonic()):
            self.work.set()
        self._metrics.event_duration.child(event.label).observe(perf_counter() - started)

    def _looks_at_claims(self) -> bool:
        """Whether pods wait for their claims: the plugin is there and some profile asks it."""
        asked = any(DYNAMIC_RESOURCES not in profile.disabled_filters for profile in self._config.profiles)
        return self._gates.enabled("DynamicResourceAllocation") and asked

    def engine_of(self, pod: Pod) -> Engine:
        return self.engines.get(pod.spec.scheduler_name) or next(iter(self.engines.values()))

    def _note_nomination(self, pod: Pod) -> None:
        node = pod.status.nominated_node_name
        if node:
            self.nominated[pod.key] = (node, pod)
        else:
            self.nominated.pop(pod.key, None)


def _unbound(pod: Pod) -> Pod:
    """Return the pod as it was before it had a node, so that it is of the same class."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
