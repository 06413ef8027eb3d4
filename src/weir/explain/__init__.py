"""Explanations: where a pod fits, why not elsewhere, and the smallest fix. `weir.explain(…)` is callable."""

from __future__ import annotations

from weir.callable_package import make_callable

make_callable(__name__)
