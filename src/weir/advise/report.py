"""JSON form of advice, schema `weir.advise/v1`.

Fields may be added under the same version, never changed or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from weir.advise.taints import UntoleratedTaint
from weir.advise.thresholds import Step, Thresholds
from weir.advise.words import change_line, heading
from weir.advise.workload import Advice, Change
from weir.explain.fix import merge_patch
from weir.gates import Gates

SCHEMA: Final = "weir.advise/v1"


def document(
    advice: Iterable[Advice], untolerated: Iterable[UntoleratedTaint], gates: Gates, known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the document that `weir advise -o json` prints; *known* says how the gates are known."""
    return {
        "schema": SCHEMA,
        "featureGates": str(gates),
        "gates": dict(known),
        "workloads": [one(each) for each in advice],
        "shunnedTaints": [
            {
                "key": each.taint.key,
                "value": each.taint.value,
                "effect": each.taint.effect,
                "nodes": list(each.nodes),
            }
            for each in untolerated
        ],
    }


def one(advice: Advice) -> dict[str, Any]:
    """Return the advice for one workload, JSON-able."""
    resting = advice.resting_on
    return {
        "kind": advice.subject.kind,
        "namespace": advice.subject.namespace,
        "name": advice.subject.name,
        "verdict": heading(advice),
        "nodes": sorted(advice.nodes),
        "zones": sorted(advice.zones),
        "wanted": advice.keep,
        "refused": list(advice.refused),
        "fragile": advice.fragile,
        "restingOn": {"key": resting.key, "value": resting.value, "effect": resting.effect}
        if resting
        else None,
        "thresholds": [_threshold(each) for each in advice.thresholds],
        "unused": [msgspec.to_builtins(each) for each in advice.unused],
        "changes": [_change(each, advice) for each in advice.changes],
    }


def _threshold(each: Thresholds) -> dict[str, Any]:
    return {
        "toleration": msgspec.to_builtins(each.toleration),
        "index": each.index,
        "now": _step(each.now),
        "tightest": _step(each.tightest),
        "loosest": _step(each.loosest),
        "zones": [{"zone": zone, "tightest": value} for zone, value in each.zones],
    }


def _step(step: Step | None) -> dict[str, Any] | None:
    return {"value": step.value, "nodes": len(step.nodes)} if step is not None else None


def _change(change: Change, advice: Advice) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "text": change_line(change, advice.nodes),
        "patch": merge_patch(advice.subject.document, change.after.document),
        "nodes": sorted(change.nodes),
    }
