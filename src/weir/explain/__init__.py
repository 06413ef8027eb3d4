"""Explanations: where a pod fits, why not elsewhere, and the smallest fix. `weir.explain(…)` is callable."""
