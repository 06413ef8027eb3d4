"""Tolerating by expression: what the API refuses, what matches, and why."""

from __future__ import annotations

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Taint, Toleration
from weir.taints.expression import (
    ENV,
    MAX_BYTES,
    Expressions,
    check_expression,
    decide,
    estimate,
    evaluate,
    fields_read,
)
from weir.taints.operators import Outcome
from weir.taints.toleration import tolerates

pytestmark = pytest.mark.proves("5500-61")

DEV = Taint("env.example.com/dev", "6.1.0", "NoSchedule")


@pytest.mark.proves("5500-27", "5500-58", "5500-59", "5500-65")
@pytest.mark.parametrize(
    ("expression", "taint", "outcome"),
    [
        ("taint.key.startsWith('env.example.com/')", DEV, Outcome.TOLERATED),
        ("semver(taint.value).isGreaterThan(semver('5.15.0'))", DEV, Outcome.TOLERATED),
        ("semver(taint.value).isGreaterThan(semver('5.15.0'))", Taint("a", "abc"), Outcome.EXPRESSION_FAILED),
        ("taint.effect == 'NoExecute'", DEV, Outcome.EXPRESSION_FALSE),
        ("taint.value == ''", Taint("a"), Outcome.TOLERATED),
        ("this is no expression", DEV, Outcome.EXPRESSION_FAILED),
        ("size(taint.key)", DEV, Outcome.EXPRESSION_FAILED),
        ("int('x') == 1", DEV, Outcome.EXPRESSION_FAILED),
        ("lists.range(1000).all(x, lists.range(1000).all(y, x >= 0))", DEV, Outcome.EXPRESSION_FAILED),
        ("", DEV, Outcome.EXPRESSION_FAILED),
    ],
)
def test_only_true_is_a_match(expression: str, taint: Taint, outcome: Outcome) -> None:
    assert evaluate(expression, taint) is outcome


@pytest.mark.proves("5500-2", "5500-6", "5500-57")
def test_a_toleration_with_an_expression_asks_it_about_every_effect() -> None:
    toleration = Toleration(expression="taint.key == 'a'")
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    assert all(tolerates(toleration, Taint("a", "", effect), ALL_FEATURES) for effect in effects)


@pytest.mark.proves("5500-8", "5500-18", "5500-28", "5500-39", "5500-65")
@pytest.mark.parametrize(
    ("expression", "kind", "message"),
    [
        ("size(taint.key)", "invalid", "must evaluate to bool or the unknown type, not int"),
        ("dyn(true)", "invalid", "must evaluate to bool or the unknown type, not dyn"),
        (
            "timestamp(0)",
            "invalid",
            "must evaluate to bool or the unknown type, not google.protobuf.Timestamp",
        ),
        ("[taint.key]", "invalid", "must evaluate to bool or the unknown type, not list(string)"),
        ("taint", "invalid", "must evaluate to bool or the unknown type, not kubernetes.Taint"),
        ("taint.?key", "invalid", "must evaluate to bool or the unknown type, not optional_type(string)"),
        (
            "taint.foo",
            "invalid",
            "compilation failed: ERROR: <input>:1:6: undefined field 'foo'\n | taint.foo\n | .....^",
        ),
        (
            "int('x') == 1",
            "internal",
            "program instantiation failed: type conversion error from 'string' to 'int'",
        ),
        ("semver(taint.value) != semver('1.0.0')", "forbidden", "too complex, exceeds cost limit"),
    ],
)
def test_the_api_refuses_in_its_own_words(expression: str, kind: str, message: str) -> None:
    assert check_expression(expression) == (kind, message)


@pytest.mark.proves("5500-18")
def test_the_api_accepts_what_it_can_afford() -> None:
    assert check_expression("taint.key.split('.').exists(p, p == 'gpu')") is None


