"""How is Python set for a process that serves for a long time?

The collector looks for cycles whenever so many objects were made; requests, watches and decisions make hardly any
cycles, and each look walks over everything that lives for good. So what is there at the start is left out for good, and
the rest is looked at rarely.
"""

from __future__ import annotations

import gc
from typing import Final

__all__ = ["calm_collector"]

#: Objects made before the youngest are looked at, and how many such looks come before the older ones are.
_THRESHOLDS: Final = (200_000, 20, 20)


def calm_collector() -> None:
    """Look for cycles rarely from now on, and never among what is there now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
