"""Devices that are alike are asked once; nobody notices but the clock."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.devices.expression import Selectors, environment
from weir.devices.selector import SELECTED, Candidate, Question, Selection
from weir.devices.selector_fields import Read, find_reads, find_text_test
from weir.objects.core import read
from weir.objects.resource import Device, DeviceID, DeviceTaintRule

D = "gpu.example.com"
A = f"device.attributes['{D}']"
C = f"device.capacity['{D}']"


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("device.driver == 'd'", {Read("driver")}),
        (f"{A}.model == 'a'", {Read("attributes", D, "model")}),
        (f"{A}['model'] == 'a'", {Read("attributes", D, "model")}),
        (f"has({A}.model)", {Read("attributes", D, "model")}),
        (f"{A}.?model.orValue('') == 'a'", {Read("attributes", D, "model")}),
        (f"{A}[?'model'].orValue('') == 'a'", {Read("attributes", D, "model")}),
        ("device.attributes.dom.model == 'a'", {Read("attributes", "dom", "model")}),
        (f"{C}.memory.compareTo(quantity('1Gi')) > 0", {Read("capacity", D, "memory")}),
        (f"['a','b'].exists(m, m == {A}.model)", {Read("attributes", D, "model")}),
        ("1 == 1", set()),
    ],
)
def test_what_is_plainly_read_is_found(expression: str, wanted: set[Read]) -> None:
    assert find_reads([expression], environment()) == wanted


@pytest.mark.parametrize(
    "expression",
    [
        f"'{D}' in device.attributes",
        f"size({A}) > 1",
        f"{A}.exists(k, k == 'model')",
        f"cel.bind(d, {A}, d.model == 'a')",
        f"{A}[device.driver] == 'a'",
        f"device.attributes[?'{D}'].hasValue()",
        "device.attributes.?dom.model.orValue('') == 'a'",
        "has(device.attributes.dom)",
        "[device].size() == 1",
        ".device.driver == 'd'",
        "device.attributes['a'",
    ],
)
def test_whatever_else_is_done_with_a_device_has_to_be_asked_each_time(expression: str) -> None:
    assert find_reads([expression], environment()) is None


VALUES = st.sampled_from(
    [
        {"string": "a100"},
        {"string": "1"},
        {"string": ""},
        {"int": 1},
        {"bool": True},
        {"bool": False},
        {"version": "1.0.0"},
        {"version": "1.0.0+build"},
        {"version": "not one"},
        {"strings": ["a", "b"]},
        {},
    ]
)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["model", f"{D}/model", "uuid", "other.example.com/model", "ok"]), VALUES, max_size=4
)
CAPACITY = st.dictionaries(
    st.sampled_from(["memory", f"{D}/memory"]),
    st.sampled_from([{"value": "1Gi"}, {"value": "1024Mi"}, {"value": "?"}]),
)
EXPRESSIONS = st.sampled_from(
    [
        f"{A}.model == 'a100'",
        f"{A}.model == '1'",
        f"'a100' == {A}['model']",
        f"{A}.model != 'a100'",
        f"{A}.model in ['a100', '']",
        f"{A}.model in []",
        f"{A}.model.startsWith('a')",
        f"{A}.model.endsWith('0')",
        f"'a100'.endsWith({A}.model)",
        f"{A}[?'model'] == 'a100'",
        f"has({A}.model) == 'a100'",
        f"{A}.model == ''",
        "device.driver == 'other.example.com'",
        f"{A}.model == 1",
        f"{A}.model == true",
        f"{A}.ok",
        f"has({A}.model)",
        f"has({A}.model) && type({A}.model) == string",
        f"{A}.?model.hasValue()",
        f"{A}.model.isLessThan(semver('2.0.0'))",
        f"has({C}.memory) && {C}.memory.compareTo(quantity('1Gi')) == 0",
        "device.driver.startsWith('gpu')",
        f"'{D}' in device.attributes",
        "device.attributes['other.example.com'].model == 'a100'",
    ]
)


@settings(max_examples=tries(120, 300), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([D, "other.example.com"]), ATTRIBUTES, CAPACITY), min_size=1, max_size=6
    ),
    st.lists(EXPRESSIONS, min_size=1, max_size=2),
)
def test_many_devices_get_the_answers_each_would_get_alone(devices, expressions):
    """However alike devices are, and in whichever order they are asked."""
    selector = {"selectors": [{"cel": {"expression": text}} for text in expressions]}
    rule = read(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": {"deviceSelector": selector}})
    shared = Selectors()
    candidates = [
        Candidate(
            DeviceID(driver, "p", f"d{i}"), read(Device, {"attributes": attributes, "capacity": capacity})
        )
        for i, (driver, attributes, capacity) in enumerate(devices)
    ]
    alone = [Question(rule, {}, shared)(one) for one in candidates]
    together: dict[Candidate, None] = {}
    failed: list[Selection] = []
    question = Question(rule, {}, shared)
    question.among(candidates, together, failed.append)
    assert [one in together for one in candidates] == [answer is SELECTED for answer in alone]
    assert failed == [answer for answer in alone if answer.problem]
    assert [question(one) for one in candidates] == alone


@pytest.mark.parametrize(
    "expression",
    [
        f"{A}.?model == 'a'",
        f"has({A}.model) == 'a'",
        f"{A}.model == 'a' || false",
        f"{C}.memory == 'a'",
        f"{A}.model == 1",
        f"{A}.model == {A}.uuid",
        f"{A}.model < 'a'",
        f"{A}.model in ['a', 1]",
        f"'a' in {A}.model",
        f"'a100'.startsWith({A}.model)",
        f"{A}.model.matches('a')",
        "device.attributes['a'",
    ],
)
def test_only_a_comparison_of_a_value_with_a_text_is_a_test_of_texts(expression: str) -> None:
    assert find_text_test([expression], environment()) is None


@pytest.mark.parametrize("expression", [f"{A}.uuid == 'u-7'", f"{A}.uuid.matches('^u-7$')"])
def test_a_rule_that_tells_every_device_apart_remembers_nothing(expression: str) -> None:
    selector = {"selectors": [{"cel": {"expression": expression}}]}
    rule = read(DeviceTaintRule, {"spec": {"deviceSelector": selector}})
    question = Question(rule, {}, Selectors())
    devices = [
        Candidate(DeviceID(D, "p", f"d{n}"), read(Device, {"attributes": {"uuid": {"string": f"u-{n}"}}}))
        for n in range(2000)
    ]
    selected: dict[Candidate, None] = {}
    question.among(devices, selected, lambda _: None)
    assert [one.id.device for one in selected] == ["d7"] and not question._all_true._known
