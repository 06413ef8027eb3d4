"""Expressions that take long: none is evaluated more than a few times, and many are evaluated a moment at a time."""

from __future__ import annotations

import itertools

import pytest

from weir.cel import work
from weir.gates import ALL_FEATURES
from weir.objects.core import Taint, Toleration
from weir.taints import expression as module
from weir.taints import judge as judging
from weir.taints.expression import Expressions
from weir.taints.judge import TaintJudge
from weir.taints.operators import Outcome

SLOW = "lists.range(30).all(i, lists.range(30).all(j, string(timestamp(i)) != taint.key))"
OVERRUN = "lists.range(90000).all(i, string(timestamp(i)) != taint.key)"
TAINT = Taint("a", "b", "NoSchedule")


def taints(count: int) -> list[Taint]:
    return [Taint("rack", str(number), "NoSchedule") for number in range(count)]


def test_many_expressions_for_many_taints_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation takes a millisecond here: a turn of 20 ms has 20 of them, and in the end all were made once."""
    clock = itertools.count(0.0, 0.001)
    monkeypatch.setattr(judging, "perf_counter", lambda: next(clock))
    made = 0

    def evaluate(expression: str, taint: Taint) -> Outcome:
        nonlocal made
        made += 1
        return Outcome.TOLERATED if taint.value == expression else Outcome.EXPRESSION_FALSE

    judge = TaintJudge(ALL_FEATURES, evaluate)
    numbers = [judge.number(taint) for taint in taints(500)]
    tolerations = [Toleration(expression=str(number)) for number in range(40)]
    turns, before = 1, 0
    while not judge.advance(tolerations, 0.02):
        assert made - before <= 20
        turns, before = turns + 1, made
    assert made == 40 * 500 and turns >= made // 20
    tolerated = judge.tolerated(tolerations)
    assert made == 40 * 500, "what was evaluated in turns is not evaluated again"
    assert [number for number in numbers if tolerated[number]] == list(range(40))


def test_what_was_judged_in_turns_is_extended_when_taints_come() -> None:
    judge = TaintJudge(
        ALL_FEATURES,
        lambda text, taint: Outcome.TOLERATED if taint.value > text else Outcome.EXPRESSION_FALSE,
    )
    tolerations = [Toleration(expression="1")]
    for taint in taints(3):
        judge.number(taint)
    assert judge.advance(tolerations, 10.0)
    for taint in taints(5):
        judge.number(taint)
    assert not judge.advance(tolerations, -1.0)
    assert judge.tolerated(tolerations).tolist() == [False, False, True, True, True]
    assert judge.advance(tolerations, -1.0), "nothing is left to do"


def test_an_expression_that_takes_long_again_and_again_is_stopped() -> None:
    seen, evaluated = Expressions(), 0
    for taint in taints(200):
        seen.evaluate(SLOW, taint)
        evaluated += SLOW not in seen.stopped
    assert 1 <= evaluated <= 2 * work.MOST_WORK // module.UNNOTICED
    assert evaluated < 200 and seen.evaluate(SLOW, TAINT) is Outcome.EXPRESSION_FAILED


def test_after_a_window_what_it_used_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    seen = Expressions()
    for taint in taints(30):
        now += module.WINDOW_SECONDS + 1
        assert seen.evaluate(SLOW, taint) is Outcome.TOLERATED
    assert not seen.stopped


def test_one_that_overran_is_not_evaluated_again_and_told_of_once_for_each_pod() -> None:
    seen = Expressions()
    assert seen.evaluate(OVERRUN, TAINT) is Outcome.EXPRESSION_FAILED
    hits = seen.programs.hits + seen.programs.misses
    assert seen.evaluate(OVERRUN, TAINT) is Outcome.EXPRESSION_FAILED
    assert seen.programs.hits + seen.programs.misses == hits
    tolerations = [Toleration(key="x"), Toleration(expression=OVERRUN)]
    assert "is not evaluated any more" in seen.warning("pod-1", tolerations)
    assert (seen.warning("pod-1", tolerations), seen.warning("pod-2", [Toleration(key="x")])) == ("", "")
    assert seen.warning("pod-2", tolerations)
    assert (
        seen.failure(OVERRUN, TAINT)
        == seen.judge(OVERRUN, TAINT).error
        == "operation cancelled: actual cost limit exceeded"
    )


def test_a_fault_of_ours_is_no_match_and_not_met_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Expressions()

    def fail(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(type(seen.programs), "compile", fail)
    assert seen.evaluate("true", TAINT) is Outcome.EXPRESSION_FAILED
    assert seen.stopped == {"true": "RecursionError: too deep"}


def test_what_is_remembered_is_bounded() -> None:
    seen = Expressions()
    for number in range(module.MOST_STOPPED + 5):
        seen._stop(str(number), "why")
        seen.warning(str(number), [Toleration(expression=str(number))])
    assert len(seen.stopped) == len(seen._warned) == module.MOST_STOPPED


def test_people_write_nothing_that_is_noticed() -> None:
    """KEP-5500's stories, and what is heavier than they are."""
    seen = Expressions()
    texts = (
        "taint.key == 'kernel' && semver(taint.value).isGreaterThan(semver('5.15.0'))",
        "taint.key.matches('^zone-a[12]-rack-[0-9]+$')",
        "taint.value.split('-').exists(part, part.matches('[a-z]{1,20}[0-9]+'))",
        "['a', 'b', 'c', 'd', 'e', 'f'].exists(zone, taint.value.lowerAscii().startsWith('zone-' + zone))",
        "quantity(taint.value).isLessThan(quantity('10Gi')) || duration(taint.value) < duration('1h')",
    )
    for text in texts:
        for value in ("5.16.1", "zone-a1-rack-12", "10Mi", "1h", "z" * 63):
            seen.evaluate(text, Taint("zone-a1-rack-77", value, "NoSchedule"))
            assert work.spent() < module.UNNOTICED, (text, value, work.spent())
    assert not seen.stopped
