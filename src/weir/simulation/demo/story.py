"""Story files: title, cluster, steps, expected outcomes (YAML), and the features that a story needs of a cluster.

`docs/howto/write-a-story.md` describes the format. An invalid file is rejected with its name and field before
anything starts. `weir conformance` skips a story whose needs a cluster does not offer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from weir.gates import ALL_FEATURES, GateError
from weir.objects.kinds import KINDS, find_kind
from weir.objects.manifest import read_values
from weir.simulation.kubelet.behaviour import Life, LifeError
from weir.simulation.kubelet.node_classes import CLASSES, ClassError
from weir.taints.notation import TaintNotationError, parse_taint
from weir.values.duration import DurationError, parse_duration

#: Each need with its meaning, in the order of the results.
NEEDS: Final[Mapping[str, str]] = {
    "numeric": "Lt and Gt in tolerations",
    "semver": "SemverLt, SemverGt and SemverEq in tolerations",
    "semver-affinity": "the same operators in node affinity",
    "cel": "expressions in tolerations",
    "devices": "claims for devices (dynamic resource allocation)",
    "device-taints": "taints of devices, published by their driver",
    "separate-taints": "taints of devices in a ResourceSlice of their own",
    "numeric-claims": "Lt and Gt in the tolerations of claims",
    "semver-claims": "Semver operators in the tolerations of claims",
    "rules": "DeviceTaintRules",
    "rates": "evictionsPerSecond of device taints",
    "rule-expressions": "DeviceTaintRules that select by expression",
    "v1alpha4": "resource.k8s.io in the form of the KEP's examples, v1alpha4",
    "autoscaler": "HorizontalPodAutoscalers with metrics of simulated pods",
    "budgets": "PodDisruptionBudgets",
}


class NeedError(ValueError):
    """An unknown need."""


def check_needs(needs: Iterable[str]) -> None:
    """Raise NeedError unless every one of *needs* is known."""
    for need in needs:
        if need not in NEEDS:
            raise NeedError(f"needs: {need!r} is none of {', '.join(NEEDS)}")


Document = dict[str, Any]
FOLDER: Final = Path(__file__).parent / "stories"
COMPONENTS: Final = ("apiserver", "scheduler", "controllers", "kubelet")
#: How long a cluster is given to become ready before a story begins.
WARM_UP: Final = timedelta(seconds=5)
#: What `stayed` and `left` say of a pod that is not terminating.
NEVER: Final = "never"
_SUBJECTS: Final = ("pod", "workload", "object", "plan")


class StoryError(ValueError):
    """A story that cannot be read, with the file and what is wrong."""


class NodeOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A simulated node of a story; taints as kubectl writes them, `class` as of `weir node add`."""

    name: str
    node_class: str = msgspec.field(name="class", default="default")
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    capacity: dict[str, str] = {}
    life: dict[str, Any] = {}  #: how its pods live, as in a class file: {failureRate: 0.1}
    devices: Any = None  #: as a class file has them: {count: 2}, or a list


class Tainting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From now on a node has exactly these taints, beside those its conditions stand for."""

    node: str
    taints: tuple[str, ...]


class Patch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON merge patch of one object."""

    object: str  #: Kind/name, or Kind/namespace/name
    merge: Document


class PlanOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan that is searched and, where there is one, carried out wave by wave while its step lasts."""

    name: str
    change: str  #: as a line of `weir what-if changes`: taint -l pool=spot sla=650:NoExecute
    goals: dict[str, str] = {}  #: by the options of `weir plan`: {max-unavailable: "1"}


class ExpectedOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must be seen of one object at the end of a step; what is not named is not looked at.

    Exactly one of `pod`, `workload`, `object` and `plan` says of what. All facts are read from the cluster's objects.
    """

    pod: str = ""  #: name, or namespace/name
    workload: str = ""  #: whose pods: the name of a Deployment, DaemonSet, StatefulSet, Job or ReplicaSet
    object: str = ""  #: Kind/name, or Kind/namespace/name
    plan: str = ""  #: the name of a plan of this step
    note: str = ""  #: why it is worth looking at; printed, not compared

    there: bool | msgspec.UnsetType = msgspec.UNSET  #: whether the object exists
    shows: dict[str, Any] = {}  #: path → value in the object as last seen (`status.devices[0].device`)
    refused: str | msgspec.UnsetType = (
        msgspec.UNSET
    )  #: the message with which the API server refused it; of a plan: why there is none
    events: tuple[str, ...] = ()  #: "Reason: message" of its events since the start; … is anything

    node: str | msgspec.UnsetType | None = msgspec.UNSET  #: where the pod was bound; null: nowhere
    nodes: tuple[str, ...] | msgspec.UnsetType = (
        msgspec.UNSET
    )  #: of `everywhere`: where its copies were bound
    phase: str | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET  #: status.reason
    message: str | msgspec.UnsetType = (
        msgspec.UNSET
    )  #: why the scheduler has no place (condition PodScheduled)
    disrupted: str | msgspec.UnsetType | None = msgspec.UNSET  #: reason of the condition DisruptionTarget
    stayed: str | msgspec.UnsetType = msgspec.UNSET  #: from being bound to terminating, in whole seconds
    left: str | msgspec.UnsetType = msgspec.UNSET  #: from the step's event to terminating; "0s": at once

    pods: dict[str, int] | msgspec.UnsetType = msgspec.UNSET  #: of a workload: phase → how many are there
    made: int | msgspec.UnsetType = msgspec.UNSET  #: of a workload: at least so many pods were ever there
    lowest: int | msgspec.UnsetType = (
        msgspec.UNSET
    )  #: of a workload: at least so many ran at any moment since the step's event
    waves: int | msgspec.UnsetType = msgspec.UNSET  #: of a plan: how many were made and reached their state

    @property
    def about(self) -> str:
        """What this is about, for messages."""
        return self.pod or self.workload or self.object or self.plan

    @property
    def subject(self) -> Literal["pod", "workload", "object", "plan"]:
        return "pod" if self.pod else "workload" if self.workload else "object" if self.object else "plan"

    def asserted(self) -> dict[str, Any]:
        """Return the facts that are compared, by name."""
        names = (name for name in self.__struct_fields__ if name not in (*_SUBJECTS, "note"))
        found = {name: getattr(self, name) for name in names}
        said = {name: value for name, value in found.items() if value is not msgspec.UNSET}
        return {name: value for name, value in said.items() if name not in ("shows", "events") or value}


class StepOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that happens, the time it is given, and what must come of it. Done in the order of the fields."""

    event: str
    gates: dict[str, Any] = {}  #: Gate → on, or component → {Gate → on}; `older`: components
    nodes: tuple[NodeOf, ...] = ()
    taint: tuple[Tainting, ...] = ()
    fail: tuple[str, ...] = ()  #: nodes that are switched off
    recover: tuple[str, ...] = ()  #: nodes that are switched on again
    device: tuple[
        Document, ...
    ] = ()  #: faults as of a class file's schedule, each with its node (weir.simulation.drivers.faults)
    patch: tuple[Patch, ...] = ()
    delete: tuple[str, ...] = ()  #: Kind/name
    apply: tuple[Document, ...] = ()
    everywhere: tuple[
        Document, ...
    ] = ()  #: pods of which each node is asked for one copy (nodeSelector by name)
    plan: PlanOf | None = None
    after: str = "10s"
    live: str = ""  #: how long a live cluster is given instead, where less shows as much
    outcomes: tuple[ExpectedOutcome, ...] = ()

    @property
    def lasts(self) -> timedelta:
        return parse_time(self.after)

    @property
    def lasts_live(self) -> timedelta:
        """Duration in a live cluster, in real time."""
        return parse_time(self.live) if self.live else self.lasts


class _StoryOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    source: str
    asks: str
    steps: tuple[StepOf, ...]
    nodes: tuple[NodeOf, ...] = ()
    objects: tuple[Document, ...] = ()
    rows: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Story:
    """One story."""

    name: str  #: the file's name without its ending
    title: str
    source: str  #: which document it comes from
    asks: str  #: the question in one sentence
    steps: tuple[StepOf, ...]
    nodes: tuple[NodeOf, ...] = ()
    objects: tuple[Document, ...] = ()  #: what is there from the start
    rows: tuple[str, ...] = ()  #: which rows of core.md 10 it lives through
    needs: tuple[str, ...] = ()  #: what a cluster must offer, by the names of weir.simulation.demo.story
    decisions: tuple[str, ...] = ()  #: where Kubernetes is known to do otherwise: `dra D-07`, `stock 2`

    @property
    def lasts_live(self) -> timedelta:
        """Duration in a live cluster, in real time."""
        return sum((step.lasts_live for step in self.steps), WARM_UP)

    @property
    def sets_gates(self) -> bool:
        """Whether components are restarted with other gates, which only a cluster of weir's own lets one do."""
        return any(step.gates for step in self.steps)

    @property
    def has_plan(self) -> bool:
        """Whether a plan is carried out, which reads and changes all there is in the cluster."""
        return any(step.plan is not None for step in self.steps)

    @property
    def lasts(self) -> timedelta:
        """How much of the cluster's time passes."""
        return sum((step.lasts for step in self.steps), WARM_UP)


