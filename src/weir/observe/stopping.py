"""Stop signals of a process with an event loop: heard on the loop, and within a second also while the loop computes.

A loop that computes (a scheduler with thousands of expressions to evaluate) does not look at its signals. Python does,
between two instructions: if the loop has not taken the signal up after `PATIENCE_SECONDS`, what it computes is
interrupted by SystemExit, which ends the loop and runs its clean-up. No single instruction takes that long: every
primitive of the expression language has a bound of its own (decision 105).
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

PATIENCE_SECONDS: Final = 1.0


def stop_on(stop: Callable[[], object], *signals: signal.Signals) -> None:
    """Call *stop* on the running loop when one of *signals* comes; interrupt the loop if it does not get to it.

    Only the main thread hears signals; in another one nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    stopped = False

    def stop_once() -> None:
        nonlocal stopped
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if not stopped:
            stopped = True
            stop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if not stopped:
            signal.signal(signal.SIGALRM, _interrupt)
            signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
            loop.call_soon_threadsafe(stop_once)

    for number in signals:
        # The loop has to be woken from its waiting: it is by a handler of its own, which is then replaced.
        loop.add_signal_handler(number, stop_once)
        signal.signal(number, on_signal)
        signal.siginterrupt(number, False)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
