"""One file per claim of speed in the documentation; `python -m bench NAME [--json]` runs one.

A file holds `run() -> list[Figure]`. Every figure is measured against a baseline in the same run on the same
machine, because ratios travel and absolute numbers do not.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number, what it is held against, and how they compare."""

    figure: str
    value: float
    unit: str
    baseline: float | None = None  #: in the same unit, measured in the same run
    ratio: float | None = None  #: how many times better than the baseline
    target: str = ""  #: the claim, such as "at most 1 s"
