"""Conversion of HorizontalPodAutoscaler between autoscaling/v1 and v2.

v1 has one metric, CPU utilization. Everything else of v2 is in annotations of v1, so that a round trip loses nothing:
the other metrics, current values, conditions and behavior. The behavior is there with its Go names. An annotation
that cannot be parsed is dropped. The metrics use the layout of the former v2beta1: one of five sources, with names of
its own; the tables below give each name its place in v2, in the order in which v1 prints them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from weir.values.quantity import find_quantity
from weir.values.quoting import compact_json

# ── metrics of the annotations ──────────────────────────────────────────────────────────────────────


Document = dict[str, Any]
_ZERO: Final = "0"


class _Field(NamedTuple):
    """A field of a source in v1 and its place in v2."""

    v1: str
    v2: str  #: with a dot below a struct
    zero: Any = None  #: what an absent or empty one is printed as in v1; None: nothing
    read: Any = None  #: what an absent or empty one is read as in v2; None: nothing


#: Fields of v2 in the order in which they are printed: of a source, where it is another than below, and of an amount.
_SPEC_ORDER: Final = {"object": ("describedObject", "target", "metric")}
_STATUS_ORDER: Final = {"object": ("metric", "current", "describedObject")}
_ORDER: Final = ("metric", "name", "target", "current", "container")
_AMOUNT_ORDER: Final = ("type", "value", "averageValue", "averageUtilization")

_Sources = Mapping[str, tuple[_Field, ...]]
_NAME: Final = _Field("metricName", "metric.name", "", "")
_SELECTOR: Final = _Field("selector", "metric.selector")
_OBJECT: Final = _Field("target", "describedObject", {}, {"kind": "", "name": ""})
_OF_RESOURCE: Final = _Field("name", "name", "", "")
_CONTAINER: Final = _Field("container", "container")
_RESOURCE: Final = (
    _OF_RESOURCE,
    _Field("targetAverageUtilization", "target.averageUtilization"),
    _Field("targetAverageValue", "target.averageValue"),
    _CONTAINER,
)
_SPECS: Final[_Sources] = {
    "object": (
        _OBJECT,
        _NAME,
        _Field("targetValue", "target.value", _ZERO, _ZERO),
        _SELECTOR,
        _Field("averageValue", "target.averageValue"),
    ),
    "pods": (_NAME, _Field("targetAverageValue", "target.averageValue", _ZERO, _ZERO), _SELECTOR),
    "resource": _RESOURCE,
    "containerResource": _RESOURCE,
    "external": (
        _NAME,
        _Field("metricSelector", "metric.selector"),
        _Field("targetValue", "target.value"),
        _Field("targetAverageValue", "target.averageValue"),
    ),
}
_CURRENT_RESOURCE: Final = (
    _OF_RESOURCE,
    _Field("currentAverageUtilization", "current.averageUtilization"),
    _Field("currentAverageValue", "current.averageValue", _ZERO, _ZERO),
    _CONTAINER,
)
_STATUSES: Final[_Sources] = {
    "object": (
        _OBJECT,
        _NAME,
        _Field("currentValue", "current.value", _ZERO, _ZERO),
        _SELECTOR,
        _Field("averageValue", "current.averageValue"),
    ),
    "pods": (_NAME, _Field("currentAverageValue", "current.averageValue", _ZERO, _ZERO), _SELECTOR),
    "resource": _CURRENT_RESOURCE,
    "containerResource": _CURRENT_RESOURCE,
    "external": (
        _NAME,
        _Field("metricSelector", "metric.selector"),
        _Field("currentValue", "current.value", _ZERO, _ZERO),
        _Field("currentAverageValue", "current.averageValue"),
    ),
}


def set_fields(**fields: Any) -> Document:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def spec_to_v2(metric: Document) -> Document:
    """Return a metric as the annotation has it in the layout of v2."""
    return _to_v2(metric, _SPECS, _SPEC_ORDER)


def status_to_v2(metric: Document) -> Document:
    """Return a current metric as the annotation has it in the layout of v2."""
    return _to_v2(metric, _STATUSES, _STATUS_ORDER)


def spec_to_v1(metric: Document) -> Document:
    """Return a metric of v2 as the annotation has it."""
    return _to_v1(metric, _SPECS)


def status_to_v1(metric: Document) -> Document:
    """Return a current metric of v2 as the annotation has it."""
    return _to_v1(metric, _STATUSES)


def _to_v2(metric: Document, sources: _Sources, orders: Mapping[str, tuple[str, ...]]) -> Document:
    result: Document = {"type": metric.get("type") or ""}
    amounts = "target" if sources is _SPECS else "current"
    for name, fields in sources.items():
        if isinstance(source := metric.get(name), dict):
            converted: Document = {amounts: {}}
            for field in fields:
                value = source.get(field.v1)
                value = value if field.read is None else value or field.read
                if value is not None:
                    struct, _, member = field.v2.rpartition(".")
                    (converted.setdefault(struct, {}) if struct else converted)[member] = value
            if sources is _SPECS:
                _set_type(converted["target"], name)
            converted[amounts] = _in_order(converted[amounts], _AMOUNT_ORDER)
            result[name] = _in_order(converted, orders.get(name, _ORDER))
    return result


def _in_order(struct: Document, names: tuple[str, ...]) -> Document:
    return {name: struct[name] for name in names if name in struct}


def _to_v1(metric: Document, sources: _Sources) -> Document:
    result: Document = {"type": metric.get("type") or ""}
    for name, fields in sources.items():
        if isinstance(source := metric.get(name), dict):
            result[name] = {}
            for field in fields:
                struct, _, member = field.v2.rpartition(".")
                value = ((source.get(struct) or {}) if struct else source).get(member)
                value = value if field.zero is None else value or field.zero
                if field is _OBJECT:
                    value = _reference(value or {})
                if value is not None:
                    result[name][field.v1] = value
    return result


def _set_type(target: Document, source: str) -> None:
    """Set the type of a target, which v1 does not say; a value of zero beside an average is none."""
    value, average = target.get("value"), target.get("averageValue")
    if source == "external":
        kind = "AverageValue" if value is None else "Value"
    elif source == "object":
        kind = "Value" if average is None else "AverageValue"
        zero = (quantity := find_quantity(str(value))) is not None and quantity.sign == 0
        if average is not None and zero:
            del target["value"]
    else:
        kind = "AverageValue" if target.get("averageUtilization") is None else "Utilization"
    target["type"] = kind


def _reference(reference: Document) -> Document:
    return set_fields(
        kind=reference.get("kind") or "",
        name=reference.get("name") or "",
        apiVersion=reference.get("apiVersion"),
    )


# ── the object ──────────────────────────────────────────────────────────────────────────────────────


_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
METRICS: Final = _PREFIX + "metrics"
CURRENT_METRICS: Final = _PREFIX + "current-metrics"
CONDITIONS: Final = _PREFIX + "conditions"
BEHAVIOR: Final = _PREFIX + "behavior"
_ROUND_TRIP: Final = (
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    _PREFIX + "scale-down-tolerance",
    _PREFIX + "scale-up-tolerance",
)
DEFAULT_CPU_UTILIZATION: Final = 80


def default_metric(percent: int = DEFAULT_CPU_UTILIZATION) -> Document:
    """Return the metric an autoscaler without one scales by."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def has_other_metrics(document: Document) -> bool:
    """Return whether a document of v1 carries metrics besides CPU utilization."""
    return bool(_parsed_list((document.get("metadata") or {}).get("annotations") or {}, METRICS))


