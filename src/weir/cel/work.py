"""Work meter of one evaluation: a bound on CPU time beside the cost that Kubernetes counts.

Spec: decisions 39 and 105. Kubernetes' runtime cost is a promise about results and stays as upstream has it, but it
does not say how long something takes here: `duration(s)` costs 1 whatever the length of `s`, `[x, x]` forty times
inside itself shows 2^40 elements for a few hundred, and 140,000 calls of `string(timestamp)` are within the budget.
Every evaluation therefore has a second budget in units of about 100 ns: loops charge each pass with the effort of what
they contain (`Overload.effort`, in tenths of a unit; weir.cel.codegen), functions whose work grows with their operands
charge by size before they begin (`spend`). An evaluation that used up its units ends as one over its cost does;
nothing absorbs that.
Charging before the work is what makes the bound hold: no clock can interrupt C code.
Python keeps the frames in chunks of 16 KiB, and a walk that goes to and fro over the end of one
maps and unmaps memory with every call: at an unlucky depth of the stack the same evaluation takes seven times as long.
An evaluation that walks therefore begins in a frame so large that it has a chunk of its own, with room for its calls.

Bound on the expression text compiled for one purpose.

One expression is bounded by its length and its cost, an object by its size alone: a million bytes of small expressions
take as long as ten seconds to compile. Within `allowance` every text that is compiled is counted; what
is cached (selectors of devices) is not compiled again, and free.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, Final

from weir.cel.errors import CostLimitExceeded

#: Units of one evaluation: 16 ms, and up to three times as long where charges are rough.
MOST_WORK: Final = 160_000
#: Longest text an evaluation may make; longer ones can only come from a variable.
MOST_CHARACTERS: Final = 1 << 20
#: Longest list or map an evaluation may make.
MOST_ELEMENTS: Final = 1_000_000
#: Units of an evaluation that is repeated to learn its exact cost: for people, who wait for seconds.
EXACT_WORK: Final = 100 * MOST_WORK
#: Units for the patterns of a schema that one custom object is held against: about half a second.
MOST_PATTERN_WORK: Final = 5_000_000
#: Efforts are tenths of a unit. Of calling a Python function, and of an operator that is written out:
CALL: Final = 40
INLINE: Final = 3
#: Effort of a call whose overload is chosen by the values.
DISPATCH: Final = 50
#: Units of making an error, unwinding to it and catching it.
RAISING: Final = 12
#: Units of one step of the plain evaluator.
PLAIN_STEP: Final = 12

#: Slots of the frame, 64 KB: the chunk for it is twice as large, and the other half is room for some 400 calls.
_SLOTS: Final = 8000


def roomy(code: CodeType) -> CodeType:
    """Return *code* with a frame that begins a chunk of its own, which costs 10 µs a call."""
    return code.replace(co_stacksize=max(code.co_stacksize, _SLOTS))


class Meter:
    """Units that the evaluation of one thread has left."""

    __slots__ = ("left", "patterns")

    def __init__(self) -> None:
        self.left = MOST_WORK
        #: patterns that this evaluation has paid for, with what was compiled from them
        self.patterns: dict[str, Any] = {}


class _Thread(threading.local):
    def __init__(self) -> None:
        self.meter = Meter()


_thread: Final = _Thread()


def begin(units: int = MOST_WORK) -> Meter:
    """Start an evaluation of at most *units* in this thread and return its meter."""
    meter = _thread.meter
    meter.left = units
    if meter.patterns:
        meter.patterns = {}
    return meter


def current() -> Meter:
    """Return the meter of this thread."""
    return _thread.meter


def spent() -> int:
    """Return the units that the last evaluation of this thread used."""
    return MOST_WORK - _thread.meter.left


def spend(units: int) -> bool:
    """Charge *units*, before they are worked off; raises CostLimitExceeded when they are not there, else True."""
    meter = _thread.meter
    meter.left -= units
    if meter.left < 0:
        raise CostLimitExceeded
    return True


def search(length: int, part: int) -> bool:
    """Charge for looking for a text of *part* characters in one of *length*; True.

    Python's search takes the sum of both where it can leave out much, else, for the last few thousand places, up to
    their product.
    """
    places = length - part
    return spend((length + part >> 4) + (places * part >> 9 if 0 < places < 2_500 else 0))


def grow(length: int, most: int = MOST_CHARACTERS) -> None:
    """Refuse to make a value of *length* parts when it is longer than any may be."""
    if length > most:
        raise CostLimitExceeded


class TooMuchText(Exception):
    """More expressions than one purpose may have."""


class _Left(threading.local):
    characters: int | None = None


_left = _Left()


@contextmanager
def allowance(characters: int) -> Iterator[None]:
    """Let at most *characters* of expressions be compiled by this thread within the block; beyond, TooMuchText.

    >>> with allowance(10):
    ...     charge_text(6)
    ...     charge_text(6)
    Traceback (most recent call last):
    weir.cel.work.TooMuchText
    """
    before, _left.characters = _left.characters, characters
    try:
        yield
    finally:
        _left.characters = before


def charge_text(characters: int) -> None:
    """Take *characters* from the allowance, where there is one; raises TooMuchText."""
    left = _left.characters
    if left is not None:
        if characters > left:
            raise TooMuchText
        _left.characters = left - characters