def parse_time(text: str) -> timedelta:
    """Return the time that *text* means.

    >>> parse_time("1m30s")
    datetime.timedelta(seconds=90)
    """
    return timedelta(microseconds=parse_duration(text) // 1000)


def parse_story(text: str | bytes, name: str) -> Story:
    """Return the story that *text* holds; raises StoryError.

    >>> parse_story("{title: t, source: s, asks: a, steps: [{event: e, after: soon}]}", "x")
    Traceback (most recent call last):
    weir.simulation.demo.story.StoryError: x: step 1: not a duration: 'soon'
    """
    documents = read_values(text, name)
    if len(documents) != 1:
        raise StoryError(f"{name}: a story is one document, here are {len(documents)}")
    try:
        written = msgspec.convert(documents[0], _StoryOf)
    except msgspec.ValidationError as error:
        raise StoryError(f"{name}: {error}") from None
    if not written.steps:
        raise StoryError(f"{name}: nothing happens: steps is empty")
    where = name
    try:
        check_needs(written.needs)
        _check_cluster(written.nodes, written.objects)
        for number, step in enumerate(written.steps, 1):
            where = f"{name}: step {number}"
            _check(step)
    except (
        DurationError,
        StoryError,
        NeedError,
        GateError,
        ClassError,
        LifeError,
        TaintNotationError,
    ) as error:
        raise StoryError(f"{where}: {error}") from None
    return Story(
        name,
        written.title,
        written.source,
        written.asks,
        written.steps,
        written.nodes,
        written.objects,
        written.rows,
        written.needs,
        written.decisions,
    )


def _check(step: StepOf) -> None:
    if step.lasts < timedelta(0):
        raise StoryError(f"after: {step.after!r} is in the past")
    if not timedelta(0) <= step.lasts_live <= step.lasts:
        raise StoryError(f"live: {step.live!r} is not between nothing and {step.after!r}")
    _check_gates(step.gates)
    _check_cluster(step.nodes, (*step.apply, *step.everywhere))
    for document in step.everywhere:
        if document["kind"] != "Pod" or not isinstance(document.get("spec"), dict):
            raise StoryError(
                f"everywhere: {document['kind']}/{document['metadata']['name']} is no pod with a spec"
            )
    for tainting in step.taint:
        for text in tainting.taints:
            parse_taint(text)
    for fault in step.device:
        if not isinstance(fault.get("node"), str):
            raise StoryError(f"device: {fault!r} does not say on which node")
    for text in (*step.delete, *(patch.object for patch in step.patch)):
        split_object(text)
    for outcome in step.outcomes:
        _check_outcome(outcome)
        if outcome.plan and (step.plan is None or step.plan.name != outcome.plan):
            raise StoryError(f"plan: this step has no plan {outcome.plan!r}")


def _check_outcome(outcome: ExpectedOutcome) -> None:
    if sum(bool(getattr(outcome, name)) for name in _SUBJECTS) != 1:
        raise StoryError("an outcome is about a pod, a workload, an object or a plan: name exactly one")
    if not outcome.asserted():
        raise StoryError(f"the outcome of {outcome.about} says nothing that could be compared")
    for value in (outcome.stayed, outcome.left):
        if isinstance(value, str) and value != NEVER:
            parse_time(value)
    if outcome.object:
        split_object(outcome.object)


def _check_cluster(nodes: Iterable[NodeOf], documents: Iterable[Document]) -> None:
    for node in nodes:
        if node.node_class not in CLASSES:
            raise StoryError(f"node {node.name}: there is no class {node.node_class!r}")
        Life.read(node.life)
        for text in node.taints:
            parse_taint(text)
    for document in documents:
        version, kind, metadata = (document.get(name) for name in ("apiVersion", "kind", "metadata"))
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise StoryError(f"a {kind or 'document'} without metadata.name cannot be created")
        if find_kind(str(version), str(kind)) is None:
            raise StoryError(f"{metadata['name']}: there is no kind {kind} in {version}")


def _check_gates(gates: Mapping[str, Any]) -> None:
    settings = {name: value for name, value in gates.items() if name != "older"}
    older = gates.get("older", [])
    if not isinstance(older, list) or {str(each).partition("=")[0] for each in older} - set(COMPONENTS):
        raise StoryError(f"gates: older is a list out of {', '.join(COMPONENTS)} (apiserver=1.34)")
    if all(isinstance(value, bool) for value in settings.values()):
        ALL_FEATURES.replace(settings)
        return
    for name, value in settings.items():
        if name not in COMPONENTS or not isinstance(value, dict):
            raise StoryError(
                f"gates: {name}: write Gate: true, or one of {', '.join(COMPONENTS)} with its gates"
            )
        if not all(isinstance(each, bool) for each in value.values()):
            raise StoryError(f"gates: {name}: a gate is true or false")
        ALL_FEATURES.replace(value)


def split_object(text: str) -> tuple[str, str, str]:
    """Return kind, namespace and name of `Kind/name` or `Kind/namespace/name`.

    >>> split_object("Pod/web"), split_object("Pod/team/web")
    (('Pod', 'default', 'web'), ('Pod', 'team', 'web'))
    """
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise StoryError(f"{text!r}: write Kind/name or Kind/namespace/name")
    if all(kind.kind != parts[0] for kind in KINDS):
        raise StoryError(f"{text!r}: there is no kind {parts[0]}")
    return (parts[0], "default", parts[1]) if len(parts) == 2 else (parts[0], parts[1], parts[2])


def find_stories(folder: Path = FOLDER) -> list[Story]:
    """Return every story of a folder, in the order of the files' names."""
    return [parse_story(path.read_bytes(), path.stem) for path in sorted(folder.glob("*.yaml"))]


def choose(stories: Iterable[Story], words: Iterable[str], command: str = "demo") -> list[Story]:
    """Return the stories that any of *words* means: a name, or a part of name, title or source. None: all.

    Raises StoryError for a word that means none.
    """
    there = list(stories)
    wanted = list(words)
    chosen: set[str] = set()
    for word in wanted:
        exact = {story.name for story in there if story.name == word}
        low = word.lower()
        found = exact or {s.name for s in there if low in f"{s.name} {s.title} {s.source}".lower()}
        if not found:
            raise StoryError(f"no story is called like {word!r}: weir {command} --list names them")
        chosen |= found
    return [story for story in there if not wanted or story.name in chosen]


_PART: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def find_path(document: Mapping[str, Any], path: str) -> Any:
    """Return what stands at *path*, or None: `a.b[0].c`, `[type=Ready]` from a list, `["a.b/c"]` for odd keys.

    >>> find_path({"a": [{"type": "x", "b/1.0": 1}]}, 'a[type=x]["b/1.0"]')
    1
    """
    found: Any = document
    for bracketed, name in _PART.findall(path):
        if bracketed and not bracketed.startswith('"'):
            found = _choose_item(found, bracketed)
        else:
            key = bracketed.strip('"') or name
            found = found.get(key) if isinstance(found, Mapping) else None
        if found is None:
            return None
    return found


def _choose_item(found: Any, choice: str) -> Any:
    if not isinstance(found, list):
        return None
    name, equals, value = choice.partition("=")
    if equals:
        matching = (each for each in found if isinstance(each, Mapping) and str(each.get(name)) == value)
        return next(matching, None)
    return found[int(name)] if name.isdigit() and int(name) < len(found) else None
