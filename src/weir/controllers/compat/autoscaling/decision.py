"""The result of one HorizontalPodAutoscaler sync: replicas, conditions, events and status.

Spec: upstream's HorizontalPodAutoscaler controller, its reasons and messages.
Of several metrics the highest proposal wins; a metric that cannot be read prevents scaling down; if none can be read
nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from weir.controllers.compat.autoscaling.replicas import (
    MetricError,
    PodState,
    Proposal,
    Sample,
    ScalingHistory,
    Tolerances,
    average_replicas,
    normalize,
    per_pod_replicas,
    total_replicas,
    utilization_replicas,
)
from weir.objects.times import format_time
from weir.values.quantity import Format, Quantity, parse_quantity

Document = Mapping[str, Any]
#: metric of the spec → what is known of it: samples by pod, one total in thousandths, or why nothing is
Answer = Mapping[str, Sample] | int | MetricError
SOURCES: Final = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_NO_SCALE: Final = "the HPA controller was unable to get the target's current scale: "


@dataclass
class Outcome:
    """What is to be written: the target's replicas if they change, the status, and events."""

    status: dict[str, Any]
    current: int = 0
    replicas: int | None = None  #: None: the target stays as it is
    reason: str = ""
    events: list[tuple[str, str, str]] = field(default_factory=list)
    metrics: list[dict[str, Any]] | None = None
    behavior: Document | None = None

    def condition(self, type: str, status: str, reason: str, message: str, now: datetime) -> None:
        """Set a condition; the time changes with its status."""
        conditions = self.status.setdefault("conditions", [])
        found = next((each for each in conditions if each["type"] == type), None)
        if found is None:
            found = {"type": type, "status": ""}
            conditions.append(found)
        if found["status"] != status:
            found["lastTransitionTime"] = format_time(now)
        found.update(status=status, reason=reason, message=message)

    def warn(self, reason: str, message: str) -> None:
        self.events.append(("Warning", reason, message))


def no_scale(autoscaler: Document, error: str, now: datetime) -> Outcome:
    """Return what follows when the target's scale cannot be read."""
    outcome = _begin(autoscaler)
    outcome.warn("FailedGetScale", error)
    outcome.condition("AbleToScale", "False", "FailedGetScale", _NO_SCALE + error, now)
    return outcome


def decide(
    autoscaler: Document,
    scale: Document,
    pods: list[PodState],
    answers: Sequence[Answer],
    history: ScalingHistory,
    now: datetime,
    selector_problem: tuple[str, str, str] | None = None,
) -> Outcome:
    """Return what to do about *autoscaler*; *answers* are about its metrics, in order.

    *selector_problem* is why the target's pods cannot be listed: an event's reason, the condition's, and the message.
    """
    outcome, spec = _begin(autoscaler), autoscaler["spec"]
    current = outcome.current = (scale.get("spec") or {}).get("replicas", 0)
    outcome.condition(
        "AbleToScale",
        "True",
        "SucceededGetScale",
        "the HPA controller was able to get the target's current scale",
        now,
    )
    history.begin(now, current)
    least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
    by_hand = current == 0 and not _scaled_to_zero(outcome, spec, least)
    if by_hand:
        message = "scaling is disabled since the replica count of the target is zero"
        outcome.condition("ScalingActive", "False", "ScalingDisabled", message, now)
        _settle(outcome, autoscaler, current, now)
        return outcome
    if current and current > most:
        _rescale(outcome, most, "Current number of replicas above Spec.MaxReplicas")
    elif current and current < least:
        _rescale(outcome, least, "Current number of replicas below Spec.MinReplicas")
    else:
        asked = _ask(outcome, autoscaler, scale, pods, answers, now, selector_problem)
        if asked is None:
            _settle(outcome, autoscaler, (outcome.status.get("desiredReplicas") or 0), now)
            return outcome
        desired, name = asked
        reason = ""
        if desired > current:
            reason = f"{name} above target"
        elif desired < current:
            reason = "All metrics below target"
        found = normalize(current, desired, least, most, spec.get("behavior"), history, now)
        outcome.condition("AbleToScale", "True", *found.able, now)
        outcome.condition("ScalingLimited", str(found.limited), *found.limit, now)
        wanted = found.replicas
        if current == 0 and wanted < least:
            wanted, reason = least, reason or "Current number of replicas below Spec.MinReplicas"
        if wanted != current:
            _rescale(outcome, wanted, reason)
    _settle(outcome, autoscaler, current if outcome.replicas is None else outcome.replicas, now)
    return outcome


