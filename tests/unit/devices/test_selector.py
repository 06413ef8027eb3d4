"""Which devices a rule selects, with the reason when it does not; held against asking each part plainly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.devices.builders import DRIVER, device, device_class, rule, slice_of
from weir.devices.expression import SelectorError, Selectors
from weir.devices.selector import Candidate, RuleOutcome, selects
from weir.objects.resource import DeviceID

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


@settings(max_examples=200, deadline=None)
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
