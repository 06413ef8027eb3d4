"""Counts a Job's active and finished pods exactly once, using the tracking finalizer.

The UIDs of finished pods are written to status.uncountedTerminatedPods, then their finalizers are removed; pods
observed without the finalizer are counted. A pod being deleted counts as failed unless podReplacementPolicy is
Failed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.controllers.runtime.controller import Document, Patch
from weir.controllers.runtime.controller_refs import claim
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod, parse_time
from weir.controllers.workloads.job_policies import handle, parse_indexes
from weir.objects.kinds import PODS, by_kind

JOBS: Final = by_kind("batch/v1", "Job")


class JobTracking:
    """The pods of one Job, counted; nothing is decided here."""

    def __init__(self, job: Document, listers: Listers, failures: Failures) -> None:
        spec = self.spec = job["spec"]
        self.before: Document = job.get("status") or {}
        self.completions: int | None = spec.get("completions")
        self.indexed = spec.get("completionMode") == "Indexed"
        self.per_index: int | None = spec.get("backoffLimitPerIndex")
        self.waits = spec.get("podReplacementPolicy") == "Failed"
        self.claimed = claim(job, JOBS, listers, PODS, finalizer=FINALIZER)
        self.pods: list[Pod] = sorted(self.claimed.mine, key=lambda pod: (index_of(pod), pod.metadata.name))
        adopted = {change.name for change in self.claimed.changes}
        self.tracked = {
            pod.metadata.uid
            for pod in self.pods
            if FINALIZER in (pod.metadata.finalizers or ()) or pod.metadata.name in adopted
        }
        self.active = [pod for pod in self.pods if pod.active]
        self.terminating = sum(pod.deleting and not pod.terminated for pod in self.pods)
        self._count(failures)

    def _count(self, failures: Failures) -> None:
        before = self.before
        uncounted = before.get("uncountedTerminatedPods") or {}
        waiting = {result: list(uncounted.get(result) or ()) for result in ("succeeded", "failed")}
        # What was written down and lost its finalizer since is counted now.
        self.uncounted = {r: [uid for uid in uids if uid in self.tracked] for r, uids in waiting.items()}
        self.counted_failed = before.get("failed", 0) + len(waiting["failed"]) - len(self.uncounted["failed"])
        self.counted_succeeded = (
            before.get("succeeded", 0) + len(waiting["succeeded"]) - len(self.uncounted["succeeded"])
        )
        counted = {*waiting["succeeded"], *waiting["failed"]}
        new = [p for p in self.pods if p.metadata.uid in self.tracked and p.metadata.uid not in counted]
        new = [p for p in new if not self.indexed or 0 <= index_of(p) < (self.completions or 0)]
        succeeded = [pod for pod in new if pod.status.phase == "Succeeded"]
        failed = [pod for pod in new if self.is_failed(pod)]
        counting = [pod for pod in failed if handle(self.policy, pod).counts]
        failures.note(succeeded, failed)
        self.failed = self.counted_failed + len(self.uncounted["failed"]) + len(counting)
        self.done: frozenset[int] = frozenset()
        self.lost: frozenset[int] = frozenset()
        if self.indexed:
            total = self.completions or 0
            fresh = {index_of(pod) for pod in self.pods if self._newly_done(pod)}
            self.done = parse_indexes(before.get("completedIndexes"), total) | fresh
            self.succeeded = len(self.done)
            if self.per_index is not None:
                lost = {index_of(pod) for pod in self.pods if self._loses_index(pod, total)}
                self.lost = parse_indexes(before.get("failedIndexes"), total) | lost
        else:
            self.succeeded = self.counted_succeeded + len(self.uncounted["succeeded"]) + len(succeeded)
        self.held = self._held_back() if self.per_index is not None else {}

    @property
    def policy(self) -> Document | None:
        found: Document | None = self.spec.get("podFailurePolicy")
        return found

    def is_failed(self, pod: Pod) -> bool:
        """Return whether a pod has failed, or counts as failed because it leaves."""
        if pod.status.phase == "Failed":
            return True
        return not self.waits and pod.deleting and pod.status.phase != "Succeeded"

    def _newly_done(self, pod: Pod) -> bool:
        index = index_of(pod)
        return (
            pod.status.phase == "Succeeded"
            and 0 <= index < (self.completions or 0)
            and pod.metadata.uid in self.tracked
        )

    def _loses_index(self, pod: Pod, total: int) -> bool:
        """Return whether a pod's failure is one too many for its index."""
        if not 0 <= index_of(pod) < total or pod.metadata.uid not in self.tracked:
            return False
        if not self.is_failed(pod):
            return False
        handling = handle(self.policy, pod)
        if handling.action == "FailIndex":
            return True
        return handling.counts and noted(pod, INDEX_FAILURES) >= (self.per_index or 0)

    def _held_back(self) -> dict[int, Pod]:
        """Return the failed pods that keep their finalizer until a replacement carries their count on."""
        running = {index_of(pod) for pod in self.active}
        held: dict[int, Pod] = {}
        for pod in self.pods:
            index = index_of(pod)
            if pod.metadata.uid not in self.tracked or not self.is_failed(pod) or index < 0:
                continue
            if index in self.done or index in self.lost or index in running:
                continue
            other = held.get(index)
            if other is None or tries(other) <= tries(pod):
                held[index] = pod
        return held


FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
FIRST_PAUSE: Final = timedelta(seconds=10)
LONGEST_PAUSE: Final = timedelta(minutes=10)


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
