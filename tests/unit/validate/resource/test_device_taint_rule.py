"""Claims about weir.validate.resource.device_taint_rule: rules, device taints and tolerations."""

from __future__ import annotations

import copy

import pytest

from weir.fields.field import Context
from weir.gates import ALL_FEATURES, EXTENDED
from weir.validate import validate
from weir.validate.core.tolerations import EMPTY_KEY
from weir.validate.ratchet import Options
from weir.validate.resource.device_taint_rule import (
    validate_device_taint,
    validate_device_taint_rule,
    validate_device_tolerations,
    validate_json_object,
)

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


@pytest.mark.proves("5055-120")
def test_no_two_conditions_are_of_one_type():
    twice = {**stored(rule()), "status": {"conditions": [{"type": "C", **CONDITION}] * 2}}
    assert fields(twice, twice, STATUS) == ["status.conditions[1]"]


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}])
def test_a_status_without_conditions_is_fine(status):
    document = {**stored(rule()), "status": status}
    assert fields(document, document, STATUS) == []


ALL = Options(frozenset(EXTENDED))
OBJECT = "must be a valid JSON object"
BYTES = "may not be more than {} bytes"


def said(errors):
    return [(error.field, error.detail) for error in errors]


def taint_fields(errors):
    return [error.field for error in errors]


def taint(**more):
    return said(validate_device_taint({"key": "a", **more}, "taint"))


def tolerations(*entries, options=ALL):
    return said(validate_device_tolerations(list(entries), "at", options))


def test_a_key_alone_is_a_taint_and_null_is_nothing():
    assert taint() == taint(value=None, description=None, data=None, evictionsPerSecond=None) == []


@pytest.mark.proves("5055-48")
def test_keys_and_values_are_those_of_labels():
    assert taint_fields(validate_device_taint({}, "t")) == ["t.key", "t.key"]  # empty, and not a name
    assert taint_fields(validate_device_taint({"key": "a/b/c", "value": "-"}, "t")) == ["t.key", "t.value"]
    assert taint(key="example.com/hot", value="Very_hot.1") == []


@pytest.mark.proves("5055-51")
def test_a_description_has_at_most_1024_bytes():
    assert taint(description="é" * 512) == []
    assert taint(description="é" * 512 + "x") == [("taint.description", BYTES.format(1024))]


@pytest.mark.proves("5055-34")
def test_the_effect_none_may_be_tolerated():
    toleration = {"key": "a", "operator": "Exists", "effect": "None"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "r", "exactly": {"deviceClassName": "gpu", "tolerations": [toleration]}}
                ]
            }
        },
    }
    assert validate(claim) == []
    toleration["effect"] = "Sometimes"
    assert [error.detail for error in validate(claim)] != []


@pytest.mark.parametrize("rate, wrong", [(1, False), (0, True), (-1, True)])
def test_a_rate_is_greater_than_zero(rate, wrong):
    assert taint(evictionsPerSecond=rate) == [
        ("taint.evictionsPerSecond", "must be greater than zero")
    ] * bool(wrong)


@pytest.mark.proves("5055-31")
@pytest.mark.parametrize("data", [[], "x", 5, True, b"x"])
def test_data_is_an_object(data):
    assert taint(data=data) == [("taint.data", OBJECT)]


@pytest.mark.proves("5055-51")
def test_data_has_at_most_10240_bytes_as_compact_json():
    frame = len('{"a":""}')
    assert taint(data={"a": "x" * (10240 - frame)}) == []
    assert taint(data={"a": "x" * (10240 - frame + 1)}) == [("taint.data", BYTES.format(10240))]


def test_what_is_too_long_is_not_called_anything_else():
    quotes = 2
    assert said(validate_json_object("x" * (10240 - quotes), "at")) == [("at", OBJECT)]
    assert said(validate_json_object("x" * (10240 - quotes + 1), "at")) == [("at", BYTES.format(10240))]


@pytest.mark.proves("5055-56", "5055-107")
def test_a_request_has_at_most_16_tolerations_and_of_more_only_that_is_said():
    assert tolerations(*[{"operator": "Exists"}] * 16) == []
    assert tolerations(*[{"operator": "Equal"}] * 17) == [("at", "must have at most 16 items")]


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "a", "operator": "Exists", "value": ""},
        {"key": "a", "operator": "Equal", "value": "b"},
        {"key": "a", "value": None},
        {"key": "a", "operator": "Gt", "value": "5"},
        {"key": "a", "operator": "SemverLt", "value": "1.2"},
        {"expression": "taint.key == 'a'"},
        {"key": "a", "operator": "Other"},  # the second pass says it
    ],
)
def test_these_tolerate(toleration):
    assert tolerations(toleration) == []


@pytest.mark.parametrize(
    "toleration, field, detail",
    [
        ({"key": "", "operator": "Equal"}, "at[0].operator", EMPTY_KEY),
        ({}, "at[0].operator", EMPTY_KEY),
        pytest.param(
            {"key": "a", "operator": "Exists", "value": "b"},
            "at[0].value",
            "must be empty for operator `Exists`",
            marks=pytest.mark.proves("5055-117"),
        ),
        (
            {"key": "a", "operator": "Lt", "value": "05"},
            "at[0].value",
            "must be a valid decimal integer in canonical form",
        ),
    ],
)
def test_these_do_not_and_why(toleration, field, detail):
    assert tolerations(toleration) == [(field, detail)]


def test_an_equal_value_is_one_of_a_label():
    ((field, detail),) = tolerations({"key": "a", "operator": "Equal", "value": "b c"})
    assert field == "at[0].value" and detail.startswith("a valid label must be")


def test_an_expression_is_checked_as_one():
    ((field, detail),) = tolerations({"operator": "Exists"}, {"expression": "1"})
    assert (field, detail) == ("at[1].expression", "must evaluate to bool or the unknown type, not int")
