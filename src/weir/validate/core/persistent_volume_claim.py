"""Validation of PersistentVolumeClaim.

Spec: apiserver.md 13 (PVC). A missing size is reported on `spec.resources[storage]`; after creation only the size
and, for bound claims, the attributes class may change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import IMMUTABLE, validate_meta, validate_object_meta
from weir.validate.core.resources import amount
from weir.validate.gonames import diff, equal
from weir.validate.selectors import validate_label_selector
from weir.values.names import check_dns1123_subdomain

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Block", "Filesystem")
ALONE: Final = "may not use ReadWriteOncePod with other access modes"
POSITIVE: Final = "must be greater than zero"
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
IMMUTABLE_SPEC: Final = (
    "spec is immutable after creation except resources.requests "
    "and volumeAttributesClassName for bound claims"
)


def validate_persistent_volume_claim(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a write of a PersistentVolumeClaim."""
    spec = new.get("spec") or {}
    if old is None:
        yield from validate_object_meta(new.get("metadata") or {}, context)
        yield from validate_claim_spec(spec, "spec")
    elif context.subresource == "status":
        yield from validate_meta(new, old, context)
        yield from _validate_status(new.get("status") or {})
    else:
        yield from validate_meta(new, old, context)
        yield from validate_claim_spec(spec, "spec", drops_sources=False)
        yield from _validate_update(spec, old.get("spec") or {}, old)


def validate_access_modes(modes: list[str], at: str) -> Errors:
    """Yield what is wrong with access modes, of a claim or of a volume."""
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield field.not_supported(at, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        yield field.forbidden(at, ALONE)


def validate_claim_spec(spec: Document, at: str, *, drops_sources: bool = True) -> Errors:
    """Yield what is wrong with the spec of a claim, also inside templates and ephemeral volumes."""
    modes = spec.get("accessModes") or []
    yield from field.present(f"{at}.accessModes", modes, "at least 1 access mode is required")
    yield from validate_label_selector(spec.get("selector"), f"{at}.selector")
    yield from validate_access_modes(modes, f"{at}.accessModes")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        yield field.required(f"{at}.resources[storage]")
    elif amount(size).sign <= 0:
        yield field.invalid(f"{at}.resources[storage]", str(amount(size)), POSITIVE)
    yield from field.well_formed(
        f"{at}.storageClassName", spec.get("storageClassName") or None, check_dns1123_subdomain
    )
    yield from field.one_of(f"{at}.volumeMode", spec.get("volumeMode"), VOLUME_MODES)
    sources = dict(_data_sources(spec, drops_sources))
    for name, source in sources.items():
        yield from _validate_data_source(source, f"{at}.{name}")
    if len(sources) == 2 and not sources["dataSourceRef"].get("namespace"):
        one, other = (
            [each.get(part) or "" for part in ("apiGroup", "kind", "name")] for each in sources.values()
        )
        if one != other:
            yield field.invalid(
                at, {}, "must match dataSourceRef"
            )  # upstream prints a path, which shows as nothing
    yield from field.well_formed(
        f"{at}.volumeAttributesClassName",
        spec.get("volumeAttributesClassName") or None,
        check_dns1123_subdomain,
    )


def _data_sources(spec: Document, drops: bool) -> Iterator[tuple[str, Document]]:
    """Yield the sources as the server keeps them: unknown kinds are dropped, and each field fills the other."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and drops:
        kind, group = source.get("kind"), source.get("apiGroup") or ""
        claim = kind == "PersistentVolumeClaim" and not group
        if not claim and not (kind == "VolumeSnapshot" and group == "snapshot.storage.k8s.io"):
            source = None
    if reference is not None and reference.get("namespace") and drops:
        reference = None
    both = (source or reference, reference or source)
    for name, each in zip(("dataSource", "dataSourceRef"), both, strict=True):
        if each is not None:
            yield name, each


def _validate_data_source(source: Document, at: str) -> Errors:
    yield from field.present(f"{at}.name", source.get("name"))
    yield from field.present(f"{at}.kind", source.get("kind"))
    group = source.get("apiGroup") or ""
    if not group and source.get("kind") != "PersistentVolumeClaim":
        yield field.invalid(
            at,
            source.get("kind") or "",
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        )
    elif group:
        yield from field.each_invalid(f"{at}.apiGroup", group, check_dns1123_subdomain(group))


def _validate_update(new: Document, old: Document, stored: Document) -> Errors:
    munged = dict(new)
    bound = (stored.get("status") or {}).get("phase") == "Bound"
    if not old.get("volumeName"):  # binding sets the name once
        munged.pop("volumeName", None)
    named = (
        (stored.get("metadata") or {})
        .get("annotations", {})
        .get(CLASS_ANNOTATION, new.get("storageClassName"))
    )
    if old.get("storageClassName") is None and new.get("storageClassName") == named:
        munged.pop("storageClassName", None)  # a class may be given to a claim that named none
    before, after = (((s.get("resources") or {}).get("requests") or {}).get("storage") for s in (old, new))
    if bound and before is not None and after is not None:  # only a bound claim may grow
        resources = new["resources"]
        munged["resources"] = {**resources, "requests": {**resources["requests"], "storage": before}}
    if bound:
        munged.pop("volumeAttributesClassName", None)
        if "volumeAttributesClassName" in old:
            munged["volumeAttributesClassName"] = old["volumeAttributesClassName"]
    if not equal("PersistentVolumeClaimSpec", old, munged):
        yield field.forbidden("spec", f"{IMMUTABLE_SPEC}\n{diff('PersistentVolumeClaimSpec', old, munged)}")
    capacity = ((stored.get("status") or {}).get("capacity") or {}).get("storage")
    wanted = amount(after or "0")
    if before is not None and wanted < amount(before) and wanted <= amount(capacity or "0"):
        yield field.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    if new.get("volumeMode") != old.get("volumeMode"):
        yield field.invalid(
            "volumeMode", None if new.get("volumeMode") is None else Enum(new["volumeMode"]), IMMUTABLE
        )


def _validate_status(status: Document) -> Errors:
    capacity = status.get("capacity") or {}
    for name in sorted(capacity):
        if amount(capacity[name]).sign < 0:
            shown = amount(capacity[name]).value
            yield field.invalid(f"status.capacity[{name}]", shown, "must be a valid resource quantity")
