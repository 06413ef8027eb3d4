"""Creates and deletes the active pods of a Job.

As many pods run as parallelism allows and completions still need; failed ones are replaced with exponential backoff,
in an Indexed Job with backoffLimitPerIndex per index.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from weir.controllers.runtime.actions import Action, Create, Document
from weir.controllers.runtime.views import Pod
from weir.controllers.workloads.job_policies import handle
from weir.controllers.workloads.job_tracking import (
    FINALIZER,
    INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED,
    JOBS,
    Failures,
    JobTracking,
    ended_at,
    index_of,
    noted,
    pause,
    tries,
    untracked,
    with_index,
)
from weir.controllers.workloads.pod_control import make_pod, remove_pod
from weir.controllers.workloads.replicaset import deletion_order

AT_ONCE: Final = 500
LONGEST_PREFIX: Final = 58


class JobManage:
    """What one look at one Job does to its pods while it goes on."""

    def __init__(self, job: Document, tally: JobTracking, now: datetime, failures: Failures) -> None:
        self._job, self._tally, self._now, self._failures = job, tally, now, failures
        self._spec = job["spec"]
        self._name: str = job["metadata"]["name"]
        self.removed: set[str] = set()  #: uids of pods that are stopped, and not to be counted

    def actions(self) -> tuple[list[Action], datetime | None]:
        """Return the pods to start or stop, and when to look again where it is too early."""
        if self._spec.get("suspend"):
            return list(self._remove(self._tally.active)), None
        if self._tally.completions is None:  # a work queue: no new pod once one has found it empty
            wanted = len(self._tally.active) if self._tally.succeeded else self._spec.get("parallelism", 1)
        else:
            wanted = max(
                0, min(self._spec.get("parallelism", 1), self._tally.completions - self._tally.succeeded)
            )
        surplus = self._surplus(max(0, len(self._tally.active) - wanted))
        if surplus:
            return list(self._remove(surplus[:AT_ONCE])), None
        missing = min(
            wanted - len(self._tally.active) - (self._tally.terminating if self._tally.waits else 0), AT_ONCE
        )
        if missing <= 0:
            return [], None
        if self._tally.per_index is not None:
            return self._start_by_index(missing)
        not_before = self._failures.not_before()
        if not_before is not None and self._now < not_before:
            return [], not_before
        if not self._tally.indexed:
            return [make_pod(self._job, JOBS, finalizer=FINALIZER) for _ in range(missing)], None
        return [self._start(index) for index in self._free(missing)], None

    def _surplus(self, at_least: int) -> list[Pod]:
        """Return pods that are too many: double or impossible indexes first, then those missed least."""
        doomed: list[Pod] = []
        kept: list[Pod] = []
        if self._tally.indexed:
            by_index: dict[int, list[Pod]] = {}
            for pod in self._tally.active:
                by_index.setdefault(index_of(pod), []).append(pod)
            for index, pods in by_index.items():
                ordered = deletion_order(pods, self._now)
                possible = 0 <= index < (self._tally.completions or 0)
                doomed += ordered[:-1] if possible else ordered
                kept += ordered[-1:] if possible else []
        else:
            kept = list(self._tally.active)
        return [*doomed, *deletion_order(kept, self._now)[: max(0, at_least - len(doomed))]]

    def _remove(self, pods: list[Pod]) -> Iterator[Action]:
        """Yield the removal of pods that are not to be counted: the finalizer goes first."""
        for pod in pods:
            self.removed.add(pod.metadata.uid)
            if pod.metadata.uid in self._tally.tracked:
                yield untracked(pod)
            yield remove_pod(pod, self._job, JOBS)

    def _free(self, count: int) -> list[int]:
        taken = {*self._tally.done, *self._tally.lost, *(index_of(pod) for pod in self._tally.active)}
        if self._tally.waits:
            taken |= {index_of(pod) for pod in self._tally.pods if pod.deleting and not pod.terminated}
        indexes: list[int] = []
        for index in range(self._tally.completions or 0):
            if len(indexes) == count:
                break
            if index not in taken:
                indexes.append(index)
        return indexes

    def _start_by_index(self, missing: int) -> tuple[list[Action], datetime | None]:
        """Start pods whose index may be tried again; each index has its own pauses."""
        due = {index: self._index_due(index) for index in self._free(missing)}
        now = [index for index, at in due.items() if at is None or at <= self._now]
        if now:
            return [self._start(index) for index in now], None
        return [], min((at for at in due.values() if at is not None), default=None)

    def _index_due(self, index: int) -> datetime | None:
        failed = self._tally.held.get(index)
        ended = ended_at(failed) if failed is not None else None
        return ended + pause(tries(failed) + 1) if failed is not None and ended is not None else None

    def _start(self, index: int) -> Create:
        template = self._spec["template"]
        annotations = {INDEX: str(index)}
        if self._tally.per_index is not None:
            failed = self._tally.held.get(index)
            counts = failed is not None and handle(self._tally.policy, failed).counts
            times = (noted(failed, INDEX_FAILURES) if failed is not None else 0) + counts
            ignored = (noted(failed, INDEX_IGNORED) if failed is not None else 0) + (
                failed is not None and not counts
            )
            annotations[INDEX_FAILURES] = str(times)
            if ignored:
                annotations[INDEX_IGNORED] = str(ignored)
        spec: dict[str, Any] = {"hostname": f"{self._name}-{index}"}
        for containers in ("containers", "initContainers"):
            if template["spec"].get(containers):
                spec[containers] = [with_index(each) for each in template["spec"][containers]]
        suffix = f"-{index}-"
        return make_pod(
            self._job,
            JOBS,
            prefix=self._name[: LONGEST_PREFIX - len(suffix)] + suffix,
            labels={INDEX: str(index)},
            annotations=annotations,
            spec=spec,
            finalizer=FINALIZER,
        )