def rescaled(outcome: Outcome, autoscaler: Document, history: ScalingHistory, now: datetime) -> None:
    """The target was scaled: say so."""
    replicas, spec = outcome.replicas, autoscaler["spec"]
    assert replicas is not None
    message = f"the HPA controller was able to update the target scale to {replicas}"
    outcome.condition("AbleToScale", "True", "SucceededRescale", message, now)
    outcome.events.append(("Normal", "SuccessfulRescale", f"New size: {replicas}; reason: {outcome.reason}"))
    history.scaled(now, outcome.current, replicas, spec.get("behavior"))
    if (
        outcome.current > 0
        and replicas == 0
        and spec.get("minReplicas", 1) == 0
        and _has_outside_metrics(spec)
    ):
        zero = ("True", "ScaledToZero", "the HPA controller scaled the workload to zero")
    else:
        zero = ("False", "NotScaledToZero", "the HPA controller did not scale the workload to zero")
    outcome.condition("ScaledToZero", *zero, now)
    outcome.status["lastScaleTime"] = format_time(now)


def refused(outcome: Outcome, autoscaler: Document, error: str, now: datetime) -> None:
    """The target could not be scaled: say so, and leave the rest as it was."""
    message = f"New size: {outcome.replicas}; reason: {outcome.reason}; error: {error}"
    outcome.warn("FailedRescale", message)
    message = f"the HPA controller was unable to update the target scale: {error}"
    outcome.condition("AbleToScale", "False", "FailedUpdateScale", message, now)
    before = (autoscaler.get("status") or {}).get("desiredReplicas") or 0
    outcome.replicas = None
    outcome.status["desiredReplicas"] = before


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


def _begin(autoscaler: Document) -> Outcome:
    before = autoscaler.get("status") or {}
    status = dict(before)
    if before.get("conditions"):
        status["conditions"] = [dict(each) for each in before["conditions"]]
    return Outcome(status)


def _settle(outcome: Outcome, autoscaler: Document, desired: int, now: datetime) -> None:
    """Write down where the target is and shall be."""
    status = outcome.status
    status["currentReplicas"], status["desiredReplicas"] = outcome.current, desired
    status["currentMetrics"] = outcome.metrics
    status["observedGeneration"] = autoscaler["metadata"].get("generation", 0)


def _rescale(outcome: Outcome, replicas: int, reason: str) -> None:
    outcome.replicas, outcome.reason = replicas, reason


def _has_outside_metrics(spec: Document) -> bool:
    return any(metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or ())


def _scaled_to_zero(outcome: Outcome, spec: Document, least: int) -> bool:
    """Return whether the autoscaler itself brought the target to zero, so that it may bring it back."""
    conditions = outcome.status.get("conditions") or ()
    itself = any(each["type"] == "ScaledToZero" and each["status"] == "True" for each in conditions)
    return itself and (least != 0 or _has_outside_metrics(spec))


def _ask(
    outcome: Outcome,
    autoscaler: Document,
    scale: Document,
    pods: list[PodState],
    answers: Sequence[Answer],
    now: datetime,
    selector_problem: tuple[str, str, str] | None,
) -> tuple[int, str] | None:
    """Return the replicas the metrics propose and the deciding metric; None if no metric can be read."""
    if selector_problem is not None:
        event, reason, message = selector_problem
        outcome.warn(event, message)
        shown = "the HPA target's scale is missing a selector" if event == "SelectorRequired" else message
        outcome.condition("ScalingActive", "False", reason, shown, now)
        outcome.warn("FailedComputeMetricsReplicas", message)
        return None
    spec, current = autoscaler["spec"], outcome.current
    outcome.metrics = []
    best: tuple[int, str] | None = None
    first: tuple[str, str, str] | None = None  # reason, message of the condition, error
    failed = 0
    for metric, answer in zip(spec.get("metrics") or (), answers, strict=True):
        try:
            proposal, name, status = _propose(metric, answer, spec, scale, pods, now)
        except _Failed as error:
            outcome.metrics.append({"type": ""})
            outcome.warn(error.reason, error.said)
            failed += 1
            message = f"the HPA was unable to compute the replica count: {error.said}"
            first = first or (error.reason, message, f"{error.prefix}: {error.said}")
            continue
        outcome.metrics.append(status)
        if best is None or best[0] == 0 or proposal > best[0]:
            best = (proposal, name)
    if first is not None and (best is None or best[0] < current):
        outcome.condition("ScalingActive", "False", first[0], first[1], now)
        count = len(spec.get("metrics") or ())
        message = f"invalid metrics ({failed} invalid out of {count}), first error is: {first[2]}"
        outcome.warn("FailedComputeMetricsReplicas", message)
        return None
    assert best is not None
    message = f"the HPA was able to successfully calculate a replica count from {best[1]}"
    outcome.condition("ScalingActive", "True", "ValidMetricFound", message, now)
    return best


class _Failed(Exception):
    """A metric that gives no number: the event's reason, what it says, and how the list of errors begins."""

    def __init__(self, reason: str, said: str, prefix: str) -> None:
        self.reason, self.said, self.prefix = reason, said, prefix


def tolerances_of(spec: Document) -> Tolerances:
    """Return how small a change an autoscaler ignores, in each direction."""
    behavior = spec.get("behavior") or {}

    def of(way: str) -> float:
        tolerance = (behavior.get(way) or {}).get("tolerance")
        return Tolerances().up if tolerance is None else parse_quantity(str(tolerance)).as_float()

    return Tolerances(of("scaleDown"), of("scaleUp"))


