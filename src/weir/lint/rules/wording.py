"""Lists of values in a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def listed(values: Sequence[str], most: int = 3) -> str:
    """Return *values* quoted and joined, the first few of them.

    >>> listed(["high", "low", "none", "x"])
    '"high", "low", "none" and 1 more'
    """
    shown = [f'"{value}"' for value in values[:most]]
    if len(values) > most:
        return f"{', '.join(shown)} and {len(values) - most} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
