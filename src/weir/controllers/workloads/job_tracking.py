"""Counts a Job's active and finished pods exactly once, using the tracking finalizer.

The UIDs of finished pods are written to status.uncountedTerminatedPods, then their finalizers are removed; pods
observed without the finalizer are counted. A pod being deleted counts as failed unless podReplacementPolicy is
Failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from weir.controllers.runtime.controller_refs import claim
from weir.controllers.runtime.listers import PODS, Listers
from weir.controllers.runtime.views import Pod
from weir.controllers.workloads.job_pods import FINALIZER, INDEX_FAILURES, Failures, index_of, noted, tries
from weir.controllers.workloads.job_policies import handle, parse_indexes
from weir.objects.kinds import by_kind

JOBS: Final = by_kind("batch/v1", "Job")

Document = Mapping[str, Any]


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
