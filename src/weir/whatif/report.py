"""The forecast as a document of the schema weir.what-if/v2 (docs/reference/what-if.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from weir.gates import Gates
from weir.whatif.eviction_loops import EvictionLoop
from weir.whatif.forecast import EvictedPod, Forecast, Workload
from weir.whatif.history import Cause
from weir.whatif.words import headline, numbers

SCHEMA: Final = "weir.what-if/v2"
Document = dict[str, Any]


def report(
    found: Forecast, gates: Gates, known: Mapping[str, Any], not_considered: Sequence[str]
) -> Document:
    """Return the answer for machines; *known* says of which gate how it is known."""
    document: Document = {
        "schema": SCHEMA,
        "headline": headline(found),
        "changes": list(found.said),
        "changed": list(found.changed),
        "lookedSeconds": found.looked.total_seconds(),
        "settled": found.settled,
        "circles": [_eviction_loop(each) for each in found.circles],
        "workloads": [_workload(each) for each in found.workloads],
        "leaving": [_evicted_pod(one) for one in found.leaving],
        "staying": found.staying,
        "lockedOut": [each.pod for each in found.locked_out],
        "lockedOutBecause": [
            {"pod": each.pod, "node": each.node, "workload": each.workload, "why": each.why}
            for each in found.locked_out
        ],
        "helped": [
            {"pod": turn.pod, "node": turn.node, "workload": turn.workload, "waitedFor": turn.waited_for}
            for turn in found.helped
        ],
        "hindered": [
            {"pod": turn.pod, "node": turn.node, "workload": turn.workload, "whyNot": turn.why_not}
            for turn in found.hindered
        ],
        "budgets": [
            {
                "budget": each.name,
                "desiredHealthy": each.desired,
                "lowestHealthy": each.lowest,
                "brokenSeconds": _seconds(each.broken_for),
                "brokenAtTheEnd": each.until_the_end,
                "blocks": list(each.blocks),
            }
            for each in found.budgets
        ],
        "leavingAnyway": found.anyway,
        "room": dict(found.room),
        "numbers": {name: float(value) if "." in value else int(value) for name, value in numbers(found)},
        "notes": list(found.notes),
        "story": list(found.story),
        "featureGates": str(gates),
        "gates": dict(known),
        "notConsidered": list(not_considered),
    }
    if found.later:
        document["leavingLater"] = [{"pod": pod, "afterSeconds": _seconds(at)} for pod, at in found.later]
    if found.ended_early:
        document["endedEarly"] = True
    if found.baseline is not None and found.baseline.circles:
        document["circlesAnyway"] = [_eviction_loop(each) for each in found.baseline.circles]
    if found.control_plane:
        document["controlPlane"] = found.control_plane
    if found.differs:
        document["differs"] = [
            {"pod": turn.pod, "node": turn.node, "why": turn.why_not} for turn in found.differs
        ]
    return document


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else round(span.total_seconds(), 3)


def _cause(cause: Cause) -> Document:
    taint = None
    if cause.taint is not None:
        taint = {
            "key": cause.taint.key,
            "value": cause.taint.value,
            "effect": cause.taint.effect,
            "of": cause.of,
        }
    return {"cause": cause.why.value, "taint": taint, "toleratedSeconds": cause.tolerated_for}


def _evicted_pod(one: EvictedPod) -> Document:
    return {
        "pod": one.pod,
        "node": one.node,
        "afterSeconds": _seconds(one.after),
        **_cause(one.cause),
        "owner": one.owner,
        "workload": one.workload,
        "goesTo": one.goes_to,
        "landsAfterSeconds": _seconds(one.lands_after),
        "leavesAgainAfterSeconds": _seconds(one.again_after),
        "endsOn": one.ends_on,
        "lost": one.lost,
        "whyNowhere": one.why_nowhere,
    }


def _eviction_loop(each: EvictionLoop) -> Document:
    return {
        "workload": each.workload,
        "nodes": list(each.nodes),
        "everySeconds": _seconds(each.every),
        "pods": each.pods,
        "rounds": each.rounds,
        "otherNodes": list(each.other_nodes),
        **_cause(each.cause),
    }


def _workload(each: Workload) -> Document:
    return {
        "workload": each.name,
        "before": each.before,
        "after": each.after,
        "lowest": each.lowest,
        "pods": each.pods,
        "left": each.left,
        "waiting": each.waiting,
        "lost": each.lost,
        "anyway": each.anyway,
        "lostAnyway": each.lost_anyway,
        "why": each.why,
        "firstAfterSeconds": _seconds(each.first),
        "moves": [{"from": start, "to": end, "pods": count} for start, end, count in each.moves],
        "circles": each.circle is not None or each.loops_anyway,
    }
