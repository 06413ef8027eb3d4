"""Validation of pods, on create and update.

Spec: core.md 2.6 "Pod update", 2.10 "Scheduling fields of gated pods", 2.13; apiserver.md 13. An update also runs the
create rules, so an error may be found twice (the server deduplicates); the container count and the deadline stop
later checks; permitted changes are reverted before the rest is compared, so they never show in the diff.
"""

from __future__ import annotations

from typing import Final

from weir.validate.core.binding import validate_target
from weir.validate.core.pod_spec import validate_pod_spec
from weir.validate.core.pod_subresources import (
    validate_ephemeral_update,
    validate_resize,
    validate_status,
)
from weir.validate.core.tolerations import validate_tolerations_update
from weir.validate.field import Context, Document, Errors, FieldError, forbidden, invalid, required
from weir.validate.gonames import diff, equal, go_list, go_struct
from weir.validate.meta import validate_object_meta, validate_object_meta_update
from weir.validate.ratchet import Options, pod_options

_INT32_MAX: Final = 2**31 - 1
MAY_CHANGE: Final = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
MIRROR: Final = "kubernetes.io/config.mirror"
GATED_WITH_NODE: Final = "cannot be set until all schedulingGates have been cleared"
ONLY_SELECTOR_ADDITIONS: Final = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
SAME_TERM_COUNT: Final = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
ONLY_TERM_ADDITIONS: Final = "only additions are allowed (no mutations or deletions)"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a write of a pod or one of its subresources."""
    if context.subresource == "binding":
        yield from validate_target(new)
    elif old is None:
        yield from _validate_create(new, context)
    elif context.subresource == "status":
        yield from validate_status(new, old)
    elif context.subresource == "ephemeralcontainers":
        yield from validate_ephemeral_update(new, old)
    else:
        options = pod_options(context.gates, old.get("spec"), context.raw)
        yield from validate_object_meta_update(new.get("metadata") or {}, old.get("metadata") or {})
        yield from _validate_metadata_and_spec(new, context, options)
        if context.subresource == "resize":
            yield from validate_resize(new, old)
        else:
            yield from _validate_update(new.get("spec") or {}, old.get("spec") or {}, options)


def _validate_create(pod: Document, context: Context) -> Errors:
    spec = pod.get("spec") or {}
    yield from _validate_metadata_and_spec(pod, context, pod_options(context.gates, None, context.raw))
    if spec.get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield forbidden("spec.nodeName", GATED_WITH_NODE)


def _validate_metadata_and_spec(pod: Document, context: Context, options: Options) -> Errors:
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    yield from validate_object_meta(meta, context)
    mirrored = (meta.get("annotations") or {}).get(MIRROR)
    if mirrored is not None and not spec.get("nodeName") and not context.raw:
        at = f"metadata.annotations[{MIRROR}]"
        yield invalid(at, mirrored, "must set spec.nodeName if mirror pod annotation is set")
    yield from validate_pod_spec(spec, "spec", options, meta.get("name") or "")
    if not context.raw and not spec.get("serviceAccountName"):
        yield from _validate_tokens(spec.get("volumes") or [])
    for name in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(name) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                yield invalid(
                    f"spec.{name}[{i}].image", image, "must not have leading or trailing whitespace"
                )


def _validate_tokens(volumes: list[Document]) -> Errors:
    for v, volume in enumerate(volumes):
        for s, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                at = f"spec.volumes[{v}].projected.sources[{s}].serviceAccountToken"
                yield forbidden(at, "must not be specified when serviceAccountName is not set")


def _validate_update(new: Document, old: Document, options: Options) -> Errors:
    """Yield what an update may not change; see the list in MAY_CHANGE."""
    for name in ("containers", "initContainers"):
        before, after = old.get(name) or [], new.get(name) or []
        if len(before) != len(after):
            yield forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
        for i, container in enumerate(after):
            if not container.get("image"):
                yield required(f"spec.{name}[{i}].image")
    stop = list(_validate_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")))
    yield from stop
    if stop and new.get("activeDeadlineSeconds") is not None:
        return
    yield from validate_tolerations_update(
        new.get("tolerations") or [], old.get("tolerations") or [], "spec.tolerations", options
    )
    yield from _validate_gates_update(new, old)
    munged = _with_permitted_changes_undone(new, old)
    if old.get("schedulingGates"):
        yield from _validate_gated_selector(new, old)
        yield from _validate_gated_affinity(new, old)
        munged = _with_gated_changes_undone(munged, old)
    if not equal("PodSpec", old, munged):
        yield _changed(old, munged)


def _changed(old: Document, munged: Document) -> FieldError:
    return forbidden(
        "spec", f"pod updates may not change fields other than {MAY_CHANGE}\n{diff('PodSpec', old, munged)}"
    )


def _validate_deadline(new: int | None, old: int | None) -> Errors:
    at = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(at, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= _INT32_MAX:
        yield invalid(at, new, f"must be between 0 and {_INT32_MAX}, inclusive")
    elif old is not None and old < new:
        yield invalid(at, new, "must be less than or equal to previous value")


def _validate_gates_update(new: Document, old: Document) -> Errors:
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for i, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            yield forbidden(
                f"spec.schedulingGates[{i}].name",
                f"only deletion is allowed, but found new scheduling gate '{gate.get('name') or ''}'",
            )


def _with_permitted_changes_undone(new: Document, old: Document) -> Document:
    """Return the new spec with every field that may change set back to its old value."""
    munged = dict(new)
    for name in ("containers", "initContainers"):
        if new.get(name):
            munged[name] = [
                {**after, "image": before.get("image")}
                for after, before in zip(new[name], old[name], strict=True)
            ]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        munged.pop(name, None)
        if name in old:
            munged[name] = old[name]
    grace = old.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and new.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = grace
    return munged


# ── pods that scheduling gates still hold back ───────────────────────────────────────────────────


def _validate_gated_selector(new: Document, old: Document) -> Errors:
    before, after = old.get("nodeSelector") or {}, new.get("nodeSelector")
    if any((after or {}).get(key) != value for key, value in before.items()):
        shown = dict(sorted(after.items())) if after else None
        yield invalid("spec.nodeSelector", shown, ONLY_SELECTOR_ADDITIONS)


def _required_terms(spec: Document) -> list[Document]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: list[Document] = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    return terms


def _validate_gated_affinity(new: Document, old: Document) -> Errors:
    before, after = _required_terms(old), _required_terms(new)
    if not before:
        return
    at = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if len(before) != len(after):
        yield invalid(at, go_list("NodeSelectorTerm", after), SAME_TERM_COUNT)
        return
    for i, (was, now) in enumerate(zip(before, after, strict=True)):
        if not _only_adds(was, now):
            yield invalid(f"{at}[{i}]", go_struct("NodeSelectorTerm", now), ONLY_TERM_ADDITIONS)


def _only_adds(old: Document, new: Document) -> bool:
    """Return whether a term only became narrower; a term that matches nothing must stay so."""
    was = [old.get(name) or [] for name in ("matchExpressions", "matchFields")]
    now = [new.get(name) or [] for name in ("matchExpressions", "matchFields")]
    if not any(was):
        return not any(now)
    return all(after[: len(before)] == before for before, after in zip(was, now, strict=True))


def _with_gated_changes_undone(munged: Document, old: Document) -> Document:
    """Return *munged* with the node selector and node affinity of the old spec; their changes were judged."""
    munged = dict(munged)
    munged.pop("nodeSelector", None)
    if "nodeSelector" in old:
        munged["nodeSelector"] = old["nodeSelector"]
    before, after = old.get("affinity"), munged.get("affinity")
    if before is None:
        if after is not None and not (after.get("podAffinity") or after.get("podAntiAffinity")):
            munged.pop("affinity")
        elif after is not None:
            munged["affinity"] = {name: value for name, value in after.items() if name != "nodeAffinity"}
        return munged
    restored = {name: value for name, value in (after or {}).items() if name != "nodeAffinity"}
    if "nodeAffinity" in before:
        restored["nodeAffinity"] = before["nodeAffinity"]
    munged["affinity"] = restored
    return munged
