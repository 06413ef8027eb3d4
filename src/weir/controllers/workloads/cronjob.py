"""CronJob controller: starts Jobs on schedule and cleans up old ones.

Of several missed times only the latest counts, and only within startingDeadlineSeconds. Forbid waits for the active
Job, Replace deletes it. Jobs are named after the minute they were due, so none is started twice. A Job created by
hand from the CronJob is its child, but neither counts as active nor is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import (
    Action,
    Controller,
    Create,
    Delete,
    Document,
    Observe,
    Patch,
    Record,
    WakeAt,
)
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import parse_time
from weir.controllers.workloads.job import is_finished
from weir.controllers.workloads.job_sync import JOBS
from weir.controllers.workloads.pod_control import about, owner_key, owner_reference
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.objects.times import format_time
from weir.values.cron import CronError, Schedule, parse_schedule

CRONJOBS: Final = by_kind("batch/v1", "CronJob")
SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobs(Controller):
    """The CronJob controller."""

    name = "cronjob-controller"
    kinds: Sequence[Kind] = (CRONJOBS, JOBS)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the CronJob that changed, or whose Job did."""
        if kind is CRONJOBS:
            yield key_of(new or old)
        elif (found := owner_key(new or old, CRONJOBS)) is not None:
            yield found

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the Job to start, the ones to remove, the status, and when to look again."""
        cron = listers.get(CRONJOBS, key.name, key.namespace)
        if cron is None or cron["metadata"].get("deletionTimestamp"):
            return
        jobs: list[Document] = listers.owned(JOBS, cron["metadata"]["uid"])
        active = [job for job in jobs if not is_finished(job) and _is_own(job, cron)]
        yield from _report_jobs(cron, jobs)
        yield from _clean_up(cron, jobs)
        spec, status = cron["spec"], cron.get("status") or {}
        last = parse_time(status.get("lastScheduleTime"))
        try:
            zone = _zone(spec.get("timeZone"))
        except (ZoneInfoNotFoundError, ValueError):
            name = spec["timeZone"]
            message = f'invalid timeZone: "{name}": unknown time zone {name}'
            yield Record(about(cron, CRONJOBS), "Warning", "UnknownTimeZone", message)
            return
        if not spec.get("suspend"):
            try:
                schedule = parse_schedule(spec["schedule"])
            except CronError as error:
                message = f'unparseable schedule: "{spec["schedule"]}" : {error}'
                yield Record(about(cron, CRONJOBS), "Warning", "UnparseableSchedule", message)
                return
            if schedule.zone:
                zone = _zone(schedule.zone)
            due = _due(cron, schedule, zone, last, now)
            if due is not None:
                policy = spec.get("concurrencyPolicy", "Allow")
                if policy == "Forbid" and active:
                    message = (
                        "Not starting job because prior execution is running and concurrency policy is Forbid"
                    )
                    yield Record(about(cron, CRONJOBS), "Normal", "JobAlreadyActive", message)
                else:
                    if policy == "Replace":
                        for job in active:
                            yield _remove(job, cron)
                        active = []
                    yield _start(cron, due, zone)
                    yield Observe("cronjob_skew", (now - due).total_seconds())
                    last = due
            following = schedule.after(now.astimezone(zone))
            if following is not None:
                yield WakeAt(key, following.astimezone(UTC))
        yield from _status(key, cron, active, jobs, last)


def _is_own(job: Document, cron: Document) -> bool:
    """Return whether the controller started the Job: its name says when it was due."""
    at = parse_time((job["metadata"].get("annotations") or {}).get(SCHEDULED))
    return at is not None and bool(job["metadata"]["name"] == _name(cron, at))


def _report_jobs(cron: Document, jobs: list[Document]) -> Iterator[Action]:
    """Yield what became of Jobs that ran, and Jobs that a user made."""
    running = {each.get("uid"): each.get("name") for each in (cron.get("status") or {}).get("active") or ()}
    whom = about(cron, CRONJOBS)
    for job in jobs:
        name, listed = job["metadata"]["name"], job["metadata"]["uid"] in running
        if not is_finished(job):
            if not _is_own(job, cron):
                text = f"Saw a job that the controller did not create or forgot: {name}"
                yield Record(whom, "Warning", "UnexpectedJob", text)
        elif listed:
            ends = {c["type"] for c in job["status"]["conditions"] if c["status"] == "True"}
            end = "Complete" if "Complete" in ends else "Failed"
            yield Record(whom, "Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {end}")
    there = {job["metadata"]["uid"] for job in jobs}
    for uid, name in running.items():
        if uid not in there:
            yield Record(whom, "Normal", "MissingJob", f"Active job went missing: {name}")


def _due(
    cron: Document, schedule: Schedule, zone: ZoneInfo, last: datetime | None, now: datetime
) -> datetime | None:
    """Return the time a Job should have been started at and was not, if there is one."""
    since = last or parse_time(cron["metadata"].get("creationTimestamp")) or now
    deadline = cron["spec"].get("startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, now - timedelta(seconds=deadline))
    if schedule.every is not None:
        found = since + schedule.every
        return found if found <= now else None
    latest = schedule.latest(since.astimezone(zone), now.astimezone(zone))
    return latest.astimezone(UTC) if latest is not None else None


def _zone(name: str | None) -> ZoneInfo:
    return ZoneInfo(name or "Etc/UTC")


def _name(cron: Document, due: datetime) -> str:
    return f"{cron['metadata']['name']}-{int(due.timestamp()) // 60}"


def _start(cron: Document, due: datetime, zone: ZoneInfo) -> Create:
    template, metadata = cron["spec"]["jobTemplate"], cron["metadata"]
    described = template.get("metadata") or {}
    scheduled = (
        due.astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")
    )  # in the requested zone
    annotations = {**(described.get("annotations") or {}), SCHEDULED: scheduled}
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": _name(cron, due),
            "namespace": metadata["namespace"],
            "labels": described.get("labels") or {},
            "annotations": annotations,
            "ownerReferences": [owner_reference(cron, CRONJOBS)],
        },
        "spec": template["spec"],
    }
    message = f"Created job {_name(cron, due)}"
    whom = about(cron, CRONJOBS)
    return Create(
        JOBS, document, metadata["namespace"], whom, event_message=message, failed="Error creating job:"
    )


def _clean_up(cron: Document, jobs: list[Document]) -> Iterator[Action]:
    for type, limit in (
        ("Complete", cron["spec"].get("successfulJobsHistoryLimit", 3)),
        ("Failed", cron["spec"].get("failedJobsHistoryLimit", 1)),
    ):
        ended = [
            job
            for job in jobs
            if any(
                c["type"] == type and c["status"] == "True"
                for c in (job.get("status") or {}).get("conditions") or ()
            )
            and not job["metadata"].get("deletionTimestamp")
        ]
        ended.sort(key=lambda job: (job["metadata"].get("creationTimestamp", ""), job["metadata"]["name"]))
        for job in ended[: max(0, len(ended) - limit)]:
            yield _remove(job, cron)


def _remove(job: Document, cron: Document) -> Delete:
    metadata = job["metadata"]
    return Delete(
        JOBS,
        metadata["name"],
        metadata["namespace"],
        metadata["uid"],
        propagation_policy="Background",
        about=about(cron, CRONJOBS),
        event_message=f"Deleted job {metadata['name']}",
    )


def _status(
    key: ObjectKey, cron: Document, active: list[Document], jobs: list[Document], last: datetime | None
) -> Iterator[Action]:
    present = cron.get("status") or {}
    succeeded = [
        job["status"]["completionTime"] for job in jobs if (job.get("status") or {}).get("completionTime")
    ]
    newest = max([*succeeded, present.get("lastSuccessfulTime") or ""], default="")
    references = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": job["metadata"]["name"],
            "namespace": key.namespace,
            "uid": job["metadata"]["uid"],
            "resourceVersion": job["metadata"]["resourceVersion"],
        }
        for job in sorted(active, key=lambda job: str(job["metadata"]["name"]))
    ]
    uids = [reference["uid"] for reference in references]
    scheduled = format_time(last) if last is not None else None
    same = (
        uids == [each.get("uid") for each in present.get("active") or ()]
        and scheduled == present.get("lastScheduleTime")
        and (newest or None) == present.get("lastSuccessfulTime")
    )
    if not same:
        status = {
            "active": references or None,
            "lastScheduleTime": scheduled,
            "lastSuccessfulTime": newest or None,
        }
        # Held: an older status would report the same Jobs again.
        yield Patch(CRONJOBS, key.name, key.namespace, {"status": status}, subresource="status", held=True)
