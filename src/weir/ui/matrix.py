"""Fit matrix: each workload against each group of equal nodes, by the scheduler's engine.

A cell counts the nodes of a group that would take one more pod of the workload, and otherwise has the first reason.
Workloads with the same pod class are evaluated once. A fix is small when it is one edit of something the pod already
specifies (a missed threshold, not a new toleration); it is proven before it is shown. All nodes are evaluated at once
over columns; reasons are computed for one node per group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from weir.explain.admission import Admission
from weir.explain.engine import EngineJudge, Engines
from weir.explain.fix import Case
from weir.explain.pod import over
from weir.explain.reasons import Refused
from weir.explain.verdict import Group
from weir.explain.words import node_sentence, sentence
from weir.gates import Gates
from weir.objects.core import Container, Pod, ViewError
from weir.objects.pod_reader import relevant_volumes
from weir.objects.requests import RequestError
from weir.scheduler.pod_class import class_key
from weir.scheduler.reasons import Reason
from weir.ui.matrix_cache import CachedRow, GroupVerdict, MatrixCache, judged_by_node_alone, rememberable
from weir.ui.node_groups import NodeGroup, group_nodes
from weir.ui.workloads import Workload
from weir.world import World

SCHEMA: Final = "weir.ui.matrix/v1"
#: What a cell can say, most welcome first; the page has a colour, a shape and a word for each.
VERDICTS: Final = (
    "fits", "some", "change", "taint", "affinity", "room", "device", "volume", "other", "unknown",
)  # fmt: skip
#: By the kind of the reason that decides.
_BY_KIND: Final = {
    "taint": "taint", "unschedulable": "taint",
    "node-selector": "affinity", "node-affinity": "affinity", "node-name": "affinity", "pod-affinity": "affinity",
    "topology-spread": "affinity", "features": "affinity",
    "resources": "room", "pods": "room", "ports": "room",
    "devices": "device", "allocated-claim": "device", "device-claim": "device",
    "volume": "volume", "claim": "volume",
}  # fmt: skip
#: Tolerating a taint the pod says nothing of costs as much; what is nearer is a small change.
_SMALL: Final = 15.0
_MOST_PROVEN: Final = 6
Tick = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """What one group of nodes says to one workload."""

    verdict: str
    fitting: int
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One workload held against all groups."""

    cells: tuple[Cell, ...]
    fits: bool
    verdict: str  #: the worst there is to say of it as a whole: of its own verdicts the best
    text: str = ""  #: what keeps it off every node, if something does


@dataclass
class Matrix:
    """The answer for a whole cluster at one moment."""

    workloads: Sequence[Workload]
    groups: Sequence[NodeGroup]
    rows: dict[str, Row] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()  #: workloads whose hypothetical form is shown
    memory: MatrixCache | None = None  #: what the next matrix may use again

    def document(self) -> dict[str, Any]:
        """Return the matrix for the page: texts are written once, and cells name them by number."""
        texts: dict[str, int] = {"": 0}
        home = {node: number for number, group in enumerate(self.groups) for node in group.nodes}
        rows = []
        for each in self.workloads:
            row = self.rows[each.id]
            here = [0] * len(self.groups)
            for node, count in each.by_node().items():
                if node in home:
                    here[home[node]] += count
            cells = [
                [
                    VERDICTS.index(cell.verdict),
                    cell.fitting,
                    texts.setdefault(cell.text, len(texts)),
                    here[at],
                ]
                for at, cell in enumerate(row.cells)
            ]
            rows.append(
                {
                    "id": each.id,
                    "kind": each.kind,
                    "namespace": each.namespace,
                    "name": each.name,
                    "wanted": each.wanted,
                    "running": each.running,
                    "pending": each.pending,
                    "fits": row.fits,
                    "verdict": VERDICTS.index(row.verdict),
                    "text": row.text,
                    "tried": each.id in self.changed,
                    "keys": sorted(_keys(each)),
                    "cells": cells,
                }
            )
        return {
            "schema": SCHEMA,
            "verdicts": list(VERDICTS),
            "groups": [group.document() for group in self.groups],
            "workloads": rows,
            "texts": list(texts),
        }


def make_matrix(
    workloads: Sequence[Workload],
    world: World,
    gates: Gates,
    cannot: Mapping[str, str] | None = None,
    tick: Tick | None = None,
    before: MatrixCache | None = None,
) -> Matrix:
    """Return every workload held against every group of nodes; *cannot* says of which nothing can be said, and why."""
    selected = {key for each in workloads for key in _selected(each)}
    groups = group_nodes(list(world.nodes.values()), selected)
    judging = Judging(world, gates, groups, before)
    found = Matrix(workloads, groups, memory=judging.memory)
    for done, each in enumerate(workloads):
        said = (cannot or {}).get(each.id)
        found.rows[each.id] = judging.unknown(said) if said else judging.row(each)
        if tick and done % 50 == 49:
            tick(done + 1, len(workloads))
    return found