@pytest.mark.proves("5500-4", "5500-20", "5500-31")
@pytest.mark.parametrize(
    "expression",
    [
        "size(taint.key) > 3 && taint.value.matches('^[0-9.]+$') && int('1') + 1 == 2",
        "[1, 2].exists_one(n, n == 1) && [1].map(n, n * 2) == [2] && has(taint.value)",
        "taint.key.split('/')[1].upperAscii() == 'DEV' && taint.value.replace('.', '-') == '6-1-0'",
        "'%s-%d'.format([taint.value, 7]) == '6.1.0-7'",
        "optional.of(taint.key).orValue('') == taint.key",
        "sets.contains(['NoSchedule', 'NoExecute'], [taint.effect])",
        "url('https://a.example/x').getHost() == 'a.example'",
        "[1, 2].sum() == 3 && [1, 2].isSorted()",
        "taint.value.find('[0-9]+') == '6'",
        "quantity('1Gi').isGreaterThan(quantity('1G'))",
        "ip('10.0.0.1').family() == 4",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "!format.dns1123Label().validate('dev').hasValue()",
        "semver(taint.value).isGreaterThan(semver('6.0.9')) && semver(taint.value).minor() == 1",
        "[1, 2].all(i, n, i < n)",
    ],
)
def test_every_library_of_kubernetes_is_there(expression: str) -> None:
    assert evaluate(expression, DEV) is Outcome.TOLERATED


@pytest.mark.proves("5500-32")
@pytest.mark.parametrize(
    "expression", ["taint['key'] == 'a'", "'key' in taint", "taint.all(x, true)", "size(taint) > 0"]
)
def test_a_taint_is_no_map(expression: str) -> None:
    refusal = check_expression(expression)
    assert refusal is not None and refusal.kind == "invalid"


@pytest.mark.proves("5500-19", "5500-119")
@pytest.mark.parametrize(
    "expression", ["taint.timeAdded == 'x'", "cel.bind(k, taint.key, k == 'a')", "node.name == 'x'"]
)
def test_there_is_nothing_but_key_value_and_effect(expression: str) -> None:
    refusal = check_expression(expression)
    assert refusal is not None and refusal.kind == "invalid"


def test_a_judgement_names_the_part_that_decided_and_the_cost() -> None:
    judgement = decide("taint.key == 'a' && taint.value == 'c'", Taint("a", "b"))
    assert (judgement.outcome, judgement.deciding, judgement.position, judgement.cost, judgement.error) == (
        Outcome.EXPRESSION_FALSE,
        "taint.value == 'c'",
        20,
        6,
        "",
    )


@pytest.mark.proves("5500-27")
def test_a_judgement_carries_the_error() -> None:
    judgement = decide("semver(taint.value).major() > 5", Taint("a", "x.y.z"))
    assert (judgement.outcome, judgement.error) == (
        Outcome.EXPRESSION_FAILED,
        'Invalid character(s) found in major number "x"',
    )


@pytest.mark.proves("5500-119")
def test_a_judgement_of_a_broken_text_carries_its_issues() -> None:
    judgement = decide("taint.", Taint("a"))
    assert judgement.outcome is Outcome.EXPRESSION_FAILED and judgement.error.startswith("ERROR: <input>:1:7")


def test_fields_read_are_known_without_evaluating() -> None:
    assert fields_read("has(taint.value) || taint.effect == 'NoExecute'") == {"value", "effect"}


@pytest.mark.proves("5500-35")
def test_the_estimate_is_that_of_the_declared_sizes() -> None:
    assert estimate("taint.key == taint.value") == (5, 11)


@pytest.mark.proves("5500-35")
@pytest.mark.parametrize(("field", "most"), [("key", 1018), ("value", 205), ("effect", 55)])
def test_a_field_is_estimated_with_the_longest_text_the_api_accepts(field: str, most: int) -> None:
    # A key has at most 253 + 1 + 63 characters, a value 63, PreferNoSchedule 16: a part each, which costs three.
    assert estimate(f"taint.{field}.split('.').all(part, true)") == (3, most)


def test_a_taint_itself_has_no_size() -> None:
    assert estimate("dyn(taint) == taint") == (3, 3)


