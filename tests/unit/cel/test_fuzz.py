"""Random well-typed expressions: generated code, plain evaluator, meter and estimate agree."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.cel.random_expressions import Grower
from weir.cel import ast, reference, types
from weir.cel.errors import CelError, CompileError
from weir.cel.lowering import ProgramError, lower
from weir.cel.program import Checked, build, check_expression
from weir.cel.types import Node
from weir.objects.core import Taint
from weir.taints.expression import ENV

PATHS = {"taint.key": types.STRING, "taint.value": types.STRING, "taint.effect": types.STRING}
TAINTS = [
    Taint("example.com/a", "1.2.3", "NoSchedule"),
    Taint("", "", ""),
    Taint("k" * 317, "v" * 63, "PreferNoSchedule"),
    Taint("10.0.0.1", "500m", "NoExecute"),
]
seeds = st.integers(min_value=0, max_value=2**32)

#: Calls whose runtime price, or that of what follows, may be above the estimate, upstream as here: `validate` is
#: estimated with the size of a short regex, `join` reads its result twice but is estimated once, `flatten` is estimated
#: to keep the number of elements it was given, `findAll` finds an empty match more than there are characters, and an
#: empty text is split into one part.
UNDERESTIMATED = frozenset({"validate", "join", "flatten", "findAll", "split"})


def grow(seed: int) -> Checked:
    text = Grower(ENV, seed, PATHS).expression(depth=3 + seed % 3)
    assume(len(text) < 4000)
    try:
        return check_expression(text, ENV)
    except CompileError as error:
        # dyn() may leave a call without a type to go on with; anything else must compile.
        assert "dyn(" in text or "[" in text, (text, str(error))
        assume(False)
        raise


def outcome(run: Any) -> tuple[Any, ...]:
    try:
        value, cost = run()
    except CelError as error:
        return type(error).__name__, str(error), getattr(error, "cost", None)
    return repr(value), cost


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_generated_code_and_the_plain_evaluator_agree_on_value_error_and_cost(seed: int) -> None:
    checked = grow(seed)
    try:
        program = build(checked)
    except ProgramError:
        return
    steps = lower(checked.root, ENV)
    for taint in TAINTS:
        variables = {"taint": taint}
        assert outcome(lambda: program.run_exactly(variables)) == outcome(  # noqa: B023
            lambda: reference.run(steps, ENV, variables)  # noqa: B023
        ), checked.expression


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_the_estimate_is_never_below_what_is_metered(seed: int) -> None:
    """Save for the documented cases: 1 per access path that starts at no variable, and UNDERESTIMATED."""
    checked = grow(seed)
    assume(not any(map(_documented, ast.walk(checked.root))))
    try:
        program = build(checked)
    except ProgramError:
        return
    for taint in TAINTS:
        try:
            cost = program.run({"taint": taint})[1]
        except CelError:
            continue  # an operand that failed counts with size 1, whatever its size would have been
        assert cost <= checked.estimate.max, (checked.expression, cost, checked.estimate)


def _documented(node: Node) -> bool:
    if isinstance(node, ast.Call) and node.function in UNDERESTIMATED:
        return True
    if isinstance(node, ast.Call) and node.function in (ast.INDEX, ast.OPT_INDEX, ast.OPT_SELECT):
        return not isinstance(node.args[0], ast.Ident | ast.Select)
    return isinstance(node, ast.Select) and not isinstance(node.operand, ast.Ident | ast.Select)
