"""Which devices a rule selects, with the reason when it does not; held against asking each part plainly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.unit.devices.builders import DRIVER, device, device_class, rule, slice_of
from weir.devices.expression import DeviceError, SelectorError, Selectors
from weir.devices.selector import Candidate, Question, RuleOutcome, Selection, selects
from weir.objects.resource import DeviceID

pytestmark = pytest.mark.proves("5055-4", "5055-21", "5055-69", "5055-70")

EXPRESSIONS = Selectors()
TEXTS = [
    "true",
    "false",
    f"device.attributes['{DRIVER}'].model == 'a100'",  # fails where there is no model
    f"device.attributes['{DRIVER}'].model",  # is no bool
    f"device.attributes['{DRIVER}'].ready",  # a bool, where there is one
    "device.nope",  # does not compile
]


def candidate(published: bool = True, **attributes: Any) -> Candidate:
    (one,) = slice_of("s", device("gpu-0", attributes=attributes)).spec.devices or ()
    return Candidate(DeviceID(DRIVER, "node-1", "gpu-0"), one if published else None)


def cel(*texts: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": text}} for text in texts]


@pytest.mark.parametrize(
    "selector, outcome",
    [
        (None, RuleOutcome.NO_SELECTOR),
        ({}, RuleOutcome.SELECTED),
        ({"driver": "other"}, RuleOutcome.OTHER_DRIVER),
        ({"pool": "other"}, RuleOutcome.OTHER_POOL),
        ({"device": "other"}, RuleOutcome.OTHER_DEVICE),
        ({"driver": DRIVER, "pool": "node-1", "device": "gpu-0"}, RuleOutcome.SELECTED),
        ({"deviceClassName": "nope"}, RuleOutcome.NO_SUCH_CLASS),
        ({"deviceClassName": "a100"}, RuleOutcome.NOT_IN_CLASS),
        ({"selectors": cel("true", "false")}, RuleOutcome.SELECTOR_FALSE),
        ({"selectors": cel("device.nope")}, RuleOutcome.BROKEN),
        ({"selectors": cel("device.attributes['x'].y")}, RuleOutcome.FAILED),
    ],
)
def test_the_answer_carries_its_reason(selector: dict[str, Any] | None, outcome: RuleOutcome) -> None:
    classes = {"a100": device_class("a100", "false")}
    assert selects(rule("r", selector, "a:None"), candidate(), classes, EXPRESSIONS).outcome is outcome


@pytest.mark.parametrize("selector", [{"deviceClassName": "all"}, {"selectors": cel("true")}])
def test_what_is_not_published_has_no_attributes_to_select_by(selector: dict[str, Any]) -> None:
    classes = {"all": device_class("all")}
    answer = selects(rule("r", selector, "a:None"), candidate(published=False), classes, EXPRESSIONS)
    assert answer.outcome is RuleOutcome.UNKNOWN_ATTRIBUTES


_attributes = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from([{"string": "a100"}, {"string": "h100"}]),
        "ready": st.sampled_from([{"bool": True}, {"bool": False}]),
    },
)


@settings(max_examples=tries(80, 200), deadline=None)
@given(
    _attributes,
    st.lists(st.sampled_from(TEXTS), max_size=3),
    st.none() | st.lists(st.sampled_from(TEXTS), max_size=2),
)
def test_a_rule_selects_exactly_what_every_expression_by_itself_does(
    attributes: dict[str, Any], own: list[str], of_class: list[str] | None
) -> None:
    selector: dict[str, Any] = {"selectors": cel(*own)}
    classes = {}
    if of_class is not None:
        selector["deviceClassName"] = "c"
        classes["c"] = device_class("c", *of_class)
    asked = candidate(**attributes)

    def first_problem(texts: list[str]) -> RuleOutcome:
        seen = asked.seen()
        assert seen is not None
        for text in texts:
            try:
                if not EXPRESSIONS.selects(text, seen):
                    return RuleOutcome.SELECTOR_FALSE
            except SelectorError as error:
                return (
                    RuleOutcome.BROKEN if str(error).startswith("CEL compile error") else RuleOutcome.FAILED
                )
        return RuleOutcome.SELECTED

    expected = first_problem(of_class or [])
    if expected is RuleOutcome.SELECTOR_FALSE:
        expected = RuleOutcome.NOT_IN_CLASS
    elif expected is RuleOutcome.SELECTED:
        expected = first_problem(own)
    answer = selects(rule("r", selector, "a:None"), asked, classes, EXPRESSIONS)
    assert answer.outcome is expected
    assert bool(answer.problem) == (expected in (RuleOutcome.FAILED, RuleOutcome.BROKEN))


# ── one question about many devices ──


SIZE = f"device.attributes['{DRIVER}'].size > 1"
MODEL = f"device.attributes['{DRIVER}'].model == 'a100'"


class Counting(Selectors):
    """Selectors that count how often an expression is evaluated, and how often it is asked for words."""

    def __init__(self) -> None:
        super().__init__()
        self.evaluated = self.worded = 0
        cache = self.programs

        def compile_counted(text: str, env: Any) -> Any:
            program = cache.compile(text, env)

            def evaluate(variables: dict[str, Any]) -> Any:
                self.evaluated += 1
                return program.evaluate(variables)

            return SimpleNamespace(evaluate=evaluate)

        self.programs = SimpleNamespace(compile=compile_counted)  # type: ignore[misc, assignment]

    def selects(self, expression: str, device: Any) -> bool:
        self.worded += 1
        return super().selects(expression, device)


def devices(*attributes: dict[str, Any], driver: str = DRIVER, pool: str = "node-1") -> list[Candidate]:
    found = slice_of(
        "s",
        *(device(f"gpu-{index}", attributes=each) for index, each in enumerate(attributes)),
        driver=driver,
    )
    return [Candidate(DeviceID(driver, pool, one.name), one) for one in found.spec.devices or ()]


def sizes(*numbers: int) -> list[Candidate]:
    return devices(*({"size": {"int": number}} for number in numbers))


def chosen(question: Question, candidates: list[Candidate]) -> tuple[list[bool], list[RuleOutcome]]:
    """Return for each device whether `among` selects it, and what went wrong."""
    selected: dict[Candidate, None] = {}
    problems: list[RuleOutcome] = []
    question.among(candidates, selected, lambda answer: problems.append(answer.outcome))
    return [one in selected for one in candidates], problems


@pytest.mark.parametrize("text", [SIZE, MODEL])
def test_devices_that_were_asked_are_not_asked_again(text: str) -> None:
    expressions = Counting()
    question = Question(rule("r", {"selectors": cel(text)}, "a:None"), {}, expressions)
    asked = devices(
        *(
            {"size": {"int": number % 3}, "model": {"string": "a100" if number % 3 == 2 else "h100"}}
            for number in range(6)
        )
    )
    expected = [False, False, True] * 2
    assert chosen(question, asked) == (expected, [])
    evaluated = expressions.evaluated
    assert 1 <= evaluated <= 6
    assert chosen(question, asked) == (expected, [])
    assert [bool(question(one)) for one in asked] == expected
    assert (expressions.evaluated, expressions.worded) == (evaluated, 0)


def test_of_devices_that_were_read_already_different_texts_need_no_asking() -> None:
    expressions = Counting()
    question = Question(rule("r", {"selectors": cel(MODEL)}, "a:None"), {}, expressions)
    asked = devices(*({"model": {"string": model}} for model in ("h100", "a100", "b200", "a100", "l4")))
    assert all(one.seen() for one in asked)  # by another rule
    assert chosen(question, asked) == ([False, True, False, True, False], [])
    assert expressions.evaluated == 1, "the first of them"


def test_of_devices_that_were_read_already_only_a_plain_question_about_a_text_is_answered_so() -> None:
    longer = f"device.attributes['{DRIVER}'].model.size() > 3"
    question = Question(rule("r", {"selectors": cel(longer)}, "a:None"), {}, EXPRESSIONS)
    asked = devices(*({"model": {"string": model}} for model in ("h100", "l4", "l4", "h100")))
    assert all(one.seen() for one in asked)
    assert chosen(question, asked) == ([True, False, False, True], [])


def test_what_is_no_text_equals_none() -> None:
    question = Question(rule("r", {"selectors": cel(MODEL)}, "a:None"), {}, EXPRESSIONS)
    asked = devices({"model": {"string": "a100"}}, {"model": {"int": 100}}, {"model": {"int": 100}})
    assert all(one.seen() for one in asked)
    assert chosen(question, asked) == ([True, False, False], [])


def test_where_hardly_two_are_alike_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.devices.selector._MOST_ANSWERS", 2)
    for different, again in ((2, 0), (3, 3)):
        expressions = Counting()
        question = Question(rule("r", {"selectors": cel(SIZE)}, "a:None"), {}, expressions)
        asked = sizes(*range(different))
        expected = [number > 1 for number in range(different)]
        assert chosen(question, asked)[0] == expected
        before = expressions.evaluated
        assert chosen(question, asked)[0] == expected
        assert expressions.evaluated - before == again


def test_words_about_devices_of_a_class_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.devices.selector._MOST_ANSWERS", 2)
    expressions = Counting()
    question = Question(
        rule("r", {"deviceClassName": "c"}, "a:None"), {"c": device_class("c", SIZE)}, expressions
    )
    asked = sizes(0, 1)
    for _ in range(2):
        assert [question(one).outcome for one in asked] == [RuleOutcome.NOT_IN_CLASS] * 2
        assert expressions.worded == 2
    third, fourth = sizes(-1, -1)
    assert [question(one).outcome for one in (third, fourth)] == [RuleOutcome.NOT_IN_CLASS] * 2
    assert expressions.worded == 4  # no more is remembered, and nothing false is said


@pytest.mark.parametrize(
    "more, selected",
    [
        ({}, [True, True]),
        ({"driver": DRIVER}, [True, True]),
        ({"driver": "other"}, [False, False]),
        ({"pool": "other"}, [False, False]),
        ({"device": "gpu-0"}, [True, False]),
        ({"deviceClassName": "all"}, [True, True]),
        ({"deviceClassName": "large"}, [False, True]),
        ({"deviceClassName": "gone"}, [False, False]),
    ],
)
def test_names_and_classes_count_beside_expressions_among_many(
    more: dict[str, Any], selected: list[bool]
) -> None:
    classes = {"all": device_class("all"), "large": device_class("large", SIZE)}
    for selectors in ([], cel("true")):
        question = Question(rule("r", {**more, "selectors": selectors}, "a:None"), classes, EXPRESSIONS)
        asked = sizes(1, 2)
        assert chosen(question, asked) == (selected, [])
        assert [bool(question(one)) for one in asked] == selected


def test_a_rule_without_a_selector_selects_nothing_among_many() -> None:
    assert chosen(Question(rule("r", None, "a:None"), {}, EXPRESSIONS), sizes(1))[0] == [False]


def test_what_is_not_published_or_cannot_be_decided_is_not_selected_among_many() -> None:
    question = Question(rule("r", {"selectors": cel(SIZE)}, "a:None"), {}, EXPRESSIONS)
    absent = Candidate(DeviceID(DRIVER, "node-1", "gone"), None)
    without = devices({})
    assert chosen(question, [absent, *without, *sizes(2)]) == ([False, False, True], [RuleOutcome.FAILED])
    broken = Question(rule("r", {"selectors": cel("device.nope")}, "a:None"), {}, EXPRESSIONS)
    assert chosen(broken, sizes(2)) == ([False], [RuleOutcome.BROKEN])


def test_the_class_is_named_where_its_selector_fails() -> None:
    classes = {"c": device_class("c", SIZE)}
    answer = selects(rule("r", {"deviceClassName": "c"}, "a:None"), *devices({}), classes, EXPRESSIONS)
    assert answer.outcome is RuleOutcome.FAILED and answer.problem.startswith("class c: selector #0: ")


def test_a_device_that_cannot_be_read_fails_alike_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def refuse(*words: Any) -> Any:
        read.append(words)
        raise DeviceError("unreadable")

    monkeypatch.setattr("weir.devices.selector.read_device", refuse)
    (one,) = sizes(2)
    for _ in range(2):
        with pytest.raises(DeviceError, match="unreadable"):
            one.seen()
    assert len(read) == 1
    answer = selects(rule("r", {"selectors": cel(SIZE)}, "a:None"), one, {}, EXPRESSIONS)
    assert answer == Selection(RuleOutcome.FAILED, f"device {one.id}: unreadable")


def test_a_device_is_read_once_and_one_without_slice_never() -> None:
    (one,) = sizes(2)
    assert one.seen() is one.seen() is not None
    assert Candidate(DeviceID(DRIVER, "node-1", "gone"), None).seen() is None