class Judging:
    """The scheduler's engine over one world, for one workload after the other."""

    def __init__(
        self, world: World, gates: Gates, groups: Sequence[NodeGroup], before: MatrixCache | None = None
    ) -> None:
        self._world, self._gates, self._groups = world, gates, groups
        self._engines = Engines(world, resources=_resources(world))
        self._admission = Admission(world, gates)
        self._alone = _alone(world)
        self._known: dict[Any, Row] = {}
        keeps = self._alone and rememberable(world)
        self.memory = MatrixCache(world, gates, groups) if keeps else None
        self._reuse = before.after(world, gates, groups) if keeps and before is not None else None
        self._again = Engines(self._reuse.world, resources=_resources(world)) if self._reuse else None

    def unknown(self, why: str) -> Row:
        """Return the row of a workload of which nothing can be said."""
        cells = tuple(Cell("unknown", 0, why) for _ in self._groups)
        return Row(cells, False, "unknown", why)

    def row(self, workload: Workload) -> Row:
        """Return what every group says to *workload*."""
        try:
            return self._row(workload)
        except (ViewError, RequestError) as error:
            return self.unknown(f"cannot be read: {' '.join(str(error).split())}")

    def _row(self, workload: Workload) -> Row:
        subject = workload.subject
        admitted = self._admission.admit(subject)
        pod = admitted.pod
        stored = self._world.pods.get(pod.key) if subject.kind == "Pod" else None
        own = stored is not None and bool(stored.spec.node_name) and not stored.terminated
        key = None
        held = (*over(subject, pod), *((Refused(admitted.refused),) if admitted.refused else ()))
        if held:
            return self._held(held[0])
        if not (own or subject.claim_templates(0)):
            key = _class_key(pod, self._alone)
            if key in self._known:
                return self._known[key]
            if (reused := self._reused(key, workload, pod)) is not None:
                self._known[key] = reused
                return reused
        engines = self._engines
        if subject.claim_templates(0):
            engines = Engines(self._world, templates=subject.claim_templates(0))
        aside: AbstractContextManager[None] = nullcontext()
        if own:
            aside = engines.setting_aside([pod.key])
        with aside:
            judge = engines(pod, self._world, self._gates)
            blockers = judge.blockers()
            row = self._held(blockers[0]) if blockers else self._judged(workload, pod, engines, judge, key)
        if key is not None:
            self._known[key] = row
        return row

    def _held(self, reason: Reason) -> Row:
        """Return the row of a workload that something keeps off every node."""
        verdict, said = _BY_KIND.get(reason.kind, "other"), sentence(reason)
        return Row(tuple(Cell(verdict, 0, said) for _ in self._groups), False, verdict, said)

    def _judged(self, workload: Workload, pod: Pod, engines: Engines, judge: EngineJudge, key: Any) -> Row:
        fitting = judge.fitting()
        taken = [sum(name in fitting for name in group.nodes) for group in self._groups]
        case, said = self._ask(workload, pod, engines, judge, self._groups, taken, fitting)
        _prove(case, said, said)
        if self.memory is not None and key is not None and judged_by_node_alone(pod, self._world):
            self.memory.keep(key, CachedRow(taken, said))
        return self._as_row(taken, said)

    def _reused(self, key: Any, workload: Workload, pod: Pod) -> Row | None:
        """Return the row of a pod from the previous matrix; only changed groups are evaluated."""
        if self._reuse is None or self._again is None or self.memory is None:
            return None
        before = self._reuse.rows.get(key)
        if before is None or not judged_by_node_alone(pod, self._world):
            return None
        taken = [before.taken[old] if old >= 0 else 0 for old in self._reuse.same]
        said = [before.said[old] if old >= 0 else None for old in self._reuse.same]
        fresh = [number for number, old in enumerate(self._reuse.same) if old < 0]
        case: Case | None = None
        answers: list[GroupVerdict] = []
        if fresh:
            judge = self._again(pod, self._reuse.world, self._gates)
            if judge.blockers():
                return None
            fitting, groups = judge.fitting(), [self._groups[number] for number in fresh]
            counts = [sum(name in fitting for name in group.nodes) for group in groups]
            case, answers = self._ask(workload, pod, self._again, judge, groups, counts, fitting)
            for number, count, answer in zip(fresh, counts, answers, strict=True):
                taken[number], said[number] = count, answer
        whole = [each for each in said if each is not None]
        if not _prove(case, whole, answers):
            return None
        self.memory.keep(key, CachedRow(taken, whole))
        return self._as_row(taken, whole)

    def _ask(
        self,
        workload: Workload,
        pod: Pod,
        engines: Engines,
        judge: EngineJudge,
        groups: Sequence[NodeGroup],
        taken: Sequence[int],
        fitting: frozenset[str],
    ) -> tuple[Case, list[GroupVerdict]]:
        """Return what one node of each group says: one that refuses, if there is one."""
        spoken = [
            next((name for name in group.nodes if name not in fitting), group.nodes[0]) for group in groups
        ]
        verdicts = judge.some(spoken)
        held = [Group(each, (each.node,)) for each in verdicts]
        case = Case(workload.subject, pod, engines.world, self._gates, held, (), engines)
        found = []
        for group, count in zip(held, taken, strict=True):
            verdict = group.verdict
            words = node_sentence(verdict)
            kind = verdict.deciding[0].kind if verdict.deciding else ""
            answer = GroupVerdict(verdict.node, verdict.fits, words, words if verdict.reasons else "", kind)
            if not count and len(verdict.reasons) == 1:
                plans = case.plan(group)
                if plans and len(plans[0][1]) == 1 and plans[0][0] < _SMALL and plans[0][1][0].side == "pod":
                    answer.plan = plans[0]
            found.append(answer)
        return case, found

    def _as_row(self, taken: Sequence[int], said: Sequence[GroupVerdict]) -> Row:
        cells = []
        near = {id(each) for each in _nearest(said) if each.helps}
        for group, count, each in zip(self._groups, taken, said, strict=True):
            if each.fits or count == len(group.nodes):
                cells.append(Cell("fits", len(group.nodes), each.words))
            elif count:
                cells.append(Cell("some", count, each.text))
            elif id(each) in near and each.plan is not None:
                cells.append(Cell("change", 0, f"{each.text}; would help: {each.plan[1][0].say()}"))
            else:
                cells.append(Cell(_BY_KIND.get(each.kind, "other"), 0, each.text))
        best = min((cell.verdict for cell in cells), key=VERDICTS.index, default="other")
        return Row(tuple(cells), any(taken), best, "" if cells else "the cluster has no nodes")


