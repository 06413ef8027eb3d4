"""Validation of StorageClass, CSIDriver, CSINode, CSIStorageCapacity and VolumeAttachment.

Spec: apiserver.md 13 (StorageClass); upstream's rules for the other kinds of storage.k8s.io. A changed StorageClass
field prints no value.
"""

from __future__ import annotations

from typing import Any, Final

from weir.fields import field
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import IMMUTABLE, same, validate_meta
from weir.validate.core.resources import amount
from weir.validate.core.volumes import validate_csi_driver_name
from weir.validate.resource.device_names import validate_driver_reference
from weir.validate.selectors import validate_label_selector
from weir.values.names import (
    byte_length,
    check_dns1123_subdomain,
    check_label_key,
)

_RECLAIM_POLICIES: Final = ("Delete", "Retain")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_FS_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_PARAMETERS_MAX_BYTES: Final = 256 * 1024
_PARAMETERS_MAX: Final = 512
_ATTACHMENT_MESSAGE_MAX: Final = 1024


def validate_storage_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a StorageClass."""
    yield from validate_meta(new, old, context)
    provisioner = (new.get("provisioner") or "").lower()
    yield from field.well_formed("provisioner", provisioner or None, check_label_key)
    yield from _validate_parameters(new.get("parameters") or {}, "parameters")
    yield from field.one_of("reclaimPolicy", new.get("reclaimPolicy") or None, _RECLAIM_POLICIES)
    yield from field.one_of("volumeBindingMode", new.get("volumeBindingMode"), _BINDING_MODES)
    yield from _validate_topologies(new.get("allowedTopologies") or [], "allowedTopologies")
    yield from field.present("provisioner", provisioner)
    for name in (
        ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode") if old is not None else ()
    ):
        if (new.get(name) or None) != ((old or {}).get(name) or None):
            yield field.invalid(name, None, IMMUTABLE)


def _validate_parameters(parameters: Document, at: str) -> Errors:
    if len(parameters) > _PARAMETERS_MAX:
        yield field.too_long(at, _PARAMETERS_MAX)
        return
    total = 0
    for key in sorted(parameters):
        if not key:
            yield field.invalid(at, key, "field can not be empty.")
        total += byte_length(key) + byte_length(parameters[key])
    if total > _PARAMETERS_MAX_BYTES:
        yield field.too_long(at, _PARAMETERS_MAX_BYTES)


def _validate_topologies(topologies: list[Document], at: str) -> Errors:
    seen: list[Any] = [{}]  # a term without expressions says nothing a second time
    for t, term in enumerate(topologies):
        expressions = term.get("matchLabelExpressions") or []
        keys: set[str] = set()
        for e, requirement in enumerate(expressions):
            where = f"{at}[{t}].matchLabelExpressions[{e}]"
            values = requirement.get("values") or []
            yield from field.present(f"{where}.values", values)
            for v, value in enumerate(values):
                if value in values[:v]:
                    yield field.duplicate(f"{where}.values[{v}]", value)
            key = requirement.get("key") or ""
            yield from field.each_invalid(f"{where}.key", key, check_label_key(key))
            yield from field.unique(key, keys, f"{where}.key")
        shape = {requirement.get("key"): set(requirement.get("values") or ()) for requirement in expressions}
        if shape in seen:
            yield field.duplicate(f"{at}[{t}].matchLabelExpressions", "")
        seen.append(shape)


def validate_csi_driver(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a CSIDriver; most of its spec never changes."""
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    yield from validate_meta(new, old, context)
    if old is not None:
        # The path of the first is misspelt upstream.
        for name, path in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes",) * 2):
            if not same(spec.get(name), before.get(name)):
                yield field.invalid(f"spec.{path}", spec.get(name), IMMUTABLE)
    yield from field.one_of("spec.fsGroupPolicy", spec.get("fsGroupPolicy"), _FS_GROUP_POLICIES)
    audiences: set[str] = set()
    for i, request in enumerate(spec.get("tokenRequests") or ()):
        at, audience, seconds = (
            f"spec.tokenRequests[{i}]",
            request.get("audience") or "",
            request.get("expirationSeconds"),
        )
        yield from field.unique(audience, audiences, f"{at}.audience")
        yield from field.at_least(
            f"{at}.expirationSeconds", seconds, 600, "may not specify a duration less than 10 minutes"
        )
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        at = "spec.nodeAllocatableUpdatePeriodSeconds"
        yield field.invalid(at, period, "must be greater than or equal to 10 seconds")
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            yield field.not_supported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))


