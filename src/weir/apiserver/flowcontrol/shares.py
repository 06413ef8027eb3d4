"""Minimum and maximum seats of priority levels.

The server's seats are divided by the levels' shares; a level keeps what it does not lend and may borrow up to its
limit. As upstream, a level's own seats are rounded up and its lendable seats rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from weir.apiserver.flowcontrol.classify import PriorityLevel

__all__ = ["Seats", "divide"]


class Seats(NamedTuple):
    """The seats of one level."""

    nominal: int  #: its own
    lower: int  #: what is left of its own when it has lent all it lends
    upper: int  #: with all it may borrow


def divide(levels: Iterable[PriorityLevel], seats: int) -> dict[str, Seats]:
    """Return the seats of each level, of *seats* in all.

    >>> level = PriorityLevel("low", "", False, 100, 90, None, 128, 6, 50)
    >>> other = level._replace(name="high", shares=145, lendable_percent=0, borrowing_percent=50)
    >>> divide([level, other], 600)
    {'low': Seats(nominal=245, lower=24, upper=845), 'high': Seats(nominal=356, lower=356, upper=534)}
    """
    levels = list(levels)
    whole = sum(level.shares for level in levels)
    found = {}
    for level in levels:
        nominal = math.ceil(seats * level.shares / whole) if whole else 0
        lower = nominal - math.floor(nominal * level.lendable_percent / 100 + 0.5)
        borrowing = seats
        if level.borrowing_percent is not None:
            borrowing = math.floor(nominal * level.borrowing_percent / 100 + 0.5)
        found[level.name] = Seats(nominal, lower, nominal + borrowing)
    return found
