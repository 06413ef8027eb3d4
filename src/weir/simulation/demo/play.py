"""Plays one story in its own cluster and yields what happens.

Time passes only between two yields. The cluster is `weir.simulation.cluster.Cluster` under virtual time. Reasons come
from `weir explain` on the cluster's current state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

import msgspec

from weir.clock import VirtualClock
from weir.errors import ApiError
from weir.explain.explanation import Explanation
from weir.explain.verdict import NodeVerdict
from weir.explain.words import node_sentence, stay_sentence
from weir.gates import ALL_FEATURES, Gates
from weir.scheduler.reasons import Reason, WrongLabel
from weir.simulation.cluster import Cluster, ComponentGates
from weir.simulation.demo.history import History, Life, Watched
from weir.simulation.demo.judge import Judged, fewest_running, judge, pod_facts, workload_facts
from weir.simulation.demo.story import (
    WARM_UP,
    Document,
    ExpectedOutcome,
    NodeOf,
    PlanOf,
    StepOf,
    Story,
    split_object,
)
from weir.simulation.drivers.device_models import read_all
from weir.simulation.drivers.faults import POOL
from weir.simulation.kubelet.node_classes import CLASSES, FAILED, ClassError, NodeClass

HOSTNAME = "kubernetes.io/hostname"
#: So often it is looked whether a wave of a plan has reached its state.
GLANCE = timedelta(seconds=1)


@dataclass(frozen=True)
class Began:
    """A step has been done; now time passes."""

    step: StepOf
    at: timedelta  #: since the story began
    now: datetime  #: the cluster's clock


@dataclass(frozen=True)
class Passing:
    """A while of a step has passed."""

    step: StepOf
    at: timedelta
    now: datetime
    by: timedelta
    history: History


@dataclass(frozen=True)
class Ended:
    """A step's time is over: what was seen, beside what is specified."""

    step: StepOf
    at: timedelta
    now: datetime
    since: datetime  #: when the step's event happened
    judged: tuple[Judged, ...]
    unexpected: tuple[str, ...] = ()  #: refusals that were not expected

    @property
    def fine(self) -> bool:
        return all(self.judged) and not self.unexpected


Moment = Began | Passing | Ended


class Played(Watched, Protocol):
    """A cluster in which a story can be played: weir's own under virtual time, or any live one (weir.conformance)."""

    def set_gates(self, gates: ComponentGates) -> None: ...
    def add_node(
        self,
        name: str,
        *,
        node_class: NodeClass,
        taints: tuple[str, ...] = (),
        labels: Mapping[str, str] | None = None,
    ) -> None: ...
    def taint(self, node: str, *taints: str) -> None: ...
    def degrade(self, node: str, device: str = POOL, **fault: Any) -> None: ...
    def apply(self, *objects: Document) -> Sequence[Document]: ...
    def create(self, document: Document) -> Document: ...
    def patch(self, kind: str, name: str, patch: Document, namespace: str = "default") -> Document: ...
    def delete(self, kind: str, name: str, namespace: str = "default") -> None: ...
    def get(self, kind: str, name: str, namespace: str = "default") -> Document | None: ...
    def list(self, kind: str) -> Sequence[Document]: ...
    def advance(self, by: timedelta) -> None: ...


class CarriedPlan(Protocol):
    """A plan that is carried out; its first wave is made."""

    @property
    def refused(self) -> str:
        """Why there is none, or why it was stopped."""

    @property
    def waves(self) -> int:
        """How many waves have reached their state."""

    @property
    def goes_on(self) -> bool:
        """Whether something is left to do."""

    def lines(self) -> Sequence[str]:
        """Return what was done wave by wave, or what would help."""

    def look(self) -> None:
        """Make the next wave, if the last one has reached its state."""


#: Searches a plan in a cluster of these gates and makes its first wave.
Planner = Callable[[Played, PlanOf, Gates], CarriedPlan]