def validate_csi_node(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a CSINode: its drivers, unique by name."""
    yield from validate_meta(new, old, context)
    drivers = (new.get("spec") or {}).get("drivers") or []
    names: set[str] = set()
    for i, driver in enumerate(drivers):
        at, name = f"spec.drivers[{i}]", driver.get("name") or ""
        yield from validate_csi_driver_name(name, f"{at}.name")
        node_id = driver.get("nodeID") or ""
        if not node_id:
            yield field.required(f"{at}.nodeID")
        elif byte_length(node_id) > 256:
            yield field.invalid(f"{at}.nodeID", node_id, "nodeID must be 256 characters or less")
        keys: set[str] = set()
        for key in driver.get("topologyKeys") or ():
            yield from field.present(at, key)
            yield from field.unique(key, keys, at)
            yield from field.each_invalid(at, key, check_label_key(key))
        count = (driver.get("allocatable") or {}).get("count")
        yield from field.at_least(f"{at}.allocatable.count", count, 0, "must be greater than or equal to 0")
        yield from field.unique(name, names, f"{at}.name")
    before = {driver.get("name"): driver for driver in ((old or {}).get("spec") or {}).get("drivers") or ()}
    for driver in drivers:
        was = before.get(driver.get("name"))
        if was is not None and not same({**driver, "allocatable": None}, {**was, "allocatable": None}):
            yield field.invalid("spec.drivers", _go_driver(driver), IMMUTABLE)


def _go_driver(driver: Document) -> Document:
    """Return a driver as the server prints it; what may change was taken out before the comparison."""
    return {
        "Name": driver.get("name") or "",
        "NodeID": driver.get("nodeID") or "",
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": None,
    }


def validate_csi_storage_capacity(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a CSIStorageCapacity; its class and topology never change."""
    yield from validate_meta(new, old, context)
    if new.get("nodeTopology"):
        yield from validate_label_selector(new["nodeTopology"], "nodeTopology")
    name = new.get("storageClassName") or ""
    yield from field.each_invalid("storageClassName", name, check_dns1123_subdomain(name))
    if new.get("capacity") is not None and amount(new["capacity"]).sign < 0:
        yield field.invalid("capacity", str(amount(new["capacity"])), "must be greater than or equal to 0")
    if old is not None:
        for member in ("nodeTopology", "storageClassName"):
            if not same(new.get(member), old.get(member)):
                yield field.invalid(member, new.get(member), IMMUTABLE)


def validate_volume_attachment(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a VolumeAttachment; its spec never changes."""
    yield from validate_meta(new, old, context)
    spec = new.get("spec") or {}
    source = spec.get("source") or {}
    given = [name for name in ("persistentVolumeName", "inlineVolumeSpec") if source.get(name) is not None]
    if len(given) > 1:
        yield field.forbidden(
            "spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        )
    elif not given:
        yield field.required(
            "spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        )
    elif given == ["persistentVolumeName"]:
        name = source["persistentVolumeName"]
        yield from field.required_well_formed(
            "spec.source.persistentVolumeName",
            name,
            check_dns1123_subdomain,
            "must specify non empty persistentVolumeName",
        )
    node = spec.get("nodeName") or ""
    yield from field.each_invalid("spec.nodeName", node, check_dns1123_subdomain(node))
    for member in ("attachError", "detachError"):
        message = ((new.get("status") or {}).get(member) or {}).get("message") or ""
        yield from field.short_enough(f"status.{member}.message", message, _ATTACHMENT_MESSAGE_MAX)
    if old is None:
        yield from validate_driver_reference(spec.get("attacher") or "", "spec.attacher")
    elif not same(spec, old.get("spec")):
        yield field.invalid("spec", None, IMMUTABLE)
