"""Work counted the same on any machine: in function calls, or seconds of a processor of a known speed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_calls(run: Callable[[], object]) -> int:
    """Return how many functions, Python's and C's, *run* calls.

    >>> count_calls(lambda: [abs(n) for n in range(100)]) >= 100
    True
    """
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


#: How far a loop counts in 50 ms where bounds on seconds come from (Python 3.11).
_COUNTED = 1_500_000


def slowness() -> float:
    """Return how many times as much processor time as on an idle machine everything takes just now; at least 1.

    What else runs there slows down both this and what is measured.
    """
    began, number = time.thread_time(), 0
    while number < _COUNTED:
        number += 1
    return max(1.0, (time.thread_time() - began) / 0.05)
