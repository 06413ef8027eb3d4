"""Validation of pod volumes.

Spec: apiserver.md 13 (`spec.volumes[i]`, `volumeMounts[j].name`, hostPath). A volume has one source; without any it
is an emptyDir. A volume with an error cannot be mounted either, so its mounts report `Not found` too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from weir.fields import field
from weir.fields.field import Document, Errors, FieldError
from weir.fields.meta import validate_template_meta
from weir.validate.certificates import is_kubernetes_signer, validate_signer_name
from weir.validate.certificates.cluster_trust_bundle import check_bundle_name
from weir.validate.certificates.pod_certificate_request import (
    KUBERNETES_MAX_SECONDS,
    MAX_SECONDS,
    MIN_SECONDS,
)
from weir.validate.core.environment import VOLUME_FIELDS, validate_field_ref, validate_resource_field_ref
from weir.validate.core.persistent_volume_claim import validate_claim_spec
from weir.validate.core.resources import amount
from weir.validate.core.volume_plugins import azure_disk, fibre_channel, flex, iscsi, needs
from weir.validate.gonames import go_struct
from weir.validate.selectors import validate_label_selector
from weir.values.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
)

_KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_PATHS: Final = ("credentialBundlePath", "keyPath", "certificateChainPath")


def validate_pod_certificate(source: Document, at: str) -> Errors:
    """Yield errors in a podCertificate source, except in its paths."""
    signer = source.get("signerName") or ""
    yield from validate_signer_name(signer, f"{at}.signerName")
    yield from field.one_of(f"{at}.keyType", source.get("keyType") or "", _KEY_TYPES)
    seconds = source.get("maxExpirationSeconds")
    if seconds is not None:
        where, most = f"{at}.maxExpirationSeconds", MAX_SECONDS
        if is_kubernetes_signer(signer):
            most = KUBERNETES_MAX_SECONDS
        if seconds < MIN_SECONDS:
            yield field.invalid(where, seconds, f"if provided, maxExpirationSeconds must be >= {MIN_SECONDS}")
        if seconds > most:
            yield field.invalid(where, seconds, f"if provided, maxExpirationSeconds must be <= {most}")
    if not any(source.get(name) for name in _PATHS):
        yield field.required(
            at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        )


def certificate_paths(source: Document) -> Iterator[tuple[str, str]]:
    """Yield the fields that name a file, with the file."""
    for name in _PATHS:
        if source.get(name):
            yield name, source[name]


def validate_trust_source(source: Document, at: str) -> Errors:
    """Yield errors in a clusterTrustBundle source, except in the form of its path."""
    name, signer, selector = source.get("name"), source.get("signerName"), source.get("labelSelector")
    if name is not None and signer is not None:
        shown = go_struct("ClusterTrustBundleProjection", source)
        yield field.invalid(at, shown, "only one of name and signerName may be used")
    elif name is not None:
        yield from field.present(f"{at}.name", name, "must be a valid object name")
        for message in check_bundle_name(_signer_of(name), name):
            yield field.invalid(f"{at}.name", name, f"not a valid clustertrustbundlename: {message}")
        if selector is not None:
            yield field.invalid(
                f"{at}.labelSelector", selector, "labelSelector must be unset if name is specified"
            )
    elif signer is not None:
        yield from field.present(f"{at}.signerName", signer, "must be a valid signer name")
        yield from validate_signer_name(signer, f"{at}.signerName")
        if selector is not None:
            yield from validate_label_selector(selector, f"{at}.labelSelector")
    else:
        yield field.required(at, "either name or signerName must be specified")
    yield from field.present(f"{at}.path", source.get("path"))


def _signer_of(name: str) -> str:
    """Return the signer that the name of a bundle carries.

    >>> _signer_of("example.com:web:one"), _signer_of("one")
    ('example.com/web', '')
    """
    signer, colon, _ = name.rpartition(":")
    return signer.replace(":", "/") if colon else ""


PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
ONE_TYPE: Final = "may not specify more than 1 volume type"
NO_BACKSTEPS: Final = "must not contain '..'"
FILE_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip


def validate_volumes(
    volumes: list[Document], at: str, pod_name: str = ""
) -> tuple[dict[str, Document], list[FieldError]]:
    """Return the volumes that can be mounted, by name, and what is wrong with the others.

    The claim of an ephemeral volume is named after the pod, so its name is checked with the pod's.
    """
    sound: dict[str, Document] = {}
    errors: list[FieldError] = []
    for i, volume in enumerate(volumes):
        where = f"{at}[{i}]"
        found = list(_validate_source(volume, where))
        name = volume.get("name") or ""
        if volume.get("ephemeral") is not None and pod_name and name:
            claim = f"{pod_name}-{name}"
            found += [
                field.invalid(f"{where}.name", name, f'PVC name "{claim}": {message}')
                for message in check_dns1123_subdomain(claim)
            ]
        if not name:
            found.append(field.required(f"{where}.name"))
        elif messages := check_dns1123_label(name):
            found.extend(field.each_invalid(f"{where}.name", name, messages))
        if name in sound:
            found.append(field.duplicate(f"{where}.name", name))
        if found:
            errors.extend(found)
        else:
            sound[name] = volume
    return sound, errors


#: Where messages spell a source differently from the field: as one too many, and as the place of its own errors.
_SPELLED_EXTRA: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_SPELLED: Final = {"gcePersistentDisk": "persistentDisk"}


def _validate_source(volume: Document, at: str) -> Errors:
    given = [name for name in _SOURCES if volume.get(name) is not None]
    for i, name in enumerate(given):
        if i:
            yield field.forbidden(f"{at}.{_SPELLED_EXTRA.get(name, name)}", ONE_TYPE)
        elif check := _SOURCES[name]:
            yield from check(volume[name], f"{at}.{_SPELLED.get(name, name)}")


def validate_no_backsteps(path: str, at: str) -> Errors:
    """Yield that a path climbs."""
    if ".." in path.split("/"):
        yield field.invalid(at, path, NO_BACKSTEPS)


def validate_local_path(path: str, at: str) -> Errors:
    """Yield what is wrong with a path that must stay inside its volume."""
    if path.startswith("/"):
        yield field.invalid(at, path, "must be a relative path")
    yield from validate_no_backsteps(path, at)


def _validate_inner_file(path: str, at: str) -> Errors:
    """Yield what is wrong with a path that the kubelet writes beside its own `..` entries."""
    yield from validate_local_path(path, at)
    if path.startswith("..") and not path.startswith("../") and path != "..":
        yield field.invalid(at, path, "must not start with '..'")


def validate_host_path(source: Document, at: str) -> Errors:
    """Yield what is wrong with a path of the node."""
    if path := source.get("path"):
        yield from validate_no_backsteps(path, f"{at}.path")
    else:
        yield field.required(f"{at}.path")
        return
    yield from field.one_of(f"{at}.type", source.get("type"), HOST_PATH_TYPES)


def validate_nfs(source: Document, at: str) -> Errors:
    """Yield what is wrong with an NFS share."""
    yield from field.present(f"{at}.server", source.get("server"))
    path = source.get("path") or ""
    yield from field.present(f"{at}.path", path)
    if not path.startswith("/"):
        yield field.invalid(f"{at}.path", path, "must be an absolute path")


def _validate_empty_dir(source: Document, at: str) -> Errors:
    limit = source.get("sizeLimit")
    if limit is not None and amount(limit).sign < 0:
        yield field.forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _validate_mode(mode: Any, at: str) -> Errors:
    yield from field.in_range(at, mode, 0, 0o777, FILE_MODE)


def _validate_items(items: list[Document] | None, at: str) -> Errors:
    for i, item in enumerate(items or ()):
        yield from field.present(f"{at}[{i}].key", item.get("key"))
        if not item.get("path"):
            yield field.required(f"{at}[{i}].path")
        else:
            yield from _validate_inner_file(item["path"], f"{at}[{i}].path")
        yield from _validate_mode(item.get("mode"), f"{at}[{i}].mode")


def _validate_secret(source: Document, at: str) -> Errors:
    yield from field.present(f"{at}.secretName", source.get("secretName"))
    yield from _validate_mode(source.get("defaultMode"), f"{at}.defaultMode")
    yield from _validate_items(source.get("items"), f"{at}.items")


def _validate_config_map(source: Document, at: str) -> Errors:
    yield from field.present(f"{at}.name", source.get("name"))
    yield from _validate_mode(source.get("defaultMode"), f"{at}.defaultMode")
    yield from _validate_items(source.get("items"), f"{at}.items")


def _validate_downward(source: Document, at: str) -> Errors:
    yield from _validate_mode(source.get("defaultMode"), f"{at}.defaultMode")
    yield from _validate_downward_items(source.get("items"), at)


def _validate_downward_items(items: list[Document] | None, at: str) -> Errors:
    for item in items or ():
        path = item.get("path") or ""
        yield from field.present(f"{at}.path", path)
        yield from _validate_inner_file(path, f"{at}.path")
        member, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if member is not None:
            yield from validate_field_ref(member, f"{at}.fieldRef", VOLUME_FIELDS)
            if resource is not None:
                yield field.invalid(
                    at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"
                )
        elif resource is not None:
            yield from validate_resource_field_ref(resource, f"{at}.resourceFieldRef", needs_container=True)
        else:
            yield field.required(at, "one of fieldRef and resourceFieldRef is required")
        yield from _validate_mode(item.get("mode"), f"{at}.mode")


_PROJECTIONS: Final = (
    "secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate",
)  # fmt: skip


def _validate_projected(source: Document, at: str) -> Errors:
    yield from _validate_mode(source.get("defaultMode"), f"{at}.defaultMode")
    paths: set[str] = set()
    for i, projection in enumerate(source.get("sources") or ()):
        where = f"{at}.sources[{i}]"
        given = [name for name in _PROJECTIONS if projection.get(name) is not None]
        for name in given:
            part = projection[name]
            if name in ("secret", "configMap"):
                yield from field.present(f"{where}.{name}.name", part.get("name"))
                yield from _validate_items(part.get("items"), f"{where}.{name}.items")
                yield from _validate_paths_apart(part, paths, at, part.get("name") or "")
            elif name == "downwardAPI":
                yield from _validate_downward_items(part.get("items"), f"{where}.downwardAPI")
                yield from _validate_paths_apart(part, paths, at)
            elif name == "serviceAccountToken":
                yield from _validate_token(part, where, at)
            elif name == "clusterTrustBundle":
                yield from validate_trust_source(part, f"{where}.{name}")
                yield from _validate_file(part.get("path") or "", f"{where}.{name}.path", paths, at)
            else:
                yield from validate_pod_certificate(part, f"{where}.{name}")
                for member, path in certificate_paths(part):
                    yield from _validate_file(path, f"{where}.{name}.{member}", paths, at)
        if len(given) > 1:
            yield field.forbidden(where, ONE_TYPE + " per source")


def _validate_paths_apart(part: Document, paths: set[str], at: str, shown: str | None = None) -> Errors:
    """Yield the files that another source of the volume also writes, and note the others in *paths*."""
    for item in part.get("items") or ():
        path = item.get("path") or ""
        if path and path in paths:
            yield field.invalid(at, path if shown is None else shown, "conflicting duplicate paths")
        paths.add(path)


def _validate_file(path: str, where: str, paths: set[str], at: str) -> Errors:
    """Yield what is wrong with one file of a source, and note it in *paths*."""
    yield from _validate_inner_file(path, where)
    if path in paths:
        yield field.invalid(at, path, "conflicting duplicate paths")
    paths.add(path)


def _validate_token(source: Document, at: str, projected: str) -> Errors:
    at += ".serviceAccountToken"
    seconds = source.get("expirationSeconds")
    yield from field.at_least(
        f"{at}.expirationSeconds", seconds, 600, "may not specify a duration less than 10 minutes"
    )
    if seconds is not None and seconds > 1 << 32:
        yield field.invalid(
            f"{at}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
        )
    # The path alone is reported without the place of the source.
    if not source.get("path"):
        yield field.required(f"{projected}.path")
    else:
        yield from _validate_inner_file(source["path"], f"{projected}.path")


def validate_csi_driver_name(name: str, at: str) -> Errors:
    """Yield what is wrong with the name of a CSI driver."""
    if not name:
        yield field.required(at)
        return
    if len(name) > 63:
        yield FieldError(field.TOO_LONG, at, "", "may not be more than 63 characters")
    yield from field.each_invalid(at, name, check_dns1123_subdomain(name.lower()))


def _validate_csi(source: Document, at: str) -> Errors:
    yield from validate_csi_driver_name(source.get("driver") or "", f"{at}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is not None:
        if not secret.get("name"):
            yield field.required(f"{at}.nodePublishSecretRef.name")
        else:
            yield from field.each_invalid(
                f"{at}.name", secret["name"], check_dns1123_subdomain(secret["name"])
            )


def _validate_ephemeral(source: Document, at: str) -> Errors:
    if source.get("volumeClaimTemplate") is None:
        yield field.required(f"{at}.volumeClaimTemplate")
        return
    yield from validate_template_meta(
        source["volumeClaimTemplate"].get("metadata") or {}, f"{at}.volumeClaimTemplate.metadata"
    )
    yield from validate_claim_spec(
        source["volumeClaimTemplate"].get("spec") or {}, f"{at}.volumeClaimTemplate.spec"
    )


def _validate_git(source: Document, at: str) -> Errors:
    yield from field.present(f"{at}.repository", source.get("repository"))
    yield from validate_local_path(source.get("directory") or "", f"{at}.directory")


def _validate_image(source: Document, at: str) -> Errors:
    yield from field.present(f"{at}.reference", source.get("reference"))
    if (policy := source.get("pullPolicy") or "") not in ("", *PULL_POLICIES):
        yield field.not_supported(f"{at}.pullPolicy", policy, PULL_POLICIES)


#: Every volume source in the order the server looks at them, with what it checks of each.
_SOURCES: Final[dict[str, Callable[[Document, str], Errors] | None]] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": validate_host_path,
    "gitRepo": _validate_git,
    "gcePersistentDisk": needs("pdName"),
    "awsElasticBlockStore": needs("volumeID"),
    "secret": _validate_secret,
    "nfs": validate_nfs,
    "iscsi": iscsi(for_volume=False),
    "glusterfs": needs("endpoints", "path"),
    "flocker": None,
    "persistentVolumeClaim": needs("claimName"),
    "rbd": needs("monitors", "image"),
    "cinder": needs("volumeID"),
    "cephfs": needs("monitors"),
    "quobyte": needs("registry", "volume"),
    "downwardAPI": _validate_downward,
    "fc": fibre_channel,
    "flexVolume": flex,
    "configMap": _validate_config_map,
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": azure_disk,
    "storageos": None,
    "projected": _validate_projected,
    "scaleIO": needs("gateway", "system", "volumeName"),
    "csi": _validate_csi,
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}
