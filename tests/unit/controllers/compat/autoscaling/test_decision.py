"""Several metrics, some of them silent: what one look at an autoscaler comes to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from weir.controllers.compat.autoscaling.decision import Answer, Outcome, decide, rescaled
from weir.controllers.compat.autoscaling.replicas import MetricError, PodState, Sample, ScalingHistory

NOW = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
AGO = NOW - timedelta(hours=1)
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
HITS = {
    "type": "Object",
    "object": {
        "describedObject": {"kind": "Ingress", "name": "main"},
        "metric": {"name": "hits"},
        "target": {"type": "Value", "value": "100"},
    },
}


def look(metrics: list[Any], answers: list[Answer], current: int = 3, **spec: Any) -> Outcome:
    autoscaler = {
        "metadata": {"name": "h", "generation": 2},
        "spec": {"minReplicas": 1, "maxReplicas": 20, "metrics": metrics, **spec},
        "status": spec.pop("status", {}),
    }
    scale = {"spec": {"replicas": current}, "status": {"replicas": current, "selector": "a=b"}}
    pods = [
        PodState(f"p{n}", ready_since=AGO, started=AGO, requests={"c": {"cpu": 1000}}) for n in range(current)
    ]
    history = ScalingHistory([(NOW - timedelta(hours=2), current)])  # nothing recent holds it back
    outcome = decide(autoscaler, scale, pods, answers, history, NOW)
    if outcome.replicas is not None:
        rescaled(outcome, autoscaler, history, NOW)
    return outcome


def used(*values: int) -> dict[str, Sample]:
    return {f"p{n}": Sample(value, NOW) for n, value in enumerate(values)}


def test_of_several_metrics_the_one_that_asks_for_most_counts() -> None:
    outcome = look([CPU, HITS], [used(600, 600, 600), 170_000])
    assert (outcome.replicas, outcome.reason) == (6, "Ingress metric hits above target")
    assert outcome.metrics is not None
    assert [metric["type"] for metric in outcome.metrics] == ["Resource", "Object"]


def test_a_silent_metric_keeps_the_target_from_shrinking_but_not_from_growing() -> None:
    silent = MetricError("nobody knows")
    grows = look([CPU, HITS], [used(900, 900, 900), silent])
    assert grows.replicas == 6
    shrinks = look([CPU, HITS], [used(10, 10, 10), silent])
    assert shrinks.replicas is None
    [condition] = [each for each in shrinks.status["conditions"] if each["type"] == "ScalingActive"]
    assert condition["reason"] == "FailedGetObjectMetric"
    assert shrinks.events[-1][2].startswith(
        "invalid metrics (1 invalid out of 2), first error is: failed to get "
    )


def test_a_target_that_the_autoscaler_brought_to_zero_comes_back() -> None:
    at_zero = {"conditions": [{"type": "ScaledToZero", "status": "True"}]}
    assert look([HITS], [150_000], current=0, minReplicas=0, status=at_zero).replicas == 2
    by_hand = look([HITS], [150_000], current=0, minReplicas=0)
    assert by_hand.replicas is None
    to_zero = look([HITS], [0], current=1, minReplicas=0)
    assert to_zero.replicas == 0
    assert to_zero.status["conditions"][-1]["reason"] == "ScaledToZero"


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    before = {
        "conditions": [
            {
                "type": "AbleToScale",
                "status": "True",
                "reason": "X",
                "lastTransitionTime": "2020-01-01T00:00:00Z",
            }
        ]
    }
    outcome = look([CPU], [used(500, 500, 500)], status=before)
    assert outcome.status["conditions"][0]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert outcome.status["conditions"][0]["reason"] == "ReadyForNewScale"
