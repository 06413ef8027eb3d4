"""Validation of PersistentVolume.

Spec: core.md 2.11 "PersistentVolume", apiserver.md 13 (the PV rows); KEP-5721 for semver in nodeAffinity. Immutable
fields are reported without the `spec.` prefix; a volume has exactly one source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import IMMUTABLE, validate_object_meta, validate_object_meta_update
from weir.validate.core.persistent_volume_claim import POSITIVE, VOLUME_MODES, validate_access_modes
from weir.validate.core.resources import amount
from weir.validate.core.volume_plugins import azure_disk, fibre_channel, flex, iscsi, needs
from weir.validate.core.volumes import (
    ONE_TYPE,
    validate_csi_driver_name,
    validate_host_path,
    validate_nfs,
    validate_no_backsteps,
)
from weir.validate.gonames import diff, equal, go_struct
from weir.validate.ratchet import Options, volume_options
from weir.validate.selectors import validate_node_selector
from weir.values.names import check_dns1123_label, check_dns1123_subdomain

_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
AFFINITY_IMMUTABLE: Final = "field is immutable, except for updating from beta label to GA"
SOURCE_IMMUTABLE: Final = "spec.persistentvolumesource is immutable after creation"
LOCAL_NEEDS_AFFINITY: Final = "Local volume requires node affinity"
NO_CONSTRAINTS: Final = "must specify required node constraints"

#: Node labels whose beta name may be rewritten to the name they got when they became stable.
BETA_TO_STABLE: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def validate_persistent_volume(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a write of a PersistentVolume."""
    meta, spec = new.get("metadata") or {}, new.get("spec") or {}
    before = None if old is None else old.get("spec") or {}
    options = volume_options(context.gates, before, context.raw)
    if old is not None and context.subresource == "status":
        yield from validate_object_meta_update(meta, old.get("metadata") or {})
        return
    yield from validate_object_meta(meta, context)
    yield from _validate_spec(spec, options)
    if old is not None and before is not None:
        yield from _validate_update(spec, before, options)
        yield from validate_object_meta_update(meta, old.get("metadata") or {})


def _validate_spec(spec: Document, options: Options) -> Errors:
    modes, capacity = spec.get("accessModes") or [], spec.get("capacity") or {}
    yield from field.present("spec.accessModes", modes)
    yield from validate_access_modes(modes, "spec.accessModes")
    yield from field.present("spec.capacity", capacity)
    if list(capacity) != ["storage"]:
        shown: Any = {name: str(amount(capacity[name])) for name in sorted(capacity)}
        shown = None if spec.get("capacity") is None else shown
        yield field.not_supported("spec.capacity", shown, ("storage",))
    for name in sorted(capacity):
        at = f"spec.capacity[{name}]"
        if amount(capacity[name]).sign < 0:
            yield field.invalid(at, amount(capacity[name]).value, "must be a valid resource quantity")
        if amount(capacity[name]).sign <= 0:
            yield field.invalid(at, str(amount(capacity[name])), POSITIVE)
    policy = spec.get("persistentVolumeReclaimPolicy")
    yield from field.one_of("spec.persistentVolumeReclaimPolicy", policy or None, _RECLAIM_POLICIES)
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        yield from _validate_affinity(affinity, options)
    given = [name for name in _SOURCES if spec.get(name) is not None]
    for i, name in enumerate(given):
        if i:
            yield field.forbidden(f"spec.{name}", ONE_TYPE)
        elif check := _SOURCES[name]:
            yield from check(spec[name], f"spec.{_SPELLED.get(name, name)}")
    yield from field.present("spec", given, "must specify a volume type")
    if given[:1] == ["local"] and affinity is None:
        yield field.required("spec.nodeAffinity", LOCAL_NEEDS_AFFINITY)
    path = (spec.get("hostPath") or {}).get("path") or ""
    if path and not path.strip("/") and path.startswith("/") and policy == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        yield field.forbidden("spec.persistentVolumeReclaimPolicy", detail)
    yield from field.well_formed(
        "spec.storageClassName", spec.get("storageClassName") or None, check_dns1123_subdomain
    )
    yield from field.one_of("spec.volumeMode", spec.get("volumeMode"), VOLUME_MODES)
    if (attributes := spec.get("volumeAttributesClassName")) is not None:
        yield from field.required_well_formed(
            "spec.volumeAttributesClassName",
            attributes,
            check_dns1123_subdomain,
            "an empty string is disallowed",
        )
        if spec.get("csi") is None:
            yield field.required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _validate_affinity(affinity: Document, options: Options) -> Errors:
    if affinity.get("required") is None:
        yield field.required("spec.nodeAffinity.required", NO_CONSTRAINTS)
    else:
        yield from validate_node_selector(affinity["required"], "spec.nodeAffinity.required", options)


