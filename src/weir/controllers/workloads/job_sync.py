"""One sync of a Job: its active pods, completion, failure and status.

As many pods run as parallelism allows and completions still need; failed ones are replaced with exponential backoff,
in an Indexed Job with backoffLimitPerIndex per index. A Job is complete when enough pods (or indexes) succeeded or its
successPolicy is met; it fails beyond backoffLimit, by an index or policy, or at its deadline. Status writes carry the
resourceVersion. The end is written as two conditions: one when decided, one when the last pod is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, Count, Create, Document, Patch, Record, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod, parse_time
from weir.controllers.workloads.job_policies import handle, met, print_indexes
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
from weir.controllers.workloads.pod_control import about, make_pod, remove_pod
from weir.controllers.workloads.replicaset import deletion_order
from weir.objects.times import format_time

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


__all__ = ["JOBS", "JobSync", "ObjectKey"]

MOST_UNCOUNTED: Final = 500


class JobSync:
    """One look at one Job."""

    def __init__(
        self, key: ObjectKey, job: Document, listers: Listers, now: datetime, failures: Failures
    ) -> None:
        self._key, self._job, self._now, self._failures = key, job, now, failures
        self._spec = job["spec"]
        self._tally = tally = JobTracking(job, listers, failures)
        self._going = bool(job["metadata"].get("deletionTimestamp"))
        self._suspended = bool(self._spec.get("suspend"))
        self._tracked = set(tally.tracked)  # without those this round lets go
        self._uncounted = {result: list(uids) for result, uids in tally.uncounted.items()}  # with this sync's
        self._terminating = tally.terminating
        self._conditions: list[dict[str, Any]] = [dict(c) for c in tally.before.get("conditions") or ()]
        self._starting = False  # whether this round starts pods, which the status then counts

    # ── what follows ─────────────────────────────────────────────────────────────────────────────

    def refused(self) -> Iterator[Action]:
        """Yield the status of a Job whose pods the server refuses: it has begun, and has those that are there."""
        active, ready = len(self._tally.active), sum(pod.ready for pod in self._tally.active)
        yield from self._write(active, ready, None)

    def actions(self) -> Iterator[Action]:
        yield from self._tally.claimed.changes
        wake: datetime | None = None
        ending = self._ending()
        active, ready = len(self._tally.active), sum(pod.ready for pod in self._tally.active)
        if ending is not None:
            for pod in self._tally.active:
                yield remove_pod(pod, self._job, JOBS)
            self._terminating += active
            active = ready = 0
        elif not self._going:
            manage = JobManage(self._job, self._tally, self._now, self._failures)
            steps, wake = manage.actions()
            yield from steps
            self._tracked -= manage.removed
            gone = [pod for pod in self._tally.active if pod.metadata.uid in manage.removed]
            starts = sum(isinstance(step, Create) for step in steps)
            self._starting = starts > 0
            active += starts - len(gone)
            ready -= sum(pod.ready for pod in gone)
            self._terminating += len(gone)
            if self._is_complete(active):
                reason = "Reached expected number of succeeded pods"
                ending = self._condition("SuccessCriteriaMet", "CompletionsReached", reason)
            else:
                yield from self._suspension()
        yield from self._track(ending, active, ready)
        deadline = self._deadline()
        if deadline is not None and ending is None:
            wake = min(wake or deadline, deadline)
        if wake is not None:
            yield WakeAt(self._key, wake)

    def _ending(self) -> dict[str, Any] | None:
        """Return the condition that decides the end: one written before, or one that follows now."""
        for type in ("SuccessCriteriaMet", "FailureTarget"):
            decided = next((c for c in self._conditions if c["type"] == type and c["status"] == "True"), None)
            if decided is not None:
                return decided
        for pod in self._tally.pods if self._tally.policy else ():
            handling = handle(self._tally.policy, pod) if self._tally.is_failed(pod) else None
            if handling is not None and handling.action == "FailJob":
                return self._failure("PodFailurePolicy", handling.message)
        deadline = self._deadline()
        if self._tally.failed > self._spec.get("backoffLimit", 6) or self._restarts_too_often():
            return self._failure("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if deadline is not None and self._now >= deadline:
            return self._failure("DeadlineExceeded", "Job was active longer than specified deadline")
        if not self._tally.indexed:
            return None
        total, lost = self._tally.completions or 0, len(self._tally.lost)
        most = self._spec.get("maxFailedIndexes")
        if self._tally.per_index is not None and most is not None and lost > most:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return self._failure("MaxFailedIndexesExceeded", text)
        if lost and lost + len(self._tally.done) >= total:
            return self._failure("FailedIndexes", "Job has failed indexes")
        if message := met(self._spec.get("successPolicy"), total, self._tally.done):
            return self._condition("SuccessCriteriaMet", "SuccessPolicy", message)
        return None

    def _restarts_too_often(self) -> bool:
        if self._spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        statuses = (
            status
            for pod in self._tally.pods
            if pod.status.phase in ("Running", "Pending")
            for status in (
                *(pod.status.container_statuses or ()),
                *(pod.status.init_container_statuses or ()),
            )
        )
        restarts, limit = sum(status.restart_count for status in statuses), self._spec.get("backoffLimit", 6)
        return restarts >= limit if limit else restarts > 0

    def _is_complete(self, active: int) -> bool:
        if active:
            return False
        if (
            self._tally.completions is None
        ):  # a work queue: done when one has found it empty and all have left
            return self._tally.succeeded > 0
        return self._tally.succeeded >= self._tally.completions

    # ── counting ─────────────────────────────────────────────────────────────────────────────────

    def _track(self, ending: dict[str, Any] | None, active: int, ready: int) -> Iterator[Action]:
        """Record finished pods, remove their finalizers, and write the final condition when all are counted."""
        failing = ending is not None and ending["type"] == "FailureTarget"
        released: list[Action] = []
        counts: list[Action] = []
        room = MOST_UNCOUNTED - sum(map(len, self._uncounted.values()))
        waiting = {*self._uncounted["succeeded"], *self._uncounted["failed"]}
        for pod in self._tally.pods:
            uid = pod.metadata.uid
            if uid not in self._tracked or not self._may_release(pod, ending):
                continue
            if len(released) >= max(room, 1):
                break
            released.append(untracked(pod))
            if uid in waiting:
                continue
            valid = not self._tally.indexed or 0 <= index_of(pod) < (self._tally.completions or 0)
            if pod.status.phase == "Succeeded":
                if not self._tally.indexed:
                    self._uncounted["succeeded"].append(uid)
            elif (self._tally.is_failed(pod) or failing) and valid:
                handling = handle(self._tally.policy, pod)
                if handling.action:
                    counts.append(Count("job_pod_failures", (handling.action,)))
                if handling.counts:
                    self._uncounted["failed"].append(uid)
        if ending is not None and not any(c["type"] == ending["type"] for c in self._conditions):
            self._conditions.append(ending)
        finished: dict[str, Any] | None = None
        if (
            ending is not None
            and not any(self._uncounted.values())
            and not released
            and not self._terminating
        ):
            finished = self._condition(
                "Failed" if failing else "Complete", ending.get("reason", ""), ending.get("message", "")
            )
            self._conditions.append(finished)
        yield from self._write(active, ready, finished)
        yield from counts
        yield from released
        if finished is not None:
            yield from self._report_end(finished)

    def _may_release(self, pod: Pod, ending: dict[str, Any] | None) -> bool:
        if self._going or ending is not None or pod.status.phase == "Succeeded":
            return True
        held = self._tally.held.get(index_of(pod))
        return self._tally.is_failed(pod) and (held is None or held.metadata.uid != pod.metadata.uid)

    def _write(self, active: int, ready: int, finished: dict[str, Any] | None) -> Iterator[Action]:
        before = self._tally.before
        failed = self._tally.counted_failed
        succeeded = len(self._tally.done) if self._tally.indexed else self._tally.counted_succeeded
        uncounted = {result: uids or None for result, uids in self._uncounted.items()}
        status: dict[str, Any] = {
            "active": active or None,
            "ready": ready,
            "succeeded": succeeded or None,
            "failed": failed or None,
            "terminating": self._terminating,
            "uncountedTerminatedPods": uncounted,
            "startTime": self._start_time(),
            "conditions": self._conditions or None,
        }
        if self._tally.indexed:
            status["completedIndexes"] = print_indexes(self._tally.done) or None
            if self._tally.per_index is not None:
                status["failedIndexes"] = print_indexes(self._tally.lost)
        if finished is not None and finished["type"] == "Complete":
            status["completionTime"] = finished["lastTransitionTime"]
        if all(_same(before.get(name), value) for name, value in status.items()):
            return
        metadata = {"resourceVersion": self._job["metadata"]["resourceVersion"]}
        patch = {"metadata": metadata, "status": status}
        yield Patch(
            JOBS,
            self._key.name,
            self._key.namespace,
            patch,
            subresource="status",
            unless_refused=self._starting,
            held=True,
        )
        mode = "Indexed" if self._tally.indexed else "NonIndexed"
        for result, number in (("succeeded", succeeded), ("failed", failed)):
            if (more := number - before.get(result, 0)) > 0:
                yield Count("job_pods_finished", (mode, result), more)

    def _report_end(self, finished: dict[str, Any]) -> Iterator[Action]:
        mode, whom = "Indexed" if self._tally.indexed else "NonIndexed", about(self._job, JOBS)
        if finished["type"] == "Complete":
            if self._tally.completions is not None and self._tally.succeeded > self._tally.completions:
                text = "Too many succeeded pods running after completion count reached"
                yield Record(whom, "Warning", "TooManySucceededPods", text)
            yield Record(whom, "Normal", "Completed", "Job completed")
            yield Count("jobs_finished", (mode, "succeeded", finished["reason"]))
        else:
            yield Record(whom, "Warning", finished["reason"], finished["message"])
            yield Count("jobs_finished", (mode, "failed", finished["reason"]))

    # ── times and conditions ─────────────────────────────────────────────────────────────────────

    def _start_time(self) -> str | None:
        """Return since when the Job has been active without a break."""
        if self._suspended:
            return None
        resumed = next((c for c in self._conditions if c["type"] == "Suspended"), None)
        if resumed is not None and resumed["status"] == "False" and resumed.get("reason") == "JobResumed":
            started: str | None = self._tally.before.get("startTime") or resumed["lastTransitionTime"]
            return started
        return self._tally.before.get("startTime") or format_time(self._now)

    def _deadline(self) -> datetime | None:
        seconds = self._spec.get("activeDeadlineSeconds")
        started = parse_time(self._start_time())
        if seconds is None or started is None:
            return None
        return started + timedelta(seconds=seconds)

    def _suspension(self) -> Iterator[Action]:
        """Note that the Job was suspended or resumed, when it was."""
        present = next((c for c in self._conditions if c["type"] == "Suspended"), None)
        was = present is not None and present["status"] == "True"
        if was == self._suspended:
            return
        if self._suspended:
            made = self._condition("Suspended", "JobSuspended", "Job suspended")
        else:
            made = self._condition("Suspended", "JobResumed", "Job resumed", "False")
        if present is None:
            self._conditions.append(made)
        else:
            self._conditions[self._conditions.index(present)] = made
        reason = "Suspended" if self._suspended else "Resumed"
        yield Record(about(self._job, JOBS), "Normal", reason, made["message"])

    def _failure(self, reason: str, message: str) -> dict[str, Any]:
        return self._condition("FailureTarget", reason, message)

    def _condition(self, type: str, reason: str, message: str, status: str = "True") -> dict[str, Any]:
        now = format_time(self._now)
        return {
            "type": type,
            "status": status,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }


def _same(before: Any, value: Any) -> bool:
    """Return whether a field says already what is to be written; nothing and zero are one."""
    if isinstance(value, dict):
        return before is not None and all(_same((before or {}).get(k), v) for k, v in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return bool(before == value)  # ready and terminating are written even when they are zero
    return bool((before or None) == (value or None))
