"""Every function and operator of CEL at its worst: none takes longer than 50 ms, none costs more than it is charged.

Rows: tests/cel_worst_inputs.py. A value is doubled as far as budgets let it grow, and asked again and again until the
evaluation is stopped: few calls with large operands, many with small ones, and what lies between (decision 105).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.cel_worst_inputs import BY_HAND, BY_TYPE, ENV, MACROS, UNREACHABLE, Row, overloads, rows_of
from weir.cel import work
from weir.cel.program import Program, compile
from weir.cel.values import CelError

#: Of CPU, on a machine that has nothing else to do. What is not stopped takes minutes.
MOST_SECONDS = 0.05
#: A unit of work stands for this long; what is done may take so many times as long as what is charged.
UNIT = 1e-7
FACTOR = 3
#: What is not charged: code outside loops, the frame, the exception that ends it.
FREE_SECONDS = 0.002
#: How far a loop counts in 50 ms on the same machine (Python 3.11): what else runs there slows down both.
COUNTED = 1_500_000
DOUBLINGS = (0, 6, 12, 18)
VARIABLES = {"x": "abc", "d": {"a": [1, 2, 3]}}

pytestmark = pytest.mark.usefixtures("no_collection")


def expression(row: Row, doublings: int) -> str:
    """`v` doubled, then asked up to 90,000 times."""
    leaf, use = row
    if "SIZE" in leaf:
        value = f"[{leaf.replace('SIZE', str(2**doublings))}]"
    else:
        value = f"[{leaf}]" + ".map(v, v + v)" * doublings
    return f"{value}.all(v, lists.range(300).all(j, lists.range(300).all(i, [{use}].size() == 1)))"


def measured(program: Program) -> tuple[float, int]:
    """Return the CPU seconds of one evaluation, whatever came of it, and the units it was charged."""
    began = time.thread_time()
    try:
        program.evaluate(VARIABLES)
    except CelError:
        pass
    return time.thread_time() - began, work.spent()


def slowness() -> float:
    """Return how many times as long as on an idle machine everything takes just now; at least 1."""
    began, number = time.thread_time(), 0
    while number < COUNTED:
        number += 1
    return max(1.0, (time.thread_time() - began) / 0.05)


def problems(row: Row) -> Iterator[str]:
    """What is too slow, or charged too little, with one row."""
    for doublings in DOUBLINGS:
        program = compile(expression(row, doublings), ENV)
        for _ in range(6):
            seconds, units = measured(program)
            least = min(MOST_SECONDS, FREE_SECONDS + FACTOR * UNIT * units)
            if seconds <= least or seconds <= least * slowness():
                break
        else:
            yield f"{row} doubled {doublings} times: {1000 * seconds:.1f} ms for {units} units"


CASES = {
    f"{name}-{overload.id}": rows_of(name, overload) for name, overload in overloads() if overload.id not in UNREACHABLE
} | {f"{use}-{leaf[:20]}": [(leaf, use)] for leaf, use in MACROS}


@pytest.mark.parametrize("name", CASES)
def test_no_function_takes_longer_than_it_is_charged(name: str) -> None:
    assert [problem for row in CASES[name] for problem in problems(row)] == []


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
