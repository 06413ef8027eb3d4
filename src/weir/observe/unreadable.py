"""Log lines about values that could not be compared, for finding misconfigured nodes.

Spec: core.md 1.6; KEP-5471 "Taint Misconfiguration Detection", KEP-5721 "Node-Side Handling", KEP-5500
"Troubleshooting".
Messages and level (error) are upstream's, with the taint's key, the pod and the node added. A toleration and a taint
that could not be compared are logged once in five minutes, however many pods and nodes have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from weir.gates import Gates
from weir.objects.core import Taint, Toleration
from weir.observe.logs import Log, ObjectRef
from weir.taints.operators import UNREADABLE, Outcome
from weir.taints.toleration import Evaluate, compares, tolerates

if TYPE_CHECKING:
    from weir.taints.expression import Expressions

AGAIN_SECONDS: Final = 300.0
#: Pairs remembered; beyond, all are forgotten and may be logged again.
MOST_PAIRS: Final = 4096

_SENTENCES: Final = {
    Outcome.NOT_AN_INTEGER: "failed to parse taint value as int64",
    Outcome.NOT_A_VERSION: "failed to parse taint value as semantic version",
    Outcome.TOLERATION_NOT_AN_INTEGER: "failed to parse toleration value as int64",
    Outcome.TOLERATION_NOT_A_VERSION: "failed to parse toleration value as semantic version",
    Outcome.EXPRESSION_FAILED: "CEL expression failed for taint",
}
_ERRORS: Final = {
    Outcome.NOT_AN_INTEGER: "not a signed 64-bit integer in canonical form",
    Outcome.NOT_A_VERSION: "not a semantic version",
    Outcome.TOLERATION_NOT_AN_INTEGER: "not a signed 64-bit integer in canonical form",
    Outcome.TOLERATION_NOT_A_VERSION: "not a semantic version",
}


class UnreadableValues:
    """Comparisons that one component logged recently."""

    def __init__(self, log: Log, expressions: Expressions | None = None) -> None:
        """Without *expressions* of the component, those shared by the process are used."""
        self._log, self._expressions = log, expressions
        self._told: dict[tuple[object, ...], float] = {}

    def look(
        self,
        tolerations: Iterable[Toleration],
        taints: Iterable[Taint],
        gates: Gates,
        evaluate: Evaluate | None,
        *,
        now: float,
        **about: object,
    ) -> None:
        """Compare pairs not compared recently and log those that fail; *about* names the objects concerned."""
        if evaluate is None and self._expressions is not None:
            evaluate = self._expressions.evaluate
        comparing = [toleration for toleration in tolerations if compares(toleration)]
        if not comparing:
            return
        for taint in taints:
            for toleration in comparing:
                if not self._is_due(toleration, taint, now):
                    continue
                outcome = tolerates(toleration, taint, gates, evaluate)
                if outcome in UNREADABLE:
                    self._log_failure(toleration, taint, outcome, about)

    def note(
        self,
        toleration: Toleration,
        taint: Taint,
        outcome: Outcome,
        *,
        now: float,
        pod: ObjectRef,
        node: Callable[[], str],
    ) -> None:
        """Log a failed comparison unless logged recently."""
        if self._is_due(toleration, taint, now):
            self._log_failure(toleration, taint, outcome, {"pod": pod, "node": node()})

    def _is_due(self, toleration: Toleration, taint: Taint, now: float) -> bool:
        pair = (toleration.identity, taint.key, taint.value, taint.effect)
        if now - self._told.get(pair, now - AGAIN_SECONDS) < AGAIN_SECONDS:
            return False
        if len(self._told) >= MOST_PAIRS:
            self._told.clear()
        self._told[pair] = now
        return True

    def _log_failure(
        self, toleration: Toleration, taint: Taint, outcome: Outcome, objects: Mapping[str, object]
    ) -> None:
        about: dict[str, object] = {"key": taint.key, "effect": taint.effect, **objects}
        if outcome is Outcome.EXPRESSION_FAILED:
            from weir.taints.expression import shared  # loads the language, which most pods do not need

            error = (self._expressions or shared()).failure(toleration.expression, taint)
            about = {"err": error, "expression": toleration.expression, "taint": taint.value, **about}
        elif outcome in (Outcome.TOLERATION_NOT_AN_INTEGER, Outcome.TOLERATION_NOT_A_VERSION):
            about = {"err": _ERRORS[outcome], "toleration": toleration.value, **about}
        else:
            asks = f"{toleration.operator} {toleration.value}"
            about = {"err": _ERRORS[outcome], "taint": taint.value, "toleration": asks, **about}
        self._log.error(_SENTENCES[outcome], **about)
