"""Whether a toleration tolerates a taint.

Spec: KEP-5471 "Semantics", KEP-5721 "Toleration Logic", KEP-5500 "Semantics For CEL Toleration Matching". Scheduler,
eviction, DaemonSets, kubelet, lint and explain all use it. A value that cannot be read does not match; it is not an
error. The key is compared only when the toleration names one, whatever its operator. An all-empty toleration, which an
old component is left with after dropping `expression`, therefore tolerates every taint that has an empty value, node
conditions included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from weir.gates import TOLERATION_CEL, Gates
from weir.objects.core import Taint, Toleration
from weir.taints.operators import Outcome, find_comparison, find_operator

__all__ = [
    "BLOCKING",
    "EVICTING",
    "SCORING",
    "Outcome",
    "compares",
    "find_tolerating",
    "gate_of",
    "tolerates",
    "untolerated",
]

#: Effects that keep a pod off a node, that make a running pod leave, and that only count against a node.
BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
EVICTING: Final = frozenset({"NoExecute"})
SCORING: Final = frozenset({"PreferNoSchedule"})

#: Evaluates an expression against a taint; components pass their own, backed by their own cache.
Evaluate = Callable[[str, Taint], Outcome]


def tolerates(
    toleration: Toleration, taint: Taint, gates: Gates, evaluate: Evaluate | None = None
) -> Outcome:
    """Return how *toleration* meets *taint*; truthy only when it tolerates it.

    >>> from weir.gates import ALL_FEATURES
    >>> tolerates(Toleration("sla", "Gt", "750"), Taint("sla", "800", "NoSchedule"), ALL_FEATURES)
    <Outcome.TOLERATED: 'tolerates it'>
    """
    if toleration.expression:
        if not gates.cel:
            return Outcome.GATE_OFF
        return (evaluate or _shared_evaluate())(toleration.expression, taint)
    if toleration.effect and toleration.effect != taint.effect:
        return Outcome.OTHER_EFFECT
    if toleration.key and toleration.key != taint.key:
        return Outcome.OTHER_KEY
    operator = find_operator(toleration.operator)
    if operator is None:
        return Outcome.UNKNOWN_OPERATOR
    return operator.compare(toleration.value, taint.value, gates)


def _shared_evaluate() -> Evaluate:
    """Return the evaluator used when a caller brings none; loaded only when an expression is met."""
    from weir.taints.expression import evaluate

    return evaluate


def compares(toleration: Toleration) -> bool:
    """Return whether *toleration* reads the taint's value, so that it may meet one it cannot read."""
    return bool(toleration.expression) or find_comparison(toleration.operator) is not None


def gate_of(toleration: Toleration) -> str:
    """Return the feature gate that *toleration* needs, or "" when it needs none."""
    if toleration.expression:
        return TOLERATION_CEL
    operator = find_comparison(toleration.operator)
    return "" if operator is None else operator.gate


def find_tolerating(
    tolerations: Iterable[Toleration], taint: Taint, gates: Gates, evaluate: Evaluate | None = None
) -> Toleration | None:
    """Return the first of *tolerations* that tolerates *taint*, or None."""
    for toleration in tolerations:
        if tolerates(toleration, taint, gates, evaluate):
            return toleration
    return None


def untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    gates: Gates,
    effects: frozenset[str] = BLOCKING,
    evaluate: Evaluate | None = None,
) -> list[Taint]:
    """Return the taints with one of *effects* that no toleration tolerates, in their own order."""
    return [
        taint
        for taint in taints
        if taint.effect in effects and find_tolerating(tolerations, taint, gates, evaluate) is None
    ]
