"""Advice for one workload's tolerations.

How many nodes accept it, whether they all depend on one value of one taint, what its thresholds decide, and which
entries are unused. Every advised change was tried on the scheduler's engine. "One value away" is about a taint that
*every* accepting node has, so a workload with a single node is fragile, too, unless that node accepts it without an
ordered toleration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weir.advise.question import Question, ordered, read_tolerations, with_taint_value
from weir.advise.thresholds import Thresholds, find_thresholds, ordered_tolerations
from weir.explain.subject import Subject
from weir.explain.workload import places_all, wanted_replicas
from weir.objects.core import Node, Pod, Taint, Toleration
from weir.objects.pod_reader import relevant_volumes
from weir.objects.requests import host_ports
from weir.taints.eviction import stay
from weir.taints.operators import find_comparison
from weir.taints.toleration import BLOCKING, find_tolerating, tolerates
from weir.taints.wellknown import OWN_PREFIXES


@dataclass(frozen=True)
class Change:
    """A change of the workload that was tried: what it is, and the nodes that take a pod after it."""

    kind: str  #: `loosen` or `remove`
    toleration: Toleration
    value: str  #: the new value; "" when the entry goes
    after: Subject
    nodes: frozenset[str]


@dataclass(frozen=True)
class Advice:
    """What there is to say about one workload."""

    subject: Subject
    total: int  #: how many nodes there are
    nodes: frozenset[str]  #: those that take a pod of it
    zones: frozenset[str]
    keep: int  #: how many nodes it should have
    refused: tuple[str, ...] = ()  #: what the API server says against it
    resting_on: Taint | None = None  #: the one taint value that, once it changes, leaves it no node
    thresholds: tuple[Thresholds, ...] = ()
    unused: tuple[Toleration, ...] = ()  #: entries that no node gives a reason for
    changes: tuple[Change, ...] = ()

    @property
    def fragile(self) -> bool:
        return self.resting_on is not None

    @property
    def rank(self) -> tuple[int, int, str]:
        """Its place among others: first those that fit nowhere, then fragile, then short of nodes, then the rest."""
        if not self.nodes:
            level = 0
        elif self.fragile:
            level = 1
        else:
            level = 2 if len(self.nodes) < self.keep else 3
        return level, len(self.nodes), self.subject.title


def advise(question: Question, keep: int = 0) -> Advice:
    """Return what there is to say about the workload; *keep* nodes are wanted for it, 0: as many as it needs."""
    subject, nodes = question.subject, question.fitting()
    keep = keep or wanted_nodes(question, nodes)
    written = read_tolerations(question.written)
    resting_on = _resting_on(question, written, nodes)
    thresholds = tuple(find_thresholds(question, index, keep) for index in ordered_tolerations(written))
    removals = tuple(_removals(question, written, nodes))
    loosened = _loosened(question, thresholds, nodes, keep, resting_on)
    return Advice(
        subject=subject,
        total=len(question.world.nodes),
        nodes=nodes,
        zones=question.zones(nodes),
        keep=keep,
        refused=question.admitted.refused,
        resting_on=resting_on,
        thresholds=thresholds,
        unused=tuple(each.toleration for each in removals),
        changes=(*((loosened,) if loosened else ()), *removals),
    )


def wanted_nodes(question: Question, fitting: frozenset[str]) -> int:
    """Return how many nodes the workload needs: one for each replica only where something keeps replicas apart.

    With fewer nodes than replicas they are placed one after the other; if that ends early, more nodes are wanted.
    """
    subject, pod = question.subject, question.admitted.pod
    replicas = max(wanted_replicas(subject.document, subject.kind), 1)
    apart = may_keep_apart(pod)
    if not fitting or len(fitting) >= replicas:
        return replicas if apart else 1
    if not places_all(subject, question.admitted, question.world_without_own(), question.gates):
        return replicas
    return len(fitting) if apart else 1


def may_keep_apart(pod: Pod) -> bool:
    """Return whether pods like *pod* may refuse a node because another of them is there, however much room it has."""
    spec, affinity = pod.spec, pod.spec.affinity
    return bool(
        any(host_ports(pod))
        or (affinity is not None and affinity.pod_anti_affinity and affinity.pod_anti_affinity.required)
        or any(each.when_unsatisfiable == "DoNotSchedule" for each in spec.topology_spread_constraints or ())
        or spec.resource_claims
        or relevant_volumes(pod)
    )


# ── one value away ───────────────────────────────────────────────────────────────────────────────


def _resting_on(question: Question, written: Sequence[Toleration], fitting: frozenset[str]) -> Taint | None:
    """Return the taint that every fitting node has and whose next value, if it misses, leaves none; None: no such."""
    shared: set[tuple[str, str, str]] | None = None
    for name in fitting:
        identities = _identities(question.world.nodes[name])
        shared = identities if shared is None else shared & identities
        if not shared:
            return None
    nodes = [question.world.nodes[name] for name in sorted(fitting)]
    for taint in (Taint(*each) for each in sorted(shared or ())):
        entry = find_tolerating(written, taint, question.gates) if taint.effect in BLOCKING else None
        if entry is None or not ordered_tolerations([entry]):
            continue
        # The threshold itself is never past the threshold. Nodes with the same taints get the same answer.
        different = {node.taints: with_taint_value(node, taint, entry.value) for node in nodes}
        if not any(question.fits_changed(tuple(different.values()))):
            return taint
    return None


def _identities(node: Node) -> set[tuple[str, str, str]]:
    return {(taint.key, taint.value, taint.effect) for taint in node.taints}


# ── changes ──────────────────────────────────────────────────────────────────────────────────────


def _loosened(
    question: Question,
    thresholds: Sequence[Thresholds],
    fitting: frozenset[str],
    keep: int,
    resting_on: Taint | None,
) -> Change | None:
    """Return the smallest step of one threshold after which there are enough nodes that rest on more than one value."""
    if len(fitting) >= keep and resting_on is None:
        return None

    def better(nodes: frozenset[str]) -> bool:
        return len(nodes) > len(fitting) and not _share(resting_on, question, nodes)

    best: tuple[tuple[bool, int, int], Thresholds, str] | None = None
    for each in thresholds:
        for tried, value in enumerate(_looser(each), 1):
            nodes = question.node_names(question.fitting_with(each.index, value))
            if not better(nodes):
                continue
            enough = len(nodes) >= keep
            rank = (not enough, tried if enough else -len(nodes), each.index)
            if best is None or rank < best[0]:
                best = rank, each, value
            if enough:
                break
    if best is None:
        return None
    _, chosen, value = best
    after = question.with_value(chosen.index, value)
    return Change("loosen", chosen.toleration, value, after, question.fitting(after))


def _share(taint: Taint | None, question: Question, nodes: frozenset[str]) -> bool:
    if taint is None:
        return False
    same = (taint.key, taint.value, taint.effect)
    return all(same in _identities(question.world.nodes[name]) for name in nodes)


def _looser(each: Thresholds) -> Iterator[str]:
    """Yield the values looser than today's, nearest first."""
    comparison = find_comparison(each.toleration.operator)
    limits = {each.toleration.value, *each.steps}
    ranked = ordered(limits, comparison) if comparison is not None and each.steps else []
    yield from (
        ranked[ranked.index(each.toleration.value) + 1 :] if each.toleration.value in ranked else each.steps
    )


