"""Limits, policies and stabilisation of an autoscaler, held against upstream's documented behaviour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.controllers.compat.autoscaling.replicas import ScalingHistory, normalize

NOW = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def rules(**up: Any) -> dict[str, Any]:
    usual = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
    return {"scaleUp": {"stabilizationWindowSeconds": 0, **usual, **up}, "scaleDown": usual}


def down(**changed: Any) -> dict[str, Any]:
    both = rules()
    return {**both, "scaleDown": {**both["scaleDown"], "stabilizationWindowSeconds": 0, **changed}}


def pods(value: int, seconds: int = 60) -> dict[str, Any]:
    return {"type": "Pods", "value": value, "periodSeconds": seconds}


def percent(value: int, seconds: int = 60) -> dict[str, Any]:
    return {"type": "Percent", "value": value, "periodSeconds": seconds}


#: current, desired, behavior, history, replicas, reason of AbleToScale, reason of ScalingLimited
CASES: list[tuple[str, int, int, Any, ScalingHistory, int, str, str]] = [
    ("as wished", 2, 3, None, ScalingHistory(), 3, "ReadyForNewScale", "DesiredWithinRange"),
    ("twice as many at most", 3, 20, None, ScalingHistory(), 6, "ReadyForNewScale", "ScaleUpLimit"),
    ("at least four", 1, 20, None, ScalingHistory(), 4, "ReadyForNewScale", "ScaleUpLimit"),
    ("not above the maximum", 90, 200, None, ScalingHistory(), 100, "ReadyForNewScale", "TooManyReplicas"),
    ("not below the minimum", 2, 0, None, ScalingHistory(), 1, "ReadyForNewScale", "TooFewReplicas"),
    (
        "down to the highest of five minutes",
        9,
        2,
        None,
        ScalingHistory([(ago(301), 9), (ago(200), 6), (ago(100), 4)]),
        6,
        "ScaleDownStabilized",
        "DesiredWithinRange",
    ),
    (
        "pods a minute",
        10,
        50,
        rules(policies=[pods(4)]),
        ScalingHistory(),
        14,
        "ReadyForNewScale",
        "ScaleUpLimit",
    ),
    (
        "what came within the minute counts",
        12,
        50,
        rules(policies=[pods(4)]),
        ScalingHistory(ups=[(ago(30), 2), (ago(90), 5)]),
        14,
        "ReadyForNewScale",
        "ScaleUpLimit",
    ),
    (
        "the most that any policy allows",
        10,
        50,
        rules(policies=[pods(4), percent(100)]),
        ScalingHistory(),
        20,
        "ReadyForNewScale",
        "ScaleUpLimit",
    ),
    (
        "the least, if asked so",
        10,
        50,
        rules(policies=[pods(4), percent(100)], selectPolicy="Min"),
        ScalingHistory(),
        14,
        "ReadyForNewScale",
        "ScaleUpLimit",
    ),
    (
        "percent round up",
        1,
        9,
        rules(policies=[percent(10)]),
        ScalingHistory(),
        2,
        "ReadyForNewScale",
        "ScaleUpLimit",
    ),
    (
        "never up",
        3,
        9,
        rules(selectPolicy="Disabled"),
        ScalingHistory(),
        3,
        "ReadyForNewScale",
        "ScaleUpLimit",
    ),
    (
        "up only to the lowest of the window",
        3,
        9,
        rules(stabilizationWindowSeconds=60, policies=[pods(9)]),
        ScalingHistory([(ago(70), 3), (ago(50), 5)]),
        5,
        "ScaleUpStabilized",
        "DesiredWithinRange",
    ),
    (
        "down by percent",
        10,
        1,
        down(policies=[percent(20)]),
        ScalingHistory(),
        8,
        "ReadyForNewScale",
        "ScaleDownLimit",
    ),
    (
        "what went within the minute counts",
        8,
        1,
        down(policies=[percent(20)]),
        ScalingHistory(downs=[(ago(10), 2)]),
        8,
        "ReadyForNewScale",
        "ScaleDownLimit",
    ),
    (
        "never down",
        9,
        2,
        down(selectPolicy="Disabled"),
        ScalingHistory(),
        9,
        "ReadyForNewScale",
        "ScaleDownLimit",
    ),
    (
        "the window of scaling down is five minutes unless said",
        9,
        2,
        rules(),
        ScalingHistory([(ago(200), 7)]),
        7,
        "ScaleDownStabilized",
        "DesiredWithinRange",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_wish_within_its_limits(case: tuple[str, int, int, Any, ScalingHistory, int, str, str]) -> None:
    _, current, desired, behavior, history, replicas, able, limit = case
    found = normalize(current, desired, 1, 100, behavior, history, NOW)
    assert (found.replicas, found.able[0], found.limit[0]) == (replicas, able, limit)
    assert found.limited == (limit != "DesiredWithinRange")


_policies = st.lists(
    st.builds(pods, st.integers(1, 20), st.integers(1, 300))
    | st.builds(percent, st.integers(1, 200), st.integers(1, 300)),
    min_size=1,
    max_size=3,
)
_rules = st.fixed_dictionaries(
    {"selectPolicy": st.sampled_from(["Max", "Min", "Disabled"]), "policies": _policies},
    optional={"stabilizationWindowSeconds": st.integers(0, 600)},
)
_times = st.lists(st.tuples(st.integers(0, 900).map(ago), st.integers(0, 40)), max_size=8)


@given(
    st.integers(1, 40),
    st.integers(0, 80),
    st.none() | st.fixed_dictionaries({"scaleUp": _rules, "scaleDown": _rules}),
    _times,
    _times,
    _times,
)
def test_no_history_and_no_rule_leads_outside_the_bounds_or_the_other_way(
    current: int, desired: int, behavior: Any, recommended: Any, ups: Any, downs: Any
) -> None:
    history = ScalingHistory(list(recommended), list(ups), list(downs))
    found = normalize(current, desired, 1, 40, behavior, history, NOW)
    assert 1 <= found.replicas <= 40
    if behavior is not None and desired >= current:
        assert found.replicas >= current
    if behavior is not None and desired <= current:
        assert found.replicas <= current
    assert history.recommendations[-1] == (NOW, desired)
