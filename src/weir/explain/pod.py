"""Explains one pod: nodes that fit, reasons elsewhere, and the smallest fix.

Spec: core.md 3 (what the scheduler asks) and 4.3 (how long a pod may stay). Pure: a document and a World in, a reason
tree out. The judge is an argument, so another engine's verdicts can be explained the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from weir.explain.admission import Admission, Admitted
from weir.explain.attempt import Attempt, attempt
from weir.explain.devices import considered
from weir.explain.engine import EngineJudge, JudgeFor, engines_for
from weir.explain.explanation import Explanation
from weir.explain.fix import Case, find_fix
from weir.explain.observed import observed
from weir.explain.phrases import counted, listed
from weir.explain.reasons import Gated, Over, Refused
from weir.explain.storage import unknown_storage
from weir.explain.subject import Subject
from weir.explain.verdict import Group, NodeVerdict, count
from weir.explain.workload import Replicas, place_daemons, place_replicas
from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.requests import pod_requests
from weir.scheduler.csi_migration import inline_handle
from weir.scheduler.plugins.node_affinity import unreadable_preference
from weir.scheduler.reasons import OtherReason, Reason, TooFew
from weir.scheduler.volumes import pod_claims
from weir.world import World

Tick = Callable[[int, int], None]


def explain(
    pod: Any,
    world: World,
    gates: Gates,
    judge: JudgeFor | None = None,
    tick: Tick | None = None,
) -> Explanation:
    """Return where *pod* (a Subject, a document or a view) fits in *world*, and why not elsewhere."""
    subject = pod if isinstance(pod, Subject) else Subject.of(pod)
    admitted = Admission(world, gates).admit(subject)
    view = admitted.pod
    if judge is None:
        own = view.key if subject.kind == "Pod" and view.key in world.pods else ""
        with engines_for(view, world, without=own, templates=subject.claim_templates(0)) as engines:
            return _explained(subject, admitted, world, gates, engines, tick)
    return _explained(subject, admitted, world, gates, judge, tick)


def _explained(
    subject: Subject, admitted: Admitted, world: World, gates: Gates, judge: JudgeFor, tick: Tick | None
) -> Explanation:
    view = admitted.pod
    stored = world.pods.get(view.key) if subject.kind == "Pod" else None
    placed_on = stored.spec.node_name if stored and subject.stored else ""
    judge_node = judge(view, world, gates)
    blockers = (*over(subject, view), *_refused(admitted), *judge_node.blockers())
    verdicts = []
    for done, node in enumerate(world.nodes.values()):
        verdicts.append(judge_node(node))
        if tick and done % 500 == 499:
            tick(done + 1, len(world.nodes))
    nodes = tuple(verdicts)
    if any(verdict.fits for verdict in nodes) and not view.spec.node_name:
        blockers = (*blockers, *_failing(nodes))
    undecided = unreadable_preference(view)
    case = Case(subject, view, world, gates, group(nodes), blockers, judge, undecided)
    if undecided and sum(verdict.fits for verdict in nodes) > 1:
        blockers = (*blockers, undecided)
    fits = not blockers and any(verdict.fits for verdict in nodes)
    unplaced = not fits and not placed_on and not view.spec.node_name
    tried = Attempt()
    if unplaced and isinstance(judge_node, EngineJudge) and not _held(blockers):
        tried = attempt(judge_node, world, gates, judge_node.claims)
    return Explanation(
        subject=subject,
        pod=view,
        gates=gates,
        nodes=nodes,
        blockers=blockers,
        groups=tuple(_closest_first(case)),
        fix=None if fits else find_fix(case),
        not_considered=tuple(not_considered(view, subject, world, gates)),
        placed_on=placed_on,
        counts=count(nodes),
        attempt=tried,
        replicas=None if blockers else _replicas(subject, admitted, world, gates, nodes),
        observed=observed(subject, stored or view, world),
        unknown=(*admitted.unknown, *unknown(view, world, gates), *_unknown_room(view, world, nodes)),
    )


def _replicas(
    subject: Subject, admitted: Admitted, world: World, gates: Gates, nodes: Sequence[NodeVerdict]
) -> Replicas | None:
    """Return how many pods of a workload would run; None for what is one pod."""
    if subject.kind == "DaemonSet":
        return place_daemons(subject, admitted, nodes, world, gates)
    return place_replicas(subject, admitted, world, gates, fits=any(verdict.fits for verdict in nodes))


def _failing(nodes: Iterable[NodeVerdict]) -> tuple[Reason, ...]:
    """Return what ends the attempt though some node would take the pod: a filter that fails on another."""
    failing = (
        each for verdict in nodes for each in verdict.reasons if isinstance(each, OtherReason) and each.fails
    )
    return tuple(islice(failing, 1))


def _held(blockers: Iterable[Reason]) -> bool:
    """Return whether the scheduler does not look at the pod at all."""
    return any(isinstance(reason, Gated | Over | Refused) for reason in blockers)


def unknown(pod: Pod, world: World, gates: Gates) -> Iterator[str]:
    """Yield what would decide about *pod* and is not in *world*."""
    yield from unknown_storage(pod, world)
    if pod.spec.resource_claims and not considered(world, gates):
        yield "whether its resource claims can be had (no devices in the snapshot)"


def _unmeasured(world: World) -> list[str]:
    """Return the nodes that do not say what they have."""
    return [
        n.name for n in world.nodes.values() if n.status.allocatable is None and n.status.capacity is None
    ]


def _unknown_room(pod: Pod, world: World, nodes: Iterable[NodeVerdict]) -> Iterator[str]:
    """Yield that nobody knows whether there is room, where only nodes that do not say what they have would do."""
    fitting = {verdict.node for verdict in nodes if verdict.fits}
    if fitting and pod_requests(pod) and fitting <= set(_unmeasured(world)):
        which = "any node has" if len(fitting) == len(world.nodes) else _have(sorted(fitting))
        yield f"how much room {which} (no allocatable in the snapshot)"


def _have(nodes: list[str]) -> str:
    return f"{listed(nodes, 2)} {'has' if len(nodes) == 1 else 'have'}"


def _refused(admitted: Admitted) -> tuple[Reason, ...]:
    """Return what the API server says against the pod, as one reason."""
    return (Refused(admitted.refused),) if admitted.refused else ()


def over(subject: Subject, pod: Pod) -> Iterator[Reason]:
    """Yield why the scheduler does not look at *pod* any more: it has ended, or is being deleted."""
    if subject.kind == "Pod":
        if pod.terminated:
            yield Over(pod.status.phase)
        elif pod.metadata.deletion_timestamp:
            yield Over("")


def selects_namespaces(pod: Pod) -> bool:
    """Return whether *pod* has an affinity that chooses namespaces by their labels."""
    affinity = pod.spec.affinity
    parts = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    return any(term.namespace_selector is not None for part in parts if part for term in part.required or ())


# ── grouping ─────────────────────────────────────────────────────────────────────────────────────


def group(verdicts: Iterable[NodeVerdict]) -> list[Group]:
    """Return the verdicts as groups of equal ones; in each, the node with the least missing comes first."""
    groups: dict[tuple[Any, ...], list[NodeVerdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.group, []).append(verdict)
    result = []
    for members in groups.values():
        if any(isinstance(reason, TooFew) for reason in members[0].reasons):
            members = sorted(members, key=_missing)
        result.append(Group(members[0], tuple(verdict.node for verdict in members)))
    return result


def _missing(verdict: NodeVerdict) -> float:
    return sum(
        (reason.requested - reason.free) / max(reason.requested, 1)
        for reason in verdict.reasons
        if isinstance(reason, TooFew)
    )


def _closest_first(case: Case) -> list[Group]:
    """Return the groups: those that fit (and may stay, and are liked), then by how small a change would help."""

    def distance(each: Group) -> tuple[bool, float, float, int]:
        verdict = each.verdict
        if verdict.reasons:
            plans = case.plan(each)
            return (True, plans[0][0] if plans else float("inf"), 0.0, -len(each.nodes))
        limit = verdict.stay.limit
        brevity = 0.0 if limit is None else 1 / (1 + limit.total_seconds())
        return (False, brevity, len(verdict.disliked), -len(each.nodes))

    return sorted(case.groups, key=distance)


# ── what was left out ────────────────────────────────────────────────────────────────────────────


def not_considered(pod: Pod, subject: Subject, world: World, gates: Gates) -> Iterator[str]:
    """Yield what was not considered, most relevant first."""
    if pod.spec.node_name:
        yield f"the scheduler, which a pod with nodeName {pod.spec.node_name} never meets"
    silent = _unmeasured(world)
    if silent and pod_requests(pod):
        which = "all nodes" if len(silent) == len(world.nodes) else counted(len(silent), "node")
        yield f"room on {which} (no allocatable in the snapshot)"
    elif not world.pods and pod_requests(pod):
        yield "pods already running (none in the snapshot)"
    drivers = any(inline_handle(volume) for volume in pod.spec.volumes or ()) or any(pod_claims(pod))
    if drivers and not world.knows("CSINode"):
        yield "how many volumes each node can attach (no CSINodes in the snapshot)"
    if selects_namespaces(pod) and not world.namespaces:
        yield "namespaces chosen by their labels (none in the snapshot)"
    yield "scores between fitting nodes, admission webhooks and policies"
