"""Validation of Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet and ControllerRevision.

Spec: core.md 2.3, 2.7; apiserver.md 13; upstream's rules for these kinds. Selectors are immutable.
"""

from __future__ import annotations

from typing import Any, Final

from weir.fields import field
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import IMMUTABLE, same, validate_meta
from weir.validate.core.persistent_volume_claim import validate_claim_spec
from weir.validate.core.pod_template import (
    validate_runs_for_ever,
    validate_selected,
    validate_selected_template,
    validate_template,
)
from weir.validate.gonames import go_struct
from weir.validate.numbers import (
    NOT_NEGATIVE,
    number_of,
    validate_at_most_all,
    validate_int_or_percent,
    validate_not_negative,
)
from weir.validate.ratchet import Options, pod_options
from weir.validate.selectors import is_sound, selector_json, validate_label_selector
from weir.values.names import check_dns1123_label


def parts_of(
    new: Document, old: Document | None, context: Context
) -> tuple[Document, Document | None, Options]:
    """Return the new spec, the old one, and the options the old template earns."""
    before = None if old is None else old.get("spec") or {}
    # A status write does not touch the template, so ratcheting is not evaluated.
    template = ((before or {}).get("template") or {}).get("spec") if context.subresource != "status" else None
    return new.get("spec") or {}, before, pod_options(context.gates, template, context.raw)


def _validate_selector(selector: Document | None, workload: str) -> Errors:
    if selector is None:
        yield field.required("spec.selector")
        return
    yield from validate_label_selector(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield field.invalid(
            "spec.selector", selector_json(selector), f"empty selector is invalid for {workload}"
        )


def _validate_pods(spec: Document, options: Options, workload: str) -> Errors:
    """Yield what is wrong with the template, which is only looked at when the selector can be read."""
    selector = spec.get("selector")
    if not is_sound(selector):
        detail = "" if workload == "StatefulSet" else "invalid label selector"
        yield field.invalid("spec.selector", selector_json(selector), detail)
        return
    yield from validate_selected_template(
        spec.get("template") or {}, selector, "spec.template", options, workload
    )


def _validate_selector_kept(new: Document, old: Document | None) -> Errors:
    if old is not None and selector_json(new.get("selector")) != selector_json(old.get("selector")):
        yield field.invalid("spec.selector", selector_json(new.get("selector")), IMMUTABLE)


#: Kind → counts of its status that are never negative, and those among them that are part of `replicas`.
_STATUS_COUNTS: Final = {
    "DaemonSet": (
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
         "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"),
        (),
    ),
    "Deployment": (
        ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
         "unavailableReplicas", "collisionCount"),
        ("updatedReplicas", "readyReplicas", "availableReplicas"),
    ),
    "ReplicaSet": (
        ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"),
        ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    ),
    "StatefulSet": (
        ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration",
         "collisionCount"),
        ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    ),
}  # fmt: skip


def _validate_status(new: Document, old: Document | None, kind: str) -> Errors:
    """Yield counts that are negative, decrease, or exceed the count they are part of."""
    status, before = new.get("status") or {}, (old or {}).get("status") or {}
    names, parts = _STATUS_COUNTS[kind]
    yield from validate_not_negative(status, names, "status")
    counts = {name: status.get(name) or 0 for name in names}
    for name in parts:
        if counts[name] > counts["replicas"]:
            yield field.invalid(f"status.{name}", counts[name], "cannot be greater than status.replicas")
    if parts and counts["availableReplicas"] > counts["readyReplicas"]:
        ready = "status.readyReplicas" if kind == "StatefulSet" else "readyReplicas"
        yield field.invalid(
            "status.availableReplicas", counts["availableReplicas"], f"cannot be greater than {ready}"
        )
    if (collisions := status.get("collisionCount") or 0) < (before.get("collisionCount") or 0):
        yield field.invalid("status.collisionCount", collisions, "cannot be decremented")


def _given(rolling: Document, name: str, default: Any) -> Any:
    """Return a field of a strategy; null means the default, as absence does."""
    value = rolling.get(name)
    return default if value is None else value


# ── the kinds ────────────────────────────────────────────────────────────────────────────────────


