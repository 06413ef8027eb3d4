"""A HorizontalPodAutoscaler loses nothing on its way through autoscaling/v1."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weir.objects import defaults
from weir.objects.autoscaler_versions import BEHAVIOR, METRICS, from_v2, to_v2
from weir.objects.kinds import by_kind

_selector = st.fixed_dictionaries({}, optional={"matchLabels": st.just({"a": "<b>"})})
_identifier = st.fixed_dictionaries(
    {"name": st.text(min_size=1, max_size=4)}, optional={"selector": _selector}
)
_amount = st.sampled_from(["1", "1500m", "200Mi"])
_value = st.builds(lambda value: {"type": "Value", "value": value}, _amount)
_average = st.builds(lambda value: {"type": "AverageValue", "averageValue": value}, _amount)
_percent = st.builds(lambda value: {"type": "Utilization", "averageUtilization": value}, st.integers(1, 200))
_object = st.fixed_dictionaries(
    {"kind": st.just("Ingress"), "name": st.just("m"), "apiVersion": st.just("n/v1")}
)
_sources = {
    "Object": st.fixed_dictionaries(
        {"describedObject": _object, "target": _value | _average, "metric": _identifier}
    ),
    "Pods": st.fixed_dictionaries({"metric": _identifier, "target": _average}),
    "Resource": st.fixed_dictionaries({"name": st.just("memory"), "target": _average | _percent}),
    "ContainerResource": st.fixed_dictionaries(
        {"name": st.just("cpu"), "target": _average | _percent, "container": st.just("app")}
    ),
    "External": st.fixed_dictionaries({"metric": _identifier, "target": _value | _average}),
}
_metrics = st.lists(
    st.sampled_from(sorted(_sources)).flatmap(
        lambda kind: _sources[kind].map(lambda source: {"type": kind, kind[0].lower() + kind[1:]: source})
    ),
    min_size=1,
)
_rules = st.fixed_dictionaries(
    {"selectPolicy": st.sampled_from(["Max", "Min"])},
    optional={
        "stabilizationWindowSeconds": st.integers(0, 3600),
        "policies": st.lists(st.just({"type": "Pods", "value": 1, "periodSeconds": 5}), min_size=1),
        "tolerance": st.just("50m"),
    },
)
_behavior = st.fixed_dictionaries({"scaleUp": _rules}, optional={"scaleDown": _rules})
_conditions = st.lists(
    st.just(
        {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "R"}
    )
)


@given(_metrics, st.none() | _behavior, _conditions)
def test_an_autoscaler_comes_back_from_v1_as_it_was(
    metrics: list[dict[str, Any]], behavior: dict[str, Any] | None, conditions: list[dict[str, Any]]
) -> None:
    document: dict[str, Any] = {
        "metadata": {"name": "h", "annotations": {"own": "kept"}},
        "spec": {"maxReplicas": 3, "metrics": metrics},
        "status": {"desiredReplicas": 1, "currentReplicas": 1, "currentMetrics": None},
    }
    if behavior is not None:
        document["spec"]["behavior"] = behavior
    if conditions:
        document["status"]["conditions"] = conditions
    assert to_v2("v1", from_v2("v1", document)) == document


def test_cpu_utilization_is_a_field_of_v1_and_the_rest_an_annotation() -> None:
    cpu = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 7}},
    }
    rules = {
        "scaleDown": {
            "selectPolicy": "Disabled",
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}],
        }
    }
    shown = from_v2("v1", {"metadata": {}, "spec": {"metrics": [cpu], "behavior": rules}})
    assert shown["spec"] == {"targetCPUUtilizationPercentage": 7}
    assert METRICS not in shown["metadata"]["annotations"]
    assert shown["metadata"]["annotations"][BEHAVIOR] == (
        '{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Disabled",'
        '"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":5}],"Tolerance":null}}'
    )


def test_an_annotation_that_cannot_be_read_is_dropped() -> None:
    document = {"metadata": {"annotations": {METRICS: "{", BEHAVIOR: "7"}}, "spec": {"maxReplicas": 1}}
    read = to_v2("v1", document)
    assert read["metadata"] == {}
    assert [metric["resource"]["target"]["averageUtilization"] for metric in read["spec"]["metrics"]] == [80]


def test_half_said_rules_get_the_usual_other_half() -> None:
    document: dict[str, Any] = {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 7}}},
    }
    defaults.default(document, by_kind("autoscaling/v2", "HorizontalPodAutoscaler"), "2026-01-02T03:04:05Z")
    assert document["spec"]["minReplicas"] == 1
    assert document["spec"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
        },
        "scaleDown": {
            "selectPolicy": "Max",
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
            "stabilizationWindowSeconds": 7,
        },
    }
