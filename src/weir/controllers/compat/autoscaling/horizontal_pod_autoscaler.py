"""HorizontalPodAutoscaler controller: reads scale and metrics, applies the decision, writes the status.

An autoscaler is synced when it or its generation is new, and every 15 seconds. A status write by another client does
not trigger a sync. The computation is in weir.controllers.compat.autoscaling.decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.cache import ObjectKey
from weir.controllers.compat.autoscaling.decision import (
    SOURCES,
    Answer,
    Outcome,
    decide,
    no_scale,
    refused,
    rescaled,
)
from weir.controllers.compat.autoscaling.replicas import MetricError, PodState, Sample, ScalingHistory
from weir.controllers.runtime.controller import Action, ActionContext, Controller, Steps, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Container, Pod, parse_time
from weir.controllers.workloads.pod_control import about
from weir.gates import Gates
from weir.objects.kind import Document, Kind
from weir.objects.kinds import KINDS, PODS, by_kind
from weir.selectors import labels
from weir.selectors.labels import print_selector
from weir.values.duration import DurationError, parse_duration
from weir.values.quantity import find_quantity, parse_quantity

# ── metrics of an autoscaler's spec, read from the metrics APIs ──
# Resource metrics come from metrics.k8s.io. The custom and external metrics APIs are not served; such a metric gives
# the error upstream gives when no adapter is registered (docs/decisions/0084-custom-metrics-are-not-served.md).


POD_METRICS: Final = by_kind("metrics.k8s.io/v1beta1", "PodMetrics")
_NO_CUSTOM: Final = "no custom metrics API (custom.metrics.k8s.io) registered"


async def ask(client: Client, namespace: str, selector: str, metric: Mapping[str, Any]) -> Answer:
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


AUTOSCALERS: Final = by_kind("autoscaling/v2", "HorizontalPodAutoscaler")
SYNC_PERIOD: Final = timedelta(seconds=15)
TRIES: Final = 5


class HorizontalPodAutoscalers(Controller):
    """The HorizontalPodAutoscaler controller."""

    name = "horizontal-pod-autoscaler-controller"
    event_source = "horizontal-pod-autoscaler"
    kinds: Sequence[Kind] = (AUTOSCALERS, PODS)
    workers = 5

    def __init__(self, gates: Gates) -> None:
        self.histories: dict[ObjectKey, ScalingHistory] = {}
        self.selectors: dict[ObjectKey, labels.Selector] = {}

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the autoscaler that was added, deleted, or has a new generation."""
        if kind is not AUTOSCALERS:
            return
        metadata = (new or old)["metadata"]
        if old is None or new is None or _generation(old) != _generation(new):
            yield ObjectKey(metadata["namespace"], metadata["name"])

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the look at the target, and when to look again."""
        autoscaler = listers.get(AUTOSCALERS, key.name, key.namespace)
        if autoscaler is None:
            self.histories.pop(key, None)
            self.selectors.pop(key, None)
            return
        yield WakeAt(key, now + SYNC_PERIOD)
        yield SyncAutoscaler(self, key, autoscaler, listers)

    def pods_of(
        self, key: ObjectKey, text: str, listers: Listers
    ) -> tuple[list[Pod], tuple[str, str, str] | None]:
        """Return the pods that the target's selector selects, or why they cannot be listed.

        The reason is an event's reason, the condition's reason and a message.
        """
        if not text:
            return [], ("SelectorRequired", "InvalidSelector", "selector is required")
        try:
            selector = labels.parse(text)
        except labels.SelectorError as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error}"
            return [], ("InvalidSelector", "InvalidSelector", message)
        self.selectors[key] = selector
        pods = [
            pod for pod in listers.within(PODS, key.namespace) if selector.matches(pod.metadata.labels or {})
        ]
        rivals = sorted(
            f"{other.namespace}/{other.name}"
            for other, theirs in self.selectors.items()
            if other.namespace == key.namespace
            and any(theirs.matches(pod.metadata.labels or {}) for pod in pods)
        )
        if len(rivals) > 1:
            shown = " ".join(rivals[:2])
            message = f"pods by selector {text} are controlled by more than one HPA (e.g. [{shown}])"
            return pods, ("AmbiguousSelector", "AmbiguousSelector", message)
        return pods, None


def _generation(autoscaler: Document) -> int:
    return int(autoscaler["metadata"].get("generation", 0))


@dataclass(frozen=True, eq=False)
class SyncAutoscaler(Steps):
    """Read the scale and the metrics, decide, and write."""

    controller: HorizontalPodAutoscalers
    key: ObjectKey
    autoscaler: Document
    listers: Listers

    async def carry_out(self, context: ActionContext) -> None:
        """Sync the autoscaler; failures go into its status and events and are retried at the next sync."""
        client, now, key = context.client, context.clock.now(), self.key
        reference = self.autoscaler["spec"]["scaleTargetRef"]
        try:
            kind, scale = await find_scale(client, key.namespace, reference)
        except (errors.ApiError, Unreachable, NoSuchKind) as error:
            await self._write(context, no_scale(self.autoscaler, str(error), now))
            return
        text = (scale.get("status") or {}).get("selector", "")
        pods, problem = self.controller.pods_of(key, text, self.listers)
        answers: list[Answer] = []
        if problem is None:
            for metric in self.autoscaler["spec"].get("metrics") or ():
                answers.append(await ask(client, key.namespace, text, metric))
        history = self.controller.histories.setdefault(key, ScalingHistory())
        states = [state_of(pod) for pod in pods]
        outcome = decide(self.autoscaler, scale, states, answers, history, now, problem)
        if outcome.replicas is not None:
            problem_of_write = await _set_scale(client, kind, scale, outcome.replicas)
            if problem_of_write is None:
                rescaled(outcome, self.autoscaler, history, now)
            else:
                refused(outcome, self.autoscaler, str(problem_of_write), now)
        await self._write(context, outcome)

    async def _write(self, context: ActionContext, outcome: Outcome) -> None:
        whom = about(self.autoscaler, AUTOSCALERS)
        for type, reason, message in outcome.events:
            context.recorder.record(whom, type, reason, message)
        if outcome.status == (self.autoscaler.get("status") or {}):
            return
        try:
            await context.client.update_status(AUTOSCALERS, {**self.autoscaler, "status": outcome.status})
        except errors.NotFound:
            return
        except errors.ApiError as error:
            context.recorder.record(whom, "Warning", "FailedUpdateStatus", str(error))


class NoSuchKind(Exception):
    """The target's kind is not served."""


