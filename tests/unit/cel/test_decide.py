"""The part of an expression that decided: always a piece of the text, with the value it had."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.cel.decide import conditions, decide
from weir.cel.errors import CelError
from weir.cel.program import compile
from weir.objects.core import Taint
from weir.taints.expression import ENV

VARIABLES = {"taint": Taint("gpu", "a100", "NoSchedule")}


@pytest.mark.parametrize(
    ("expression", "part", "value"),
    [
        ("taint.key == 'gpu'", "taint.key == 'gpu'", True),
        ("taint.key == 'gpu' && taint.value == 'b'", "taint.value == 'b'", False),
        ("taint.key == 'x' || taint.value == 'a100'", "taint.value == 'a100'", True),
        ("taint.key == 'x' || taint.value == 'y'", "taint.key == 'x' || taint.value == 'y'", False),
        ("taint.key == 'gpu' && taint.value == 'a100'", "taint.key == 'gpu' && taint.value == 'a100'", True),
        ("!(taint.key == 'gpu')", "taint.key == 'gpu'", True),
        ("!taint.key.startsWith('g')", "taint.key.startsWith('g')", True),
        ("(((taint.key == 'x')))", "taint.key == 'x'", False),
        ("taint.key == 'gpu' ? taint.value == 'b' : true", "taint.value == 'b'", False),
        ("taint.key == 'gpu' ? false : true", "taint.key == 'gpu'", True),
        ("false || (taint.key == 'gpu' && (false || taint.value == 'c'))", "false || (taint.key == 'gpu' && (false || "
         "taint.value == 'c'))", False),
        ("true && (taint.key == 'x' || taint.value == 'c')", "taint.key == 'x' || taint.value == 'c'", False),
        ("['||', '&&'].exists(x, x == taint.key) && true", "['||', '&&'].exists(x, x == taint.key)", False),
        ("taint.?key.orValue('') == 'gpu' // why not ?:", "taint.?key.orValue('') == 'gpu'", True),
        ("(true) || (false)", "true", True),
        ("true && false || taint.key == 'gpu'", "taint.key == 'gpu'", True),
        ("taint.key == 'gpu' ? (false) : true", "taint.key == 'gpu'", True),
        ("taint.key == 'x' ? true : (taint.value == 'b')", "taint.value == 'b'", False),
        ("taint.key == 'x' ? true : taint.value == 'b' ? true : taint.effect == 'NoExecute'",
         "taint.effect == 'NoExecute'", False),
        ("{'a': 1}.size() == 1 ? taint.key == 'x' : true", "taint.key == 'x'", False),
        ("taint.?key.hasValue() ? taint.key == 'x' : true", "taint.key == 'x'", False),
        ("!taint.key.startsWith('g') == true", "!taint.key.startsWith('g') == true", False),
        ("!(taint.key in ['gpu'])", "taint.key in ['gpu']", True),
        ("!!(taint.key == 'x')", "taint.key == 'x'", False),
        ("[true, false][1] || false", "[true, false][1] || false", False),
        ("[true || false, true][0]", "[true || false, true][0]", True),
        ("(taint.key == 'x') == (true || false)", "(taint.key == 'x') == (true || false)", False),
        ("taint.key", "taint.key", "gpu"),
    ],
)  # fmt: skip
def test_the_deciding_part_is(expression: str, part: str, value: bool) -> None:
    decision = decide(expression, ENV, VARIABLES)
    assert (decision.text, decision.value, decision.error) == (part, value, "")


def test_a_failing_part_is_named_with_its_error() -> None:
    decision = decide("taint.key == 'gpu' && semver(taint.value).major() > 1", ENV, VARIABLES)
    assert (decision.text, decision.error) == (
        "semver(taint.value).major() > 1",
        "No Major.Minor.Patch elements found",
    )


def test_an_absorbed_error_is_not_blamed() -> None:
    assert (
        decide("semver(taint.value).major() > 1 || taint.key == 'gpu'", ENV, VARIABLES).text
        == "taint.key == 'gpu'"
    )


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("1/0 == 1 && 2/0 == 2", "1/0 == 1"),
        ("true && (1/0 == 1 || 2/0 == 2)", "1/0 == 1"),
        ("1/0 == 1 ? true : false", "1/0 == 1"),
        ("dyn(5) ? true : taint.key == 'x'", "dyn(5)"),
        ("dyn(5) ? taint.key == 'y' : taint.key == 'x'", "dyn(5)"),
        ("", ""),
        ("()", "()"),
        ("!", "!"),
        ("true ? false", "true ? false"),
        ("true : false", "true : false"),
    ],
)
def test_what_fails_first_is_named_and_what_is_no_expression_is_its_own_reason(
    expression: str, part: str
) -> None:
    decision = decide(expression, ENV, VARIABLES)
    assert (decision.text, decision.value, bool(decision.error)) == (
        part,
        5 if part == "dyn(5)" else None,
        part != "dyn(5)",
    )


def test_the_position_is_where_the_part_starts() -> None:
    assert decide("true && taint.key == 'x'", ENV, VARIABLES).position == 8
    assert decide("true && (true && !(taint.key == 'gpu'))", ENV, VARIABLES).position == 19
    assert decide("", ENV, VARIABLES).position == 0
    assert decide("taint.key == 'gpu' ? taint.value == 'b' : true", ENV, VARIABLES).position == 21


def test_conditions_are_what_only_combined_answers_are_made_of() -> None:
    assert conditions("a == 1 && (b || !c) && (d ? e : f)") == ["a == 1", "b", "c", "d ? e : f"]
    assert conditions("a || b && !c == d || (!e)") == ["a", "b", "!c == d", "e"]
    assert conditions("(a) == (b)") == ["(a) == (b)"]
    assert (conditions(""), conditions("()"), conditions("!")) == ([], ["()"], ["!"])


atoms = st.sampled_from(
    ["taint.key == 'gpu'", "taint.value == 'b'", "true", "false", "1/0 == 1", "'a' in ['||']"]
)
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: f"({p[0]}) && ({p[1]})"),
        st.tuples(inner, inner).map(
            lambda p: f"{p[0]} || {p[1]}" if "?" not in p[0] + p[1] else f"({p[0]}) || ({p[1]})"
        ),
        inner.map(lambda p: f"!({p})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]}) ? ({p[1]}) : ({p[2]})"),
    ),
    max_leaves=8,
)


@given(expressions)
def test_the_deciding_part_is_a_piece_of_the_text_that_has_the_value_reported(expression: str) -> None:
    decision = decide(expression, ENV, VARIABLES)
    assert expression[decision.position :].startswith(decision.text)
    try:
        value, error = compile(decision.text, ENV).evaluate(VARIABLES), ""
    except CelError as failure:
        value, error = None, str(failure)
    assert (decision.value, decision.error) == (value, error)


@given(expressions)
def test_an_expression_fails_exactly_when_its_deciding_part_does(expression: str) -> None:
    try:
        compile(expression, ENV).evaluate(VARIABLES)
        failed = False
    except CelError:
        failed = True
    assert bool(decide(expression, ENV, VARIABLES).error) == failed
