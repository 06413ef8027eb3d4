"""Validation of HorizontalPodAutoscaler, in the v2 layout whichever version was written.

Fields the server defaults (policies, the metric) may be absent in a document from a file.
"""

from __future__ import annotations

from typing import Any, Final

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import validate_meta
from weir.validate.core.resources import validate_container_resource_name
from weir.validate.numbers import validate_not_negative
from weir.values.names import check_dns1123_label, check_path_segment
from weir.values.quantity import find_quantity

MAX_PERIOD_SECONDS: Final = 1800
MAX_STABILIZATION_WINDOW_SECONDS: Final = 3600
_SELECT: Final = ("Disabled", "Max", "Min")
_POLICIES: Final = ("Percent", "Pods")
_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
#: in the order in which the server looks at them
_ORDER: Final = ("object", "external", "pods", "resource", "containerResource")
_POPULATE: Final = "must populate information for the given metric source"


def validate_horizontal_pod_autoscaler(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a HorizontalPodAutoscaler."""
    yield from validate_meta(new, old, context)
    if context.subresource == "status":
        status = new.get("status") or {}
        for i, condition in enumerate(status.get("conditions") or ()):
            yield from validate_not_negative(condition, ("observedGeneration",), f"status.conditions[{i}]")
        yield from validate_not_negative(status, ("currentReplicas", "desiredReplicas"), "status")
        return
    spec, before = new.get("spec") or {}, None if old is None else old.get("spec") or {}
    yield from field.settle(_validate_spec(spec, before, context), _declared(spec, before))


def _declared(spec: Document, before: Document | None) -> Errors:
    """What the rules declared beside the fields say; they leave what did not change alone."""
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 0 and (before is None or before.get("minReplicas") != least):
        yield field.invalid("spec.minReplicas", least, "must be greater than or equal to 0")
    if before is None or (before.get("maxReplicas") or 0) != most:
        if most == 0:
            yield field.required("spec.maxReplicas")
        elif most < 0:
            yield field.invalid("spec.maxReplicas", most, "must be greater than or equal to 1")


def _validate_spec(spec: Document, before: Document | None, context: Context) -> Errors:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 0:
        yield from field.covered(
            [field.invalid("spec.minReplicas", least, "must be greater than or equal to 0")]
        )
    if most == 0:
        yield from field.covered([field.required("spec.maxReplicas", "must be set and greater than 0")])
    elif most < 0:
        yield from field.covered(
            [field.invalid("spec.maxReplicas", most, "must be greater than or equal to 1")]
        )
    if least is not None and most < least:
        yield field.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    same = before is not None and all(
        ((before.get("scaleTargetRef") or {}).get(name) or "") == (target.get(name) or "")
        for name in ("apiVersion", "kind")
    )
    yield from _validate_reference(
        target, "spec.scaleTargetRef", any_version=same, core=target.get("kind") == "ReplicationController"
    )
    metrics = spec.get("metrics") or ()
    ratchet = any(
        _version_problem(_described(metric), core=True) is not None
        for metric in (before or {}).get("metrics") or ()
        if metric.get("type") == "Object" and metric.get("object") is not None
    )
    yield from field.each(_validate_metric, metrics, "spec.metrics", any_version=ratchet)
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield field.forbidden("spec.metrics", detail)
    behavior = spec.get("behavior") or {}
    for way in ("scaleUp", "scaleDown"):
        if behavior.get(way) is not None:
            yield from _validate_rules(behavior[way], f"spec.behavior.{way}", raw=context.raw)


def _described(metric: Document) -> Document:
    return (metric.get("object") or {}).get("describedObject") or {}


def _validate_reference(found: Document, at: str, *, any_version: bool, core: bool) -> Errors:
    for name in ("kind", "name"):
        yield from field.required_well_formed(f"{at}.{name}", found.get(name), check_path_segment)
    if not any_version and (problem := _version_problem(found, core=core)) is not None:
        yield field.invalid(f"{at}.apiVersion", found.get("apiVersion") or "", problem)


def _version_problem(reference: Document, *, core: bool) -> str | None:
    """Return what is wrong with the apiVersion of a reference; *core* objects have no group."""
    text = reference.get("apiVersion") or ""
    if text.count("/") > 1:
        return f"unexpected GroupVersion string: {text}"
    if not core and (not text or text == "/" or "/" not in text or text.startswith("/")):
        return "apiVersion must specify API group"
    return None


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────


def _validate_metric(metric: Document, at: str, *, any_version: bool) -> Errors:
    kind = metric.get("type") or ""
    yield from field.present(f"{at}.type", kind, "must specify a metric source type")
    yield from field.one_of(f"{at}.type", kind, _SOURCES)
    present = [name for name in _ORDER if metric.get(name) is not None]
    if present:
        yield from _validate_source(present[0], metric[present[0]], f"{at}.{present[0]}", any_version)
    expected = _SOURCES.get(kind, "")
    if not expected:
        yield field.not_supported(f"{at}.type", kind, _SOURCES)
    elif metric.get(expected) is None:
        yield field.required(f"{at}.{expected}", _POPULATE)
    if len(present) != 1:
        for name in present:
            if name != expected:
                yield field.forbidden(f"{at}.{name}", "must populate the given metric source only")


def _validate_source(name: str, source: Document, at: str, any_version: bool) -> Errors:
    target = source.get("target") or {}
    if name == "object":
        described = source.get("describedObject") or {}
        yield from _validate_reference(described, f"{at}.describedObject", any_version=any_version, core=True)
    if name in ("object", "external", "pods"):
        named = (source.get("metric") or {}).get("name")
        detail = "must specify a metric name"
        yield from field.required_well_formed(f"{at}.metric.name", named, check_path_segment, detail)
    elif name == "containerResource":
        yield from _validate_container(source, at)
    elif not source.get("name"):
        yield field.required(f"{at}.name", "must specify a resource name")
    yield from _validate_target(target, f"{at}.target")
    value, average, percent = (target.get(n) for n in ("value", "averageValue", "averageUtilization"))
    if name == "object" and value is None and average is None:
        yield field.required(f"{at}.target.averageValue", "must set either a target value or averageValue")
    elif name == "external":
        if value is None and average is None:
            detail = "must set either a target value for metric or a per-pod target"
            yield field.required(f"{at}.target.averageValue", detail)
        if value is not None and average is not None:
            detail = "may not set both a target value for metric and a per-pod target"
            yield field.forbidden(f"{at}.target.value", detail)
    elif name == "pods" and average is None:
        yield field.required(f"{at}.target.averageValue", "must specify a positive target averageValue")
    elif name in ("resource", "containerResource"):
        if percent is None and average is None:
            detail = "must set either a target raw value or a target utilization"
            yield field.required(f"{at}.target.averageUtilization", detail)
        if percent is not None and average is not None:
            detail = "may not set both a target raw value and a target utilization"
            yield field.forbidden(f"{at}.target.averageValue", detail)


def _validate_container(source: Document, at: str) -> Errors:
    resource, container = source.get("name") or "", source.get("container") or ""
    if not resource:
        yield field.required(f"{at}.name", "must specify a resource name")
    else:
        yield from validate_container_resource_name(resource, f"{at}.name")
    yield from field.required_well_formed(
        f"{at}.container", container, check_dns1123_label, "must specify a container"
    )


def _validate_target(target: Document, at: str) -> Errors:
    kind = target.get("type") or ""
    yield from field.present(f"{at}.type", kind, "must specify a metric target type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        yield field.invalid(f"{at}.type", Enum(kind), "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        found = target.get(name)
        if found is not None and not _is_positive(found):
            yield field.invalid(f"{at}.{name}", Enum(found), "must be positive")
    percent = target.get("averageUtilization")
    yield from field.at_least(f"{at}.averageUtilization", percent, 1, "must be greater than 0")


def _is_positive(text: Any) -> bool:
    found = find_quantity(str(text))
    return found is None or found.sign > 0  # what is no quantity is refused before it gets here


# ── behavior ─────────────────────────────────────────────────────────────────────────────────────


def _validate_rules(rules: Document, at: str, *, raw: bool) -> Errors:
    window, select = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    yield from field.at_least(
        f"{at}.stabilizationWindowSeconds", window, 0, "must be greater than or equal to zero"
    )
    if window is not None and window > MAX_STABILIZATION_WINDOW_SECONDS:
        detail = f"must be less than or equal to {MAX_STABILIZATION_WINDOW_SECONDS}"
        yield field.invalid(f"{at}.stabilizationWindowSeconds", window, detail)
    yield from field.one_of(f"{at}.selectPolicy", select, _SELECT)
    policies = rules.get("policies")
    if not policies and not (raw and policies is None):
        yield field.required(f"{at}.policies", "must specify at least one Policy")
    yield from field.each(_validate_policy, policies, f"{at}.policies")
    tolerance = rules.get("tolerance")
    if tolerance is not None and (found := find_quantity(str(tolerance))) is not None and found.sign < 0:
        yield field.invalid(f"{at}.tolerance", str(tolerance), "must be greater than or equal to 0")


def _validate_policy(policy: Document, at: str) -> Errors:
    yield from field.one_of(f"{at}.type", policy.get("type") or "", _POLICIES)
    if (value := policy.get("value") or 0) <= 0:
        yield field.invalid(f"{at}.value", value, "must be greater than zero")
    if (period := policy.get("periodSeconds") or 0) <= 0:
        yield field.invalid(f"{at}.periodSeconds", period, "must be greater than zero")
    if period > MAX_PERIOD_SECONDS:
        yield field.invalid(
            f"{at}.periodSeconds", period, f"must be less than or equal to {MAX_PERIOD_SECONDS}"
        )
