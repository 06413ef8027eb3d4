"""managedFields: field ownership after an update.

Spec: apiserver.md 6 "managedFields".
An entry is identified by (manager, operation, apiVersion, subresource). An Update gives its manager every field it
added or changed and takes these, and removed fields, from all others. An object whose managedFields were cleared is
not tracked until the next apply; the eleventh updating manager merges the oldest two into "ancient-changes"; entries
of another group are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from weir.apiserver.patches import fieldset
from weir.apiserver.patches.compare import created, written_and_removed
from weir.apiserver.patches.custom_structure import node_of, zero_of
from weir.apiserver.patches.fieldset import FieldSet
from weir.apiserver.patches.structure import Unkeyed
from weir.compat.customresources.served import CustomResourceKind
from weir.objects.document import KindRow

MOST_UPDATE_MANAGERS: Final = 10
ANCIENT: Final = "ancient-changes"

#: Fields without an owner: identity and what the server keeps.
STRIPPED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        **{
            f"f:{name}": {}
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        },
    },
}


#: The same for a new object, whose status has no owner either. Everything below a path is left out.
NEVER_OWNED_ON_CREATE: Final[FieldSet] = {
    **STRIPPED,
    "f:metadata": {name: {} for name in STRIPPED["f:metadata"] if name != "."},
    "f:status": {},
}


class Owner(NamedTuple):
    """What an entry is known by."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""


class Entry(NamedTuple):
    """What an owner owns, in the order it is written, and since when; an empty time is written as no time.

    Removing paths keeps the order: only new and joined sets must be ordered.
    """

    fields: FieldSet
    time: str


Managed = dict[Owner, Entry]


# ── what a subresource may own ───────────────────────────────────────────────────────────────────

_SPEC: Final[FieldSet] = {"f:spec": {}}
_STATUS: Final[FieldSet] = {"f:status": {}}
_SPEC_AND_METADATA: Final[FieldSet] = {"f:spec": {}, "f:metadata": {}}
#: What a write to `/status` cannot set, where that is more than the spec.
_STATUS_RESETS: Final[dict[str, FieldSet]] = {
    "Pod": {"f:spec": {}, "f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}}},
    "Deployment": {"f:spec": {}, "f:metadata": {"f:labels": {}}},
    "VolumeAttachment": _SPEC_AND_METADATA,
    "CSINode": _SPEC_AND_METADATA,
    "ResourceClaim": _SPEC_AND_METADATA,
    "DeviceTaintRule": _SPEC_AND_METADATA,
    "APIService": _SPEC_AND_METADATA,
    "CertificateSigningRequest": {"f:spec": {}, "f:status": {"f:conditions": {}}},
    "PodCertificateRequest": _SPEC_AND_METADATA,
    "StorageVersionMigration": _SPEC_AND_METADATA,
}
#: What other writes cannot set, where that is more than the status; the server itself says who asks for a certificate.
_RESETS: Final[dict[tuple[str, str], FieldSet]] = {
    ("CertificateSigningRequest", ""): {"f:spec": {}, "f:status": {}},
    ("CertificateSigningRequest", "approval"): {"f:spec": {}, "f:status": {"f:certificate": {}}},
}
#: Subresources that write nothing but these paths.
_WRITES_ONLY: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "ephemeralcontainers": (("f:spec", "f:ephemeralContainers"),),
    "resize": tuple(
        ("f:spec", containers, "*", field)
        for containers in ("f:containers", "f:initContainers")
        for field in ("f:resources", "f:resizePolicy")
    ),
}


def owned_by_write(fields: FieldSet, kind: KindRow, subresource: str) -> FieldSet:
    """Return the part of *fields* that a write to this subresource can own."""
    if not fields:
        return fields
    if subresource in _WRITES_ONLY:
        return fieldset.keep_only(fields, _WRITES_ONLY[subresource])
    if isinstance(kind, CustomResourceKind):
        if not kind.has_status:
            return fields
        return fieldset.without(fields, _SPEC_AND_METADATA if subresource == "status" else _STATUS)
    if subresource == "status":
        return fieldset.without(fields, _STATUS_RESETS.get(kind.kind, _SPEC))
    return fieldset.without(fields, _RESETS.get((kind.kind, subresource), _STATUS))


