"""How many replicas one metric asks for: upstream's documented cases, and what must hold for any numbers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.controllers.compat.autoscaling.replicas import (
    MetricError,
    PodState,
    Sample,
    ScalingHistory,
    Tolerances,
    average_replicas,
    group_pods,
    normalize,
    per_pod_replicas,
    total_replicas,
    utilization_replicas,
)

NOW = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)


def pod(number: int, request: int = 1000, **rest: Any) -> PodState:
    settings: dict[str, Any] = {"ready_since": LONG_AGO, "started": LONG_AGO, **rest}
    return PodState(f"p{number}", requests={"c": {"cpu": request, "memory": request}}, **settings)


def samples(*values: int | None) -> dict[str, Sample]:
    return {f"p{n}": Sample(value, NOW) for n, value in enumerate(values) if value is not None}


UNREADY: dict[str, Any] = {"ready": False, "ready_since": LONG_AGO, "started": LONG_AGO}
PENDING: dict[str, Any] = {"phase": "Pending", "ready": None, "started": None}

#: (current replicas, target percent, what each pod uses or None, what is odd about pods, expected replicas, percent)
UTILIZATION: list[tuple[str, int, int, list[int | None], dict[int, dict[str, Any]], int, int]] = [
    ("up", 3, 30, [300, 500, 700], {}, 5, 50),
    ("down", 5, 50, [100, 300, 500, 250, 250], {}, 3, 28),
    ("within the tolerance", 3, 100, [1020, 1030, 1050], {}, 3, 103),
    ("just above the tolerance", 10, 100, [1110] * 10, {}, 12, 111),
    ("an unready pod counts as idle on the way up", 3, 30, [300, 500, 700], {0: UNREADY}, 4, 60),
    ("unready pods hold a scale up back", 3, 30, [400, 500, 700], {0: UNREADY, 1: UNREADY}, 3, 70),
    ("a pending pod counts as idle on the way up", 3, 30, [None, 500, 700], {0: PENDING}, 4, 60),
    ("a missing pod counts as idle on the way up", 3, 100, [1000, 3000, None], {}, 4, 200),
    ("a missing pod counts as full on the way down", 5, 50, [100, 300, 500, 250, None], {}, 5, 28),
    ("a failed pod does not count", 2, 50, [500, 700, 9000], {2: {"phase": "Failed"}}, 3, 60),
    ("a pod on its way out does not count", 2, 50, [500, 700, 9000], {2: {"deleting": True}}, 3, 60),
    ("down to one", 2, 100, [10, 10], {}, 1, 1),
    ("to nothing", 2, 100, [0, 0], {}, 0, 0),
    ("more than the request", 2, 110, [1210, 1210], {}, 2, 121),
    ("a target above 100 percent fills missing pods to it", 3, 300, [400, 400, None], {}, 2, 40),
]


@pytest.mark.parametrize("case", UTILIZATION, ids=lambda case: case[0])
def test_utilization(
    case: tuple[str, int, int, list[int | None], dict[int, dict[str, Any]], int, int],
) -> None:
    _, current, target, values, odd, replicas, percent = case
    pods = [pod(number, **odd.get(number, {})) for number in range(len(values))]
    found = utilization_replicas(current, target, "cpu", pods, samples(*values), Tolerances(), NOW)
    assert (found.replicas, found.utilization) == (replicas, percent)


def test_the_documented_example() -> None:
    """Four replicas at 200m with a target of 100m become eight, and at 50m two."""
    pods = [pod(number) for number in range(4)]
    for value, expected in ((200, 8), (50, 2)):
        found = average_replicas(4, 100, "cpu", pods, samples(*[value] * 4), Tolerances(), NOW)
        assert found.replicas == expected


@pytest.mark.parametrize(
    ("pods", "values", "message"),
    [
        ([], [], "no pods returned by selector while calculating replica count"),
        (
            [pod(0, **PENDING)],
            [500],
            "did not receive metrics for targeted pods (pods might be unready)",
        ),
        (
            [PodState("p0", started=LONG_AGO, ready_since=LONG_AGO, requests={"c": {}})],
            [500],
            "missing request for cpu in container c of Pod p0",
        ),
        ([pod(0, request=0)], [500], "no metrics returned matched known pods"),
    ],
)
def test_what_cannot_be_computed_is_said(pods: list[PodState], values: list[int], message: str) -> None:
    with pytest.raises(MetricError, match="^" + message.replace("(", r"\(").replace(")", r"\)")):
        utilization_replicas(1, 50, "cpu", pods, samples(*values), Tolerances(), NOW)


def test_cpu_of_a_pod_that_has_just_started_does_not_count() -> None:
    just = NOW - timedelta(seconds=20)
    window = timedelta(seconds=30)
    young = pod(0, started=just, ready_since=just)
    old = pod(1)
    found = {"p0": Sample(9, NOW, window), "p1": Sample(9, NOW, window)}
    assert group_pods([young, old], found, "cpu", NOW).unready == {"p0"}
    assert group_pods([young, old], found, "memory", NOW).unready == frozenset()
    never_ready = pod(2, ready=False, ready_since=LONG_AGO + timedelta(seconds=5))
    was_ready = pod(3, ready=False, ready_since=LONG_AGO + timedelta(minutes=40))
    found = {"p2": Sample(9, NOW), "p3": Sample(9, NOW)}
    assert group_pods([never_ready, was_ready], found, "cpu", NOW).unready == {"p2"}


def test_metrics_about_something_else() -> None:
    pods = [pod(0), pod(1), pod(2, **UNREADY)]
    assert total_replicas(3, 1.05, pods, Tolerances()) == 3
    assert total_replicas(3, 2.0, pods, Tolerances()) == 4  # two are ready
    assert total_replicas(0, 1.5, [], Tolerances()) == 2
    assert per_pod_replicas(3, 100, 600, Tolerances()).replicas == 6
    assert per_pod_replicas(3, 100, 310, Tolerances()).replicas == 3
    assert per_pod_replicas(3, 100, 310, Tolerances()).value == 104


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=20), st.integers(1, 300))
def test_when_all_pods_are_ready_it_is_the_plain_ratio(values: list[int], target: int) -> None:
    pods = [pod(number) for number in range(len(values))]
    found = utilization_replicas(len(pods), target, "cpu", pods, samples(*values), Tolerances(), NOW)
    percent = sum(values) * 100 // (1000 * len(pods))
    ratio = percent / target
    expected = len(pods) if 0.9 <= ratio <= 1.1 else math.ceil(ratio * len(pods))
    assert (found.replicas, found.utilization) == (expected, percent)


@given(
    st.lists(st.none() | st.integers(0, 5000), min_size=1, max_size=12),
    st.sets(st.integers(0, 11)),
    st.integers(1, 300),
)
def test_pods_that_say_nothing_never_turn_the_direction_round(
    values: list[int | None], unready: set[int], target: int
) -> None:
    pods = [pod(n, **(UNREADY if n in unready else {})) for n in range(len(values))]
    current = len(pods)
    try:
        found = utilization_replicas(current, target, "cpu", pods, samples(*values), Tolerances(), NOW)
    except MetricError:
        return
    counted = [v for n, v in enumerate(values) if v is not None and n not in unready]
    ratio = (sum(counted) * 100 // (1000 * len(counted))) / target
    silent = len(counted) < len(values)
    if ratio > 1 and silent:
        assert found.replicas >= current or not [v for v in values if v is None]
    if ratio < 1 and any(v is None for v in values):
        assert found.replicas <= current


NOW_SCALING_BEHAVIOR = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW_SCALING_BEHAVIOR - timedelta(seconds=seconds)


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
    found = normalize(current, desired, 1, 100, behavior, history, NOW_SCALING_BEHAVIOR)
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
    found = normalize(current, desired, 1, 40, behavior, history, NOW_SCALING_BEHAVIOR)
    assert 1 <= found.replicas <= 40
    if behavior is not None and desired >= current:
        assert found.replicas >= current
    if behavior is not None and desired <= current:
        assert found.replicas <= current
    assert history.recommendations[-1] == (NOW_SCALING_BEHAVIOR, desired)
