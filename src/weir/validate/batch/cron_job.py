"""Validation of CronJob.

Spec: upstream's rules for CronJob; the template of its jobs is validated as a Job is.
"""

from __future__ import annotations

from typing import Final

from weir.validate import field
from weir.validate.batch.job import validate_job_spec
from weir.validate.core.pod_template import validate_not_negative
from weir.validate.field import Context, Document, Errors
from weir.validate.label_selector import selector_json
from weir.validate.meta import validate_meta
from weir.validate.ratchet import Options, pod_options
from weir.values.cron import CronError, is_time_zone, parse_schedule

_CRON_NAME_MAX: Final = 52
_CONCURRENCY: Final = ("Allow", "Forbid", "Replace")


def validate_cron_job(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a CronJob."""
    spec = new.get("spec") or {}
    before = None if old is None else _pod_template(old.get("spec") or {}).get("spec")
    options = pod_options(context.gates, before, context.raw)
    yield from validate_meta(new, old, context)
    schedule = spec.get("schedule") or ""
    if schedule:
        yield from _validate_schedule(schedule, spec.get("timeZone"))
    yield from validate_not_negative(spec, ("startingDeadlineSeconds",), "spec")
    yield from _validate_time_zone(spec)
    policy = spec.get("concurrencyPolicy")
    if policy and policy not in _CONCURRENCY:
        yield field.not_supported("spec.concurrencyPolicy", policy, _CONCURRENCY)
    yield from _validate_job_template(spec.get("jobTemplate") or {}, "spec.jobTemplate", options)
    yield from validate_not_negative(spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")
    name = (new.get("metadata") or {}).get("name") or ""
    if old is None and len(name) > _CRON_NAME_MAX:
        yield field.invalid("metadata.name", name, f"must be no more than {_CRON_NAME_MAX} characters")
    if not schedule:
        yield field.required("spec.schedule")


def _pod_template(spec: Document) -> Document:
    template: Document = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
    return template


def _validate_job_template(template: Document, at: str, options: Options) -> Errors:
    spec = template.get("spec") or {}
    yield from validate_job_spec(spec, f"{at}.spec", options)
    if spec.get("selector") is not None:
        detail = "`selector` will be auto-generated"
        yield field.invalid(f"{at}.spec.selector", selector_json(spec["selector"]), detail)
    if spec.get("manualSelector"):
        yield field.not_supported(f"{at}.spec.manualSelector", True, ("nil", "false"))


def _validate_schedule(schedule: str, time_zone: str | None) -> Errors:
    try:
        parse_schedule(schedule)
    except CronError as error:
        yield field.invalid("spec.schedule", schedule, str(error))
    if "TZ" in schedule and time_zone is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield field.invalid("spec.schedule", schedule, detail)
    elif "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield field.invalid("spec.schedule", schedule, detail)


def _validate_time_zone(spec: Document) -> Errors:
    zone = spec.get("timeZone")
    if zone is None:
        return
    if not zone:
        yield field.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield field.invalid("spec.timeZone", zone, detail)
    elif not is_time_zone(zone):
        yield field.invalid("spec.timeZone", zone, f"unknown time zone {zone}")
