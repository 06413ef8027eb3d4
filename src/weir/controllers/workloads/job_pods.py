"""A Job's view of its pods: completion index, failures, finish time, tracking finalizer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.controllers.runtime.actions import Patch
from weir.controllers.runtime.listers import PODS
from weir.controllers.runtime.views import Pod, parse_time

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
FIRST_PAUSE: Final = timedelta(seconds=10)
LONGEST_PAUSE: Final = timedelta(minutes=10)

Document = Mapping[str, Any]


@dataclass
class Failures:
    """When pods of one Job failed since one last succeeded; the pause before the next follows from it."""

    failed: dict[str, datetime] = field(default_factory=dict)  # by uid
    succeeded: datetime | None = None

    def note(self, pods: Collection[Pod], failed: Collection[Pod]) -> None:
        """Take in the pods that ended; the same pod twice counts once."""
        for pod in pods:
            at = ended_at(pod)
            if at is not None and (self.succeeded is None or at > self.succeeded):
                self.succeeded = at
        self.failed.update({pod.metadata.uid: at for pod in failed if (at := ended_at(pod)) is not None})
        if self.succeeded is not None:
            self.failed = {uid: at for uid, at in self.failed.items() if at > self.succeeded}

    def not_before(self) -> datetime | None:
        """Return until when no failed pod is replaced."""
        if not self.failed:
            return None
        return max(self.failed.values()) + pause(len(self.failed))


def pause(failures: int) -> timedelta:
    """Return how long to wait after so many failures in a row.

    >>> [pause(n).seconds for n in (1, 2, 3, 10)]
    [10, 20, 40, 600]
    """
    return min(FIRST_PAUSE * (1 << min(failures - 1, 10)), LONGEST_PAUSE)


def index_of(pod: Pod) -> int:
    """Return the pod's completion index; -1 when it has none."""
    text = (pod.metadata.annotations or {}).get(INDEX, "")
    return int(text) if text.isdigit() else -1


def ended_at(pod: Pod) -> datetime | None:
    """Return when a pod ended, as well as is known."""
    times = [
        parse_time((status.terminated or {}).get("finishedAt"))
        for status in pod.status.container_statuses or ()
    ]
    if times and all(time is not None for time in times):
        return max(time for time in times if time is not None)
    ready = pod.status.condition("Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return parse_time(ready.last_transition_time)
    return parse_time(pod.metadata.deletion_timestamp) or parse_time(pod.metadata.creation_timestamp)


def noted(pod: Pod, annotation: str) -> int:
    """Return the number that an annotation of the pod holds; 0 when it holds none."""
    text = (pod.metadata.annotations or {}).get(annotation, "")
    return int(text) if text.isdigit() else 0


def tries(pod: Pod) -> int:
    """Return how often the pod's index had failed before it, counted or not."""
    return noted(pod, INDEX_FAILURES) + noted(pod, INDEX_IGNORED)


def untracked(pod: Pod) -> Patch:
    """Return what takes the finalizer from a pod."""
    metadata = {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    return Patch(
        PODS, pod.metadata.name, pod.metadata.namespace, {"metadata": metadata}, STRATEGIC_MERGE_PATCH
    )


def with_index(container: Document) -> dict[str, Any]:
    """Return a container that can read its index from the environment."""
    environment = container.get("env") or ()
    if any(each["name"] == "JOB_COMPLETION_INDEX" for each in environment):
        return dict(container)
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    return {**container, "env": [*environment, variable]}
