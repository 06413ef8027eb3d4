"""How many pods of this Job should run now, and is it done?

A Job is complete when as many pods succeeded as it asks for (with an index each, when it is Indexed), failed when
more pods failed than backoffLimit allows or its deadline passed. Failed pods are replaced after a pause that doubles.
What surprises: parallelism bounds how many run at once, never more than are still missing; a suspended Job has none.
Not here: finalizers that keep ended pods until they are counted, podFailurePolicy and successPolicy; counts never
go down, so pods that somebody removes stay counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from weir.controllers.actions import Action, Delete, Patch, Record, WakeAt
from weir.controllers.known import PODS, Known
from weir.controllers.views import Pod, parse_time, print_time
from weir.controllers.workload import about, make_pod, owner_key, remove_pod
from weir.gates import Gates
from weir.objects.kinds import Kind, by_kind

JOBS: Final = by_kind("batch/v1", "Job")
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FIRST_PAUSE: Final = timedelta(seconds=10)
LONGEST_PAUSE: Final = timedelta(minutes=10)

Document = Mapping[str, Any]


@dataclass(frozen=True)
class JobKey:
    """One Job."""

    namespace: str
    name: str


class Jobs:
    """The Job controller; it also removes finished Jobs whose time to live is over."""

    name: Final = "job-controller"
    kinds: Final[tuple[Kind, ...]] = (JOBS, PODS)

    def __init__(self, gates: Gates) -> None:
        self._failed_at: dict[str, tuple[int, datetime]] = {}  # uid → (failures, when the last was seen)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[JobKey]:
        """Yield the Job that changed, or whose pod did."""
        if kind is JOBS:
            metadata = (new or old)["metadata"]
            if new is None:
                self._failed_at.pop(metadata["uid"], None)
            yield JobKey(metadata["namespace"], metadata["name"])
        elif (found := owner_key(new or old, JOBS)) is not None:
            yield JobKey(*found)

    def reconcile(self, key: JobKey, known: Known, now: datetime) -> Iterator[Action]:
        """Yield the pods to start or stop, and the status."""
        job = known.get(JOBS, key.name, key.namespace)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return
        if (ended := finished_at(job)) is not None:
            yield from _expire(key, job, ended, now)
            return
        pods: list[Pod] = known.owned(PODS, job["metadata"]["uid"])
        yield from _Round(key, job, pods, now, self._pause(job, pods, now)).actions()

    def _pause(self, job: Document, pods: list[Pod], now: datetime) -> datetime | None:
        """Return until when no failed pod is replaced."""
        uid, failures = job["metadata"]["uid"], sum(pod.status.phase == "Failed" for pod in pods)
        if not failures:
            return None
        counted, since = self._failed_at.get(uid, (0, now))
        if failures > counted:
            since = now
            self._failed_at[uid] = (failures, now)
        return since + min(FIRST_PAUSE * (1 << min(failures - 1, 10)), LONGEST_PAUSE)


class _Round:
    """One look at one Job."""

    def __init__(
        self, key: JobKey, job: Document, pods: list[Pod], now: datetime, not_before: datetime | None
    ) -> None:
        self._key, self._job, self._now, self._not_before = key, job, now, not_before
        spec = self._spec = job["spec"]
        status = self._status = job.get("status") or {}
        self._parallelism: int = spec.get("parallelism", 1)
        self._completions: int | None = spec.get("completions")
        self._indexed = spec.get("completionMode") == "Indexed"
        self._active = [pod for pod in pods if pod.active]
        self._done = (
            sorted({_index(p) for p in pods if p.status.phase == "Succeeded"}) if self._indexed else []
        )
        succeeded = len(self._done) if self._indexed else sum(p.status.phase == "Succeeded" for p in pods)
        self._succeeded = max(succeeded, status.get("succeeded", 0))
        self._failed = max(sum(p.status.phase == "Failed" for p in pods), status.get("failed", 0))
        self._terminating = sum(pod.deleting and not pod.terminated for pod in pods)
        started = parse_time(status.get("startTime"))
        self._started = started if started is not None else None if spec.get("suspend") else now

    def actions(self) -> Iterator[Action]:
        wake: datetime | None = None
        ending = self._ending()
        if ending is not None or self._spec.get("suspend"):
            for pod in self._active:
                yield remove_pod(pod, self._job, JOBS)
            if ending is not None:
                kind = "Completed" if ending["type"] == "Complete" else ending["reason"]
                message = "Job completed" if ending["type"] == "Complete" else ending["message"]
                type = "Normal" if ending["type"] == "Complete" else "Warning"
                yield Record(about(self._job, JOBS), type, kind, message)
        else:
            missing = self._missing()
            if missing > 0 and self._not_before is not None and self._now < self._not_before:
                wake = self._not_before
            elif missing > 0:
                yield from self._start(missing)
            elif missing < 0:
                for pod in sorted(self._active, key=lambda pod: (pod.ready, pod.metadata.name))[:-missing]:
                    yield remove_pod(pod, self._job, JOBS)
        yield from self._write(ending)
        deadline = self._deadline()
        if deadline is not None and ending is None:
            wake = min(wake or deadline, deadline)
        if wake is not None:
            yield WakeAt(self._key, wake)

    def _missing(self) -> int:
        """Return how many pods to start (below zero: to stop)."""
        if self._completions is None:  # a work queue: nobody new once one has found it empty
            wanted = len(self._active) if self._succeeded else self._parallelism
        else:
            wanted = min(self._parallelism, self._completions - self._succeeded)
        return wanted - len(self._active)

    def _start(self, count: int) -> Iterator[Action]:
        if not self._indexed:
            for _ in range(count):
                yield make_pod(self._job, JOBS)
            return
        taken = {*self._done, *(_index(pod) for pod in self._active)}
        free = [index for index in range(self._completions or 0) if index not in taken]
        for index in free[:count]:
            template = self._spec["template"]
            variable = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
            containers = [
                {**c, "env": [*(c.get("env") or ()), variable]} for c in template["spec"]["containers"]
            ]
            yield make_pod(
                self._job,
                JOBS,
                labels={INDEX: str(index)},
                annotations={INDEX: str(index)},
                spec={"containers": containers, "hostname": f"{self._key.name}-{index}"},
            )

    def _deadline(self) -> datetime | None:
        seconds = self._spec.get("activeDeadlineSeconds")
        if seconds is None or self._started is None or self._spec.get("suspend"):
            return None
        return self._started + timedelta(seconds=seconds)

    def _ending(self) -> dict[str, Any] | None:
        """Return the condition that ends the Job, if it ends now."""
        deadline = self._deadline()
        if self._failed > self._spec.get("backoffLimit", 6):
            return self._condition(
                "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
            )
        if deadline is not None and self._now >= deadline:
            return self._condition(
                "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
            )
        done = (
            self._succeeded >= self._completions
            if self._completions is not None
            else self._succeeded > 0 and not self._active
        )
        if done:
            message = "Reached expected number of succeeded pods"
            return self._condition("Complete", "CompletionsReached", message)
        return None

    def _condition(self, type: str, reason: str, message: str, status: str = "True") -> dict[str, Any]:
        now = print_time(self._now)
        return {
            "type": type,
            "status": status,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    def _write(self, ending: dict[str, Any] | None) -> Iterator[Action]:
        active = 0 if ending is not None or self._spec.get("suspend") else len(self._active)
        status: dict[str, Any] = {
            "active": active,
            "ready": sum(pod.ready for pod in self._active) if active else 0,
            "succeeded": self._succeeded,
            "failed": self._failed,
            "terminating": 0 if ending is not None else self._terminating,
        }
        if self._started is not None and not self._status.get("startTime"):
            status["startTime"] = print_time(self._started)
        if self._indexed:
            status["completedIndexes"] = print_indexes(self._done)
        conditions = list(self._status.get("conditions") or ())
        if ending is not None:
            before = "SuccessCriteriaMet" if ending["type"] == "Complete" else "FailureTarget"
            conditions += [{**ending, "type": before}, ending]
            if ending["type"] == "Complete":
                status["completionTime"] = print_time(self._now)
        elif (suspended := self._suspension(conditions)) is not None:
            conditions = [c for c in conditions if c["type"] != "Suspended"] + [suspended]
        if conditions != list(self._status.get("conditions") or ()):
            status["conditions"] = conditions
        known = self._status
        if any(known.get(name, 0) != value and (value or name in known) for name, value in status.items()):
            kept = ("ready", "terminating")
            written = {name: value if value or name in kept else None for name, value in status.items()}
            yield Patch(JOBS, self._key.name, self._key.namespace, {"status": written}, subresource="status")

    def _suspension(self, conditions: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the Suspended condition when it changes."""
        was = any(c["type"] == "Suspended" and c["status"] == "True" for c in conditions)
        now = bool(self._spec.get("suspend"))
        if was == now:
            return None
        if now:
            return self._condition("Suspended", "JobSuspended", "Job suspended")
        return self._condition("Suspended", "JobResumed", "Job resumed", "False")


def finished_at(job: Document) -> datetime | None:
    """Return when the Job ended; None while it has not."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return parse_time(condition.get("lastTransitionTime"))
    return None


def _expire(key: JobKey, job: Document, ended: datetime, now: datetime) -> Iterator[Action]:
    lives = job["spec"].get("ttlSecondsAfterFinished")
    if lives is None:
        return
    due = ended + timedelta(seconds=lives)
    if now < due:
        yield WakeAt(key, due)
    else:
        uid = job["metadata"]["uid"]
        yield Delete(JOBS, key.name, key.namespace, uid, propagation_policy="Foreground")


def _index(pod: Pod) -> int:
    text = (pod.metadata.annotations or {}).get(INDEX, "")
    return int(text) if text.isdigit() else -1


def print_indexes(indexes: list[int]) -> str:
    """Return numbers as Jobs write them: runs of three or more with a dash.

    >>> print_indexes([1, 2, 3, 5, 7, 8])
    '1-3,5,7,8'
    """
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = [f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs]
    return ",".join(parts)
