"""Job controller, and the controller that deletes finished Jobs ttlSecondsAfterFinished after their end.

Pods of Jobs carry the finalizer batch.kubernetes.io/job-tracking until they are counted. It is removed from pods
whose Job is gone or finished, or that were released. A Job's sync is in weir.controllers.workloads.job_sync.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, Controller, Delete, Document, WakeAt
from weir.controllers.runtime.controller_refs import Claimants
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod, parse_time
from weir.controllers.workloads.job_sync import JOBS, JobSync
from weir.controllers.workloads.job_tracking import FINALIZER, Failures, untracked
from weir.controllers.workloads.pod_control import owner_keys
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import PODS

MANAGER: Final = "kubernetes.io/job-controller"


@dataclass(frozen=True)
class GoneJobKey:
    """A Job that is gone; its pods may still carry the finalizer."""

    uid: str


@dataclass(frozen=True)
class TrackedPodKey:
    """A pod with the finalizer that may have no owner."""

    namespace: str
    name: str


Key = ObjectKey | GoneJobKey | TrackedPodKey


class Jobs(Controller):
    """The Job controller."""

    name = "job-controller"
    kinds: Sequence[Kind] = (JOBS, PODS)

    def __init__(self, gates: Gates) -> None:
        self._claimants = Claimants()
        self._failures: dict[str, Failures] = {}  # by uid

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield the Job that changed, or whose pod did, or pods that no Job counts any more."""
        if kind is JOBS:
            self._claimants.changed(old, new)
            metadata = (new or old)["metadata"]
            yield ObjectKey(metadata["namespace"], metadata["name"])
            if new is None:
                self._failures.pop(metadata["uid"], None)
                yield GoneJobKey(metadata["uid"])
            return
        yield from owner_keys(old, new, JOBS)
        yield from self._claimants.concerned(old, new)
        if new is not None and FINALIZER in (new.metadata.finalizers or ()):
            fresh = old is None or old.controller_uid != new.controller_uid
            if fresh or (new.deleting and not old.deleting):
                yield TrackedPodKey(new.metadata.namespace, new.metadata.name)

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the pods to start or stop, what was counted, and the status."""
        if isinstance(key, GoneJobKey):
            yield from untrack(listers.owned(PODS, key.uid))
        elif isinstance(key, TrackedPodKey):
            pod = listers.pod(key.namespace, key.name)
            if pod is not None and not _is_tracked(pod, listers):
                yield from untrack([pod])
        else:
            job = listers.get(JOBS, key.name, key.namespace)
            if job is None or job["spec"].get("managedBy", MANAGER) != MANAGER:
                return
            uid = job["metadata"]["uid"]
            if is_finished(job):
                self._failures.pop(uid, None)
                yield from untrack(listers.owned(PODS, uid))
                return
            failures = self._failures.setdefault(uid, Failures())
            yield from JobSync(key, job, listers, now, failures).actions()

    def create_refused(self, key: Key, message: str, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the status of a Job whose pods the server refuses."""
        job = listers.get(JOBS, key.name, key.namespace) if isinstance(key, ObjectKey) else None
        if job is not None and isinstance(key, ObjectKey):
            failures = self._failures.setdefault(job["metadata"]["uid"], Failures())
            yield from JobSync(key, job, listers, now, failures).refused()


def untrack(pods: list[Pod]) -> Iterator[Action]:
    """Yield what takes the finalizer from *pods*."""
    for pod in pods:
        if FINALIZER in (pod.metadata.finalizers or ()):
            yield untracked(pod)


def _is_tracked(pod: Pod, listers: Listers) -> bool:
    """Return whether a Job that still runs (or an owner that is no Job) controls the pod."""
    owner = next((o for o in pod.metadata.owner_references or () if o.controller), None)
    if owner is None:
        return False
    if owner.kind != JOBS.kind or owner.api_version != JOBS.api_version:
        return True
    job = listers.get(JOBS, owner.name, pod.metadata.namespace)
    if job is None or job["metadata"]["uid"] != owner.uid:
        return False
    return job["spec"].get("managedBy", MANAGER) != MANAGER or not is_finished(job)


def is_finished(job: Document) -> bool:
    """Return whether the Job has ended."""
    return _end(job) is not None


def finished_at(job: Document) -> datetime | None:
    """Return when the Job finished; None while it has not, or if no time was written."""
    return parse_time((_end(job) or {}).get("lastTransitionTime"))


def _end(job: Document) -> Document | None:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next(
        (c for c in conditions if c["type"] in ("Complete", "Failed") and c["status"] == "True"), None
    )


class TtlAfterFinished(Controller):
    """The TTL-after-finished controller."""

    name = "ttl-after-finished-controller"
    kinds: Sequence[Kind] = (JOBS,)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield Jobs that have ended and will go."""
        lives = new["spec"].get("ttlSecondsAfterFinished") if new is not None else None
        if lives is not None and finished_at(new) is not None:
            yield key_of(new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the deletion, or when it is due."""
        job = listers.get(JOBS, key.name, key.namespace)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return
        ended, lives = finished_at(job), job["spec"].get("ttlSecondsAfterFinished")
        if ended is None or lives is None:
            return
        due = ended + timedelta(seconds=lives)
        if now < due:
            yield WakeAt(key, due)
        else:
            uid = job["metadata"]["uid"]
            yield Delete(JOBS, key.name, key.namespace, uid, propagation_policy="Foreground")
