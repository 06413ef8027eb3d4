"""Where does a pod fit, why not elsewhere, and what would help? `weir.explain(…)` answers."""

from __future__ import annotations

from weir.callable_package import make_callable

make_callable(__name__)