@dataclass(frozen=True)
class Pace:
    """How a story's time passes; as written unless said otherwise."""

    tick: timedelta | None = None  #: in which pieces; None: a step at a time
    live: bool = False  #: whether the times for live clusters hold
    late: timedelta = timedelta()  #: how much later than specified something may happen
    patience: timedelta = timedelta()  #: how much longer a step may take until its outcomes hold
    glance: timedelta = timedelta(seconds=0.5)  #: how often it is looked then


def play(
    story: Story,
    *,
    tick: timedelta | None = None,
    seed: int = 0,
    clock: VirtualClock | None = None,
    planner: Planner | None = None,
) -> Iterator[Moment]:
    """Yield what happens in *story*; time passes in pieces of *tick*, or a step at a time, by *clock* if given.

    A story with a plan needs a *planner*.
    """
    with Cluster(seed=seed, clock=clock, every_heartbeat=clock is not None) as cluster:
        yield from perform(story, cluster, Pace(tick), cluster.explain, planner=planner)


def perform(
    story: Story,
    cluster: Played,
    pace: Pace,
    explain: Callable[..., Explanation] | None = None,
    ready: Callable[[], None] | None = None,
    planner: Planner | None = None,
) -> Iterator[Moment]:
    """Yield what happens in *story*, played in *cluster*; *explain* gives reasons where available.

    *ready* waits until its nodes are; without it they get a time that is always enough.
    """
    stage = _Stage(cluster, explain, pace, planner)
    for node in story.nodes:
        stage.add_node(node)
    for document in story.objects:
        cluster.apply(document)
    if ready is not None:
        ready()
    else:
        cluster.advance(WARM_UP)
    began = cluster.now
    for step in story.steps:
        stage.begin(step)
        yield Began(step, stage.step_began - began, stage.step_began)
        left = step.lasts_live if pace.live else step.lasts
        while left > timedelta(0):
            by = min(left, pace.tick or left, GLANCE if stage.plan and stage.plan.goes_on else left)
            cluster.advance(by)
            left -= by
            if stage.plan is not None and stage.plan.goes_on:
                stage.plan.look()
            yield Passing(step, cluster.now - began, cluster.now, by, stage.history)
        judged = stage.wait_and_judge(step)
        yield Ended(step, cluster.now - began, cluster.now, stage.step_began, *judged)


