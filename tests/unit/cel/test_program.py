"""From text to an answer: what a program keeps, says and charges."""

from __future__ import annotations

import pytest

from weir.cel import program as module
from weir.cel import types
from weir.cel.codegen.compile import Unsupported
from weir.cel.env import Env
from weir.cel.errors import CompileError, CostLimitExceeded, EvaluationError
from weir.cel.library import KUBERNETES
from weir.cel.program import (
    FORBIDDEN,
    INTERNAL,
    INVALID,
    TOO_COMPLEX,
    Checked,
    Refusal,
    build,
    check_expression,
    compile,
    refuse,
)
from weir.cel.types import BOOL
from weir.cel.work import TooMuchText, allowance
from weir.taints.expression import ENV as TAINT_ENV
from weir.taints.expression import estimate

ENV = Env(KUBERNETES, {"x": types.INT, "s": types.STRING})


def test_a_program_says_its_text_and_type_and_answers() -> None:
    program = compile("x + 1", ENV)
    assert (program.expression, program.type) == ("x + 1", types.INT)
    assert (program.evaluate({"x": 4}), program.run({"x": 4})) == (5, (5, 2))


def test_what_was_not_checked_may_be_anything() -> None:
    loose = check_expression("x + 'a'", ENV, checked=False)
    assert (loose.type, loose.checked) == (types.DYN, False)
    with pytest.raises(CompileError):
        check_expression("x + 'a'", ENV)
    with pytest.raises(EvaluationError):
        build(loose).evaluate({"x": 1})


def test_what_parses_and_types_but_makes_no_sense_is_refused() -> None:
    with pytest.raises(CompileError):
        compile("s.matches('(')", ENV)


def test_the_estimate_is_the_same_for_text_and_program_and_made_once() -> None:
    checked = check_expression("s == 'abc' && x > 1", ENV)
    assert checked.estimate is checked.estimate
    assert compile("s == 'abc' && x > 1", ENV).estimate == checked.estimate
    assert checked.estimate.max >= checked.estimate.min > 0


def test_evaluation_without_generated_code_answers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> object:
        raise Unsupported

    monkeypatch.setattr(module, "plan", refuse)
    program = compile("x + 1", ENV)
    assert (program.evaluate({"x": 4}), program.run({"x": 4})) == (5, (5, 2))


@pytest.mark.proves("5500-36")
def test_who_runs_out_of_budget_is_told_exactly_where() -> None:
    small = Env(KUBERNETES, {"x": types.INT}, cost_limit=3)
    program = compile("x + x + x + x > 1", small)
    with pytest.raises(CostLimitExceeded) as raised:
        program.run_exactly({"x": 1})
    assert raised.value.cost == 4
    loose = build(check_expression("x + x + x + x > 1", small, checked=False))
    with pytest.raises(CostLimitExceeded):
        loose.run({"x": 1})
    turns = Env(KUBERNETES, {"x": types.list_of(types.INT)}, cost_limit=20)
    every = compile("x.all(n, n + n > 1)", turns)
    assert every.evaluate({"x": (1,)}) is True
    with pytest.raises(CostLimitExceeded):
        every.evaluate({"x": (1,) * 9})
    search = compile("x.contains('b')", Env(KUBERNETES, {"x": types.STRING}, cost_limit=20))
    assert search.evaluate({"x": "a" * 9}) is False
    with pytest.raises(CostLimitExceeded):
        search.evaluate({"x": "a" * 999})


def test_text_is_charged_for_by_its_length() -> None:
    with allowance(9):
        check_expression("x > 1", ENV)
        with pytest.raises(TooMuchText):
            check_expression("x > 2", ENV)


def test_a_checked_expression_is_built_into_its_program() -> None:
    checked = check_expression("x > 1", ENV)
    assert isinstance(checked, Checked)
    assert build(checked).evaluate({"x": 2}) is True


FINE = "taint.key.startsWith('a')"


def limited(cost: int) -> Env:
    return Env(TAINT_ENV.libraries, TAINT_ENV.variables, TAINT_ENV.objects, TAINT_ENV.sizes, cost_limit=cost)


def test_what_costs_exactly_the_limit_is_taken():
    most = estimate(FINE).max
    assert refuse(FINE, limited(most), (BOOL,)) is None
    assert refuse(FINE, limited(most - 1), (BOOL,)) == Refusal(FORBIDDEN, TOO_COMPLEX)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("taint.", INVALID),
        ("taint.value.matches('[')", INVALID),  # a literal that the validators read
        ("taint.value", INVALID),
        ("int('x') == 1", INTERNAL),
    ],
)
def test_a_text_that_is_wrong_is_refused_before_its_cost_is_asked(expression, kind):
    assert refuse(expression, limited(-1), (BOOL,)).kind == kind
    assert refuse(expression, TAINT_ENV, (BOOL,)).kind == kind