def validate_deployment(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Deployment."""
    spec, before, options = parts_of(new, old, context)
    yield from validate_meta(new, old, context)
    if context.subresource == "status":
        yield from _validate_status(new, old, "Deployment")
        return
    yield from validate_not_negative(spec, ("replicas",), "spec")
    yield from _validate_selector(spec.get("selector"), "deployment")
    yield from _validate_pods(spec, options, "ReplicaSet")
    yield from _validate_deployment_strategy(spec.get("strategy") or {})
    yield from validate_not_negative(spec, ("minReadySeconds", "revisionHistoryLimit"), "spec")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        yield from validate_not_negative(spec, ("progressDeadlineSeconds",), "spec")
        if deadline <= (spec.get("minReadySeconds") or 0):
            yield field.invalid(
                "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
            )
    yield from _validate_selector_kept(spec, before)


def _validate_deployment_strategy(strategy: Document) -> Errors:
    kind, rolling = strategy.get("type") or "RollingUpdate", strategy.get("rollingUpdate")
    at = "spec.strategy"
    if kind == "Recreate":
        if rolling is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            yield field.forbidden(f"{at}.rollingUpdate", detail)
    elif kind == "RollingUpdate":
        if rolling is not None:
            yield from _validate_rolling_update(rolling, f"{at}.rollingUpdate", "25%", "25%")
    else:
        yield field.not_supported(at, _go_strategy(kind, rolling), ("Recreate", "RollingUpdate"))


def _go_strategy(kind: str, rolling: Document | None) -> Document:
    """Return the strategy of a Deployment or DaemonSet as the server prints it."""
    names = (("MaxUnavailable", "maxUnavailable"), ("MaxSurge", "maxSurge"))
    shown = None if rolling is None else {go: rolling.get(name, 0) for go, name in names}
    return {"Type": kind, "RollingUpdate": shown}


def _validate_rolling_update(rolling: Document, at: str, unavailable: Any, surge: Any) -> Errors:
    """Yield what is wrong with how many pods may be missing or extra; the last two are the defaults."""
    down, extra = _given(rolling, "maxUnavailable", unavailable), _given(rolling, "maxSurge", surge)
    yield from validate_int_or_percent(down, f"{at}.maxUnavailable")
    yield from validate_int_or_percent(extra, f"{at}.maxSurge")
    if number_of(down) == 0 and number_of(extra) == 0:
        yield field.invalid(f"{at}.maxUnavailable", down, "may not be 0 when `maxSurge` is 0")
    yield from validate_at_most_all(down, f"{at}.maxUnavailable")


def validate_replica_set(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ReplicaSet."""
    spec, before, options = parts_of(new, old, context)
    yield from validate_meta(new, old, context)
    if context.subresource == "status":
        yield from _validate_status(new, old, "ReplicaSet")
        return
    yield from validate_not_negative(spec, ("replicas", "minReadySeconds"), "spec")
    yield from _validate_selector(spec.get("selector"), "deployment")
    yield from _validate_pods(spec, options, "ReplicaSet")
    yield from _validate_selector_kept(spec, before)


def validate_daemon_set(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a DaemonSet."""
    spec, before, options = parts_of(new, old, context)
    yield from validate_meta(new, old, context)
    if context.subresource == "status":
        yield from _validate_status(new, old, "DaemonSet")
        return
    template, selector = spec.get("template") or {}, spec.get("selector")
    yield from _validate_selector_kept(spec, before)
    if selector is not None:
        yield from _validate_selector(selector, "daemonset")
    if is_sound(selector):
        yield from validate_selected(template, selector, "spec.template")
    yield from validate_template(template, "spec.template", options)
    yield from validate_runs_for_ever(template, "spec.template", "DaemonSet")
    yield from validate_not_negative(spec, ("minReadySeconds",), "spec")
    yield from _validate_daemon_strategy(spec.get("updateStrategy") or {})
    yield from validate_not_negative(spec, ("revisionHistoryLimit",), "spec")


def _validate_daemon_strategy(strategy: Document) -> Errors:
    kind, rolling, at = (
        strategy.get("type") or "RollingUpdate",
        strategy.get("rollingUpdate"),
        "spec.updateStrategy",
    )
    if kind == "RollingUpdate":
        if rolling is not None:
            yield from _validate_daemon_rolling(rolling, f"{at}.rollingUpdate")
    elif kind != "OnDelete":
        yield field.not_supported(at, _go_strategy(kind, rolling), ("RollingUpdate", "OnDelete"))


def _validate_daemon_rolling(rolling: Document, at: str) -> Errors:
    down, extra = _given(rolling, "maxUnavailable", 1), _given(rolling, "maxSurge", 0)
    yield from validate_int_or_percent(down, f"{at}.maxUnavailable")
    yield from validate_int_or_percent(extra, f"{at}.maxSurge")
    yield from validate_at_most_all(down, f"{at}.maxUnavailable")
    yield from validate_at_most_all(extra, f"{at}.maxSurge")
    if number_of(down) and number_of(extra):
        yield field.invalid(f"{at}.maxSurge", extra, "may not be set when maxUnavailable is non-zero")
    if not number_of(down) and not number_of(extra):
        yield field.required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def validate_stateful_set(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a StatefulSet."""
    spec, before, options = parts_of(new, old, context)
    yield from validate_meta(new, old, context, check_dns1123_label)
    if context.subresource == "status":
        yield from _validate_status(new, old, "StatefulSet")
        return
    policy = spec.get("podManagementPolicy")
    if policy and policy not in ("OrderedReady", "Parallel"):
        yield field.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _validate_stateful_strategy(spec.get("updateStrategy") or {})
    yield from _validate_retention(spec.get("persistentVolumeClaimRetentionPolicy"))
    yield from validate_not_negative(spec, ("replicas", "minReadySeconds"), "spec")
    if (ordinals := spec.get("ordinals")) is not None:
        yield from validate_not_negative(ordinals, ("start",), "spec.ordinals")
    if old is None:
        for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            yield from validate_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{i}].spec")
        yield from field.well_formed("spec.serviceName", spec.get("serviceName") or None, check_dns1123_label)
    yield from _validate_selector(spec.get("selector"), "statefulset")
    yield from _validate_pods(_with_claims(spec), options, "StatefulSet")
    if before is not None:
        yield from _validate_stateful_update(spec, before)


def _with_claims(spec: Document) -> Document:
    """Return the spec of a StatefulSet with the volumes that its pods get from claim templates."""
    names = [(claim.get("metadata") or {}).get("name") for claim in spec.get("volumeClaimTemplates") or ()]
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    own = {volume.get("name") for volume in pod.get("volumes") or ()}
    added = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for name in names
        if name and name not in own
    ]
    if not added:
        return spec
    volumes = [*(pod.get("volumes") or ()), *added]
    return {**spec, "template": {**template, "spec": {**pod, "volumes": volumes}}}