async def find_scale(client: Client, namespace: str, reference: Mapping[str, Any]) -> tuple[Kind, Document]:
    """Return the kind of a target and its scale; raises what the server answers, or NoSuchKind."""
    group = (reference.get("apiVersion") or "").rpartition("/")[0]
    name, wanted = reference["name"], reference["kind"]
    kind = next((each for each in KINDS if each.stored and (each.group, each.kind) == (group, wanted)), None)
    if kind is None:
        raise NoSuchKind(f'no matches for kind "{wanted}" in group "{group}"')
    scale: Document = await client.get(kind, name, namespace, subresource="scale")
    return kind, scale


async def _set_scale(client: Client, kind: Kind, scale: Document, replicas: int) -> errors.ApiError | None:
    """Write the replicas, retrying on conflict; return why it failed, or nothing."""
    metadata = scale["metadata"]
    for attempt in range(TRIES):
        try:
            wanted = {**scale, "spec": {"replicas": replicas}}
            await client.update(kind, wanted, subresource="scale")
            return None
        except errors.Conflict as error:
            if attempt == TRIES - 1:
                return error
            scale = await client.get(kind, metadata["name"], metadata["namespace"], subresource="scale")
        except errors.ApiError as error:
            return error
    raise AssertionError("unreachable")


def state_of(pod: Pod) -> PodState:
    """Return what counts of a pod."""
    ready = pod.status.condition("Ready")
    containers = (
        *pod.spec.containers,
        *(each for each in pod.spec.init_containers or () if each.restart_policy == "Always"),
    )
    level = pod.spec.resources.requests if pod.spec.resources is not None else None
    return PodState(
        pod.metadata.name,
        pod.status.phase or "Pending",
        pod.deleting,
        None if ready is None else ready.status != "False",
        parse_time(ready.last_transition_time) if ready is not None else None,
        parse_time(pod.status.start_time),
        {each.name: _requests(each) for each in containers},
        _milli(level) if level else None,
    )


def _requests(container: Container) -> dict[str, int]:
    requests = container.resources.requests if container.resources is not None else None
    return _milli(requests or {})


def _milli(amounts: Mapping[str, Any]) -> dict[str, int]:
    found = ((name, find_quantity(str(text))) for name, text in amounts.items())
    return {name: amount.milli_value for name, amount in found if amount is not None}