def _validate_local(source: Document, at: str) -> Errors:
    if path := source.get("path"):
        yield from validate_no_backsteps(path, f"{at}.path")
    else:
        yield field.required(f"{at}.path")


def _validate_csi(source: Document, at: str) -> Errors:
    yield from validate_csi_driver_name(source.get("driver") or "", f"{at}.driver")
    yield from field.present(f"{at}.volumeHandle", source.get("volumeHandle"))
    for name in (
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ):
        if (secret := source.get(name)) is not None:
            for member, check in (("name", check_dns1123_subdomain), ("namespace", check_dns1123_label)):
                yield from field.required_well_formed(f"{at}.{name}.{member}", secret.get(member), check)


#: where messages spell a source differently
_SPELLED: Final = {"gcePersistentDisk": "persistentDisk"}
#: Every source in the order the server looks at them, with what it checks of each.
_SOURCES: Final[dict[str, Callable[[Document, str], Errors] | None]] = {
    "hostPath": validate_host_path,
    "gcePersistentDisk": needs("pdName"),
    "awsElasticBlockStore": needs("volumeID"),
    "glusterfs": needs("endpoints", "path"),
    "flocker": None,
    "nfs": validate_nfs,
    "rbd": needs("monitors", "image"),
    "quobyte": needs("registry", "volume"),
    "cephfs": needs("monitors"),
    "iscsi": iscsi(for_volume=True),
    "cinder": needs("volumeID"),
    "fc": fibre_channel,
    "flexVolume": flex,
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": azure_disk,
    "scaleIO": needs("gateway", "system", "volumeName"),
    "local": _validate_local,
    "storageos": None,
    "csi": _validate_csi,
}


def _validate_update(new: Document, old: Document, options: Options) -> Errors:
    if not equal("PersistentVolumeSource", _source(old), _source(new)):
        changed = diff("PersistentVolumeSource", _source(old), _source(new))
        yield field.forbidden("spec.persistentvolumesource", f"{SOURCE_IMMUTABLE}\n{changed}")
    if (new.get("volumeMode") or "Filesystem") != (old.get("volumeMode") or "Filesystem"):
        yield field.invalid("volumeMode", Enum(new.get("volumeMode") or ""), IMMUTABLE)
    before, after = old.get("nodeAffinity"), new.get("nodeAffinity")
    if before is None or options.mutable_pv_affinity:
        return
    if after is None or not equal("VolumeNodeAffinity", _upgraded(before, after), after):
        yield field.invalid("nodeAffinity", go_struct("VolumeNodeAffinity", after), AFFINITY_IMMUTABLE)


def _source(spec: Document) -> Document:
    """Return the source of a volume without its secret references, which may change for CSI volumes."""
    return {name: spec[name] for name in _SOURCES if spec.get(name) is not None}


def _upgraded(old: Document, new: Document) -> Document:
    """Return *old* with each beta label key replaced where *new* has its stable twin at the same place."""
    later = _terms(new)
    terms = []
    for t, term in enumerate(_terms(old)):
        now = (later[t].get("matchExpressions") or []) if t < len(later) else []
        expressions = []
        for e, requirement in enumerate(term.get("matchExpressions") or ()):
            stable = BETA_TO_STABLE.get(requirement.get("key") or "")
            replaced = stable is not None and e < len(now) and now[e].get("key") == stable
            expressions.append({**requirement, "key": stable} if replaced else requirement)
        terms.append({**term, "matchExpressions": expressions})
    return (
        {**old, "required": {**old["required"], "nodeSelectorTerms": terms}} if old.get("required") else old
    )


def _terms(affinity: Document) -> list[Document]:
    terms: list[Document] = (affinity.get("required") or {}).get("nodeSelectorTerms") or []
    return terms
