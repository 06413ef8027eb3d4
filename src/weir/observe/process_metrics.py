"""Metrics of a process that every component has: feature gates, expression caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weir.gates import KNOWN, Gates
from weir.observe.metrics import Registry, exponential
from weir.taints.expression import Expressions
from weir.taints.operators import Outcome

# ── the metric `kubernetes_feature_enabled` of a component, and one for the components of a simulated cluster ──
# Where several components share a process (`weir up`), only the API server's metrics are reachable, so they also report
# the others' gates.


ENABLED: Final = "kubernetes_feature_enabled"
COMPONENT_ENABLED: Final = "weir_component_feature_enabled"
_STAGES: Final = {"GA": ""}


def publish_features(registry: Registry, gates: Gates) -> None:
    """Add upstream's metric of a component's own *gates*; a stable feature has an empty stage there."""
    family = registry.gauge(
        ENABLED,
        "This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
    )
    for gate in KNOWN.values():
        family.child(gate.name, _STAGES.get(gate.stage, gate.stage)).set(float(gates.enabled(gate.name)))


def publish_component_features(registry: Registry, components: Mapping[str, Gates]) -> None:
    """Say the gates of the other components in this process, by component; said again, they replace the former."""
    family = registry.find_gauge(COMPONENT_ENABLED) or registry.gauge(
        COMPONENT_ENABLED,
        "Whether a feature is enabled in a component that runs in the same process.",
        ("component", "name"),
    )
    for component, gates in components.items():
        for name in KNOWN:
            family.child(component, name).set(float(gates.enabled(name)))


# ── CEL metrics of a component: cache hits and evaluation cost ──
# KEP-5500 requires cache hit rates; upstream has no such metrics, so the names are weir's. Each component that matches
# tolerations has its own cache (KEP-5500 "Other Affected Plugins and Components"), distinguished by the label `cache`.


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
