"""Tolerations that are expressions (KEP-5500): alone in their entry, and not too long."""

from __future__ import annotations

import pytest

from weir.gates import EXTENDED
from weir.validate.core.tolerations import (
    CEL_OFF,
    EXPRESSION_MAX_BYTES,
    MIXED,
    NEVER,
    validate_expression,
    validate_tolerations,
    validate_tolerations_update,
)
from weir.validate.ratchet import CLOSED, Options

pytestmark = pytest.mark.proves("5471-81", "5500-61")

ALL = Options(frozenset(EXTENDED))


def said(toleration, options=ALL):
    return [(error.field, error.detail) for error in validate_expression(toleration, "at", options)]


@pytest.mark.proves("5500-21", "5500-38", "5500-44")
@pytest.mark.parametrize("field", ["key", "value", "operator", "effect"])
def test_an_expression_stands_alone(field):
    assert said({"expression": "true", field: "x"}) == [("at.expression", MIXED)]


def test_seconds_may_stand_beside_an_expression():
    assert said({"expression": "true", "tolerationSeconds": 5}) == []


def test_empty_fields_beside_an_expression_are_none():
    assert said({"expression": "true", "key": "", "value": "", "operator": "", "effect": ""}) == []


def padded(size, character="x"):
    text = f"taint.key != '{character}'"
    return text + " " * (size - len(text.encode()))


@pytest.mark.proves("5500-17", "5500-30", "5500-40", "5500-43", "5500-110")
@pytest.mark.parametrize(
    ("size", "too_long"),
    [(EXPRESSION_MAX_BYTES - 1, False), (EXPRESSION_MAX_BYTES, False), (EXPRESSION_MAX_BYTES + 1, True)],
)
@pytest.mark.parametrize("character", ["x", "é"])
def test_the_limit_is_in_bytes_and_itself_allowed(size, too_long, character):
    found = said({"expression": padded(size, character)})
    assert (EXPRESSION_MAX_BYTES, bool(found)) == (10240, too_long)
    assert not found or "10240" in found[0][1]


def test_an_expression_that_cannot_be_made_a_program_is_an_internal_error():
    (error,) = validate_expression({"expression": "int('x') == 1"}, "at", ALL)
    assert str(error).startswith(
        "at.expression: Internal error: program instantiation failed: type conversion error"
    )


@pytest.mark.proves("5500-22", "5500-37", "5500-90")
def test_gate_off_says_so_and_nothing_else():
    assert said({"expression": "(", "key": "x"}, Options()) == [("at.expression", CEL_OFF)]


def test_where_expressions_are_never_taken_no_gate_is_blamed():
    assert said({"expression": "true"}, CLOSED) == [("at.expression", NEVER)]


def test_every_entry_is_named_by_its_place():
    entries = [
        {"key": "a", "operator": "Exists"},
        {"expression": "true", "key": "b"},
        {"key": "c", "operator": "Gt", "value": "x"},
    ]
    fields = [error.field for error in validate_tolerations(entries, "spec.tolerations", ALL)]
    assert fields == [
        "spec.tolerations[1].expression",
        "spec.tolerations[2].value",
        "spec.tolerations[2].value",
    ]


def updated(*new, old=({"key": "a", "operator": "Exists"},)):
    found = validate_tolerations_update(list(new), list(old), "at", ALL)
    return [error.field for error in found]


def test_tolerations_that_an_update_adds_are_checked():
    stored = {"key": "a", "operator": "Exists"}
    assert updated(stored, {"key": "b", "operator": "Gt", "value": "1"}) == []
    assert updated(stored, {"key": "b", "operator": "Like"}) == ["at[1].operator"]
    assert updated({"key": "b", "operator": "Exists"}) == ["at"]
