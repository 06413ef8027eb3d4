"""How many cases a property is tried on."""

from __future__ import annotations

from hypothesis import settings


def tries(usual: int, fresh: int) -> int:
    """Return *usual* for `make test`, whose cases are the same every time, and *fresh* where others are tried.

    `make test-fresh`, which CI runs, and `make mutants` try the greater number.
    """
    return usual if settings.get_current_profile_name() == "weir" else fresh
