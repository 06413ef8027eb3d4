"""Growth of a cost: points of a curve, the exponent between them, and where it gets worse than n log n.

A point says what one item costs at size n: one pod placed, one object read. If that is the same at every size, n items
cost in step with n; if it grows in step with log n they cost n log n. So the exponent of a curve is one more than the
slope of its cost per item, both axes logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: How much steeper than n log n a step may be before it counts: caches of the processor and noise account for as much.
TOLERANCE = 0.25


@dataclass(frozen=True, slots=True)
class Point:
    """One item at one size."""

    n: int
    cost: float  #: of one item; microseconds of processor time, or bytes


def sizes(first: int, last: int) -> list[int]:
    """Return sizes from *first* to *last*, about √10 apart.

    >>> sizes(100, 10_000)
    [100, 316, 1000, 3160, 10000]
    """
    found, half = [], 0
    while (size := first * 10 ** (half // 2) * (316 if half % 2 else 100) // 100) <= last:
        found.append(size)
        half += 1
    return found


def exponent(low: Point, high: Point) -> float:
    """Return the exponent of the cost of n items between two sizes.

    >>> exponent(Point(10, 3.0), Point(1000, 3.0)), exponent(Point(10, 1.0), Point(1000, 100.0))
    (1.0, 2.0)
    """
    return 1 + math.log(high.cost / low.cost) / math.log(high.n / low.n)


def fitted(points: Sequence[Point]) -> float:
    """Return the exponent of all points together, by least squares; not a number when there is only one."""
    if len(points) < 2:
        return math.nan
    xs = [math.log(point.n) for point in points]
    ys = [math.log(point.cost) for point in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return 1 + sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def log_linear(low: Point, n: int) -> float:
    """Return what an item would cost at *n* if n items cost n log n, and one costs *low* at its size."""
    return low.cost * math.log(n) / math.log(low.n)


def allowed(low: Point, high: Point) -> float:
    """Return the exponent up to which a curve counts as n log n between two sizes."""
    return 1 + math.log(math.log(high.n) / math.log(low.n)) / math.log(high.n / low.n) + TOLERANCE


def knee(points: Sequence[Point]) -> int | None:
    """Return the size from which on the curve is steeper than n log n to its end; None when it never is.

    >>> knee([Point(100, 5.0), Point(316, 5.0), Point(1000, 5.0), Point(3160, 15.8), Point(10_000, 50.0)])
    1000
    """
    found = None
    apart = 2 if len(points) > 2 else 1  # a decade, where sizes are √10 apart: single steps are too noisy
    for number, (low, high) in enumerate(zip(points, points[apart:], strict=False)):
        if exponent(low, high) <= allowed(low, high):
            found = None
        elif found is None:
            found = points[number + apart // 2].n
    return found