def stripped(fields: FieldSet) -> FieldSet:
    """Return *fields* without those that have no owner."""
    return fieldset.difference(fields, STRIPPED) if fields else fields


# ── reading and writing entries ──────────────────────────────────────────────────────────────────


def read_managed(entries: Any) -> Managed | None:
    """Return the entries of `metadata.managedFields`, or None when one cannot be read."""
    managed: Managed = {}
    for entry in entries or ():
        fields = entry.get("fieldsV1")
        if entry.get("operation") not in ("Apply", "Update") or entry.get("fieldsType") != "FieldsV1":
            return None
        if not isinstance(fields, dict):
            return None
        owner = Owner(
            entry.get("manager") or "",
            entry["operation"],
            entry.get("apiVersion") or "",
            entry.get("subresource") or "",
        )
        managed[owner] = Entry(fields, entry.get("time") or "")
    return managed


def write_managed(document: dict[str, Any], managed: Managed) -> None:
    """Write *managed* into the document, in the order the real server keeps."""
    metadata = document.setdefault("metadata", {})
    metadata.pop("managedFields", None)
    if managed:
        metadata["managedFields"] = written(managed.items())


def written(items: Iterable[tuple[Owner, Entry]]) -> list[dict[str, Any]]:
    """Return `metadata.managedFields` of these owners, in the order the real server keeps."""
    return [_written(owner, entry) for owner, entry in sorted(items, key=_order)]


def _order(item: tuple[Owner, Entry]) -> tuple[str, str, str, str, str]:
    owner, entry = item
    return owner.operation, entry.time, owner.manager, owner.api_version, owner.subresource


def _written(owner: Owner, entry: Entry) -> dict[str, Any]:
    out: dict[str, Any] = {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": owner.api_version,
    }
    if entry.time:
        out["time"] = entry.time
    out["fieldsType"] = "FieldsV1"
    out["fieldsV1"] = entry.fields
    if owner.subresource:
        out["subresource"] = owner.subresource
    return out


# ── updates ──────────────────────────────────────────────────────────────────────────────────────


def change(old: dict[str, Any] | None, new: dict[str, Any], kind: KindRow) -> tuple[FieldSet, FieldSet]:
    """Return what was written and removed when *old* (None: nothing) became *new*, leaving managedFields aside."""
    return written_and_removed(_bare(zero_of(kind) if old is None else old), _bare(new), node_of(kind))


def _bare(document: dict[str, Any]) -> dict[str, Any]:
    metadata = document.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return document
    return {**document, "metadata": {key: item for key, item in metadata.items() if key != "managedFields"}}


def update_managed_fields(
    new: dict[str, Any],
    old: dict[str, Any] | None,
    kind: KindRow,
    *,
    manager: str,
    subresource: str = "",
    now: str,
) -> None:
    """Write into *new* its managedFields after it replaces *old* (None: it is created)."""
    metadata = new.setdefault("metadata", {})
    try:
        _update(new, old, kind, manager, subresource, now)
    except Unkeyed:  # nothing can be said about the fields of such an object: what was known stays
        metadata.pop("managedFields", None)
        if kept := ((old or {}).get("metadata") or {}).get("managedFields"):
            metadata["managedFields"] = kept


def _update(
    new: dict[str, Any], old: dict[str, Any] | None, kind: KindRow, manager: str, subresource: str, now: str
) -> None:
    metadata = new["metadata"]
    sent = metadata.get("managedFields")
    if old is None and sent is None and not subresource:
        _create(new, kind, manager, now)
        return
    managed = _starting_point(sent, old, subresource)
    if not managed and old is not None:
        metadata.pop("managedFields", None)
        return
    result = take_over(managed, change(old, new, kind), kind, manager, subresource, now)
    write_managed(new, capped(result))


