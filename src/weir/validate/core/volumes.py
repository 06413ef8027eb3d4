"""Validation of pod volumes.

Spec: apiserver.md 13 (`spec.volumes[i]`, `volumeMounts[j].name`, hostPath). A volume has one source; without any it
is an emptyDir. A volume with an error cannot be mounted either, so its mounts report `Not found` too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weir.validate.core.environment import VOLUME_FIELDS, validate_field_ref, validate_resource_field_ref
from weir.validate.core.persistent_volume_claim import validate_claim_spec
from weir.validate.core.projected_certificates import (
    certificate_paths,
    validate_pod_certificate,
    validate_trust_source,
)
from weir.validate.core.resources import amount
from weir.validate.core.volume_plugins import azure_disk, fibre_channel, flex, iscsi, needs
from weir.validate.field import (
    TOO_LONG,
    Document,
    Errors,
    FieldError,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from weir.validate.meta import validate_template_meta
from weir.values.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
)

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
                invalid(f"{where}.name", name, f'PVC name "{claim}": {message}')
                for message in check_dns1123_subdomain(claim)
            ]
        if not name:
            found.append(required(f"{where}.name"))
        elif messages := check_dns1123_label(name):
            found.extend(each_invalid(f"{where}.name", name, messages))
        if name in sound:
            found.append(duplicate(f"{where}.name", name))
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
            yield forbidden(f"{at}.{_SPELLED_EXTRA.get(name, name)}", ONE_TYPE)
        elif check := _SOURCES[name]:
            yield from check(volume[name], f"{at}.{_SPELLED.get(name, name)}")


def validate_no_backsteps(path: str, at: str) -> Errors:
    """Yield that a path climbs."""
    if ".." in path.split("/"):
        yield invalid(at, path, NO_BACKSTEPS)


def validate_local_path(path: str, at: str) -> Errors:
    """Yield what is wrong with a path that must stay inside its volume."""
    if path.startswith("/"):
        yield invalid(at, path, "must be a relative path")
    yield from validate_no_backsteps(path, at)


def _validate_inner_file(path: str, at: str) -> Errors:
    """Yield what is wrong with a path that the kubelet writes beside its own `..` entries."""
    yield from validate_local_path(path, at)
    if path.startswith("..") and not path.startswith("../") and path != "..":
        yield invalid(at, path, "must not start with '..'")


def validate_host_path(source: Document, at: str) -> Errors:
    """Yield what is wrong with a path of the node."""
    if path := source.get("path"):
        yield from validate_no_backsteps(path, f"{at}.path")
    else:
        yield required(f"{at}.path")
        return
    if (kind := source.get("type")) is not None and kind not in HOST_PATH_TYPES:
        yield not_supported(f"{at}.type", kind, HOST_PATH_TYPES)


def validate_nfs(source: Document, at: str) -> Errors:
    """Yield what is wrong with an NFS share."""
    if not source.get("server"):
        yield required(f"{at}.server")
    path = source.get("path") or ""
    if not path:
        yield required(f"{at}.path")
    if not path.startswith("/"):
        yield invalid(f"{at}.path", path, "must be an absolute path")


def _validate_empty_dir(source: Document, at: str) -> Errors:
    limit = source.get("sizeLimit")
    if limit is not None and amount(limit).sign < 0:
        yield forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _validate_mode(mode: Any, at: str) -> Errors:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(at, mode, FILE_MODE)


def _validate_items(items: list[Document] | None, at: str) -> Errors:
    for i, item in enumerate(items or ()):
        if not item.get("key"):
            yield required(f"{at}[{i}].key")
        if not item.get("path"):
            yield required(f"{at}[{i}].path")
        else:
            yield from _validate_inner_file(item["path"], f"{at}[{i}].path")
        yield from _validate_mode(item.get("mode"), f"{at}[{i}].mode")


def _validate_secret(source: Document, at: str) -> Errors:
    if not source.get("secretName"):
        yield required(f"{at}.secretName")
    yield from _validate_mode(source.get("defaultMode"), f"{at}.defaultMode")
    yield from _validate_items(source.get("items"), f"{at}.items")


def _validate_config_map(source: Document, at: str) -> Errors:
    if not source.get("name"):
        yield required(f"{at}.name")
    yield from _validate_mode(source.get("defaultMode"), f"{at}.defaultMode")
    yield from _validate_items(source.get("items"), f"{at}.items")


def _validate_claim(source: Document, at: str) -> Errors:
    if not source.get("claimName"):
        yield required(f"{at}.claimName")


def _validate_downward(source: Document, at: str) -> Errors:
    yield from _validate_mode(source.get("defaultMode"), f"{at}.defaultMode")
    yield from _validate_downward_items(source.get("items"), at)


def _validate_downward_items(items: list[Document] | None, at: str) -> Errors:
    for item in items or ():
        path = item.get("path") or ""
        if not path:
            yield required(f"{at}.path")
        yield from _validate_inner_file(path, f"{at}.path")
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            yield from validate_field_ref(field, f"{at}.fieldRef", VOLUME_FIELDS)
            if resource is not None:
                yield invalid(
                    at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"
                )
        elif resource is not None:
            yield from validate_resource_field_ref(resource, f"{at}.resourceFieldRef", needs_container=True)
        else:
            yield required(at, "one of fieldRef and resourceFieldRef is required")
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
                if not part.get("name"):
                    yield required(f"{where}.{name}.name")
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
                for field, path in certificate_paths(part):
                    yield from _validate_file(path, f"{where}.{name}.{field}", paths, at)
        if len(given) > 1:
            yield forbidden(where, ONE_TYPE + " per source")


def _validate_paths_apart(part: Document, paths: set[str], at: str, shown: str | None = None) -> Errors:
    """Yield the files that another source of the volume also writes, and note the others in *paths*."""
    for item in part.get("items") or ():
        path = item.get("path") or ""
        if path and path in paths:
            yield invalid(at, path if shown is None else shown, "conflicting duplicate paths")
        paths.add(path)


def _validate_file(path: str, where: str, paths: set[str], at: str) -> Errors:
    """Yield what is wrong with one file of a source, and note it in *paths*."""
    yield from _validate_inner_file(path, where)
    if path in paths:
        yield invalid(at, path, "conflicting duplicate paths")
    paths.add(path)


def _validate_token(source: Document, at: str, projected: str) -> Errors:
    at += ".serviceAccountToken"
    seconds = source.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        yield invalid(f"{at}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > 1 << 32:
        yield invalid(
            f"{at}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
        )
    # The path alone is reported without the place of the source.
    if not source.get("path"):
        yield required(f"{projected}.path")
    else:
        yield from _validate_inner_file(source["path"], f"{projected}.path")


def validate_csi_driver_name(name: str, at: str) -> Errors:
    """Yield what is wrong with the name of a CSI driver."""
    if not name:
        yield required(at)
        return
    if len(name) > 63:
        yield FieldError(TOO_LONG, at, "", "may not be more than 63 characters")
    yield from each_invalid(at, name, check_dns1123_subdomain(name.lower()))


def _validate_csi(source: Document, at: str) -> Errors:
    yield from validate_csi_driver_name(source.get("driver") or "", f"{at}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is not None:
        if not secret.get("name"):
            yield required(f"{at}.nodePublishSecretRef.name")
        else:
            yield from each_invalid(f"{at}.name", secret["name"], check_dns1123_subdomain(secret["name"]))


def _validate_ephemeral(source: Document, at: str) -> Errors:
    if source.get("volumeClaimTemplate") is None:
        yield required(f"{at}.volumeClaimTemplate")
        return
    yield from validate_template_meta(
        source["volumeClaimTemplate"].get("metadata") or {}, f"{at}.volumeClaimTemplate.metadata"
    )
    yield from validate_claim_spec(
        source["volumeClaimTemplate"].get("spec") or {}, f"{at}.volumeClaimTemplate.spec"
    )


def _validate_git(source: Document, at: str) -> Errors:
    if not source.get("repository"):
        yield required(f"{at}.repository")
    yield from validate_local_path(source.get("directory") or "", f"{at}.directory")


def _validate_image(source: Document, at: str) -> Errors:
    if not source.get("reference"):
        yield required(f"{at}.reference")
    if (policy := source.get("pullPolicy") or "") not in ("", *PULL_POLICIES):
        yield not_supported(f"{at}.pullPolicy", policy, PULL_POLICIES)


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
    "persistentVolumeClaim": _validate_claim,
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
