"""Validation of Job and CronJob.

Spec: core.md 2.7 (templates of suspended jobs); upstream's rules for Job and CronJob. A Job's restartPolicy may not be
Always, reported as a missing value. The pod template is immutable, except its scheduling fields while the Job is
suspended and has not started.
"""

from __future__ import annotations

import re
from typing import Any, Final

from weir.fields import field
from weir.fields.field import Bare, Context, Document, Enum, Errors
from weir.fields.meta import IMMUTABLE, same, validate_meta
from weir.validate.conditions import STATUSES
from weir.validate.core.pod_template import MISMATCH, validate_template
from weir.validate.gonames import equal, go_struct
from weir.validate.numbers import validate_not_negative
from weir.validate.ratchet import Options, pod_options
from weir.validate.selectors import is_sound, selector_json, selects, validate_label_selector
from weir.values.cron import CronError, is_time_zone, parse_schedule
from weir.values.names import (
    check_dns1123_label,
    check_domain_prefixed_path,
    check_label_key,
)

_MAX_INDEXES: Final = 100_000
_COMPLETION_MODES: Final = ("NonIndexed", "Indexed")
_REPLACEMENT: Final = ("Failed", "TerminatingOrFailed")
#: What a suspended job that has not started may change in its template, for the sake of queueing controllers.
_SCHEDULING_FIELDS: Final = ("nodeSelector", "tolerations", "schedulingGates")


