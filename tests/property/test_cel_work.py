"""Every function and operator of CEL at its worst: none takes longer than 50 ms, none costs more than it is charged.

Rows: tests/cel_worst_inputs.py. A value is doubled as far as budgets let it grow, and asked again and again until the
evaluation is stopped: few calls with large operands, many with small ones, and what lies between (decision 105).
`make test` asks every function for one of its rows at one size, `make test-fresh` for all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from tests.cases import sample, table
from tests.cel_worst_inputs import BY_HAND, BY_TYPE, LIBRARIES, MACROS, UNREACHABLE, Row, overloads, rows_of
from tests.work import slowness
from weir.cel import work
from weir.cel.env import Env
from weir.cel.program import Program, compile
from weir.cel.types import DYN, STRING, Type
from weir.cel.values import CelError

#: Of CPU, on a machine that has nothing else to do. What is not stopped takes minutes.
MOST_SECONDS = 0.05
#: A unit of work stands for this long; what is done may take so many times as long as what is charged.
UNIT = 1e-7
FACTOR = 3
#: What is not charged: code outside loops, the frame, the exception that ends it.
FREE_SECONDS = 0.002
DOUBLINGS = (0, 6, 12, 20)
#: Doublings of values that are written by loops, which are stopped beyond.
MOST_WRITTEN = 11
VARIABLES = {"x": "abc", "d": {"a": [1, 2, 3]}}

pytestmark = pytest.mark.usefixtures("no_collection")


@cache
def environment(of: Type) -> Env:
    return Env(LIBRARIES, {"v": of, "x": STRING, "d": DYN})


@cache
def doubled(leaf: str, doublings: int) -> tuple[Any, Type]:
    """`v` as large as the doublings make it, or as large as a value may become, and its type."""
    program = compile(leaf.replace("SIZE", str(2 ** min(doublings, MOST_WRITTEN))), environment(DYN))
    value = program.evaluate({})
    while "SIZE" not in leaf and doublings and len(value) * 2 <= work.MOST_CHARACTERS:
        value, doublings = value + value, doublings - 1
    return value, program.type


def expression(use: str) -> str:
    """What is asked up to 90,000 times."""
    return f"lists.range(300).all(j, lists.range(300).all(i, [{use}].size() == 1))"


def measured(program: Program, value: Any) -> tuple[float, int]:
    """Return the CPU seconds of one evaluation, whatever came of it, and the units it was charged."""
    began = time.thread_time()
    with suppress(CelError):
        program.evaluate({**VARIABLES, "v": value})
    return time.thread_time() - began, work.spent()


def problems(name: str, rows: list[Row]) -> Iterator[str]:
    """What is too slow, or charged too little, with the rows of one function."""
    asked = [(row, doublings) for doublings in DOUBLINGS for row in rows]
    for row, doublings in sample(asked, len(asked), name):
        leaf, use = row
        value, of = doubled(leaf, doublings)
        program = compile(expression(use), environment(of))
        for _ in range(6):
            seconds, units = measured(program, value)
            least = min(MOST_SECONDS, FREE_SECONDS + FACTOR * UNIT * units)
            if seconds <= least or seconds <= least * slowness():
                break
        else:
            yield f"{row} doubled {doublings} times: {1000 * seconds:.1f} ms for {units} units"


CASES = {
    f"{name}-{overload.id}": rows_of(name, overload)
    for name, overload in overloads()
    if overload.id not in UNREACHABLE
} | {f"{use}-{leaf[:20]}": [(leaf, use)] for leaf, use in MACROS}


@table
@pytest.mark.parametrize("name", CASES)
def test_no_function_takes_longer_than_it_is_charged(name: str) -> None:
    assert list(problems(name, CASES[name])) == []


def test_every_function_has_rows() -> None:
    """A function that is added must say what its worst inputs are."""
    missing = [
        overload.id
        for name, overload in overloads()
        if overload.id not in BY_HAND and overload.id not in UNREACHABLE and name not in BY_TYPE
    ]
    assert missing == [], "write rows into BY_HAND"
    unknown = set(BY_HAND) - {overload.id for _, overload in overloads()} - {"size_string", "size_bytes"}
    assert unknown == set()
