"""No evaluation outlives its budget: values that are cheap to build and dear to look at are stopped (decision 39)."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, product

import pytest

from tests.cases import table, tries
from tests.work import count_calls
from weir.cel import types
from weir.cel.env import Env
from weir.cel.errors import CelError, CostLimitExceeded
from weir.cel.library import KUBERNETES
from weir.cel.program import Program, compile
from weir.cel.types import Kind
from weir.cel.work import MOST_WORK

ENV = Env(KUBERNETES, {"x": types.STRING, "n": types.INT})
VARIABLES = {"x": "abc", "n": 7}
#: Of functions, in one evaluation. What is not stopped makes millions.
MOST_CALLS = 2 * MOST_WORK
DEPTH = 24  # 16 million elements


def doubled(leaf: str, wrap: str, use: str, depth: int = DEPTH) -> str:
    """Return an expression in which a value holds itself twice, *depth* times, before *use* looks at it as `v`."""
    expression = f"[{leaf}]" + f".map(v, {wrap})" * depth
    return f"{expression}.map(v, {use}).size() == 1"


WRAPS = {
    "list": "[v, v]",
    "map": "{'a': v, 'b': v}",
    "optional": "[optional.of(v), optional.of(v)]",
    "of dyn": "dyn([v, v])",
}
#: A second value that is equal but not the same object: comparing really goes on.
USES = [
    "v == [v, v][0]",
    "v != v",
    "[v] == [v]",
    "{'k': v} == {'k': v}",
    "optional.of(v) == optional.of(v)",
    "v in [v, v, v]",
    "dyn(v) in dyn([v])",
    "[v, v].distinct()",
    "[v, v, v].indexOf(v)",
    "[v, v].lastIndexOf(v)",
    "sets.contains([v], [v])",
    "sets.intersects([v], [v])",
    "sets.equivalent([v], [v])",
    "'%s'.format([v])",
    "'%s %s'.format([[v], [v]])",
    "[v, v].flatten(60)",
    "[[v]].flatten()",
    "[v] + [v]",
]


def evaluate(program: Program) -> None:
    """Evaluate once, whatever comes of it."""
    with suppress(CelError):
        program.evaluate(VARIABLES)


def calls(program: Program) -> int:
    """Return how many functions one evaluation calls."""
    return count_calls(lambda: evaluate(program))


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS.keys())
@pytest.mark.parametrize("use", USES)
def test_a_value_that_doubles_is_looked_at_only_so_far(wrap, use):
    try:
        program = compile(doubled("1", wrap, use), ENV)
    except CelError:
        return  # these types do not go together: refused before it can run
    assert calls(program) < MOST_CALLS


@pytest.mark.parametrize("use", USES)
def test_what_is_small_is_not_stopped(use):
    program = compile(doubled("1", "[v, v]", use, depth=5), ENV)
    assert program.evaluate(VARIABLES) is True


def test_lists_that_double_by_joining_are_stopped():
    program = compile("[[1]]" + ".map(v, v + v)" * DEPTH + ".size() == 1", ENV)
    with pytest.raises(CostLimitExceeded):
        program.evaluate(VARIABLES)


def compound_functions() -> list[tuple[str, str]]:
    """Every function of every library that takes a list, a map or anything, as (name, call on `v`)."""
    found = []
    for library in KUBERNETES:
        for function in library.functions:
            for overload in function.overloads:
                kinds = [param.kind for param in overload.params]
                if not kinds or not {Kind.LIST, Kind.MAP, Kind.DYN} & set(kinds):
                    continue
                args = ["v" if k in (Kind.LIST, Kind.MAP, Kind.DYN) else _SAMPLES.get(k, "v") for k in kinds]
                if not function.name.replace(".", "").replace("_", "").isalnum():
                    continue
                call = (
                    f"{args[0]}.{function.name}({', '.join(args[1:])})"
                    if overload.member
                    else f"{function.name}({', '.join(args)})"
                )
                found.append((overload.id, call))
    return found


_SAMPLES = {Kind.INT: "50", Kind.STRING: "'%s'", Kind.BOOL: "true", Kind.DOUBLE: "1.0"}


def programs_of(call: str) -> Iterator[tuple[str, Program]]:
    """Yield what compiles of a call on every kind of value that doubles."""
    for wrap, leaf in product(WRAPS.values(), ("1", "[1]")):
        text = doubled(leaf, wrap, f"dyn({call})")
        with suppress(CelError):
            yield text, compile(text, ENV)


@table
def test_every_function_that_takes_a_container_ends_in_time():
    dear, tried = {}, set()
    for call in sorted({call for _, call in compound_functions()}):
        for text, program in islice(programs_of(call), tries(1, 8)):
            tried.add(call)
            if (number := calls(program)) >= MOST_CALLS:
                dear[text] = number
    assert not dear
    assert len(tried) > 20, tried


def test_the_depth_of_the_stack_makes_no_difference():
    """Python keeps frames in chunks; a walk that leaves one and comes back maps memory for every call."""

    def at(depth: int) -> int:
        if depth:
            return at(depth - 1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        evaluate(program)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    program = compile(doubled("[1]", "dyn([v, v])", "dyn('%s'.format(v))"), ENV)
    at(0)
    assert max(at(depth) for depth in range(0, 200, 5)) < 1000


def test_the_bound_is_of_one_evaluation():
    program = compile("[[1, 2], [3]] == [[1, 2], [3]]", ENV)
    for _ in range(MOST_WORK // 50):
        assert program.evaluate({}) is True
