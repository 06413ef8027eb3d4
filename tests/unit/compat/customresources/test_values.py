"""Values of custom resources against schemas; the texts are a real server's (tests/kubernetes)."""

from __future__ import annotations

import pytest

from weir.compat.customresources.fitting import fitting
from weir.compat.customresources.schema import read_schema
from weir.compat.customresources.values import validate_lists, validate_value, without_nulls

SCHEMA = read_schema(
    {
        "type": "object",
        "required": ["count"],
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 5},
            "name": {"type": "string", "maxLength": 4, "pattern": "^a"},
            "mode": {"type": "string", "enum": ["Fast", "Slow"]},
            "port": {"x-kubernetes-int-or-string": True},
            "when": {"type": "string", "format": "date-time"},
            "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
            "either": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        },
    }
)
CASES = [
    ({"count": 1, "port": "http", "limits": {"a": 1}, "either": {"a": 1}}, []),
    ({}, ["count: Required value"]),
    ({"count": 6}, ["count: Invalid value: 6: count in body should be less than or equal to 5"]),
    ({"count": 2.0}, []),
    ({"count": "2"}, ['count: Invalid value: "string": count in body must be of type integer: "string"']),
    ({"count": 1, "name": "abcde"}, ["name: Too long: may not be more than 4 bytes"]),
    ({"count": 1, "name": "b"}, ["name: Invalid value: \"b\": name in body should match '^a'"]),
    ({"count": 1, "mode": "fast"}, ['mode: Unsupported value: "fast": supported values: "Fast", "Slow"']),
    (
        {"count": 1, "when": "now"},
        ['when: Invalid value: "now": when in body must be of type date-time: "now"'],
    ),
    (
        {"count": 1, "limits": {"a": "b"}},
        ['limits.a: Invalid value: "string": limits.a in body must be of type integer: "string"'],
    ),
    (
        {"count": 1, "either": {"a": 1, "b": 2}},
        [
            '<nil>: Invalid value: "": "either" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives"
        ],
    ),
]


@pytest.mark.parametrize(("value", "texts"), CASES)
def test_values_are_judged_as_a_real_server_does(value, texts):
    assert [str(error) for error in validate_value(value, SCHEMA)] == texts


def test_nulls_that_may_not_be_count_as_absent():
    assert without_nulls({"count": None, "limits": {"a": None}}, SCHEMA) == {"limits": {}}


def test_lists_that_are_maps_hold_every_key_once():
    rows = read_schema(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}},
        }
    )
    found = validate_lists([{"k": "a"}, {"k": "b"}, {"k": "a", "v": 1}, {"k": "a"}], rows, "rows")
    assert [str(error) for error in found] == ['rows[2]: Duplicate value: {"k":"a"}']


def test_patterns_of_earlier_objects_are_not_charged_to_a_later_one() -> None:
    schema = read_schema({"type": "string", "pattern": "^(a+)+$"})
    fits = fitting(schema, root=True)
    assert [(validate_value("a" * 100_000, schema), fits("a" * 100_000)) for _ in range(20)] == [
        ([], True)
    ] * 20


def test_texts_too_long_for_their_patterns_are_refused() -> None:
    schema = read_schema({"type": "string", "pattern": "(a{0,30}){0,30}b"})
    (error,) = validate_value("a" * 1_000_000, schema)
    assert "too long for the patterns" in str(error)
    assert not fitting(schema, root=True)("a" * 1_000_000)