def _removals(question: Question, written: Sequence[Toleration], fitting: frozenset[str]) -> Iterator[Change]:
    """Yield each entry that is about no taint of any node, with the proof that nothing changes without it.

    An entry whose value is missed today, or that another one stands before, waits for values to change: it is used.
    """
    nodes = list(question.world.nodes.values())
    taints = question.cluster.every_taint
    for index, entry in enumerate(written):
        if entry.key.startswith(OWN_PREFIXES) or any(_about(entry, taint, question) for taint in taints):
            continue
        rest = [each for at, each in enumerate(question.written) if at != index]
        after = question.with_tolerations(rest)
        if question.fitting(after) == fitting and _stays_alike(
            nodes, written, read_tolerations(rest), question
        ):
            yield Change("remove", entry, "", after, fitting)


def _about(entry: Toleration, taint: Taint, question: Question) -> bool:
    if entry.expression:
        return bool(tolerates(entry, taint, question.gates))
    return entry.key in ("", taint.key) and entry.effect in ("", taint.effect)


def _stays_alike(
    nodes: Sequence[Node], before: Sequence[Toleration], after: Sequence[Toleration], question: Question
) -> bool:
    lists = {node.taints: node for node in nodes}
    return all(
        stay(taints, before, question.gates).limit == stay(taints, after, question.gates).limit
        for taints in lists
    )
