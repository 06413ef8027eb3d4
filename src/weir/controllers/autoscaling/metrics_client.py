"""Metrics of an autoscaler's spec, read from the metrics APIs.

Resource metrics come from metrics.k8s.io. The custom and external metrics APIs are not served; such a metric gives
the error upstream gives when no adapter is registered (docs/decisions/0084-custom-metrics-are-not-served.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from weir import errors
from weir.client.api import Client, Unreachable
from weir.controllers.autoscaling.decision import SOURCES, Answer
from weir.controllers.autoscaling.replica_calculator import MetricError, Sample
from weir.controllers.runtime.views import parse_time
from weir.objects.kinds import by_kind
from weir.selectors.labels import print_selector
from weir.values.duration import DurationError, parse_duration
from weir.values.quantity import parse_quantity

Document = Mapping[str, Any]
POD_METRICS: Final = by_kind("metrics.k8s.io/v1beta1", "PodMetrics")
_NO_CUSTOM: Final = "no custom metrics API (custom.metrics.k8s.io) registered"


async def ask(client: Client, namespace: str, selector: str, metric: Document) -> Answer:
    """Return what is known of one metric; a failure is part of the answer."""
    kind = metric["type"]
    source = metric[SOURCES[kind]]
    if kind in ("Resource", "ContainerResource"):
        return await _resource(client, namespace, selector, source["name"], source.get("container", ""))
    name = source["metric"]["name"]
    if kind == "Pods":
        return MetricError(f"unable to fetch metrics from custom metrics API: {_NO_CUSTOM}")
    if kind == "Object":
        about = source["describedObject"]
        return MetricError(
            f"unable to get metric {name} on {about['kind']} {namespace}/{about['name']}: "
            f"unable to fetch metrics from custom metrics API: {_NO_CUSTOM}"
        )
    shown = print_selector(source["metric"].get("selector"))
    return MetricError(
        f"unable to get external metric {namespace}/{name}/{shown}: unable to fetch metrics from external metrics API: "
        f"the server could not find the requested resource (get {name}.external.metrics.k8s.io)"
    )


async def _resource(client: Client, namespace: str, selector: str, resource: str, container: str) -> Answer:
    try:
        listed = await client.list(POD_METRICS, namespace, label_selector=selector)
    except (errors.ApiError, Unreachable) as error:
        message = "the server could not find the requested resource (get pods.metrics.k8s.io)"
        message = message if isinstance(error, errors.NotFound) else str(error)
        return MetricError(f"unable to fetch metrics from resource metrics API: {message}")
    metrics = listed.documents()
    if not metrics:
        return MetricError("no metrics returned from resource metrics API")
    samples: dict[str, Sample] = {}
    for pod in metrics:
        containers = [each for each in pod["containers"] if container in ("", each["name"])]
        if not containers or any(resource not in each["usage"] for each in containers):
            continue
        value = sum(parse_quantity(each["usage"][resource]).milli_value for each in containers)
        at = parse_time(pod["timestamp"])
        assert at is not None
        samples[pod["metadata"]["name"]] = Sample(value, at, _window(pod["window"]))
    return samples


def _window(text: str) -> timedelta:
    try:
        return timedelta(seconds=parse_duration(text) / 1e9)
    except DurationError:
        return timedelta(0)
