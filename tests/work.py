"""Work counted the same on any machine: in function calls, not seconds."""

from __future__ import annotations

import sys
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
