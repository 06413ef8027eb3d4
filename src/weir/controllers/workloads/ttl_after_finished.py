"""Deletes finished Jobs and their pods ttlSecondsAfterFinished after their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from weir.controllers.runtime.actions import Action, Delete, WakeAt
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.listers import Listers
from weir.controllers.workloads.job import finished_at
from weir.controllers.workloads.job_sync import JOBS
from weir.objects.kind import Kind


@dataclass(frozen=True)
class FinishedJobKey:
    """One Job with a time to live."""

    namespace: str
    name: str


class TtlAfterFinished(Controller):
    """The TTL-after-finished controller."""

    name = "ttl-after-finished-controller"
    kinds: Sequence[Kind] = (JOBS,)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[FinishedJobKey]:
        """Yield Jobs that have ended and will go."""
        lives = new["spec"].get("ttlSecondsAfterFinished") if new is not None else None
        if lives is not None and finished_at(new) is not None:
            yield FinishedJobKey(new["metadata"]["namespace"], new["metadata"]["name"])

    def reconcile(self, key: FinishedJobKey, listers: Listers, now: datetime) -> Iterator[Action]:
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
