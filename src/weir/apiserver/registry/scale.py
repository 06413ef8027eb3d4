"""Scale subresource: reading and writing a workload's replicas.

Spec: apiserver.md 12 "Subresources", 6 "managedFields". A write changes the workload's `spec.replicas`. The owner of
that field in the workload owns `spec.replicas` in the Scale, so applying a Scale conflicts with the workload's
applier. An entry that a Scale wrote has no time; an updating manager with more fields than the replicas has two
entries after another manager's write, because its entry in the Scale has another apiVersion.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from weir import errors
from weir.apiserver.patches import apply as server_side
from weir.apiserver.patches import fieldset
from weir.apiserver.patches.managedfields import (
    Entry,
    Managed,
    Owner,
    means_the_same,
    read_managed,
    write_managed,
    written,
)
from weir.apiserver.registry import codec
from weir.apiserver.registry.object_write import check_name, check_namespace, check_patched_identity, uid_text
from weir.apiserver.registry.patching import APPLY_PATCH, PATCHES, check_patched, patched
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_path import body_of
from weir.apiserver.registry.write_request import WriteRequest, WriteResult
from weir.apiserver.transport.bodies import media_type
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.options import WriteOptions
from weir.compat.customresources.field_paths import find_at
from weir.compat.customresources.served import CustomResourceKind
from weir.fields.field import invalid
from weir.objects.kind import Document, Kind
from weir.objects.kinds import by_kind
from weir.selectors import labels
from weir.values.quoting import quote

# ── scale documents: made from a workload, and applied to it ──
# Spec: apiserver.md 12 "Subresources". For custom resources the definition gives the paths of the counts.


SCALE = by_kind("autoscaling/v1", "Scale")


def scale_of(kind: Kind, workload: Document) -> Document:
    """Return the Scale of a workload."""
    if isinstance(kind, CustomResourceKind):
        return _custom_scale(kind, workload)
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    status: Document = {"replicas": (workload.get("status") or {}).get("replicas", 0)}
    selector = spec.get("selector")
    if kind.kind == "ReplicationController":
        selector = {"matchLabels": selector} if selector else None
    text = str(labels.from_object(selector) or "")
    if text:
        status["selector"] = text
    return _shown(metadata, spec.get("replicas"), status)


def _shown(metadata: Document, replicas: int | None, status: Document) -> Document:
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in names if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _custom_scale(kind: CustomResourceKind, found: Document) -> Document:
    """Return the Scale of a custom resource, whose definition says where the counts stand."""
    paths = kind.says.scale
    replicas, selector = find_at(found, paths.get("statusReplicasPath") or ""), ""
    if paths.get("labelSelectorPath"):
        selector = find_at(found, paths["labelSelectorPath"])
    status: Document = {"replicas": replicas if isinstance(replicas, int) else 0}
    if isinstance(selector, str) and selector:
        status["selector"] = selector
    return _shown(found["metadata"], replicas_of(kind, found), status)


def scaled(kind: Kind, old: Document, replicas: int) -> Document:
    """Return *old* with as many replicas."""
    new = {**old, "metadata": dict(old["metadata"])}
    if not isinstance(kind, CustomResourceKind):
        return {**new, "spec": {**old["spec"], "replicas": replicas}}
    inside = new
    *way, last = path_of(kind).removeprefix(".").split(".")
    for name in way:
        inside[name] = dict(inside.get(name) or {})
        inside = inside[name]
    inside[last] = replicas
    return new


def path_of(kind: CustomResourceKind) -> str:
    """Return where the definition says that the wanted replicas stand."""
    return kind.says.scale.get("specReplicasPath") or ""


def replicas_of(kind: CustomResourceKind, workload: Document) -> int | None:
    """Return how many replicas a custom resource wants, None when it does not say."""
    found = find_at(workload, path_of(kind))
    return found if isinstance(found, int) else None


# ── scale subresource: reading and writing a workload's replicas ──


REPLICAS: fieldset.FieldSet = {"f:spec": {"f:replicas": {}}}


class Scales:
    """The verbs of the subresource scale."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def get(self, kind: Kind, namespace: str, name: str) -> WriteResult:
        """Return the Scale of a workload."""
        workload = codec.decode(kind, (await self._verbs.read(kind, namespace, name)).value)
        if isinstance(kind, CustomResourceKind) and replicas_of(kind, workload) is None:
            raise errors.InternalError(
                f"Internal error occurred: the spec replicas field {quote(path_of(kind))} does not exist",
                details={
                    "causes": [{"message": f"the spec replicas field {quote(path_of(kind))} does not exist"}]
                },
                reason="InternalError",
            )
        return WriteResult(200, body_of(scale_of(kind, workload)))

    async def set(
        self, request: Request, kind: Kind, namespace: str, name: str, warnings: list[str]
    ) -> WriteResult:
        """Change the replicas of a workload by PUT or PATCH of its Scale."""
        patching, media = request.method == "PATCH", media_type(request)
        if patching and media not in PATCHES:
            raise errors.UnsupportedMediaType("415: Unsupported Media Type", details={})
        applying = patching and media == APPLY_PATCH
        options_kind = "PatchOptions" if patching else "UpdateOptions"
        options = WriteOptions.parse(request.params, options_kind, apply=applying)
        write = WriteRequest.of(request, kind, namespace, name, "scale", options, warnings)
        write.options, write.owned = {"kind": options_kind, **options.document}, True
        sent: Document = {}
        if not patching:
            sent = await self._verbs.decode(request, SCALE, options.field_validation, warnings)
            check_namespace(kind, sent.setdefault("metadata", {}), namespace)
            check_name(sent["metadata"], name)

        def wanted(current: Document) -> Document:
            """Return the Scale the request makes of *current*, its owners included."""
            now = self._verbs.now
            if applying:
                new = server_side.apply_configuration(
                    current,
                    server_side.parse(request.body),
                    SCALE,
                    manager=write.manager,
                    force=options.force,
                    subresource="scale",
                    now=now,
                )
                check_patched_identity(new, kind, namespace, name)
                return new
            if patching:
                new, found = check_patched(
                    patched(media, current, request.body, SCALE), SCALE, options.field_validation
                )
                warnings.extend(found)
                check_patched_identity(new, kind, namespace, name)
            else:
                new = {**sent, "metadata": dict(sent["metadata"])}
            server_side.update_managed_fields(
                new, current, SCALE, manager=write.manager, subresource="scale", now=now
            )
            return new

        def compute(old: Document) -> Document:
            was, managed = old["metadata"], read_managed(old["metadata"].get("managedFields")) or {}
            uid = sent.get("metadata", {}).get("uid")
            if uid and uid != was["uid"]:
                raise errors.Conflict.object(kind, name, uid_text(kind.key(namespace, name), uid, was["uid"]))
            current = scale_of(kind, old)
            write_managed(current, owners_in_scale(managed, kind))
            scale = wanted(current)
            replicas = (scale.get("spec") or {}).get("replicas", 0)
            if replicas < 0 and not isinstance(kind, CustomResourceKind):
                problem = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
                raise errors.Invalid.of("autoscaling", "Scale", name, [problem])
            metadata = scale["metadata"]
            if metadata.get("uid") not in (None, "", was["uid"]):
                raise _other_object(kind, name, metadata["uid"], was["uid"])
            new = scaled(kind, old, replicas)
            version = metadata.get("resourceVersion")
            if not version or (patching and version == was["resourceVersion"]):
                new["metadata"].pop("resourceVersion")
            else:
                new["metadata"]["resourceVersion"] = version
            owned = owners_in_workload(managed, read_managed(metadata.get("managedFields")) or {}, kind)
            new["metadata"].pop("managedFields", None)
            if entries := written(owned):
                new["metadata"]["managedFields"] = entries
            return new

        outcome = await self._verbs.change(write, compute)
        return WriteResult(outcome.code, body_of(scale_of(kind, msgspec.json.decode(outcome.body))))


