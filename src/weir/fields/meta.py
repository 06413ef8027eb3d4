"""Validation of ObjectMeta, on create and update.

Spec: core.md 2.2 "Shared format messages", apiserver.md 13 "Name rules" and its first rows. Labels and annotations
are reported without a subscript; annotation keys are lower-cased before the check; a finalizer must be one of three
words or contain a slash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from weir.caches import bounded
from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.values.names import (
    Messages,
    byte_length,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_generated,
    check_label_key,
    check_label_value,
)
from weir.values.quoting import quote

ANNOTATIONS_MAX_BYTES: Final = 256 * 1024
FIELD_MANAGER_MAX_BYTES: Final = 128
STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
NOT_A_FINALIZER: Final = "name is neither a standard finalizer name nor is it fully qualified"
IMMUTABLE: Final = "field is immutable"

NameCheck = Callable[[str], Messages]


def validate_object_meta(
    meta: Document, context: Context, check_name: NameCheck = check_dns1123_subdomain, at: str = "metadata"
) -> Errors:
    """Yield what is wrong with the metadata of a new object."""
    if prefix := meta.get("generateName"):
        yield from field.each_invalid(f"{at}.generateName", prefix, check_generated(check_name, prefix))
    name = meta.get("name")
    if not name:
        # A file may leave the name to generateName; the server has already generated it before validation.
        if not (prefix and context.raw):
            yield field.required(f"{at}.name", "name or generateName is required")
    elif messages := check_name(name):
        yield from field.each_invalid(f"{at}.name", name, messages)
    namespace = meta.get("namespace")
    if not context.namespaced:
        pass  # the server drops a namespace from what has none
    elif namespace:
        if messages := check_dns1123_label(namespace):
            yield from field.each_invalid(f"{at}.namespace", namespace, messages)
    elif not context.raw:
        yield field.required(f"{at}.namespace")
    if (meta.get("generation") or 0) < 0:
        yield field.invalid(f"{at}.generation", meta["generation"], "must be greater than or equal to 0")
    yield from _validate_shared(meta, at)
    if finalizers := meta.get("finalizers"):
        yield from _validate_finalizers(finalizers, f"{at}.finalizers")
    if managed := meta.get("managedFields"):
        yield from _validate_managed_fields(managed, f"{at}.managedFields")


def _validate_shared(meta: Document, at: str) -> Errors:
    """Yield what create and update both check of labels, annotations and owners."""
    if labels := meta.get("labels"):
        yield from validate_labels(labels, f"{at}.labels")
    if annotations := meta.get("annotations"):
        yield from validate_annotations(annotations, f"{at}.annotations")
    if owners := meta.get("ownerReferences"):
        yield from _validate_owner_references(owners, f"{at}.ownerReferences")


def validate_labels(labels: Document, at: str) -> Errors:
    """Yield what is wrong with a map of labels; errors carry no subscript, the value names the culprit."""
    if all(map(_fine_label, labels.items())):  # the same few labels are on every pod of a workload
        return
    for key in sorted(labels) if len(labels) > 1 else labels:
        if messages := check_label_key(key):
            yield from field.each_invalid(at, key, messages)
        if messages := check_label_value(labels[key]):
            yield from field.each_invalid(at, labels[key], messages)


@bounded(4096)
def _fine_label(label: tuple[str, str]) -> bool:
    return not check_label_key(label[0]) and not check_label_value(label[1])


def validate_annotations(annotations: Document, at: str) -> Errors:
    """Yield what is wrong with annotations: their keys, and their size all together."""
    total = 0
    for key in sorted(annotations):
        if messages := check_label_key(key.lower()):
            yield from field.each_invalid(at, key, messages)
        total += byte_length(key) + byte_length(annotations[key])
    if total > ANNOTATIONS_MAX_BYTES:
        yield field.too_long(at, ANNOTATIONS_MAX_BYTES)


def _validate_owner_references(owners: list[Document], at: str) -> Errors:
    controller: str | None = None
    for i, owner in enumerate(owners):
        group, _, version = (owner.get("apiVersion") or "").rpartition("/")
        if not owner.get("apiVersion"):
            yield field.required(f"{at}[{i}].apiVersion", "must not be empty")
        elif owner["apiVersion"].count("/") > 1:
            detail = "must be <group>/<version> or <version>"
            yield field.invalid(f"{at}[{i}].apiVersion", owner["apiVersion"], detail)
        elif not version:
            yield field.invalid(f"{at}[{i}].apiVersion", owner["apiVersion"], "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield field.required(f"{at}[{i}].{name}", "must not be empty")
        if (group, version, owner.get("kind")) == ("", "v1", "Event"):
            shown = f"{group}/{version}, Kind={owner['kind']}"
            yield field.invalid(
                f"{at}[{i}]", _owner_reference(owner), f"{shown} is disallowed from being an owner"
            )
        if owner.get("controller"):
            name = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
            if controller is not None:
                yield field.invalid(
                    at,
                    [_owner_reference(each) for each in owners],
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {name}",
                )
            controller = name


def _owner_reference(owner: Document) -> Document:
    fields = {name: owner.get(name) or "" for name in ("apiVersion", "kind", "name", "uid")}
    return {**fields, **{name: owner[name] for name in ("controller", "blockOwnerDeletion") if name in owner}}


def _validate_finalizers(finalizers: list[str], at: str) -> Errors:
    for finalizer in finalizers:
        yield from field.each_invalid(at, finalizer, check_label_key(finalizer))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        yield field.invalid(at, finalizers, detail)
    yield from _validate_finalizer_names(finalizers, at)


def _validate_finalizer_names(finalizers: Iterable[str], at: str) -> Errors:
    for i, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            yield field.invalid(f"{at}[{i}]", finalizer, NOT_A_FINALIZER)


def _validate_managed_fields(entries: list[Document], at: str) -> Errors:
    for i, entry in enumerate(entries):
        if entry.get("operation") not in ("Apply", "Update"):
            yield field.invalid(
                f"{at}[{i}].operation", Enum(entry.get("operation") or ""), "must be `Apply` or `Update`"
            )
        if entry.get("fieldsType") not in (None, "", "FieldsV1"):
            yield field.invalid(f"{at}[{i}].fieldsType", entry["fieldsType"], "must be `FieldsV1`")
        if byte_length(entry.get("manager") or "") > FIELD_MANAGER_MAX_BYTES:
            yield field.too_long(f"{at}[{i}].manager", FIELD_MANAGER_MAX_BYTES)


def validate_object_meta_update(new: Document, old: Document, at: str = "metadata") -> Errors:
    """Yield what an update may not do to metadata. What the server fills in may be absent from *new*."""
    finalizers = new.get("finalizers") or ()
    if old.get("deletionTimestamp") and (added := sorted(set(finalizers) - set(old.get("finalizers") or ()))):
        listed = ", ".join(map(quote, added))
        yield field.forbidden(
            f"{at}.finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}",
        )
    generation = new.get("generation")
    if generation is not None and generation < (old.get("generation") or 0):
        yield field.invalid(f"{at}.generation", generation, "must not be decremented")
    for name in (
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ):
        if name == "namespace" and not old.get("namespace"):
            continue  # cluster-scoped: the server drops it
        value = new.get(name)
        if value is not None and value != old.get(name):
            shown = value if name in ("name", "namespace", "deletionGracePeriodSeconds") else Enum(value)
            yield field.invalid(f"{at}.{name}", shown, IMMUTABLE)
    yield from _validate_shared(new, at)
    if finalizers:
        yield from _validate_finalizers(list(finalizers), f"{at}.finalizers")


_META_FIELDS: Final = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip


def validate_template_meta(meta: Document, at: str) -> Errors:
    """Yield what is wrong with metadata that only gives labels and annotations to an object made from it."""
    if annotations := meta.get("annotations"):
        yield from validate_annotations(annotations, f"{at}.annotations")
    if labels := meta.get("labels"):
        yield from validate_labels(labels, f"{at}.labels")
    for name in _META_FIELDS:
        if meta.get(name) not in (None, "", 0):
            yield field.forbidden(f"{at}.{name}", "cannot be set")


def validate_meta(
    new: Document, old: Document | None, context: Context, check_name: NameCheck = check_dns1123_subdomain
) -> Errors:
    """Yield what is wrong with the metadata of a write, be it a create or an update."""
    meta = new.get("metadata") or {}
    if old is None:
        yield from validate_object_meta(meta, context, check_name)
    else:
        yield from validate_object_meta_update(meta, old.get("metadata") or {})


def validate_generic_meta(
    new: Document, old: Document | None, context: Context, check_name: NameCheck = check_dns1123_subdomain
) -> Errors:
    """Yield what is wrong with metadata for kinds that leave finalizers without a domain alone."""
    return (
        error for error in validate_meta(new, old, context, check_name) if error.detail != NOT_A_FINALIZER
    )


def same(new: Any, old: Any) -> bool:
    """Return whether two values are semantically equal: absent, null and empty are one thing."""
    if new is old or new == old:
        return True
    if isinstance(new, dict) or isinstance(old, dict):
        new, old = new or {}, old or {}
        if not isinstance(new, dict) or not isinstance(old, dict):
            return False
        return all(same(new.get(name), old.get(name)) for name in {*new, *old})
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(same(a, b) for a, b in zip(new, old, strict=True))
    if isinstance(new, list) or isinstance(old, list):
        return not new and not old
    return bool(new == old) or ((new is None or new == "") and (old is None or old == ""))
