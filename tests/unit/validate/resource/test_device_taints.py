"""What a device taint may hold, and how a claim may tolerate it: every bound, on both of its sides."""

from __future__ import annotations

import pytest

from weir.gates import EXTENDED
from weir.validate import validate
from weir.validate.core.tolerations import EMPTY_KEY
from weir.validate.ratchet import Options
from weir.validate.resource.device_taints import (
    validate_device_taint,
    validate_device_tolerations,
    validate_json_object,
)

ALL = Options(frozenset(EXTENDED))
OBJECT = "must be a valid JSON object"
BYTES = "may not be more than {} bytes"


def said(errors):
    return [(error.field, error.detail) for error in errors]


def fields(errors):
    return [error.field for error in errors]


def taint(**more):
    return said(validate_device_taint({"key": "a", **more}, "taint"))


def tolerations(*entries, options=ALL):
    return said(validate_device_tolerations(list(entries), "at", options))


def test_a_key_alone_is_a_taint_and_null_is_nothing():
    assert taint() == taint(value=None, description=None, data=None, evictionsPerSecond=None) == []


@pytest.mark.proves("5055-48")
def test_keys_and_values_are_those_of_labels():
    assert fields(validate_device_taint({}, "t")) == ["t.key", "t.key"]  # empty, and not a name
    assert fields(validate_device_taint({"key": "a/b/c", "value": "-"}, "t")) == ["t.key", "t.value"]
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
        (
            {"key": "a", "operator": "Exists", "value": "b"},
            "at[0].value",
            "must be empty for operator `Exists`",
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
