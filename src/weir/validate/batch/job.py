"""Validation of Job.

Spec: core.md 2.7 (templates of suspended jobs); upstream's rules for Job. A Job's restartPolicy may not
be Always, reported as a missing value. The pod template is immutable, except its scheduling fields while the Job is
suspended and has not started.
"""

from __future__ import annotations

from typing import Any, Final

from weir.validate import field
from weir.validate.batch.job_policies import validate_failure_policy, validate_success_policy
from weir.validate.core.pod_template import MISMATCH, validate_not_negative, validate_template
from weir.validate.field import Context, Document, Enum, Errors
from weir.validate.gonames import equal, go_struct
from weir.validate.label_selector import is_sound, selector_json, selects, validate_label_selector
from weir.validate.meta import IMMUTABLE, same, validate_meta
from weir.validate.ratchet import Options, pod_options
from weir.values.names import (
    byte_length,
    check_dns1123_label,
    check_domain_prefixed_path,
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
    if replacement is not None and replacement not in allowed:
        yield field.not_supported(f"{at}.podReplacementPolicy", replacement, allowed)
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
    if byte_length(manager) > 63:
        yield field.too_long(at, 63)


def _validate_completion_mode(spec: Document, at: str) -> Errors:
    mode = spec.get("completionMode")
    if mode is not None and mode not in _COMPLETION_MODES:
        yield field.not_supported(f"{at}.completionMode", mode, _COMPLETION_MODES)
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


# ── CronJob ──────────────────────────────────────────────────────────────────────────────────────
