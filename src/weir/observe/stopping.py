"""Stop signals of a process with an event loop: heard on the loop, and within a second also while the loop computes.

A loop that computes (a scheduler with thousands of expressions to evaluate) does not look at its signals. Python does,
between two instructions: from the signal on a timer looks whether the loop has turned since its last look. If it has
not, what it computes is interrupted by SystemExit, which ends the loop and runs its clean-up; a loop that took up the
signal and computes on is interrupted as well. No single instruction takes that long: every primitive of the expression
language has a bound of its own (decision 105).
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

PATIENCE_SECONDS: Final = 1.0  # for the loop to take up the signal
TURN_SECONDS: Final = 0.5  # for each turn of the loop afterwards
#: For each callback after the first that was interrupted: the loop runs all that are ready before it ends.
CALLBACK_SECONDS: Final = 0.05


def stop_on(stop: Callable[[], object], *signals: signal.Signals) -> None:
    """Call *stop* on the running loop when one of *signals* comes; interrupt the loop if it does not get to it.

    Only the main thread hears signals; in another one nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    is_stopping = has_turned = False

    def stop_once() -> None:
        nonlocal is_stopping
        if not is_stopping:
            is_stopping = True
            stop()

    def turn() -> None:
        nonlocal has_turned
        has_turned = True

    def on_signal(number: int, frame: FrameType | None) -> None:
        if not is_stopping:
            atexit.register(
                signal.setitimer, signal.ITIMER_REAL, 0.0
            )  # the interpreter's end takes handlers away
            signal.signal(signal.SIGALRM, look)
            signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS, TURN_SECONDS)
            loop.call_soon_threadsafe(stop_once)
            loop.call_soon_threadsafe(turn)

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal has_turned
        if loop.is_closed():
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            return
        turned, has_turned = has_turned, False
        loop.call_soon_threadsafe(turn)
        if not turned:
            signal.setitimer(signal.ITIMER_REAL, CALLBACK_SECONDS, CALLBACK_SECONDS)
            raise SystemExit(0)

    for number in signals:
        # The loop has to be woken from its waiting: it is by a handler of its own, which is then replaced.
        loop.add_signal_handler(number, stop_once)
        signal.signal(number, on_signal)
        signal.siginterrupt(number, False)