@dataclass
class _Stage:
    """The cluster of one story, with what was asked of it and what it refused."""

    cluster: Played
    explain: Callable[..., Explanation] | None = None
    pace: Pace = Pace()
    planner: Planner | None = None
    gates: Gates = ALL_FEATURES
    plan: CarriedPlan | None = None  #: of this step
    waited: timedelta = timedelta()  #: how much longer than written the steps took so far
    history: History = field(init=False)
    step_began: datetime = field(init=False)
    refused: dict[tuple[str, str, str], str] = field(default_factory=dict)
    copies: dict[str, dict[str, str]] = field(default_factory=dict)  # pod → node → name of its copy
    asked: dict[str, Document] = field(default_factory=dict)  # pod or workload → what was asked for

    def __post_init__(self) -> None:
        self.history = History(self.cluster)
        self.history.begin()

    # ── doing ────────────────────────────────────────────────────────────────────────────────────

    def begin(self, step: StepOf) -> None:
        """Do what the step says."""
        cluster = self.cluster
        self.refused.clear()
        self.step_began = cluster.now
        if step.gates:
            gates = gates_of(step.gates)
            self.gates = gates.scheduler
            cluster.set_gates(gates)
        for node in step.nodes:
            self.add_node(node)
        for tainting in step.taint:
            self._try("Node", "", tainting.node, partial(cluster.taint, tainting.node, *tainting.taints))
        for name, off in (*((n, "true") for n in step.fail), *((n, None) for n in step.recover)):
            cluster.patch("Node", name, {"metadata": {"annotations": {FAILED: off}}})
        for fault in step.device:
            settings = {key: value for key, value in fault.items() if key not in ("node", "device")}
            cluster.degrade(fault["node"], fault.get("device", POOL), **settings)
        for patch in step.patch:
            kind, namespace, name = split_object(patch.object)
            self._try(kind, namespace, name, partial(cluster.patch, kind, name, patch.merge, namespace))
        for text in step.delete:
            kind, namespace, name = split_object(text)
            cluster.delete(kind, name, namespace)
        for document in step.apply:
            self._apply(document)
        for document in step.everywhere:
            self._apply_everywhere(document)
        self.plan = None
        if step.plan is not None:
            assert self.planner is not None, "stories with a plan are played with a planner"
            self.plan = self.planner(cluster, step.plan, self.gates)

    def add_node(self, node: NodeOf) -> None:
        known = CLASSES.get(node.node_class)
        if known is None:
            raise ClassError(f"node {node.name}: there is no class {node.node_class!r}")
        chosen = replace(
            known,
            capacity={**known.capacity, **node.capacity},
            life={**known.life, **node.life},
            devices=known.devices if node.devices is None else read_all(node.devices),
        )
        self.cluster.add_node(node.name, node_class=chosen, taints=node.taints, labels=node.labels)

    def _apply(self, document: Document) -> None:
        """Create it, or change it if it is there, as kubectl apply does."""
        kind, metadata = document["kind"], document["metadata"]
        namespace, name = metadata.get("namespace", "default"), metadata["name"]
        self.asked[name] = document
        if self.cluster.get(kind, name, namespace) is None:
            self._try(kind, namespace, name, partial(self.cluster.create, document))
        else:
            self._try(kind, namespace, name, partial(self.cluster.apply, document))

    def _apply_everywhere(self, document: Document) -> None:
        """Ask each node for one copy of a pod: where it is bound, the scheduler said yes."""
        name = document["metadata"]["name"]
        self.copies[name] = {}
        for node in self.cluster.list("Node"):
            host = node["metadata"]["name"]
            copy = f"{name}-on-{host}"
            self.copies[name][host] = copy
            spec = document["spec"]
            selector = {**(spec.get("nodeSelector") or {}), HOSTNAME: node["metadata"]["labels"][HOSTNAME]}
            self._apply(
                {
                    **document,
                    "metadata": {**document["metadata"], "name": copy},
                    "spec": {**spec, "nodeSelector": selector},
                }
            )
        self.asked[name] = document

    def _try(self, kind: str, namespace: str, name: str, act: Callable[[], object]) -> None:
        try:
            act()
        except ApiError as error:
            self.refused[kind, namespace if kind != "Node" else "", name] = error.message

    # ── looking ──────────────────────────────────────────────────────────────────────────────────

    def wait_and_judge(self, step: StepOf) -> tuple[tuple[Judged, ...], tuple[str, ...]]:
        """Return what was seen at the end of a step, or as soon after it as it is all as specified."""
        judged, unexpected = self.judge(step)
        waited = timedelta()
        while not all(judged) and not unexpected and waited < self.pace.patience:
            self.cluster.advance(self.pace.glance)
            waited += self.pace.glance
            self.waited += self.pace.glance
            judged, unexpected = self.judge(step)
        return judged, unexpected

    def judge(self, step: StepOf) -> tuple[tuple[Judged, ...], tuple[str, ...]]:
        """Return the observation for every outcome, and unexpected rejections."""
        judged = tuple(self._judge(outcome, step) for outcome in step.outcomes)
        expected = {self._key(each)[1:] for each in step.outcomes if isinstance(each.refused, str)}
        unexpected = tuple(text for key, text in self.refused.items() if key[1:] not in expected)
        return judged, unexpected

    def _key(self, outcome: ExpectedOutcome) -> tuple[str, str, str]:
        if outcome.object:
            kind, namespace, name = split_object(outcome.object)
            return (kind, "" if kind == "Node" else namespace, name)
        namespace, _, name = outcome.about.rpartition("/")
        return "Pod" if outcome.pod else "", namespace or "default", name

    def _judge(self, outcome: ExpectedOutcome, step: StepOf) -> Judged:
        if self.pace.live and step.live and isinstance(outcome.made, int):
            share = step.lasts_live / step.lasts  # in less time fewer are made again
            outcome = msgspec.structs.replace(outcome, made=1 + int((outcome.made - 1) * share))
        kind, namespace, name = self._key(outcome)
        facts: dict[str, Any] = {
            "refused": next((t for k, t in self.refused.items() if k[1:] == (namespace, name)), None)
        }
        lives: list[Life] = []
        document: Mapping[str, Any] | None
        if outcome.workload:
            lives = self.history.of_workload(namespace, name)
            facts |= workload_facts(lives) | {"lowest": fewest_running(lives, self.step_began)}
            document = self.asked.get(name)
        elif outcome.pod:
            life = self.history.find(namespace, name)
            lives = [life] if life else []
            facts |= pod_facts(life, self.step_began)
            document = life.document if life else None
            if name in self.copies:
                found = {node: self.history.find(namespace, copy) for node, copy in self.copies[name].items()}
                lives = [each for each in found.values() if each]
                facts["nodes"] = [node for node, each in found.items() if each and each.node == node]
        elif outcome.plan and self.plan is not None:
            document = None
            facts = {"waves": self.plan.waves, "refused": self.plan.refused or None}
            return judge(outcome, facts, None, why=self.plan.lines())
        else:
            document = self.cluster.get(kind, name, namespace)
            facts["there"] = document is not None
        events = self.history.events_about(kind, namespace, name)
        late = self.pace.late + self.waited if self.pace.late else self.pace.late
        return judge(outcome, facts, document, events, lives, self._why(outcome, name, lives), late)

    def _why(self, outcome: ExpectedOutcome, name: str, lives: list[Life]) -> tuple[str, ...]:
        """Return why each node took the pod (of a workload: its latest) or did not, in explain's words."""
        if self.explain is None or outcome.object or isinstance(outcome.refused, str):
            return ()
        asked = name in self.copies or not lives
        document = self.asked.get(name) if asked else lives[-1].document
        if document is None:
            return ()
        answer = self.explain(document, stored=not asked)
        left = "" if asked or lives[-1].terminating_at is None else lives[-1].node
        if left:  # a pod is terminating because of the node it was on
            reason = (lives[-1].condition("DisruptionTarget") or {}).get("message", "")
            return tuple(
                f"{left}: {eviction_reason(each) or reason}" for each in answer.nodes if each.node == left
            )
        groups = [
            group
            for group in answer.groups
            if asked or not any(map(_pinned_elsewhere, group.verdict.reasons))
        ]
        lines = [f"{', '.join(group.nodes)}: {node_sentence(group.verdict)}" for group in groups]
        if not answer.fits and answer.fix and not answer.placed_on:
            lines += [f"would help: {edit.say()}" for edit in answer.fix.edits]
        return tuple(lines)