def _milli(text: Any) -> int:
    return parse_quantity(str(text)).milli_value


def _propose(
    metric: Document, answer: Answer, spec: Document, scale: Document, pods: list[PodState], now: datetime
) -> tuple[int, str, dict[str, Any]]:
    """Return the replicas one metric proposes, the metric's description, and its status."""
    kind = metric["type"]
    source = metric[SOURCES[kind]]
    target, tolerances = source["target"], tolerances_of(spec)
    current = (scale.get("spec") or {}).get("replicas", 0)
    running = (scale.get("status") or {}).get("replicas", 0)
    if kind in ("Resource", "ContainerResource"):
        return _propose_resource(kind, source, answer, current, pods, tolerances, now)
    name = source["metric"]["name"]
    identifier = {"metric": dict(source["metric"])}
    if kind == "Pods":
        try:
            if isinstance(answer, MetricError):
                raise MetricError(f"unable to get metric {name}: {answer}")
            assert not isinstance(answer, int)
            found = average_replicas(
                current, _milli(target["averageValue"]), "", pods, answer, tolerances, now
            )
        except MetricError as error:
            raise _Failed("FailedGetPodsMetric", str(error), "failed to get pods metric value") from None
        shown = {"averageValue": _printed(found.value)}
        return found.replicas, f"pods metric {name}", {"type": kind, "pods": {**identifier, "current": shown}}
    assert not isinstance(answer, Mapping)
    return _propose_outside(kind, source, answer, (current, running), pods, tolerances)


def _propose_resource(
    kind: str,
    source: Document,
    answer: Answer,
    current: int,
    pods: list[PodState],
    tolerances: Tolerances,
    now: datetime,
) -> tuple[int, str, dict[str, Any]]:
    resource, container, target = source["name"], source.get("container", ""), source["target"]
    percent = target.get("averageUtilization")
    try:
        if isinstance(answer, MetricError):
            raise MetricError(f"unable to get metrics for resource {resource}: {answer}")
        assert not isinstance(answer, int)
        if target.get("averageValue") is not None:
            found = average_replicas(
                current, _milli(target["averageValue"]), resource, pods, answer, tolerances, now
            )
            name = f"{resource} resource"
        else:
            found = utilization_replicas(current, percent, resource, pods, answer, tolerances, now, container)
            which = " container" if kind == "ContainerResource" else ""
            name = f"{resource}{which} resource utilization (percentage of request)"
    except MetricError as error:
        what = "usage" if target.get("averageValue") is not None else "utilization"
        message = f"failed to get {resource} {what}: {error}"
        if kind == "Resource":
            prefix = f"failed to get {resource} resource metric value"
            raise _Failed("FailedGetResourceMetric", message, prefix) from None
        prefix = f"failed to get {container} container metric value"
        raise _Failed("FailedGetContainerResourceMetric", message, prefix) from None
    shown: dict[str, Any] = {"averageValue": _printed(found.value, binary=resource == "memory")}
    if found.utilization is not None:
        shown["averageUtilization"] = found.utilization
    about = {"name": resource, "current": shown, **({"container": container} if container else {})}
    return found.replicas, name, {"type": kind, SOURCES[kind]: about}


def _propose_outside(
    kind: str,
    source: Document,
    answer: int | MetricError,
    replicas: tuple[int, int],
    pods: list[PodState],
    tolerances: Tolerances,
) -> tuple[int, str, dict[str, Any]]:
    """Object and External metrics: one total, compared with a value or a value for each pod."""
    current, running = replicas
    name, target = source["metric"]["name"], source["target"]
    reason, per_pod = f"FailedGet{kind}Metric", target.get("averageValue") is not None
    prefix = f"failed to get {name} external metric value: failed to get external metric {name}"
    if kind == "External" and per_pod:
        prefix = f"failed to get {name} external metric value: failed to get {name} external metric"
    elif kind == "Object":
        prefix = "failed to get object metric value"
        prefix = f"{prefix}: failed to get {name} object metric" if per_pod else prefix
    try:
        if isinstance(answer, MetricError):
            raise answer
        if per_pod:
            found = per_pod_replicas(running, _milli(target["averageValue"]), answer, tolerances)
            shown = {"averageValue": _printed(found.value)}
        else:
            ratio = answer / _milli(target["value"])
            found = Proposal(total_replicas(current, ratio, pods, tolerances), answer)
            shown = {"value": _printed(answer)}
    except MetricError as error:
        raise _Failed(reason, str(error), prefix) from None
    status: dict[str, Any] = {"metric": dict(source["metric"]), "current": shown}
    if kind == "Object":
        described = status["describedObject"] = dict(source["describedObject"])
        title = f"{described.get('kind')} metric {name}"
    else:
        title = f"external metric {name}({source['metric'].get('selector')})"
    return found.replicas, title, {"type": kind, SOURCES[kind]: status}


def _printed(milli: int, *, binary: bool = False) -> str:
    return str(Quantity(milli, -3, Format.BINARY_SI if binary else Format.DECIMAL_SI))
