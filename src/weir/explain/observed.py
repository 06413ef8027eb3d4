"""Conditions and events of the cluster about a pod or workload, compared with the computed verdict.

Spec: core.md 3.10 (PodScheduled, FailedScheduling), 5 (a kubelet's rejection), apps/v1 ReplicaSet (ReplicaFailure),
FailedCreate events.
Where they differ the result says so, with the likely cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.explain.subject import Subject
from weir.objects.core import Pod
from weir.world import World

_LIKELY: Final = (
    "the cluster changed since, its feature gates are others, another scheduler is in charge, or a webhook changed "
    "the pod"
)
#: How a kubelet begins the message of a pod that it did not admit.
_REJECTED: Final = "Pod was rejected: "


@dataclass(frozen=True)
class Observed:
    """What was read in the cluster."""

    says: tuple[str, ...] = ()  #: each with where it stands
    refuses: bool = False  #: whether pods of it are not created, or not placed

    def differs(self, fits: bool) -> str:
        """Return in what the cluster and the answer *fits* differ, with the likely cause; "" when they agree."""
        if self.refuses and fits:
            return f"The cluster says otherwise: {self.says[0]}. Likely: {_LIKELY}."
        return ""


def observed(subject: Subject, pod: Pod, world: World) -> Observed:
    """Return what the cluster says of a stored pod, or of a workload it has."""
    if subject.kind == "Pod" and subject.stored:
        return observed_pod(pod, world)
    failures = [*_failures(subject, world)]
    return Observed(tuple(dict.fromkeys(failures)), bool(failures))


def observed_pod(pod: Pod, world: World) -> Observed:
    """Return what the cluster says of a pod that is in it: its status, its condition, or else the last event."""
    status = pod.status
    if status.reason or status.message:
        text = f"status {status.phase} ({status.reason or 'no reason'}): {status.message or ''}".rstrip(": ")
        return Observed((text,), (status.message or "").startswith(_REJECTED))
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            reason = condition.reason or ""
            refuses = reason in ("Unschedulable", "SchedulerError")
            return Observed(
                (f"condition PodScheduled ({reason}): {condition.message or ''}".rstrip(": "),), refuses
            )
    events = [
        *_events(world, pod.metadata.namespace or "default", {("Pod", pod.metadata.name)}, "FailedScheduling")
    ]
    waiting = not pod.spec.node_name and not world.pods.get(pod.key, pod).spec.node_name
    return Observed(tuple(events[-1:]), bool(events) and waiting)


def _failures(subject: Subject, world: World) -> Iterator[str]:
    """Yield why pods of a workload were not created."""
    objects = {(subject.kind, subject.name)}
    for document in _owned(subject, world):
        metadata = document.get("metadata") or {}
        objects.add((str(document.get("kind") or "ReplicaSet"), str(metadata.get("name"))))
        for condition in (document.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
                yield f"condition ReplicaFailure ({condition.get('reason', '')}): {condition.get('message', '')}"
    yield from list(_events(world, subject.namespace, objects, "FailedCreate"))[-1:]


def _owned(subject: Subject, world: World) -> Iterator[Mapping[str, Any]]:
    own = world.documents.get(subject.kind, {}).get(f"{subject.namespace}/{subject.name}")
    if own is not None:
        yield own
    if subject.kind == "Deployment":
        for document in world.documents.get("ReplicaSet", {}).values():
            metadata = document.get("metadata") or {}
            same = (metadata.get("namespace") or "default") == subject.namespace
            owners = metadata.get("ownerReferences") or ()
            if same and any((o.get("kind"), o.get("name")) == ("Deployment", subject.name) for o in owners):
                yield document


def _events(world: World, namespace: str, objects: set[tuple[str, str]], reason: str) -> Iterator[str]:
    for event in world.documents.get("Event", {}).values():
        about = event.get("involvedObject") or {}
        same = (about.get("namespace") or "default") == namespace and event.get("reason") == reason
        if same and (about.get("kind"), about.get("name")) in objects:
            times = event.get("count") or 1
            often = f", {times} times" if isinstance(times, int) and times > 1 else ""
            yield f"event {reason}{often}: {event.get('message', '')}"
