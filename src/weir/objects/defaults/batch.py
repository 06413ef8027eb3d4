"""Defaults of batch/v1: jobs and the jobs of a schedule."""

from __future__ import annotations

from typing import Any, Final

from weir.objects.defaults.core import fill

MOST_RETRIES: Final = 2**31 - 1


def job(job: dict[str, Any]) -> None:
    """A job without either number runs one pod once; a job with a work queue has no completions."""
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    fill(spec, "parallelism", 1)
    fill(spec, "backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else MOST_RETRIES)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    metadata = job.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        metadata["labels"] = (
            labels  # the same map: labels the server generates for the pods show on the job too
        )
    fill(spec, "completionMode", "NonIndexed")
    fill(spec, "suspend", False)
    fill(
        spec,
        "podReplacementPolicy",
        "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed",
    )
    fill(spec, "manualSelector", False)


def cron_job(cron_job: dict[str, Any]) -> None:
    spec = cron_job.setdefault("spec", {})
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    fill(spec, "suspend", False)
    fill(spec, "successfulJobsHistoryLimit", 3)
    fill(spec, "failedJobsHistoryLimit", 1)


def failure_pattern(pattern: dict[str, Any]) -> None:
    if not pattern.get("status"):
        pattern["status"] = "True"


RULES: Final = {
    "batch.v1.Job": job,
    "batch.v1.CronJob": cron_job,
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": failure_pattern,
}
