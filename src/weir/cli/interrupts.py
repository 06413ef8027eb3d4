"""Interrupts: Ctrl-C is one line and exit code 130, from the first line of weir that runs.

Importing the rest takes a tenth of a second, in which Python would print a traceback. Only modules that Python's own
start has loaded are imported before the signal is handled: `signal` itself would import a dozen others first.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130

_signal = __import__("_signal")  # what `signal` wraps; it has no stub


def end_now(number: int, frame: object) -> "NoReturn":
    """Write what was printed so far and one line, and end the process."""
    try:  # noqa: SIM105  # contextlib may be what is being imported
        sys.stdout.flush()
    except Exception:  # the signal may have come while this very stream was written to
        pass
    os.write(2, b"\nweir: interrupted\n" if os.isatty(2) else b"weir: interrupted\n")
    os._exit(INTERRUPTED)


# A shell that starts a command in the background has it ignore Ctrl-C: that stays so.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, end_now)
