"""Metrics of a HorizontalPodAutoscaler in the annotations of autoscaling/v1, converted from and to v2.

The annotations use the layout of the former v2beta1: one of five sources, with names of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from weir.values.quantity import find_quantity

Document = dict[str, Any]
_ZERO: Final = "0"


def set_fields(**fields: Any) -> Document:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _identifier(name: Any, selector: Any) -> Document:
    return set_fields(name=name or "", selector=selector)


def spec_to_v2(metric: Document) -> Document:
    """Return a metric as the annotation has it in the layout of v2."""
    return _each_source(metric, _SPECS_TO_V2)


def status_to_v2(metric: Document) -> Document:
    """Return a current metric as the annotation has it in the layout of v2."""
    return _each_source(metric, _STATUSES_TO_V2)


def spec_to_v1(metric: Document) -> Document:
    """Return a metric of v2 as the annotation has it."""
    return _each_source(metric, _SPECS_TO_V1)


def status_to_v1(metric: Document) -> Document:
    """Return a current metric of v2 as the annotation has it."""
    return _each_source(metric, _STATUSES_TO_V1)


def _each_source(metric: Document, converters: Mapping[str, Callable[[Document], Document]]) -> Document:
    result = {"type": metric.get("type") or ""}
    for name, convert in converters.items():
        if isinstance(metric.get(name), dict):
            result[name] = convert(metric[name])
    return result


def _object_spec_to_v2(source: Document) -> Document:
    average, value = source.get("averageValue"), source.get("targetValue") or _ZERO
    zero = (found := find_quantity(str(value))) is not None and found.sign == 0
    target = set_fields(
        type="Value" if average is None else "AverageValue",
        value=None if average is not None and zero else value,
        averageValue=average,
    )
    return {
        "describedObject": source.get("target") or {"kind": "", "name": ""},
        "target": target,
        "metric": _identifier(source.get("metricName"), source.get("selector")),
    }


def _pods_spec_to_v2(source: Document) -> Document:
    target = {"type": "AverageValue", "averageValue": source.get("targetAverageValue") or _ZERO}
    return {"metric": _identifier(source.get("metricName"), source.get("selector")), "target": target}


def _resource_spec_to_v2(source: Document) -> Document:
    percent = source.get("targetAverageUtilization")
    target = set_fields(
        type="AverageValue" if percent is None else "Utilization",
        averageValue=source.get("targetAverageValue"),
        averageUtilization=percent,
    )
    return {
        "name": source.get("name") or "",
        "target": target,
        **({"container": source["container"]} if "container" in source else {}),
    }


def _external_spec_to_v2(source: Document) -> Document:
    value = source.get("targetValue")
    target = set_fields(
        type="AverageValue" if value is None else "Value",
        value=value,
        averageValue=source.get("targetAverageValue"),
    )
    return {"metric": _identifier(source.get("metricName"), source.get("metricSelector")), "target": target}


def _object_status_to_v2(source: Document) -> Document:
    current = set_fields(value=source.get("currentValue") or _ZERO, averageValue=source.get("averageValue"))
    return {
        "metric": _identifier(source.get("metricName"), source.get("selector")),
        "current": current,
        "describedObject": source.get("target") or {"kind": "", "name": ""},
    }


def _pods_status_to_v2(source: Document) -> Document:
    current = {"averageValue": source.get("currentAverageValue") or _ZERO}
    return {"metric": _identifier(source.get("metricName"), source.get("selector")), "current": current}


def _resource_status_to_v2(source: Document) -> Document:
    current = set_fields(
        averageValue=source.get("currentAverageValue") or _ZERO,
        averageUtilization=source.get("currentAverageUtilization"),
    )
    return {
        "name": source.get("name") or "",
        "current": current,
        **({"container": source["container"]} if "container" in source else {}),
    }


def _external_status_to_v2(source: Document) -> Document:
    current = set_fields(
        value=source.get("currentValue") or _ZERO, averageValue=source.get("currentAverageValue")
    )
    return {"metric": _identifier(source.get("metricName"), source.get("metricSelector")), "current": current}


_SPECS_TO_V2: Final = {
    "object": _object_spec_to_v2,
    "pods": _pods_spec_to_v2,
    "resource": _resource_spec_to_v2,
    "containerResource": _resource_spec_to_v2,
    "external": _external_spec_to_v2,
}


_STATUSES_TO_V2: Final = {
    "object": _object_status_to_v2,
    "pods": _pods_status_to_v2,
    "resource": _resource_status_to_v2,
    "containerResource": _resource_status_to_v2,
    "external": _external_status_to_v2,
}


def _reference(found: Mapping[str, Any]) -> Document:
    return set_fields(
        kind=found.get("kind") or "", name=found.get("name") or "", apiVersion=found.get("apiVersion")
    )


def _object_spec_to_v1(source: Document) -> Document:
    target, metric = source.get("target") or {}, source.get("metric") or {}
    return set_fields(
        target=_reference(source.get("describedObject") or {}),
        metricName=metric.get("name") or "",
        targetValue=target.get("value") or _ZERO,
        selector=metric.get("selector"),
        averageValue=target.get("averageValue"),
    )


def _pods_spec_to_v1(source: Document) -> Document:
    target, metric = source.get("target") or {}, source.get("metric") or {}
    return set_fields(
        metricName=metric.get("name") or "",
        targetAverageValue=target.get("averageValue") or _ZERO,
        selector=metric.get("selector"),
    )


def _resource_spec_to_v1(source: Document) -> Document:
    target = source.get("target") or {}
    return set_fields(
        name=source.get("name") or "",
        targetAverageUtilization=target.get("averageUtilization"),
        targetAverageValue=target.get("averageValue"),
        container=source.get("container"),
    )


def _external_spec_to_v1(source: Document) -> Document:
    target, metric = source.get("target") or {}, source.get("metric") or {}
    return set_fields(
        metricName=metric.get("name") or "",
        metricSelector=metric.get("selector"),
        targetValue=target.get("value"),
        targetAverageValue=target.get("averageValue"),
    )


def _object_status_to_v1(source: Document) -> Document:
    current, metric = source.get("current") or {}, source.get("metric") or {}
    return set_fields(
        target=_reference(source.get("describedObject") or {}),
        metricName=metric.get("name") or "",
        currentValue=current.get("value") or _ZERO,
        selector=metric.get("selector"),
        averageValue=current.get("averageValue"),
    )


def _pods_status_to_v1(source: Document) -> Document:
    current, metric = source.get("current") or {}, source.get("metric") or {}
    return set_fields(
        metricName=metric.get("name") or "",
        currentAverageValue=current.get("averageValue") or _ZERO,
        selector=metric.get("selector"),
    )


def _resource_status_to_v1(source: Document) -> Document:
    current = source.get("current") or {}
    return set_fields(
        name=source.get("name") or "",
        currentAverageUtilization=current.get("averageUtilization"),
        currentAverageValue=current.get("averageValue") or _ZERO,
        container=source.get("container"),
    )


def _external_status_to_v1(source: Document) -> Document:
    current, metric = source.get("current") or {}, source.get("metric") or {}
    return set_fields(
        metricName=metric.get("name") or "",
        metricSelector=metric.get("selector"),
        currentValue=current.get("value") or _ZERO,
        currentAverageValue=current.get("averageValue"),
    )


_SPECS_TO_V1: Final = {
    "object": _object_spec_to_v1,
    "pods": _pods_spec_to_v1,
    "resource": _resource_spec_to_v1,
    "containerResource": _resource_spec_to_v1,
    "external": _external_spec_to_v1,
}


_STATUSES_TO_V1: Final = {
    "object": _object_status_to_v1,
    "pods": _pods_status_to_v1,
    "resource": _resource_status_to_v1,
    "containerResource": _resource_status_to_v1,
    "external": _external_status_to_v1,
}
