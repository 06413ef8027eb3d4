"""Work counted the same on any machine: in function calls, not seconds.

A call into C counts as one, whatever it computes. So a run is ended that takes many times the processor time that its
calls need anywhere: a guard against loops within C, as a search that is quadratic, and no stopwatch.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

#: Of processor time; what is counted takes well below a second of it on a slow machine.
GUARD_SECONDS = 10.0


@dataclass
class Calls:
    """How many functions, Python's and C's, were called."""

    number: int = 0


@contextmanager
def counting_calls(guard_seconds: float = GUARD_SECONDS) -> Iterator[Calls]:
    """Count what this thread calls meanwhile, in coroutines too; fail where it computes for *guard_seconds*."""
    calls, overrun = Calls(), False

    def count(frame: FrameType, event: str, argument: Any) -> None:
        calls.number += event in ("call", "c_call")

    def end(*_: object) -> None:
        nonlocal overrun
        overrun = True
        pytest.fail(f"{guard_seconds} s of processor time for {calls.number} calls")

    handler = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, guard_seconds)
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)
    assert not overrun, f"something caught the end after {guard_seconds} s of processor time"


def count_calls(run: Callable[[], object], guard_seconds: float = GUARD_SECONDS) -> int:
    """Return how many functions, Python's and C's, *run* calls; fail where it computes for *guard_seconds*.

    >>> count_calls(lambda: [abs(n) for n in range(100)]) >= 100
    True
    """
    with counting_calls(guard_seconds) as calls:
        run()
    return calls.number
