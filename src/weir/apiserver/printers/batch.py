"""Table cells of Job and CronJob."""

from __future__ import annotations

from datetime import datetime

from weir.apiserver.printers.cells import Document, at, condition_of, human_duration, is_true


def state(job: Document, now: float) -> str:
    """Return the first state of a Job that holds."""
    for name in ("Complete", "Failed"):
        if is_true(condition_of(job, name)):
            return name
    if at(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(condition_of(job, name)):
            return name
    return "Running"


def completions(job: Document, now: float) -> str:
    """Return how many pods of a Job succeeded, of how many; a work queue ends with one."""
    succeeded, parallel = at(job, "status", "succeeded") or 0, at(job, "spec", "parallelism") or 0
    if (wanted := at(job, "spec", "completions")) is not None:
        return f"{succeeded}/{wanted}"
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def duration(job: Document, now: float) -> str:
    """Return how long a Job has run."""
    start, end = at(job, "status", "startTime"), at(job, "status", "completionTime")
    if not start:
        return ""
    until = datetime.fromisoformat(end).timestamp() if end else now
    return human_duration(until - datetime.fromisoformat(start).timestamp())


def suspended(cron_job: Document, now: float) -> str:
    return "True" if at(cron_job, "spec", "suspend") else "False"