def _validate_stateful_strategy(strategy: Document) -> Errors:
    kind, rolling = strategy.get("type") or "RollingUpdate", strategy.get("rollingUpdate")
    at = "spec.updateStrategy"
    if kind == "OnDelete":
        if rolling is not None:
            shown = {
                "Partition": rolling.get("partition") or 0,
                "MaxUnavailable": rolling.get("maxUnavailable"),
            }
            yield field.invalid(
                f"{at}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'"
            )
    elif kind == "RollingUpdate":
        yield from validate_not_negative(rolling or {}, ("partition",), f"{at}.rollingUpdate")
        down = (rolling or {}).get("maxUnavailable")
        if down is not None:
            where = f"{at}.rollingUpdate.maxUnavailable"
            yield from validate_int_or_percent(down, where)
            if not number_of(down):
                yield field.invalid(where, down, "cannot be 0")
            yield from validate_at_most_all(down, where)
    else:
        shown = None
        if rolling is not None:
            shown = {
                "Partition": rolling.get("partition", 0),
                "MaxUnavailable": rolling.get("maxUnavailable"),
            }
        yield field.invalid(
            at, {"Type": kind, "RollingUpdate": shown}, "must be 'RollingUpdate' or 'OnDelete'"
        )


def _validate_retention(policy: Document | None) -> Errors:
    for name in ("whenDeleted", "whenScaled"):
        value = (policy or {}).get(name)
        if value and value not in ("Retain", "Delete"):
            at = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            yield field.not_supported(at, value, ("Retain", "Delete"))


def _validate_stateful_update(new: Document, old: Document) -> Errors:
    """Yield the fields of a StatefulSet that never change."""
    for name in ("serviceName", "podManagementPolicy"):
        if not same(new.get(name), old.get(name)):
            yield field.invalid(f"spec.{name}", new.get(name) or "", IMMUTABLE)
    yield from _validate_selector_kept(new, old)
    if not same(new.get("volumeClaimTemplates"), old.get("volumeClaimTemplates")):
        shown = [_go_claim(claim) for claim in new.get("volumeClaimTemplates") or ()]
        yield field.invalid("spec.volumeClaimTemplates", shown or None, IMMUTABLE)


def _go_claim(claim: Document) -> Document:
    """Return a claim template as the server prints it: metadata beside the Go fields."""
    meta = claim.get("metadata") or {}
    shown = {name: meta[name] for name in ("name", "namespace", "labels", "annotations") if meta.get(name)}
    spec = go_struct("PersistentVolumeClaimSpec", {"volumeMode": "Filesystem", **(claim.get("spec") or {})})
    status = go_struct("PersistentVolumeClaimStatus", claim.get("status") or {"phase": "Pending"})
    return {**shown, "Spec": spec, "Status": status}


def validate_controller_revision(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ControllerRevision: its data is there and never changes."""
    yield from validate_meta(new, old, context)
    yield from field.at_least("revision", new.get("revision"), 0, NOT_NEGATIVE)
    if new.get("data") is None:
        yield field.required("data", "data is mandatory")
    elif not isinstance(new["data"], dict):
        yield field.required("data", "data must be a valid JSON object")
    if old is not None and new.get("data") != old.get("data"):
        yield field.invalid("data", new.get("data"), IMMUTABLE)


# ── ReplicationController ─────────────────────────────────────────────────────────────────────────────


def validate_replication_controller(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ReplicationController, whose selector is a plain map."""
    spec, _, options = parts_of(new, old, context)
    meta = list(validate_meta(new, old, context))
    if context.subresource == "status":
        yield from meta
        yield from _validate_status(new, old, "ReplicaSet")
        return
    # What upstream declares beside the fields of this kind is found last.
    declared = [error for error in meta if error.field == "metadata.name" and error.type == field.INVALID]
    yield from (error for error in meta if error not in declared)
    selector = spec.get("selector") or {}
    if not selector and not context.raw:
        yield field.required("spec.selector")
    yield from validate_selected_template(
        spec.get("template"), {"matchLabels": selector}, "spec.template", options, "ReplicationController"
    )
    yield from declared
    yield from validate_not_negative(spec, ("replicas", "minReadySeconds"), "spec")