def _replicas_fields(kind: Kind) -> fieldset.FieldSet:
    """Return where the replicas of a workload stand, as a set of fields."""
    if not isinstance(kind, CustomResourceKind):
        return REPLICAS
    found: fieldset.FieldSet = {}
    for name in reversed(path_of(kind).removeprefix(".").split(".")):
        found = {f"f:{name}": found}
    return found


def _other_object(kind: Kind, name: str, given: str, uid: str) -> errors.Conflict:
    resource = f"{kind.plural}/scale"
    qualified = f"{resource}.{kind.group}" if kind.group else resource
    text = f"Precondition failed: UID in precondition: {given}, UID in object meta: {uid}"
    details = {"name": name, **({"group": kind.group} if kind.group else {}), "kind": resource}
    return errors.Conflict(f'Operation cannot be fulfilled on {qualified} "{name}": {text}', details=details)


def owners_in_scale(managed: Managed, kind: Kind) -> Managed:
    """Return who owns the replicas of a workload, as owners of its Scale."""
    return {
        Owner(owner.manager, owner.operation, SCALE.api_version, owner.subresource): Entry(
            REPLICAS, entry.time
        )
        for owner, entry in managed.items()
        if means_the_same(owner.api_version, kind.api_version) and _has_replicas(entry, kind)
    }


def owners_in_workload(managed: Managed, in_scale: Managed, kind: Kind) -> Iterable[tuple[Owner, Entry]]:
    """Return the owners of a workload's fields after its Scale got the owners *in_scale*."""
    left = {owner: entry for owner, entry in in_scale.items() if _has_replicas(entry)}
    result: list[tuple[Owner, Entry]] = []
    for owner, entry in managed.items():
        if not means_the_same(owner.api_version, kind.api_version):
            continue
        same = Owner(owner.manager, "Apply", SCALE.api_version, owner.subresource)
        if not _has_replicas(entry, kind):
            result.append((owner, entry))
        elif owner.operation == "Apply" and same in left:  # only appliers are known without their apiVersion
            del left[same]
            result.append((owner, entry))
        elif rest := fieldset.difference(entry.fields, _replicas_fields(kind)):
            result.append((owner, Entry(rest, entry.time)))
    for owner in left:
        known = Owner(owner.manager, owner.operation, kind.api_version, owner.subresource)
        result.append((known, Entry(_replicas_fields(kind), "")))
    return result


def _has_replicas(entry: Entry, kind: Kind | None = None) -> bool:
    wanted = REPLICAS if kind is None else _replicas_fields(kind)
    fields = entry.fields
    while wanted:
        (name,) = wanted
        if name not in fields:
            return False
        fields, wanted = fields[name], wanted[name]
    return True