def validate_job(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Job."""
    spec = new.get("spec") or {}
    before = None if old is None else old.get("spec") or {}
    options = pod_options(context.gates, ((before or {}).get("template") or {}).get("spec"), context.raw)
    yield from validate_meta(new, old, context)
    if context.subresource == "status":
        yield from _validate_job_status(new, (old or {}).get("status") or {})
        return
    yield from validate_job_spec(spec, "spec", options)
    yield from _validate_generated_selector(spec, context, updated=old is not None)
    if old is None and spec.get("completionMode") == "Indexed" and spec.get("completions"):
        name = (new.get("metadata") or {}).get("name") or ""
        last = f"{name}-{spec['completions'] - 1}"
        if check_dns1123_label(last):
            yield field.invalid(
                "metadata.name", name, f"will not able to create pod with invalid DNS label: {last}"
            )
    if before is not None and old is not None:
        yield from _validate_job_update(spec, before, old.get("status") or {})


def _validate_job_status(new: Document, before: Document) -> Errors:
    status = new.get("status") or {}
    yield from validate_not_negative(
        status, ("active", "ready", "terminating", "succeeded", "failed"), "status"
    )
    if (status.get("ready") or 0) > (status.get("active") or 0):
        yield field.invalid("status.ready", status["ready"], "cannot set more ready pods than active")
    for name in ("failed", "succeeded"):
        if (status.get(name) or 0) < (before.get(name) or 0):
            yield field.invalid(
                f"status.{name}", status.get(name) or 0, f"cannot decrease the {name} counter"
            )
    started = before.get("startTime")
    if started and status.get("startTime") != started and not (new.get("spec") or {}).get("suspend"):
        shown = None if status.get("startTime") is None else Enum(status["startTime"])
        yield field.invalid("status.startTime", shown, "field is immutable for unsuspended job once set")


def _validate_generated_selector(spec: Document, context: Context, *, updated: bool) -> Errors:
    """Yield what is wrong with the selector, which the server generates unless `manualSelector` is set."""
    selector = spec.get("selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if selector is None:
        if spec.get("manualSelector") or updated:  # a new job gets its own before it is looked at
            yield field.required("spec.selector")
            yield field.invalid(
                "spec.template.metadata.labels", dict(sorted(labels.items())) or None, MISMATCH
            )
        return
    yield from validate_label_selector(selector, "spec.selector")
    if is_sound(selector) and not selects(selector, labels) and not context.raw:
        yield field.invalid("spec.template.metadata.labels", dict(sorted(labels.items())) or None, MISMATCH)


def validate_job_spec(spec: Document, at: str, options: Options) -> Errors:
    yield from validate_not_negative(
        spec,
        (
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ),
        at,
    )
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield field.required(f"{at}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if (manager := spec.get("managedBy")) is not None:
        yield from _validate_manager(manager, f"{at}.managedBy")
    yield from _validate_completion_mode(spec, at)
    yield from validate_failure_policy(spec, at)
    yield from validate_success_policy(spec, at)
    replacement = spec.get("podReplacementPolicy")
    allowed = _REPLACEMENT if spec.get("podFailurePolicy") is None else ("Failed",)
    yield from field.one_of(f"{at}.podReplacementPolicy", replacement, allowed)
    template = spec.get("template") or {}
    yield from validate_template(template, f"{at}.template", options)
    policy = (template.get("spec") or {}).get("restartPolicy") or "Always"
    if policy == "Always":
        yield field.required(f"{at}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield field.not_supported(f"{at}.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        yield field.invalid(f"{at}.template.spec.restartPolicy", policy, detail)


def _validate_manager(manager: str, at: str) -> Errors:
    if not manager:
        yield field.required(at)
        return
    for part, message in check_domain_prefixed_path(manager):
        yield field.invalid(at, part, message)
    yield from field.short_enough(at, manager, 63)


def _validate_completion_mode(spec: Document, at: str) -> Errors:
    mode = spec.get("completionMode")
    yield from field.one_of(f"{at}.completionMode", mode, _COMPLETION_MODES)
    if mode in (None, "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                yield field.invalid(f"{at}.{name}", spec[name], "requires indexed completion mode")
    if mode != "Indexed":
        return
    completions, limit = spec.get("completions"), spec.get("maxFailedIndexes")
    # With neither count given, both default to 1.
    if completions is None and spec.get("parallelism") is not None:
        yield field.required(f"{at}.completions", "when completion mode is Indexed")
    if (spec.get("parallelism") or 0) > _MAX_INDEXES:
        detail = f"must be less than or equal to {_MAX_INDEXES} when completion mode is Indexed"
        yield field.invalid(f"{at}.parallelism", spec["parallelism"], detail)
    if limit is not None and limit > _MAX_INDEXES:
        yield field.invalid(f"{at}.maxFailedIndexes", limit, f"must be less than or equal to {_MAX_INDEXES}")
    if completions is not None and limit is not None and limit > completions:
        yield field.invalid(f"{at}.maxFailedIndexes", limit, "must be less than or equal to completions")


def _validate_job_update(new: Document, old: Document, status: Document) -> Errors:
    before, after = old.get("template") or {}, new.get("template") or {}
    if new.get("completions") != old.get("completions"):
        elastic = new.get("completionMode") == "Indexed" and new.get("completions") == new.get("parallelism")
        if not elastic:
            yield field.invalid("spec.completions", new.get("completions"), IMMUTABLE)
    if selector_json(new.get("selector")) != selector_json(old.get("selector")):
        yield field.invalid("spec.selector", selector_json(new.get("selector")), IMMUTABLE)
    if old.get("suspend") and not status.get("startTime"):
        munged = _with_scheduling_undone(after, before)
        if not equal("PodSpec", before.get("spec") or {}, munged):
            yield field.invalid(
                "spec.template.spec", go_struct("PodSpec", after.get("spec") or {}), IMMUTABLE
            )
    elif not same(after.get("metadata"), before.get("metadata")) or not equal(
        "PodSpec", before.get("spec") or {}, after.get("spec") or {}
    ):
        yield field.invalid("spec.template", _go_template(after), IMMUTABLE)
    for name in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        if not same(new.get(name), old.get(name)):
            struct = {"podFailurePolicy": "PodFailurePolicy", "successPolicy": "SuccessPolicy"}.get(name)
            shown = go_struct(struct, new.get(name)) if struct else new.get(name)
            yield field.invalid(f"spec.{name}", shown, IMMUTABLE)


def _with_scheduling_undone(new: Document, old: Document) -> Document:
    """Return the new pod spec with the fields a suspended job may change set back."""
    spec, before = dict(new.get("spec") or {}), old.get("spec") or {}
    for name in _SCHEDULING_FIELDS:
        spec.pop(name, None)
        if name in before:
            spec[name] = before[name]
    affinity = {**(spec.get("affinity") or {})}
    affinity.pop("nodeAffinity", None)
    if "nodeAffinity" in (before.get("affinity") or {}):
        affinity["nodeAffinity"] = before["affinity"]["nodeAffinity"]
    if affinity or "affinity" in before:
        spec["affinity"] = affinity
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) == len(before.get(name) or ()) and spec.get(name):
            spec[name] = [
                {**after, "resources": was.get("resources") or {}}
                for after, was in zip(spec[name], before[name], strict=True)
            ]
    return spec


def _go_template(template: Document) -> dict[str, Any]:
    """Return a pod template as the server prints it: its metadata's fields stand beside the spec."""
    meta = template.get("metadata") or {}
    shown = {name: meta[name] for name in ("name", "labels", "annotations") if meta.get(name)}
    return {**shown, "Spec": go_struct("PodSpec", template.get("spec") or {})}


# ── podFailurePolicy and successPolicy ────────────────────────────────────────────────────────────────


_FAILURE_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_EXIT_CODE_OPERATORS: Final = ("In", "NotIn")
_MAX_RULES: Final = 20
_MAX_VALUES: Final = 255


def _listed(values: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def validate_failure_policy(spec: Document, at: str) -> Errors:
    """Yield what is wrong with the pod failure policy of a job."""
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    rules, pod = policy.get("rules") or [], (spec.get("template") or {}).get("spec") or {}
    names = {c.get("name") for key in ("containers", "initContainers") for c in pod.get(key) or ()}
    yield from field.at_most(f"{at}.podFailurePolicy.rules", rules, _MAX_RULES)
    for i, rule in enumerate(rules):
        yield from _validate_failure_rule(rule, names, f"{at}.podFailurePolicy.rules[{i}]")


def _validate_choice(value: str, allowed: tuple[str, ...], at: str) -> Errors:
    yield from field.required_one_of(at, value, allowed, f"valid values: {_listed(allowed)}")


def _validate_failure_rule(rule: Document, names: set[Any], at: str) -> Errors:
    yield from _validate_choice(rule.get("action") or "", _FAILURE_ACTIONS, f"{at}.action")
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        yield from _validate_exit_codes(codes, names, f"{at}.onExitCodes")
    yield from field.at_most(f"{at}.onPodConditions", conditions, _MAX_RULES)
    for i, condition in enumerate(conditions):
        where, kind = f"{at}.onPodConditions[{i}]", condition.get("type") or ""
        yield from field.each_invalid(f"{where}.type", kind, check_label_key(kind))
        yield from _validate_choice(condition.get("status") or "True", STATUSES, f"{where}.status")
    if codes is not None and conditions:
        yield field.invalid(at, Bare("specifying both OnExitCodes and OnPodConditions is not supported"), "")
    if codes is None and not conditions:
        yield field.invalid(at, Bare("specifying one of OnExitCodes and OnPodConditions is required"), "")


def _validate_exit_codes(codes: Document, names: set[Any], at: str) -> Errors:
    operator = codes.get("operator") or ""
    yield from _validate_choice(operator, _EXIT_CODE_OPERATORS, f"{at}.operator")
    name = codes.get("containerName")
    if name is not None and name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        yield field.invalid(f"{at}.containerName", name, detail)
    values = codes.get("values") or []
    if not values:
        yield field.invalid(f"{at}.values", codes.get("values"), "at least one value is required")
    elif len(values) > _MAX_VALUES:
        yield field.too_many(f"{at}.values", len(values), _MAX_VALUES)
    seen: set[int] = set()
    ordered = True
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            yield field.invalid(f"{at}.values[{i}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield field.duplicate(f"{at}.values[{i}]", value)
        if i and value < values[i - 1]:
            ordered = False
        seen.add(value)
    if not ordered:
        yield field.invalid(f"{at}.values", values, "must be ordered")


def validate_success_policy(spec: Document, at: str) -> Errors:
    """Yield what is wrong with the success policy of a job."""
    policy = spec.get("successPolicy")
    if policy is None:
        return
    rules, where = policy.get("rules") or [], f"{at}.successPolicy"
    if spec.get("completionMode") != "Indexed":
        yield field.invalid(where, _go_policy(policy), "requires indexed completion mode")
        return
    yield from field.present(
        f"{where}.rules", rules, "at least one rules must be specified when the successPolicy is specified"
    )
    yield from field.at_most(f"{where}.rules", rules, _MAX_RULES)
    for i, rule in enumerate(rules):
        yield from _validate_success_rule(rule, spec.get("completions"), f"{where}.rules[{i}]")


def _go_policy(policy: Document) -> dict[str, Any]:
    rules = [
        {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
        for rule in policy.get("rules") or ()
    ]
    return {"Rules": rules or None}


def _validate_success_rule(rule: Document, completions: int | None, at: str) -> Errors:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        yield field.required(at, "at least one of succeededCount or succeededIndexes must be specified")
    chosen: int | None = None
    if indexes is not None:
        chosen, problem = _count_indexes(indexes, completions or 0)
        if problem:
            yield field.invalid(
                f"{at}.succeededIndexes", indexes, f"error parsing succeededIndexes: {problem}"
            )
    if count is None:
        return
    yield from validate_not_negative(rule, ("succeededCount",), at)
    if completions is not None and count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        yield field.invalid(f"{at}.succeededCount", count, detail)
    if chosen is not None and count > chosen:
        detail = (
            f"must be less than or equal to {chosen} "
            "(the number of indexes in the specified succeededIndexes field)"
        )
        yield field.invalid(f"{at}.succeededCount", count, detail)


def _count_indexes(text: str, completions: int) -> tuple[int, str]:
    """Return how many indexes `0,2-4` names, and what is wrong with the text."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            rule = "an index interval can have at most two parts separated by '-'"
            return 0, f'the fragment "{part}" violates the requirement that {rule}'
        numbers = []
        for end in ends:
            if not re.fullmatch(r"[0-9]{1,18}", end):
                return 0, f'cannot convert string to integer for index: "{end}"'
            if int(end) >= completions:
                return 0, f'too large index: "{end}"'
            numbers.append(int(end))
        if numbers[0] <= last:
            return 0, f"non-increasing order, previous: {last}, current: {numbers[0]}"
        if numbers[-1] < numbers[0]:
            return 0, f"non-increasing order, previous: {numbers[0]}, current: {numbers[-1]}"
        total, last = total + numbers[-1] - numbers[0] + 1, numbers[-1]
    return total, ""


# ── CronJob ───────────────────────────────────────────────────────────────────────────────────────────


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
    yield from field.one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy") or None, _CONCURRENCY)
    yield from _validate_job_template(spec.get("jobTemplate") or {}, "spec.jobTemplate", options)
    yield from validate_not_negative(spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")
    name = (new.get("metadata") or {}).get("name") or ""
    if old is None and len(name) > _CRON_NAME_MAX:
        yield field.invalid("metadata.name", name, f"must be no more than {_CRON_NAME_MAX} characters")
    yield from field.present("spec.schedule", schedule)


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
