"""Where does this pod fit, why not elsewhere, and what is the smallest change that would help?

Spec: core.md 3 (what the scheduler asks) and 4.3 (how long a pod may stay). Pure: a document and a World in, a
reason tree out. The judge is an argument, so another engine's verdicts can be explained the same way.
Not here: reading files and printing (weir.cli.explain).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from weir.explain.devices import considered
from weir.explain.engine import Engines
from weir.explain.explanation import Explanation
from weir.explain.fix import Case, find_fix
from weir.explain.node import Judge, binding_mode, is_bound, pod_claims
from weir.explain.phrases import counted
from weir.explain.reasons import Over, Reason, Refused, TooFew, UnreadablePreference
from weir.explain.subject import Subject
from weir.explain.verdict import Group, NodeVerdict, count
from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.requests import pod_requests
from weir.scheduler.csi_migration import inline_handle
from weir.scheduler.plugins.node_affinity import unreadable, unreadable_preferences
from weir.selectors.node import preferred_terms
from weir.world import World

#: The parts of a pod spec that decide where it runs; other mistakes are lint's business.
_PLACEMENT: Final = (
    "tolerations",
    "affinity",
    "nodeSelector",
    "nodeName",
    "schedulingGates",
    "overhead",
    "resources",
)

Tick = Callable[[int, int], None]


def explain(
    pod: Any,
    world: World,
    gates: Gates,
    judge: Callable[[Pod, World, Gates], Judge] | None = None,
    tick: Tick | None = None,
) -> Explanation:
    """Return where *pod* (a Subject, a document or a view) fits in *world*, and why not elsewhere."""
    subject = pod if isinstance(pod, Subject) else Subject.of(pod)
    view = subject.pod()
    stored = world.pods.get(view.key) if subject.kind == "Pod" else None
    placed_on = stored.spec.node_name if stored and subject.stored else ""
    if judge is None:
        judge = Engines(world, without=view.key if stored else "")
    judge_node = judge(view, world, gates)
    blockers = (*over(subject, view), *refusals(subject, gates), *judge_node.blockers())
    verdicts = []
    for done, node in enumerate(world.nodes.values()):
        verdicts.append(judge_node(node))
        if tick and done % 500 == 499:
            tick(done + 1, len(world.nodes))
    nodes = tuple(verdicts)
    undecided = unreadable_preference(view)
    case = Case(subject, view, world, gates, group(nodes), blockers, judge, refusals, undecided)
    if undecided and sum(verdict.fits for verdict in nodes) > 1:
        blockers = (*blockers, undecided)
    fits = not blockers and any(verdict.fits for verdict in nodes)
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
    )


def over(subject: Subject, pod: Pod) -> Iterator[Reason]:
    """Yield why the scheduler does not look at *pod* any more: it has ended, or is being deleted."""
    if subject.kind == "Pod":
        if pod.terminated:
            yield Over(pod.status.phase)
        elif pod.metadata.deletion_timestamp:
            yield Over("")


def unreadable_preference(pod: Pod) -> UnreadablePreference | None:
    """Return the preferred node affinity that breaks the attempt once it has to choose between nodes, or None."""
    text = unreadable_preferences(pod)
    if not text:
        return None
    found = {
        number: tuple(each for each in term.preference.match_expressions or () if unreadable(each))
        for number, term in enumerate(preferred_terms(pod))
        if term.weight
    }
    terms = tuple(number for number, requirements in found.items() if requirements)
    return UnreadablePreference(text, terms, tuple(each for number in terms for each in found[number]))


def selects_namespaces(pod: Pod) -> bool:
    """Return whether *pod* has an affinity that chooses namespaces by their labels."""
    affinity = pod.spec.affinity
    parts = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    return any(term.namespace_selector is not None for part in parts if part for term in part.required or ())


def refusals(subject: Subject, gates: Gates) -> tuple[Reason, ...]:
    """Return what the API server would say against the placement of a pod that is not stored yet."""
    if subject.stored:
        return ()
    from weir.validate import validate

    prefix = ".".join((*subject.path, "spec"))
    errors = []
    for error in validate(subject.document, gates=gates):
        place = error.field.removeprefix(prefix + ".")
        parts = place.replace("[", ".").split(".")
        concerns = parts[0] in _PLACEMENT or (parts[0].endswith("ontainers") and "resources" in parts)
        if concerns and place != error.field:
            errors.append(str(error))
    return (Refused(tuple(errors)),) if errors else ()


# ── grouping ─────────────────────────────────────────────────────────────────────────────────────


def group(verdicts: Iterable[NodeVerdict]) -> list[Group]:
    """Return the verdicts as groups of equal ones; in each, the node with the least missing comes first."""
    groups: dict[tuple[Any, ...], list[NodeVerdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.group, []).append(verdict)
    found = []
    for members in groups.values():
        if any(isinstance(reason, TooFew) for reason in members[0].reasons):
            members = sorted(members, key=_missing)
        found.append(Group(members[0], tuple(verdict.node for verdict in members)))
    return found


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
            return (True, case.plan(each)[0], 0.0, -len(each.nodes))
        limit = verdict.stay.limit
        brevity = 0.0 if limit is None else 1 / (1 + limit.total_seconds())
        return (False, brevity, len(verdict.disliked), -len(each.nodes))

    return sorted(case.groups, key=distance)


# ── what was left out ────────────────────────────────────────────────────────────────────────────


def not_considered(pod: Pod, subject: Subject, world: World, gates: Gates) -> Iterator[str]:
    """Yield what this answer did not look at, most telling first."""
    if pod.spec.node_name:
        yield f"the scheduler, which a pod with nodeName {pod.spec.node_name} never meets"
    replicas = subject.document.get("spec")
    number = replicas.get("replicas") if isinstance(replicas, dict) else None
    if subject.kind not in ("Pod", "DaemonSet") and isinstance(number, int) and number > 1:
        yield f"room for all {number} replicas at once (one is judged)"
    silent = [n for n in world.nodes.values() if n.status.allocatable is None and n.status.capacity is None]
    if silent and pod_requests(pod):
        which = "all nodes" if len(silent) == len(world.nodes) else counted(len(silent), "node")
        yield f"room on {which} (no allocatable in the snapshot)"
    elif not world.pods and pod_requests(pod):
        yield "pods already running (none in the snapshot)"
    yield from _open_claims(pod, world)
    if any(inline_handle(volume) for volume in pod.spec.volumes or ()):
        yield "how many disks each node can attach (CSINodes are not read)"
    if subject.kind == "StatefulSet":
        spec = subject.document.get("spec")
        if isinstance(spec, dict) and spec.get("volumeClaimTemplates"):
            yield "volumeClaimTemplates"
    if selects_namespaces(pod) and not world.namespaces:
        yield "namespaces chosen by their labels (none in the snapshot)"
    if pod.spec.resource_claims and not considered(world, gates):
        yield "resource claims (no devices in the snapshot)"
    yield "preemption, scores between fitting nodes, admission webhooks and quotas"


def _open_claims(pod: Pod, world: World) -> Iterator[str]:
    names = list(pod_claims(pod))
    if names and not world.claims:
        yield f"the volumes of {', '.join(names)} (no claims in the snapshot)"
        return
    for name in names:
        claim = world.claims.get(f"{pod.metadata.namespace or 'default'}/{name}")
        if claim is None:
            continue
        if not is_bound(claim, world):
            if not binding_mode(claim, world):
                yield f"where a volume for {name} could be made (its class is not in the snapshot)"
        elif not world.volumes:
            yield f"volume {claim.spec.volume_name} (no volumes in the snapshot)"
