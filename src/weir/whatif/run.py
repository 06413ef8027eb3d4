"""The answer to a what-if question: the cluster's future with the change, from the components' own decisions.

The snapshot is held as it is under virtual time (weir.forecast.cluster; weir.simulation.cluster where a question needs
a whole control plane). It settles for a moment, so that what was in progress anyway is not reported; the change is
made; then time passes until only eviction loops go on, or until the horizon (weir.whatif.horizon). Pods that end by
themselves never do here, since their duration is unknown; a node without heartbeats stays without; new pods of a Ready
node start after a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from weir.clock import VirtualClock
from weir.explain.observed import observed_pod
from weir.forecast.cluster import ForecastCluster
from weir.forecast.coverage import needs_control_plane as cluster_needs_control_plane
from weir.gates import Gates
from weir.objects.core import Pod, read
from weir.objects.kinds import find_kind
from weir.objects.pod_reader import SnapshotPod
from weir.objects.pod_usage import UsageModel
from weir.observe.interpreter import collect_rarely
from weir.simulation.kubelet.behaviour import Life
from weir.simulation.kubelet.node_classes import LIFE, SIMULATED
from weir.simulation.kubelet.run import Hosts, life_of
from weir.whatif.baseline import only_the_change, without_a_change
from weir.whatif.changes import Change, Drain, SetGates, Wait
from weir.whatif.changes.change import ChangedCluster, needs_control_plane
from weir.whatif.completion import complete
from weir.whatif.device_causes import device_cause
from weir.whatif.eviction_loops import find_eviction_loops, with_other_nodes
from weir.whatif.forecast import (
    Forecast,
    SchedulabilityChange,
    budgets,
    evictions,
    schedulability_changes,
    unaffected,
    workloads,
)
from weir.whatif.history import History, PodLife
from weir.whatif.horizon import Horizon, Tick, idle_forecast
from weir.whatif.pod_records import whole
from weir.whatif.room import room
from weir.whatif.snapshot import owner_of
from weir.whatif.story import story
from weir.whatif.unaffected_pods import Divided, Population
from weir.world import World, flatten

Document = dict[str, Any]

#: Of so many pods all are alive in the copy; of more, those that the change cannot touch only take room.
MANY: Final = 2_000
SETTLE_SECONDS: Final = 10.0
HOUR: Final = 3600.0
#: Controllers that say nothing about where pods run, or that start what cannot be predicted.
WITHOUT: Final = (
    "*",
    "-endpoints",
    "-endpointslice",
    "-endpointslice-mirroring",
    "-root-ca-certificate-publisher",
    "-cronjob",
    "-node-ttl",
    "-serviceaccount",
    "-validatingadmissionpolicy-status",
    "-certificatesigningrequest-approving",
    "-certificatesigningrequest-signing",
    "-certificatesigningrequest-cleaner",
    "-podcertificaterequest-cleaner",
    "-kube-apiserver-serving-clustertrustbundle-publisher",
)
_UNTIL_ENDED: Final = Life(run_seconds=math.inf)
#: Events that the answer is read from; others are not kept.
_TELLING: Final = frozenset({"FailedCreate"})
NOT_CONSIDERED: Final = (
    "how long pods take to end and to start beyond a second; Jobs that finish and CronJobs that start meanwhile; "
    "cluster autoscalers; webhooks; what else changes meanwhile"
)


@dataclass(frozen=True)
class WhatIfOptions:
    """What is asked about a change, beside the change itself."""

    gates: Gates
    now: datetime
    until: float = HOUR  #: seconds after the change
    seed: int = 0
    explain: str = ""  #: a pod, or the beginning of its name, whose story is wanted
    at_least: float = 0.0  #: seconds after the change before which loops do not end the run


def life_in_copy(node: Document) -> Life:
    """Return how pods live on a node of the copy: on simulated nodes as there, elsewhere until something ends them."""
    metadata = node["metadata"]
    if LIFE in (metadata.get("annotations") or {}) or SIMULATED in (metadata.get("labels") or {}):
        return life_of(node)
    return _UNTIL_ENDED


def what_if(
    documents: Iterable[Document],
    changes: Sequence[Change],
    asked: WhatIfOptions,
    tick: Tick | None = None,
    at_the_end: Callable[[ChangedCluster], None] | None = None,
    *,
    pods: Iterable[msgspec.Raw | SnapshotPod] = (),
    leave_out: bool | None = None,
    control_plane: bool | None = None,
) -> Forecast:
    """Return what *changes*, made one after the other at *asked.now*, do to the cluster that *documents* describe.

    *pods* are more pods of the cluster, as bytes or of a snapshot. *at_the_end* is given the copy before it is thrown
    away. With *leave_out* pods that the change cannot touch only take room in the copy; of a small cluster all are
    alive unless asked. With *control_plane* a copy of the whole control plane is run, without it never; else where only
    that can tell.
    """
    loaded = LoadedCluster(documents, pods, leave_out=leave_out)
    return loaded.what_if(changes, asked, tick, at_the_end, control_plane=control_plane)


class LoadedCluster:
    """A cluster that any number of questions are asked about; what all of them need is worked out once."""

    def __init__(
        self,
        documents: Iterable[Document],
        pods: Iterable[msgspec.Raw | SnapshotPod] = (),
        *,
        leave_out: bool | None = None,
    ) -> None:
        with collect_rarely():
            flat = list(flatten(documents))
            self._others = [each for each in flat if each.get("kind") != "Pod"]
            self._pods = [*(each for each in flat if each.get("kind") == "Pod"), *pods]
            if leave_out is None:
                leave_out = len(self._pods) > MANY
            self._population = Population(self._others, self._pods) if leave_out else None

    def what_if(
        self,
        changes: Sequence[Change],
        asked: WhatIfOptions,
        tick: Tick | None = None,
        at_the_end: Callable[[ChangedCluster], None] | None = None,
        *,
        control_plane: bool | None = None,
    ) -> Forecast:
        """Return what `what_if` does."""
        with collect_rarely():
            reason = self._needs_control_plane(changes, control_plane)
            forecast = self._ask(changes, asked, reason, tick and partial(_tick, tick, 0), at_the_end)
            if all(isinstance(change, Wait) for change in changes):
                return without_a_change(forecast)
            if not forecast.touches:
                return forecast
            wait, followed = Wait(0.0), replace(asked, at_least=forecast.looked.total_seconds())
            reason = self._needs_control_plane([wait], control_plane)
            if self._population is not None and not reason and self._population.rests(asked.gates):
                baseline = idle_forecast(wait.say(), asked.now, asked.until)
            else:
                baseline = self._ask([wait], followed, reason, tick and partial(_tick, tick, 1))
            return only_the_change(forecast, baseline)

    def _needs_control_plane(self, changes: Sequence[Change], control_plane: bool | None) -> str:
        """Return why a copy of the whole control plane is run, "" if none is."""
        if control_plane is not None:
            return "it was asked for" if control_plane else ""
        return needs_control_plane(changes, self._others) or cluster_needs_control_plane(self._others)

    def _ask(
        self,
        changes: Sequence[Change],
        asked: WhatIfOptions,
        reason: str,
        tick: Tick | None = None,
        at_the_end: Callable[[ChangedCluster], None] | None = None,
    ) -> Forecast:
        """Return what *changes* do to the cluster, what happens anyway included."""
        below: int | None = None
        while True:
            divided = None
            if self._population is not None:
                divided = self._population.divide(changes, below, asked.gates)
            if divided is None:
                divided = Divided([*self._others, *map(whole, self._pods)])
            forecast, refused = _run(divided, changes, asked, tick, at_the_end, reason)
            if divided.lowest is None or refused is None or refused <= divided.lowest:
                return forecast
            below = refused  # it could push out pods that were left out: once more, with those alive


def _tick(tick: Tick, before: int, done: int, total: int) -> None:
    """Tell how far the first or the second of two runs is."""
    tick(before * total + done, 2 * total)


def _run(
    divided: Divided,
    changes: Sequence[Change],
    asked: WhatIfOptions,
    tick: Tick | None,
    at_the_end: Callable[[ChangedCluster], None] | None,
    control_plane: str,
) -> tuple[Forecast, int | None]:
    """Return what comes of a copy, and the highest priority of its pods that fitted nowhere."""
    copied = complete(divided.documents, asked.now)
    divided.documents = []  # the copy has its own, and lives long
    with _copy(divided, copied.documents, asked, control_plane) as cluster:
        run = _Run(cluster, copied.documents, changes, asked, tick or (lambda done, total: None))
        copied.documents = []  # those that are changed or deleted need not be kept
        found = replace(run.forecast(copied.notes, divided), control_plane=control_plane)
        if at_the_end is not None:
            at_the_end(cluster)
        return found, run.refused_priority


def _copy(
    divided: Divided, documents: list[Document], asked: WhatIfOptions, control_plane: str
) -> ChangedCluster:
    """Return the cluster that the change is made to: objects under forecast, or a whole control plane."""
    start = asked.now - timedelta(seconds=SETTLE_SECONDS)
    if not control_plane:
        return ForecastCluster(
            start=start,
            seed=asked.seed,
            gates=asked.gates,
            controllers=WITHOUT,
            holding=documents,
            life_of=life_in_copy,
            seats=divided.seats,
            event_reasons=_TELLING,
        )
    from weir.simulation.cluster import Cluster  # half of weir, and most questions need none of it

    return Cluster(
        clock=VirtualClock(start),
        seed=asked.seed,
        gates=asked.gates,
        controllers=WITHOUT,
        holding=documents,
        hosts=Hosts(selector="", report=False, life=life_in_copy),
        seats=divided.seats,
        event_reasons=_TELLING,
        usage=UsageModel(share=None),  # what was not measured is not known in the copy either
    )


class _Run:
    """One run of a copy."""

    def __init__(
        self,
        cluster: ChangedCluster,
        documents: list[Document],
        changes: Sequence[Change],
        asked: WhatIfOptions,
        tick: Tick,
    ) -> None:
        self._cluster, self._changes, self._asked = cluster, changes, asked
        self._history = history = History(asked.gates)
        self._above: dict[str, Document] = {}  # uid of a ReplicaSet or Job → its controller
        pods = sum(document["kind"] == "Pod" for document in documents)
        self._horizon = Horizon(
            cluster, history, asked.now, asked.until, pods, self._workload_of, tick, asked.at_least
        )
        began = cluster.now
        history.device_cause = partial(device_cause, cluster, began)
        for document in documents:
            match document["kind"]:
                case "Pod":
                    history.observe_pod(began, None, document)
                case "Node":
                    history.observe_node(began, None, document)
                case "ReplicaSet":
                    self._observe_owner(began, None, document)
        waiting = [life for life in history.lives.values() if not life.node and life.left is None]
        self._waited = {life.uid for life in waiting}
        nothing = World.of(())  # events are not collected: a pod's own condition says as much
        self._said = {life.uid: observed_pod(read(Pod, life.document), nothing) for life in waiting}
        cluster.observe("Pod", history.observe_pod)
        cluster.observe("Node", history.observe_node)
        cluster.observe("PodDisruptionBudget", history.observe_budget)
        cluster.observe("ReplicaSet", self._observe_owner)

    def _observe_owner(self, now: datetime, old: Document | None, new: Document | None) -> None:
        if new is not None and (above := owner_of(new)) is not None:
            self._above[new["metadata"]["uid"]] = above

    @property
    def refused_priority(self) -> int | None:
        """The highest priority of pods that fitted nowhere at some time and may push others out."""
        return self._history.refused_priority

    def forecast(self, notes: list[str], divided: Divided) -> Forecast:
        """Settle, make the changes, let time pass, and say what came of it."""
        cluster, history, asked = self._cluster, self._history, self._asked
        self._horizon.run_bounded(lambda: cluster.advance(SETTLE_SECONDS))
        history.start(cluster.now, cluster.list("Node"))
        differs = tuple(self._differs())
        revision = cluster.revision
        messages: list[str] = []
        settled = self._horizon.run_bounded(lambda: self._make_changes(messages))
        moved = cluster.revision != revision
        words = tuple(change.say() for change in self._changes)
        if not moved and not any(map(_takes_effect, self._changes)):
            return Forecast(words, (), notes=tuple(messages), at=asked.now, differs=differs)
        changed = self._changed()
        if settled:
            settled = self._horizon.run_bounded(self._horizon.pass_time) and self._horizon.rests
        history.pair()
        ended = history.last_seen = (cluster.now - asked.now).total_seconds()
        for job in cluster.list("Job"):
            for condition in (job.get("status") or {}).get("conditions") or ():
                if condition.get("type") == "Failed" and condition.get("status") == "True":
                    history.ended_owners[job["metadata"]["uid"]] = condition.get("message", "")
        for event in cluster.events("FailedCreate"):
            history.refusals[event["involvedObject"].get("uid", "")] = event.get("message", "")
        history.due = self._horizon.due()
        loops = [
            with_other_nodes(each, history, self._workload_of, self._fitting)
            for each in find_eviction_loops(history, self._workload_of)
        ]
        settled = settled and not loops
        if self._horizon.too_many_writes:
            messages.append(self._horizon.busiest(ended))
        evicted = list(evictions(history, self._workload_of, loops))
        nodes = {name.removeprefix("node/") for name in changed if name.startswith("node/")}
        stay, locked = unaffected(history, nodes, self._workload_of, asked.gates, self._scheduler_gates())
        stay += sum(len(divided.seats.get(name, ())) for name in nodes)
        newly_schedulable, newly_unschedulable = schedulability_changes(
            history, self._waited, self._workload_of
        )
        blocked = {
            pod: name
            for change in self._changes
            if isinstance(change, Drain)
            for pod, name in change.blocked.items()
        }
        return Forecast(
            words,
            tuple(changed),
            tuple(evicted),
            tuple(loops),
            tuple(workloads(history, self._workload_of, loops, divided.seated)),
            stay,
            tuple(locked),
            tuple(newly_schedulable),
            tuple(newly_unschedulable),
            tuple(budgets(history, blocked, ended)),
            room(cluster.plane.scheduler.state.table, history.gates, self._waiting()),
            tuple(messages),
            (*notes, *map(_failure_note, cluster.plane.failures())),
            asked.now,
            timedelta(seconds=ended),
            settled,
            tuple(story(history, asked.explain, self._workload_of)) if asked.explain else (),
            {life.key: life.uid for life in history.there_at_the_change()},
            differs,
            ended_early=self._horizon.too_many_writes,
            later=tuple(self._horizon.later({each.workload for each in loops})),
        )

    def _fitting(self, life: PodLife) -> Iterable[str]:
        """Return the nodes that pass the scheduler's filters for a pod, as if it had no node."""
        pod = read(Pod, life.document)
        engine = self._cluster.plane.scheduler.state.engines.get(pod.spec.scheduler_name)
        if engine is None:
            return ()
        unbound = msgspec.structs.replace(pod.spec, node_name="")
        return engine.fitting(msgspec.structs.replace(pod, spec=unbound))

    def _waiting(self) -> Iterator[Pod]:
        """Yield the pods without a node at the end."""
        for life in self._history.lives.values():
            if not life.node and life.left is None:
                yield read(Pod, life.document)

    def _differs(self) -> Iterator[SchedulabilityChange]:
        """Yield the waiting pods that the copy has placed before any change, though the cluster says it cannot."""
        for life in self._history.lives.values():
            said = self._said.get(life.uid)
            if said is not None and life.node and (difference := said.differs(fits=True)):
                yield SchedulabilityChange(life.key, life.node, difference)

    def _changed(self) -> list[str]:
        """Return what the changes changed: nodes by what they say of themselves, other objects as they were named."""
        before, after = self._history.nodes_before, self._history.nodes
        found = [
            f"node/{name}"
            for name in {**before, **after}
            if _face(before.get(name)) != _face(after.get(name))
        ]
        for change in self._changes:
            for document in getattr(change, "documents", ()):
                kind = find_kind(document["apiVersion"], document["kind"])
                if kind is not None and kind.kind != "Node":
                    found.append(f"{kind.singular}/{document['metadata']['name']}")
            if workload := getattr(change, "workload", ""):
                found.append(workload)
            if isinstance(change, SetGates):
                found += change.changed()
        return list(dict.fromkeys(found))

    def _make_changes(self, messages: list[str]) -> None:
        """Make the changes, and add what to report about them to *messages*."""
        for change in self._changes:
            if isinstance(change, SetGates):
                self._history.gates = change.gates_of("controllers")
            messages += change.make(self._cluster)

    def _scheduler_gates(self) -> Gates:
        """Return the scheduler's gates after the changes."""
        last = [change for change in self._changes if isinstance(change, SetGates)][-1:]
        return last[0].gates_of("scheduler") if last else self._asked.gates

    def _workload_of(self, life: PodLife) -> str:
        above = self._above.get(life.owner_uid)
        title = f"{above['kind']}/{above['name']}" if above is not None else life.owner
        return f"{life.namespace}/{title or f'Pod/{life.name}'}"


def _face(node: Document | None) -> Any:
    """Return what a change of a node changes, apart from what follows from it."""
    if node is None:
        return None
    return node.get("spec"), node["metadata"].get("labels"), (node.get("status") or {}).get("allocatable")


def _takes_effect(change: Change) -> bool:
    """Return whether a change that wrote nothing may do something all the same."""
    return isinstance(change, Wait) or (isinstance(change, SetGates) and bool(change.changed()))


def _failure_note(failure: str) -> str:
    """Return what to say of an object at which a controller of the copy failed: the answer lacks its part."""
    return f"{failure}, which fails in weir: `weir lint` says whether the object is valid"
