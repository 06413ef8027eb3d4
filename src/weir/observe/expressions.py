"""CEL metrics of a component: cache hits and evaluation cost.

KEP-5500 requires cache hit rates; upstream has no such metrics, so the names are weir's. Each component that matches
tolerations has its own cache (KEP-5500 "Other Affected Plugins and Components"), distinguished by the label `cache`.
"""

from __future__ import annotations

from typing import Final

from weir.observe.metrics import Registry, exponential
from weir.taints.expression import Expressions
from weir.taints.operators import Outcome

_RESULTS: Final = {
    "true": Outcome.TOLERATED,
    "false": Outcome.EXPRESSION_FALSE,
    "error": Outcome.EXPRESSION_FAILED,
}


class ExpressionMetrics:
    """The metrics of the expression caches of one component."""

    def __init__(self, registry: Registry) -> None:
        self._requests = registry.counter(
            "weir_cel_cache_requests_total",
            "Compiled toleration expressions asked of a cache, by whether it had them.",
            ("cache", "result"),
        )
        self._entries = registry.gauge(
            "weir_cel_cache_entries", "Toleration expressions a cache holds.", ("cache",)
        )
        self._evaluations = registry.counter(
            "weir_cel_evaluations_total",
            "Toleration expressions evaluated against a taint, by result.",
            ("cache", "result"),
        )
        self._duration = registry.histogram(
            "weir_cel_evaluation_duration_seconds",
            "How long compiling (unless cached) and evaluating a toleration expression took.",
            ("cache",),
            buckets=exponential(1e-6, 4, 10),
        )

    def watch(self, cache: str, expressions: Expressions) -> None:
        """Publish what *expressions* does from now on under the name *cache*."""
        programs = expressions.programs
        self._requests.child(cache, "hit").look = lambda: programs.hits
        self._requests.child(cache, "miss").look = lambda: programs.misses
        self._entries.child(cache).look = lambda: len(programs)
        for result, outcome in _RESULTS.items():
            self._evaluations.child(cache, result).look = lambda outcome=outcome: expressions.counts[outcome]
        expressions.timed = self._duration.child(cache).observe