@pytest.mark.proves("5500-25")
def test_each_component_has_its_own_programs() -> None:
    one, other = Expressions(), Expressions()
    one.evaluate("true", DEV)
    assert (len(one.programs), len(other.programs)) == (1, 0)


@pytest.mark.proves("5500-24", "5500-25")
def test_a_second_question_compiles_nothing() -> None:
    expressions = Expressions()
    for _ in range(3):
        expressions.evaluate("taint.key == 'x'", DEV)
    assert (expressions.programs.misses, expressions.programs.hits) == (1, 2)


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("dyn(taint) == taint", True),
        ("taint == dyn(taint)", True),
        ("dyn(taint) != taint", False),
        ("[dyn(taint)] == [taint]", True),
        ("{'a': taint} == {'a': dyn(taint)}", True),
        ("dyn(taint) in [taint] && taint in [dyn(taint)]", True),
        ("dyn({'key': 'a', 'value': 'b', 'effect': 'NoSchedule'}) == taint", True),
        ("dyn({'key': 'a'}) == taint", False),
        ("dyn(null) == taint || dyn('a') == taint || taint == dyn(1)", False),
        ("dyn(type(1)).matches('^int$') && dyn(int).find('n') == 'n'", True),
        ("dyn(int).findAll('[in]') == ['i', 'n']", True),
    ],
)
def test_a_value_whose_type_is_given_up_is_what_it_was(expression: str, answer: bool) -> None:
    outcome = evaluate(expression, Taint("a", "b", "NoSchedule"))
    assert outcome is (Outcome.TOLERATED if answer else Outcome.EXPRESSION_FALSE)


@pytest.mark.parametrize("expression", ["'int'.matches(dyn(int))", "'i'.find(dyn(int)) == ''"])
def test_a_type_is_no_pattern(expression: str) -> None:
    assert evaluate(expression, Taint("a", "b", "NoSchedule")) is Outcome.EXPRESSION_FAILED


@pytest.mark.parametrize(
    ("expression", "found"),
    [("[?{}]", "map(_var0, _var1)"), ("{?'a': []}", "list(_var0)"), ("[?{}.a]", "_var1"), ("[?1]", "int")],
)
def test_an_optional_element_names_what_is_not_known_yet(expression: str, found: str) -> None:
    refusal = check_expression(expression)
    assert (
        refusal is not None
        and f"expected type 'optional_type({found})' but found '{found}'" in refusal.message
    )


def test_what_does_not_compile_costs_nothing_and_says_why():
    judged = Expressions().judge("taint.nope", Taint("a", "", "NoSchedule"))
    assert (judged.outcome, judged.position, judged.cost) == (
        Outcome.EXPRESSION_FAILED,
        0,
        0,
    ) and judged.error


@pytest.mark.proves("5500-26", "5500-29")
def test_the_limits_are_those_of_the_kep():
    assert (MAX_BYTES, ENV.cost_limit) == (10 * 1024, 1_000_000)


def test_evaluations_are_counted_by_what_came_of_them() -> None:
    expressions = Expressions()
    assert set(expressions.counts.values()) == {0}
    for expression in ("true", "false", "false", "1", "1", "1"):
        expressions.evaluate(expression, DEV)
    assert expressions.counts == {
        Outcome.TOLERATED: 1,
        Outcome.EXPRESSION_FALSE: 2,
        Outcome.EXPRESSION_FAILED: 3,
    }


def test_whoever_asks_is_told_how_long_each_evaluation_took(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 100.5])
    monkeypatch.setattr("weir.taints.expression.perf_counter", lambda: next(times))
    expressions, told = Expressions(), []
    expressions.timed = told.append
    expressions.evaluate("true", DEV)
    assert told == [0.5]


def test_a_judgement_of_what_is_true_says_so() -> None:
    judgement = decide("taint.key == 'a'", Taint("a"))
    assert (judgement.outcome, judgement.error) == (Outcome.TOLERATED, "")