def _create(new: dict[str, Any], kind: KindRow, manager: str, now: str) -> None:
    """The common case: a new object has one manager, who owns all of it that can be owned."""
    skip = NEVER_OWNED_ON_CREATE
    if isinstance(kind, CustomResourceKind) and not kind.has_status:
        skip = {path: below for path, below in skip.items() if path != "f:status"}
    if (kind.kind, "") in _RESETS:
        skip = {**skip, **_RESETS[kind.kind, ""]}
    fields = fieldset.ordered(created(new, zero_of(kind), node_of(kind), skip))
    own_all(new, fields, kind, manager=manager, now=now)


def own_all(new: dict[str, Any], fields: FieldSet, kind: KindRow, *, manager: str, now: str) -> None:
    """Write that *manager* owns *fields*, all there is to own of a new object and in order."""
    if fields:
        owner = Owner(manager or "unknown", "Update", kind.api_version)
        new["metadata"]["managedFields"] = [_written(owner, Entry(fields, now))]


def _starting_point(sent: Any, old: dict[str, Any] | None, subresource: str) -> Managed:
    """Return the entries an update starts from: the client's own edit, else the stored ones."""
    stored = ((old or {}).get("metadata") or {}).get("managedFields")
    if not subresource and sent is not None and sent != stored:
        if sent in ([], [{}]):
            return {}
        found = read_managed(sent)
        if found and all(fieldset.is_field_set(entry.fields) for entry in found.values()):
            return {
                owner: Entry(fieldset.ordered(entry.fields), entry.time) for owner, entry in found.items()
            }
    return read_managed(stored) or {}


def means_the_same(api_version: str, other: str) -> bool:
    """Return whether paths in one version of a kind mean the same in another: they do in all versions of a group.

    Where versions are laid out differently (the devices of a slice, the requests of a claim), it is inside lists that
    are owned as a whole.

    >>> means_the_same("resource.k8s.io/v1alpha3", "resource.k8s.io/v1"), means_the_same("v1", "events.k8s.io/v1")
    (True, False)
    """
    return api_version == other or api_version.rpartition("/")[0] == other.rpartition("/")[0] != ""


def take_over(
    managed: Managed,
    changed: tuple[FieldSet, FieldSet],
    kind: KindRow,
    manager: str,
    subresource: str,
    now: str,
) -> Managed:
    """Return *managed* after *manager* made a change by Update that wrote and removed these fields."""
    taken, removed = (owned_by_write(part, kind, subresource) for part in changed)
    owner = Owner(manager or "unknown", "Update", kind.api_version, subresource)
    result: Managed = {}
    for known, entry in managed.items():
        fields = entry.fields
        if means_the_same(known.api_version, kind.api_version):
            fields = fieldset.difference(fieldset.difference(fields, taken), removed)
        if fields:
            result[known] = Entry(fields, entry.time)
    mine = stripped(taken)
    if mine:
        before = result.get(owner)
        mine = fieldset.union(mine, before.fields) if before else mine
        result[owner] = Entry(fieldset.ordered(mine), now)
    return result


def capped(managed: Managed) -> Managed:
    """Return *managed* with the oldest updating managers of a version made one until ten are left."""
    if len(managed) <= MOST_UPDATE_MANAGERS:
        return managed
    updaters = sorted(
        (owner for owner in managed if owner.operation == "Update"),
        key=lambda owner: (managed[owner].time, _identifier(owner)),
    )
    left = len(updaters)
    if left <= MOST_UPDATE_MANAGERS:
        return managed
    result = dict(managed)
    first_of: dict[str, Owner] = {}
    joined: dict[Owner, list[FieldSet]] = {}
    for owner in updaters:
        if left <= MOST_UPDATE_MANAGERS:
            break
        first = first_of.setdefault(owner.api_version, owner)
        if first is owner:
            continue
        bucket = Owner(ANCIENT, "Update", owner.api_version)
        if bucket not in result:
            result[bucket] = result.pop(first)
        entry = result.pop(owner) if owner != bucket else result[bucket]
        joined.setdefault(bucket, [result[bucket].fields]).append(entry.fields)
        result[bucket] = Entry({}, entry.time)
        left -= 1
    for bucket, sets in joined.items():
        result[bucket] = Entry(fieldset.ordered(fieldset.union_all(sets)), result[bucket].time)
    return result


def _identifier(owner: Owner) -> tuple[str, ...]:
    return owner.manager, owner.operation, owner.api_version, owner.subresource