def without_carried(metadata: Document) -> Document:
    """Return the metadata without the annotations that only carry v2's fields."""
    annotations = metadata.get("annotations") or {}
    kept: Document = _with_annotations({"metadata": metadata}, _kept(annotations), annotations)["metadata"]
    return kept


# ── v1 → v2 ──────────────────────────────────────────────────────────────────────────────────────


def to_v2(version: str, document: Document) -> Document:
    """Return a document written in *version* as v2; of v2 itself only the annotations of v1 are dropped.

    >>> v1 = {"spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}}
    >>> to_v2("v1", v1)["spec"]["metrics"][0]["resource"]["target"]
    {'type': 'Utilization', 'averageUtilization': 50}
    """
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    result = _with_annotations(document, _kept(annotations), annotations)
    if version != "v1":
        return result
    spec = dict(document.get("spec") or {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [] if percent is None else [default_metric(percent)]
    metrics = [*(spec_to_v2(each) for each in _parsed_list(annotations, METRICS)), *metrics]
    spec["metrics"] = metrics or [default_metric()]
    if behavior := _behavior_from_go(_parsed(annotations, BEHAVIOR)):
        spec["behavior"] = behavior
    result = {**result, "spec": spec}
    if isinstance(document.get("status"), Mapping) or {CURRENT_METRICS, CONDITIONS} & annotations.keys():
        result["status"] = _status_to_v2(document.get("status") or {}, annotations)
    return result


def _status_to_v2(found: Mapping[str, Any], annotations: Mapping[str, str]) -> Document:
    status = dict(found)
    percent = status.pop("currentCPUUtilizationPercentage", None)
    current: list[Document] | None = None
    if percent is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": percent}}
        current = [{"type": "Resource", "resource": resource}]
    if CURRENT_METRICS in annotations:
        current = [status_to_v2(each) for each in _parsed_list(annotations, CURRENT_METRICS)] or current
    status["currentMetrics"] = current
    if conditions := _parsed_list(annotations, CONDITIONS):
        status["conditions"] = conditions
    if not status.get("currentReplicas"):
        status.pop("currentReplicas", None)
    return status


def _parsed(annotations: Mapping[str, str], name: str) -> Any:
    try:
        return json.loads(annotations.get(name) or "null")
    except ValueError:
        return None


def _parsed_list(annotations: Mapping[str, str], name: str) -> list[Document]:
    found = _parsed(annotations, name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        return []
    return found


# ── v2 → v1 ──────────────────────────────────────────────────────────────────────────────────────


def from_v2(version: str, document: Document) -> Document:
    """Return a v2 document as *version* shows it.

    >>> target = {"type": "AverageValue", "averageValue": "1"}
    >>> metric = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": target}}
    >>> from_v2("v1", {"metadata": {}, "spec": {"maxReplicas": 2, "metrics": [metric]}})["metadata"]["annotations"]
    {'autoscaling.alpha.kubernetes.io/metrics': '[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1"}}]'}
    """
    before = (document.get("metadata") or {}).get("annotations") or {}
    annotations = _kept(before)
    if version != "v1":
        return _with_annotations(document, annotations, before)
    spec, status = dict(document.get("spec") or {}), dict(document.get("status") or {})
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    for metric in metrics:
        if _is_cpu_utilization(metric):
            spec["targetCPUUtilizationPercentage"] = metric["resource"]["target"]["averageUtilization"]
            break
    others = [spec_to_v1(each) for each in metrics if not _is_cpu_utilization(each)]
    if others:
        annotations[METRICS] = compact_json(others)
    current, conditions = status.pop("currentMetrics", None) or [], status.pop("conditions", None) or []
    if current:
        annotations[CURRENT_METRICS] = compact_json([status_to_v1(each) for each in current])
    if behavior is not None:
        annotations[BEHAVIOR] = compact_json(_behavior_to_go(behavior))
    if conditions:
        annotations[CONDITIONS] = compact_json([_condition(each) for each in conditions])
    for metric in current:
        resource = metric.get("resource") or {}
        percent = (resource.get("current") or {}).get("averageUtilization")
        if metric.get("type") == "Resource" and resource.get("name") == "cpu" and percent is not None:
            status["currentCPUUtilizationPercentage"] = percent
    result = _with_annotations(document, annotations, before)
    if "spec" in document:
        result = {**result, "spec": spec}
    if "status" in document:
        status.setdefault("currentReplicas", 0)
        status.setdefault("desiredReplicas", 0)
        result = {**result, "status": status}
    return result


def _is_cpu_utilization(metric: Document) -> bool:
    resource = metric.get("resource")
    return (
        metric.get("type") == "Resource"
        and resource is not None
        and resource.get("name") == "cpu"
        and (resource.get("target") or {}).get("averageUtilization") is not None
    )


def _kept(annotations: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in annotations.items() if name not in _ROUND_TRIP}


def _with_annotations(document: Document, now: dict[str, str], before: Mapping[str, str]) -> Document:
    if now == before or "metadata" not in document:
        return document
    metadata = {name: value for name, value in document["metadata"].items() if name != "annotations"}
    if now:
        metadata["annotations"] = now
    return {**document, "metadata": metadata}


def _condition(found: Mapping[str, Any]) -> Document:
    """A time that is not set is printed as null, as Go does."""
    return {
        "type": found.get("type") or "",
        "status": found.get("status") or "",
        "lastTransitionTime": found.get("lastTransitionTime"),
        **{name: found[name] for name in ("reason", "message") if found.get(name)},
        **set_fields(observedGeneration=found.get("observedGeneration")),
    }


_GO_RULES: Final = {
    "stabilizationWindowSeconds": "StabilizationWindowSeconds",
    "selectPolicy": "SelectPolicy",
    "policies": "Policies",
    "tolerance": "Tolerance",
}
_GO_POLICY: Final = {"type": "Type", "value": "Value", "periodSeconds": "PeriodSeconds"}


def _behavior_to_go(behavior: Mapping[str, Any]) -> Document:
    def rules(found: Mapping[str, Any] | None) -> Document | None:
        if found is None:
            return None
        policies = found.get("policies")
        shown = {go: found.get(name) for name, go in _GO_RULES.items()}
        if policies is not None:
            zero = {"type": "", "value": 0, "periodSeconds": 0}
            shown["Policies"] = [
                {go: each.get(n, zero[n]) for n, go in _GO_POLICY.items()} for each in policies
            ]
        return shown

    return {"ScaleUp": rules(behavior.get("scaleUp")), "ScaleDown": rules(behavior.get("scaleDown"))}


def _behavior_from_go(found: Any) -> Document | None:
    """Return the behavior in v2's names; None when there is none, or nothing in it. Go reads names in any case."""
    if not isinstance(found, dict):
        return None

    def renamed(value: Mapping[str, Any], names: Mapping[str, str]) -> Document:
        wanted = {go.lower(): name for name, go in names.items()}
        return {wanted[k.lower()]: v for k, v in value.items() if k.lower() in wanted and v is not None}

    behavior = renamed(found, {"scaleUp": "ScaleUp", "scaleDown": "ScaleDown"})
    for way, rules in behavior.items():
        behavior[way] = renamed(rules, _GO_RULES) if isinstance(rules, dict) else {}
        if "policies" in behavior[way]:
            behavior[way]["policies"] = [renamed(each, _GO_POLICY) for each in behavior[way]["policies"]]
    return behavior or None
