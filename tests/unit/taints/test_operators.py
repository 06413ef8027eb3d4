"""What an operator knows about itself, held against comparing values one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.gates import ALL_FEATURES, EXTENDED, Gates
from weir.taints.operators import (
    INTEGERS,
    OPERATORS,
    VERSIONS,
    Comparison,
    Outcome,
    find_comparison,
    find_in_affinity,
    find_operator,
    names_of,
)

OFF = ALL_FEATURES.replace(dict.fromkeys(EXTENDED, False))
COMPARISONS = [each for each in OPERATORS.values() if isinstance(each, Comparison)]
INTEGER_TEXTS = st.integers(-(2**63), 2**63 - 1).map(str) | st.integers(-3, 3).map(str)
VERSION_TEXTS = st.from_regex(r"v?[0-3]\.[0-3]\.[0-3](-[0-2a]){0,1}", fullmatch=True)


def texts(operator: Comparison) -> st.SearchStrategy[str]:
    return INTEGER_TEXTS if operator.scale is INTEGERS else VERSION_TEXTS


def meets(operator, limit: str, value: str, gates: Gates = ALL_FEATURES) -> bool:
    return bool(operator.compare(limit, value, gates))


def test_operators_are_listed_as_the_api_server_lists_them():
    assert list(OPERATORS) == ["Equal", "Exists", "Lt", "Gt", "SemverLt", "SemverGt", "SemverEq"]
    assert names_of(INTEGERS) == names_of(INTEGERS, in_affinity=True) == ["Lt", "Gt"]
    assert names_of(VERSIONS) == ["SemverLt", "SemverGt", "SemverEq"]


def test_no_name_means_equal_and_an_unknown_one_nothing():
    assert find_operator("") is OPERATORS["Equal"] and find_operator("In") is None
    assert find_comparison("Equal") is find_comparison(None) is find_comparison(["Gt"]) is None
    assert find_in_affinity("Gt") is OPERATORS["Gt"] and find_in_affinity("Exists") is None


@pytest.mark.parametrize(
    ("name", "direction", "strict", "missed"),
    [
        ("Lt", -1, True, Outcome.NOT_LESS),
        ("Gt", 1, True, Outcome.NOT_GREATER),
        ("SemverLt", -1, True, Outcome.NOT_LESS),
        ("SemverGt", 1, True, Outcome.NOT_GREATER),
        ("SemverEq", 0, False, Outcome.OTHER_VALUE),
    ],
)
def test_direction_and_outcome_follow_from_the_comparison(name, direction, strict, missed):
    operator = OPERATORS[name]
    assert (operator.direction, operator.strict, operator.missed) == (direction, strict, missed)


@pytest.mark.parametrize("operator", COMPARISONS, ids=lambda each: each.name)
def test_a_gate_that_is_off_stops_the_comparison_and_needs_lowering(operator):
    assert operator.compare("1", "1", OFF) is Outcome.GATE_OFF
    assert operator.needs_lowering(OFF) and not operator.needs_lowering(ALL_FEATURES)
    assert not OPERATORS["Exists"].needs_lowering(OFF)


@pytest.mark.parametrize("operator", COMPARISONS, ids=lambda each: each.name)
@given(data=st.data())
def test_the_tightest_limit_of_a_value_is_met_by_it(operator, data):
    value = data.draw(texts(operator))
    limit = operator.limit_for(value)
    assert not limit or meets(operator, limit, value)
    if operator.scale is INTEGERS and abs(int(value)) < 2**63 - 1:
        tighter = str(int(limit) + operator.direction)
        assert limit and not meets(operator, tighter, value)


@pytest.mark.parametrize("operator", COMPARISONS, ids=lambda each: each.name)
@given(data=st.data())
def test_the_nearest_value_meets_its_limit_and_the_one_beside_differs_from_the_limit(operator, data):
    limit = data.draw(texts(operator))
    value, beside = operator.value_for(limit), operator.beside(limit)
    assert meets(operator, limit, value) or value == limit
    assert not beside or meets(operator, limit, beside) != meets(operator, limit, limit)
    assert bool(beside) <= bool(operator.direction)


@given(data=st.data())
def test_what_covers_another_tolerates_all_that_it_does(data):
    broad, narrow = (data.draw(st.sampled_from(list(OPERATORS.values()))) for _ in range(2))
    small = st.integers(-2, 2).map(str) | VERSION_TEXTS
    limit, other_limit, value = (data.draw(small) for _ in range(3))
    if broad.covers(limit, narrow, other_limit) and meets(narrow, other_limit, value):
        assert meets(broad, limit, value)


@pytest.mark.parametrize(
    ("broad", "limit", "narrow", "other", "covered"),
    [
        ("Gt", "100", "Gt", "900", True),
        ("Gt", "900", "Gt", "900", True),
        ("Gt", "900", "Gt", "100", False),
        ("Gt", "100", "Lt", "900", False),
        ("Gt", "100", "Equal", "900", True),
        ("Gt", "900", "Equal", "900", False),
        ("Gt", "x", "Gt", "x", True),
        ("SemverGt", "1.0", "SemverEq", "v2.0.0", True),
        ("SemverGt", "1.0", "Equal", "2.0.0", True),
        ("SemverEq", "2.0.0", "SemverEq", "1.0.0", False),
        ("SemverEq", "2.0", "SemverEq", "2.0.0", True),
        ("SemverEq", "2.0.0", "SemverGt", "1.0.0", False),
        ("Exists", "", "Gt", "5", True),
        ("Equal", "5", "Gt", "4", False),
        ("Equal", "5", "Exists", "", False),
        ("Gt", "5", "Exists", "", False),
        ("Gt", "1", "SemverGt", "2", False),
    ],
)
def test_which_limits_cover_which(broad, limit, narrow, other, covered):
    assert OPERATORS[broad].covers(limit, OPERATORS[narrow], other) is covered


@pytest.mark.parametrize(
    ("name", "value", "limit", "nearest", "beside"),
    [
        ("Gt", "950", "949", "951", "951"),
        ("Lt", "20", "21", "19", "19"),
        ("Gt", "-9223372036854775808", "", "-9223372036854775807", "-9223372036854775807"),
        ("Lt", "9223372036854775807", "", "9223372036854775806", "9223372036854775806"),
        ("SemverGt", "v1.2.3", "v1.2.2", "1.2.4", "1.2.4"),
        ("SemverGt", "1.2.0", "1.2.0-0", "1.2.1", "1.2.1"),
        ("SemverLt", "1.2.0-rc1", "1.2.0", "1.2.0-0", "1.2.0-0"),
        ("SemverEq", "1.2.3", "1.2.3", "1.2.3", ""),
        ("SemverGt", "high", "", "high", ""),
        ("Equal", "a", "", "a", ""),
        ("Exists", "", "", "", ""),
    ],
)
def test_neighbouring_values(name, value, limit, nearest, beside):
    operator = OPERATORS[name]
    assert (operator.limit_for(value), operator.value_for(value), operator.beside(value)) == (
        limit,
        nearest,
        beside,
    )
