"""JSON form of an explanation, schema `weir.explain/v1`.

Fields may be added under the same version, never changed or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from weir.explain.edits import Edit
from weir.explain.explanation import Explanation, verdict_line
from weir.explain.fix import Fix
from weir.explain.verdict import Group
from weir.explain.words import node_sentence, sentence, stay_sentence
from weir.gates import Gates
from weir.scheduler.reasons import Reason
from weir.taints.eviction import Stay

SCHEMA: Final = "weir.explain/v1"


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
    found: dict[str, Any] = {"schema": SCHEMA, "featureGates": str(gates), "gates": dict(known)}
    found["pods"] = _pods(explanations, through_operator)
    for gates, explanations in others:
        found["otherwise"] = {
            "featureGates": str(gates),
            "pods": _pods(explanations, through_operator),
        }
    return found


def _pods(
    explanations: Iterable[Explanation], through_operator: Sequence[Sequence[Any]]
) -> list[dict[str, Any]]:
    found = [one(explanation) for explanation in explanations]
    for pod, lowered in zip(found, through_operator, strict=False):
        if lowered:
            pod["throughOperator"] = list(lowered)
    return found


def one(explanation: Explanation) -> dict[str, Any]:
    """Return one explanation, JSON-able."""
    subject = explanation.subject
    data: dict[str, Any] = {
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "fits": explanation.fits,
        "verdict": verdict_line(explanation),
        "nodes": {"total": len(explanation.nodes), "fitting": len(explanation.fitting)},
        "counts": dict(explanation.counts),
        "blockers": [_reason(reason) for reason in explanation.blockers],
        "groups": [_group(group) for group in explanation.groups],
        "fix": _fix(explanation.fix) if explanation.fix else None,
        "notConsidered": list(explanation.not_considered),
    }
    if explanation.attempt.message:
        data["schedulerMessage"] = explanation.attempt.message
        data["upstreamMessage"] = explanation.attempt.upstream
    if explanation.attempt.node:
        data["preemption"] = {
            "node": explanation.attempt.node,
            "victims": list(explanation.attempt.victims),
        }
    if explanation.replicas is not None:
        replicas = explanation.replicas
        data["replicas"] = {
            "wanted": replicas.wanted,
            "running": replicas.running,
            "placed": replicas.placed,
            "whyNot": replicas.why_not,
        }
    if explanation.observed.says:
        data["observed"] = {
            "says": list(explanation.observed.says),
            "differs": explanation.observed.differs(explanation.complete),
        }
    if explanation.unknown:
        data["unknown"] = list(explanation.unknown)
    if explanation.placed_on:
        data["placedOn"] = explanation.placed_on
    return data


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
