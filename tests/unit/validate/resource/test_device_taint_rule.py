"""Which DeviceTaintRules the API takes: names, class and expressions of the selector, the taint, eight conditions."""

from __future__ import annotations

import copy

import pytest

from weir.gates import ALL_FEATURES
from weir.validate.field import Context
from weir.validate.resource.device_taint_rule import validate_device_taint_rule

HERE = Context(ALL_FEATURES, namespaced=False)
STATUS = Context(ALL_FEATURES, "status", namespaced=False)
WHERE = "spec.deviceSelector"


def rule(selector=None, **taint):
    spec = {"taint": {"key": "hot", "effect": "NoExecute", **taint}}
    if selector is not None:
        spec["deviceSelector"] = selector
    return {"metadata": {"name": "rule"}, "spec": spec}


def fields(new, old=None, context=HERE):
    return [error.field for error in validate_device_taint_rule(new, old, context)]


def stored(document):
    document = copy.deepcopy(document)
    document["metadata"] |= {"resourceVersion": "1", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return document


def test_a_rule_needs_no_selector_and_may_name_everything():
    assert fields(rule()) == []
    whole = {
        "driver": "gpu.example.com",
        "pool": "a/b",
        "device": "gpu-0",
        "deviceClassName": "gpu",
        "selectors": [],
    }
    assert fields(rule(whole)) == []


@pytest.mark.parametrize(
    "name, value",
    [("driver", "Not A Driver"), ("pool", "a//b"), ("device", "gpu_0"), ("deviceClassName", "No Class")],
)
def test_each_name_of_the_selector_is_checked_where_it_stands(name, value):
    assert set(fields(rule({name: value}))) == {f"{WHERE}.{name}"}


def test_the_name_of_the_rule_is_checked():
    wrong = rule()
    wrong["metadata"]["name"] = "No Name"
    assert fields(wrong) == ["metadata.name"]
    assert fields({**wrong, "status": {}}, context=STATUS) == ["metadata.name"]


def test_expressions_of_the_selector_are_compiled():
    assert fields(rule({"selectors": [{"cel": {"expression": "device.driver"}}]})) == [
        f"{WHERE}.selectors[0].cel.expression"
    ]
    assert fields(rule({"selectors": [{"cel": {"expression": "device.driver == 'a'"}}]})) == []


def test_a_selector_has_at_most_32_expressions():
    many = [{"cel": {"expression": "true"}}] * 33
    assert fields(rule({"selectors": many[:32]})) == []
    assert fields(rule({"selectors": many})) == [f"{WHERE}.selectors"]


def test_too_many_expressions_are_said_by_the_second_pass():
    many = [{"cel": {"expression": "true"}}] * 33
    assert fields(rule({"selectors": many}, value="-")) == ["spec.taint.value", f"{WHERE}.selectors"]


def test_expressions_that_were_stored_are_not_compiled_again():
    broken = rule({"selectors": [{"cel": {"expression": "device.nope"}}]})
    assert fields(broken) == [f"{WHERE}.selectors[0].cel.expression"]
    assert fields(stored(broken), stored(broken)) == []
    assert fields(stored(broken), stored(rule())) == [f"{WHERE}.selectors[0].cel.expression"]


@pytest.mark.parametrize("missing", [{}, {"spec": None}, {"spec": {"taint": None}}])
def test_without_a_taint_its_key_and_effect_are_missing(missing):
    found = set(fields({"metadata": {"name": "rule"}, **missing}))
    assert found == {"spec.taint.key", "spec.taint.effect"}


def test_an_unknown_effect_is_refused_unless_it_was_there_before():
    odd = rule(effect="Odd")
    assert fields(odd) == ["spec.taint.effect"]
    assert fields(odd, stored(odd)) != ["spec.taint.effect"]
    assert fields(stored(odd), stored(odd)) == []
    assert fields(stored(odd), stored(rule())) == ["spec.taint.effect"]


def test_a_driver_with_slashes_stays_where_it_was_and_is_taken_by_the_old_version():
    slashed, plain = rule({"driver": "gpu/example"}), rule({"driver": "gpu.example.com"})
    assert fields(slashed) == [f"{WHERE}.driver"]
    assert fields(slashed, context=Context(ALL_FEATURES, namespaced=False, relaxed=True)) == []
    assert fields(stored(slashed), stored(slashed)) == []
    assert fields(stored(slashed), stored(plain)) == [f"{WHERE}.driver"]
    assert fields(stored(slashed), stored(rule())) == [f"{WHERE}.driver"]


CONDITION = {"status": "True", "reason": "Fine", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.proves("5055-73")
def test_a_status_has_at_most_eight_conditions_and_only_it_is_looked_at():
    conditions = [{"type": f"C{number}", **CONDITION} for number in range(9)]
    broken = {**stored(rule(effect="Odd")), "status": {"conditions": conditions[:8]}}
    assert fields(broken, broken, STATUS) == []
    broken["status"]["conditions"] = conditions
    assert fields(broken, broken, STATUS) == ["status.conditions"]
    broken["status"]["conditions"] = [{**CONDITION, "type": ""}]
    assert fields(broken, broken, STATUS) == ["status.conditions[0].type"]


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}])
def test_a_status_without_conditions_is_fine(status):
    document = {**stored(rule()), "status": status}
    assert fields(document, document, STATUS) == []
