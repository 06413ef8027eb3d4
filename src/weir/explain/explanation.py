"""The Explanation tree: verdicts per node, blockers, fix and attempt.

Explanation                the result for one pod
├── blockers: Reason …     what keeps it off every node
├── nodes: NodeVerdict …   one per node
│   ├── reasons: Reason …  empty: it fits
│   └── stay: Stay         how long NoExecute taints would let it stay
├── fix: Fix               the smallest change that helps, proven (weir.explain.fix)
├── attempt: Attempt       what the scheduler would write (weir.explain.attempt)
├── unknown                what would decide but is not in the snapshot
└── not_considered         what was left out

Its JSON form has the schema `weir.explain/v1`: fields may be added under the same version, never changed or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weir.explain.attempt import Attempt
from weir.explain.edits import Edit
from weir.explain.fix import Fix
from weir.explain.observed import Observed
from weir.explain.phrases import counted, duration, listed
from weir.explain.reasons import Over
from weir.explain.subject import Subject
from weir.explain.verdict import Group, NodeVerdict
from weir.explain.words import node_sentence, sentence, stay_sentence
from weir.explain.workload import Replicas, wanted_replicas
from weir.gates import Gates
from weir.objects.core import Pod
from weir.scheduler.claim_reasons import ClaimUnusable
from weir.scheduler.reasons import Reason
from weir.taints.eviction import Stay

SCHEMA: Final = "weir.explain/v1"


@dataclass(frozen=True)
class Explanation:
    """Where one pod fits, why not elsewhere, and what would help."""

    subject: Subject
    pod: Pod
    gates: Gates
    nodes: tuple[NodeVerdict, ...]
    blockers: tuple[Reason, ...] = ()
    groups: tuple[Group, ...] = ()
    fix: Fix | None = None
    not_considered: tuple[str, ...] = ()
    placed_on: str = ""  #: the node a stored pod already runs on
    counts: Mapping[str, int] = field(default_factory=dict)
    attempt: Attempt = field(default_factory=Attempt)  #: what the scheduler would write
    replicas: Replicas | None = None  #: of a workload: how many of its pods would run
    observed: Observed = field(default_factory=Observed)  #: what the cluster itself says
    unknown: tuple[str, ...] = ()  #: what would decide and is not in the snapshot

    @property
    def fits(self) -> bool:
        """Whether some node would take the pod as it is."""
        return not self.blockers and any(verdict.fits for verdict in self.nodes)

    @property
    def complete(self) -> bool:
        """Whether the pod fits, and so do all replicas of its workload."""
        if self.replicas is None:
            return self.fits
        return not self.replicas.short and (self.fits or self.replicas.rolled_over)

    @property
    def preempts(self) -> bool:
        """Whether the pod fits nowhere as it is, but runs after preempting others; of a workload, its last pod."""
        if not self.attempt.node or self.complete or self.placed_on:
            return False
        subject, replicas = self.subject, self.replicas
        return (
            wanted_replicas(subject.document, subject.kind) if replicas is None else replicas.missing
        ) == 1

    @property
    def unsure(self) -> bool:
        """Whether what is not in the snapshot could turn the verdict."""
        missing = all(isinstance(reason, ClaimUnusable) and reason.missing for reason in self.blockers)
        return bool(self.unknown) and missing and bool(self.fitting)

    def __str__(self) -> str:
        """The verdict, one line."""
        return verdict_line(self)

    def __repr__(self) -> str:
        """The verdict too: the tree is a screen long, and `data()` has all of it."""
        return f"<Explanation: {self}>"

    def data(self) -> dict[str, Any]:
        """Return the explanation JSON-able, in the schema of `weir explain -o json` for one pod."""
        subject = self.subject
        data: dict[str, Any] = {
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "fits": self.fits,
            "verdict": verdict_line(self),
            "nodes": {"total": len(self.nodes), "fitting": len(self.fitting)},
            "counts": dict(self.counts),
            "blockers": [_reason(reason) for reason in self.blockers],
            "groups": [_group(group) for group in self.groups],
            "fix": _fix(self.fix) if self.fix else None,
            "notConsidered": list(self.not_considered),
        }
        if self.attempt.message:
            data["schedulerMessage"] = self.attempt.message
            data["upstreamMessage"] = self.attempt.upstream
        if self.attempt.node:
            data["preemption"] = {
                "node": self.attempt.node,
                "victims": list(self.attempt.victims),
            }
        if self.replicas is not None:
            replicas = self.replicas
            data["replicas"] = {
                "wanted": replicas.wanted,
                "running": replicas.running,
                "placed": replicas.placed,
                "whyNot": replicas.why_not,
            }
        if self.observed.says:
            data["observed"] = {
                "says": list(self.observed.says),
                "differs": self.observed.differs(self.complete),
            }
        if self.unknown:
            data["unknown"] = list(self.unknown)
        if self.placed_on:
            data["placedOn"] = self.placed_on
        return data

    @property
    def fitting(self) -> tuple[str, ...]:
        """The nodes whose own reasons do not keep the pod away."""
        return tuple(verdict.node for verdict in self.nodes if verdict.fits)


def verdict_line(explanation: Explanation) -> str:
    """Return the whole answer as one line."""
    replicas = explanation.replicas
    if replicas is not None and (replicas.rolled_over or (explanation.fits and replicas.short)):
        return f"{explanation.subject.title}: {replicas.line()}"
    if explanation.unsure and not explanation.placed_on:
        return f"{_verdict(explanation)}; not certain: it is not known {explanation.unknown[0]}"
    return _verdict(explanation)


def _verdict(explanation: Explanation) -> str:
    title, total = explanation.subject.title, len(explanation.nodes)
    if explanation.placed_on:
        return _placed_line(explanation)
    if explanation.preempts:
        victims = counted(len(explanation.attempt.victims), "pod")
        return f"{title} runs after preempting {victims} of lower priority on {explanation.attempt.node}"
    if explanation.blockers:
        return f"{title} fits nowhere: {sentence(explanation.blockers[0])}"
    fitting = explanation.fitting
    if not total:
        return f"{title} fits nowhere: the cluster has no nodes"
    if not fitting:
        return f"{title} fits on none of {counted(total, 'node')}"
    line = f"{title} fits on {len(fitting):,} of {counted(total, 'node')}: {listed(fitting, 3)}"
    stays = [verdict.stay.limit for verdict in explanation.nodes if verdict.fits]
    limits = [limit for limit in stays if limit is not None]
    if len(limits) == len(stays):
        longest = max(limits)
        return f"{line}, but would be " + (
            f"evicted after {duration(longest)}" if longest else "deleted at once"
        )
    return line


def _placed_line(explanation: Explanation) -> str:
    title, node = explanation.subject.title, explanation.placed_on
    verdict = next((verdict for verdict in explanation.nodes if verdict.node == node), None)
    if verdict is None:
        return f"{title} is bound to {node}, which is not among the nodes"
    match explanation.blockers:
        case (Over(""), *_):
            return f"{title} runs on {node} and is being deleted"
        case (Over(phase), *_):
            return f"{title} has ended on {node} ({phase})"
    stay = verdict.stay
    if stay.limit is not None and not stay.limit:
        return f"{title} runs on {node} and would be deleted at once"
    if stay.limit is not None:
        return f"{title} runs on {node} and would be evicted after {duration(stay.limit)}"
    if verdict.reasons:
        return f"{title} runs on {node} and may stay, but would not be placed there again"
    return f"{title} runs on {node} and may stay"


# ── JSON ──


def document(
    answers: Sequence[tuple[Gates, Iterable[Explanation]]],
    known: Mapping[str, Any],
    through_operator: Sequence[Sequence[Any]] = (),
) -> dict[str, Any]:
    """Return the document that `weir explain -o json` prints; *known* says how the gates are known.

    *through_operator* has for each pod the tolerations that hold only because weir's operator lowers them.

    Of two results for unknown gates, the second is in `otherwise`.
    """
    (gates, explanations), *others = answers
    report: dict[str, Any] = {"schema": SCHEMA, "featureGates": str(gates), "gates": dict(known)}
    report["pods"] = _pods(explanations, through_operator)
    for gates, explanations in others:
        report["otherwise"] = {
            "featureGates": str(gates),
            "pods": _pods(explanations, through_operator),
        }
    return report


def _pods(
    explanations: Iterable[Explanation], through_operator: Sequence[Sequence[Any]]
) -> list[dict[str, Any]]:
    pods = [explanation.data() for explanation in explanations]
    for pod, lowered in zip(pods, through_operator, strict=False):
        if lowered:
            pod["throughOperator"] = list(lowered)
    return pods


def _group(group: Group) -> dict[str, Any]:
    verdict = group.verdict
    data: dict[str, Any] = {
        "nodes": list(group.nodes),
        "fits": verdict.fits,
        "text": node_sentence(verdict),
        "reasons": [_reason(reason) for reason in verdict.reasons],
        "stay": _stay(verdict.stay),
    }
    if verdict.disliked:
        data["preferNoSchedule"] = [str(taint) for taint in verdict.disliked]
    return data


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "kind": reason.kind,
        "plugin": reason.plugin,
        "text": sentence(reason),
        "message": reason.message(),
        **reason.data(),
    }


def _stay(stay: Stay) -> dict[str, Any]:
    """Return how long the pod may stay; seconds null: for ever."""
    data: dict[str, Any] = {"seconds": None if stay.limit is None else int(stay.limit.total_seconds())}
    if stay.taint is not None:
        data |= {"taint": str(stay.taint), "text": stay_sentence(stay)}
    return data


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "edits": [_edit(edit) for edit in fix.edits],
        "fitsOn": list(fix.nodes),
        "patch": fix.patch or None,
        "others": [other for other, _ in fix.others],
        "commands": list(fix.commands),
        "alternatives": [[_edit(edit) for edit in edits] for edits in fix.alternatives],
    }


def _edit(edit: Edit) -> dict[str, Any]:
    data = {"kind": type(edit).__name__, "side": edit.side, "text": edit.say()}
    return {**data, "command": edit.command} if edit.command else data