def eviction_reason(verdict: NodeVerdict) -> str:
    """Return why a pod had to leave a node: for how long its taints are tolerated, or which one is not.

    Nothing when the node is not the reason.
    """
    how_long = stay_sentence(verdict.stay)
    at_once = verdict.stay.limit is not None and not verdict.stay.limit
    if verdict.reasons and (at_once or not how_long):
        return "; ".join(filter(None, (node_sentence(verdict), how_long)))
    return how_long


def _pinned_elsewhere(reason: Reason) -> bool:
    """Return whether a node is excluded because the pod selects another one."""
    return isinstance(reason, WrongLabel) and reason.key == HOSTNAME


def gates_of(changes: Mapping[str, Any]) -> ComponentGates:
    """Return the gates that a story asks for: all features on, but for *changes*; `older` names old components.

    >>> gates_of({"scheduler": {"TaintTolerationCEL": False}}).scheduler.cel
    False
    """
    settings = {name: value for name, value in changes.items() if name != "older"}
    older = frozenset(changes.get("older", ()))
    if all(isinstance(value, bool) for value in settings.values()):
        same = ALL_FEATURES.replace(settings)
        return ComponentGates(same, same, same, same, older=older)
    apart = {name: ALL_FEATURES.replace(value) for name, value in settings.items()}
    return replace(ComponentGates.of(apart), older=older)
