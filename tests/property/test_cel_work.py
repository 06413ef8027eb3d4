"""Every function and operator of CEL at its worst: none does more than it is charged.

Rows: tests/cel_worst_inputs.py. A value is doubled as far as budgets let it grow, and asked again and again until the
evaluation is stopped: few calls with large operands, many with small ones, and what lies between (decision 105).
`make test` asks every function for one of its rows at one size, `make test-fresh` for all. Work is counted in Python's
calls; how long a unit takes is for `bench cel`, which asks the same rows. What C code does within a call shows in the
guard alone, at some forty times of what an evaluation may take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any

import pytest

from tests.cases import sample, table
from tests.cel_worst_inputs import BY_HAND, BY_TYPE, LIBRARIES, MACROS, UNREACHABLE, Row, overloads, rows_of
from tests.work import count_calls
from weir.cel import work
from weir.cel.env import Env
from weir.cel.errors import CelError
from weir.cel.program import Program, compile
from weir.cel.types import DYN, STRING, Type

#: A unit of work stands for a call of a function; what is done may be so many times what is charged.
FACTOR = 3
#: What is not charged: code outside loops, the frame, the exception that ends it.
FREE_CALLS = 5_000
#: Of processor time for one evaluation while its calls are counted, which takes several times as long.
GUARD_SECONDS = 2.0
DOUBLINGS = (0, 6, 12, 20)
#: Squared: how often a row is asked. More takes longer and says the same.
TIMES = 60
#: Doublings of values that are written by loops, which are stopped beyond.
MOST_WRITTEN = 11
VARIABLES = {"x": "abc", "d": {"a": [1, 2, 3]}}


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


def evaluation(row: Row, doublings: int, times: int) -> Callable[[], None]:
    """Return what asks a row, doubled so often, up to *times* squared times, whatever comes of it."""
    leaf, use = row
    value, of = doubled(leaf, doublings)
    text = f"lists.range({times}).all(j, lists.range({times}).all(i, [{use}].size() == 1))"
    return partial(_evaluate, compile(text, environment(of)), value)


def _evaluate(program: Program, value: Any) -> None:
    with suppress(CelError):
        program.evaluate({**VARIABLES, "v": value})


def problems(name: str, rows: list[Row]) -> Iterator[str]:
    """What is charged too little, with the rows of one function."""
    asked = [(row, doublings) for doublings in DOUBLINGS for row in rows]
    for row, doublings in sample(asked, len(asked), name):
        calls, units = count_calls(evaluation(row, doublings, TIMES), GUARD_SECONDS), work.spent()
        if calls > FREE_CALLS + FACTOR * units:
            yield f"{row} doubled {doublings} times: {calls} calls for {units} units"


CASES = {
    f"{name}-{overload.id}": rows_of(name, overload)
    for name, overload in overloads()
    if overload.id not in UNREACHABLE
} | {f"{use}-{leaf[:20]}": [(leaf, use)] for leaf, use in MACROS}


@table
@pytest.mark.parametrize("name", CASES)
def test_no_function_does_more_than_it_is_charged(name: str) -> None:
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


def test_work_within_c_is_guarded() -> None:
    with pytest.raises(pytest.fail.Exception, match="of processor time"):
        count_calls(lambda: [sum(range(100_000)) for _ in range(10_000)], 0.05)