def _nearest(said: Sequence[GroupVerdict]) -> list[GroupVerdict]:
    """Return the groups with the cheapest small edits, up to the number that is tried."""
    planned = [(each.plan[0], number) for number, each in enumerate(said) if each.plan is not None]
    return [said[number] for _, number in sorted(planned)[:_MOST_PROVEN]]


def _prove(case: Case | None, said: Sequence[GroupVerdict], of_case: Sequence[GroupVerdict]) -> bool:
    """Try the small edits that were not tried yet; False: one is about a node that *case* does not hold."""
    here = {id(each) for each in of_case}
    for each in _nearest(said):
        if each.helps is None and each.plan is not None:
            if case is None or id(each) not in here:
                return False
            each.helps = each.node in case.after(each.plan[1])
    return True


def _class_key(pod: Pod, alone: bool) -> Any:
    """Return what pods must have in common to be judged as one, or None for one that is judged by itself.

    Names, images and, where no pod is chosen by its neighbours (*alone*), labels do not decide which nodes take a pod.
    """
    affinity, spec = pod.spec.affinity, pod.spec
    neighbours = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    if not alone or neighbours or spec.topology_spread_constraints:
        return class_key(pod)
    if spec.resource_claims:
        return None
    volumes = relevant_volumes(pod)
    plain = replace(
        spec,
        containers=_plain(spec.containers),
        init_containers=_plain(spec.init_containers),
        volumes=volumes,
    )
    place = (pod.metadata.namespace, pod.metadata.name if any(v.ephemeral for v in volumes) else "")
    return (msgspec.json.encode(plain, order="sorted"), volumes and place)


def _resources(world: World) -> frozenset[str]:
    """Return every resource that nodes have, so that all pods are judged over one table."""
    sizes = {tuple(sorted(node.status.allocatable or ())) for node in world.nodes.values()}
    return frozenset(name for size in sizes for name in size)


def _plain(containers: Sequence[Container] | None) -> tuple[Container, ...]:
    return tuple(replace(each, name="", image="") for each in containers or ())


def _alone(world: World) -> bool:
    """Return whether no pod keeps others away from itself by their labels."""
    return not any(
        pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity for pod in world.pods.values()
    )


def _keys(workload: Workload) -> Iterator[str]:
    """Yield the taint and label keys that a workload speaks of, to filter by."""
    spec = workload.subject.pod_spec
    spec = spec if isinstance(spec, dict) else {}
    for each in spec.get("tolerations") or ():
        if isinstance(each, dict) and isinstance(each.get("key"), str) and each["key"]:
            yield each["key"]
    yield from _selected(workload)


def _selected(workload: Workload) -> Iterator[str]:
    """Yield the node labels that a workload selects by."""
    spec = workload.subject.pod_spec
    spec = spec if isinstance(spec, dict) else {}
    selector = spec.get("nodeSelector")
    if isinstance(selector, dict):
        yield from (str(key) for key in selector)
    affinity = spec.get("affinity")
    node = affinity.get("nodeAffinity") if isinstance(affinity, dict) else None
    yield from _expressions(node)
    for each in spec.get("topologySpreadConstraints") or ():
        if isinstance(each, dict) and isinstance(each.get("topologyKey"), str):
            yield each["topologyKey"]


def _expressions(part: Any) -> Iterator[str]:
    """Yield the keys of all match expressions below *part*."""
    below: Iterable[Any] = ()
    if isinstance(part, dict):
        if isinstance(part.get("key"), str) and "operator" in part:
            yield part["key"]
        below = part.values()
    elif isinstance(part, list):
        below = part
    for each in below:
        yield from _expressions(each)
