"""Validation of container environment: `env` and `envFrom`.

Spec: apiserver.md 13 (`env[j].name`). Names may hold any printable ASCII but `=`. Whether a referenced ConfigMap or
Secret exists is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from weir.fields import field
from weir.fields.field import Document, Errors
from weir.validate.core.resources import amount
from weir.values.names import (
    check_config_key,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_environment_name,
    check_label_key,
)

_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_RESOURCES: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_KNOWN_LABELS: Final = frozenset(
    {*_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_SUBSCRIPT: Final = re.compile(r"(metadata\.(?:annotations|labels))\['(.*)'\]", re.DOTALL)
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def validate_env(variables: list[Document], at: str) -> Errors:
    """Yield what is wrong with the variables of a container."""
    for i, variable in enumerate(variables):
        yield from field.required_well_formed(
            f"{at}[{i}].name", variable.get("name") or "", check_environment_name
        )
        if (source := variable.get("valueFrom")) is not None:
            yield from _validate_value_from(source, bool(variable.get("value")), f"{at}[{i}].valueFrom")


def _validate_value_from(source: Document, has_value: bool, at: str) -> Errors:
    sources = [name for name in _SOURCES if source.get(name) is not None]
    for name in sources:
        where, reference = f"{at}.{name}", source[name]
        if name == "fieldRef":
            yield from validate_field_ref(reference, where, _FIELDS)
        elif name == "resourceFieldRef":
            yield from validate_resource_field_ref(reference, where, needs_container=False)
        elif name == "fileKeyRef":
            yield from _validate_file_key(reference, where)
        else:
            referred = reference.get("name") or ""
            yield from field.each_invalid(f"{where}.name", referred, check_dns1123_subdomain(referred))
            if not reference.get("key"):
                yield field.required(f"{where}.key")
            else:
                yield from field.each_invalid(
                    f"{where}.key", reference["key"], check_config_key(reference["key"])
                )
    if not sources:
        yield field.invalid(
            at,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        )
    elif has_value:
        yield field.invalid(at, "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield field.invalid(at, "", "may not have more than one field specified at a time")


def _validate_file_key(reference: Document, at: str) -> Errors:
    yield from field.present(f"{at}.key", reference.get("key"))
    yield from field.required_well_formed(
        f"{at}.volumeName", reference.get("volumeName") or "", check_dns1123_label
    )
    yield from field.present(f"{at}.path", reference.get("path"))
    path = reference.get("path") or ""
    if path.startswith("/"):
        yield field.invalid(f"{at}.path", path, "must be a relative path")
    if ".." in path.split("/"):
        yield field.invalid(f"{at}.path", path, "must not contain '..'")
    yield from field.well_formed(f"{at}.key", reference.get("key") or None, check_environment_name)


def validate_file_volumes(spec: Document, at: str, volumes: Collection[str]) -> Errors:
    """Yield files of volumes the pod does not have; the server looks for them when all else was checked."""
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for c, container in enumerate(spec.get(name) or ()):
            for v, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if reference is not None and (reference.get("volumeName") or "") not in volumes:
                    where = f"{at}.{name}[{c}].env[{v}].valueFrom.fileKeyRef.volumeName"
                    yield field.not_found(where, reference.get("volumeName") or "")


_DIVISORS: Final = {
    "cpu": ("1m", "1"),
    "memory": ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"),
}


def _validate_divisor(reference: Document, at: str) -> Errors:
    divisor, resource = reference.get("divisor"), str(reference["resource"])
    if divisor is None or not amount(divisor).sign:
        return
    kind = resource.rpartition(".")[2]
    allowed = _DIVISORS.get(kind, _DIVISORS["memory"])
    if str(amount(divisor)) not in allowed:
        listed = "1m and 1" if kind == "cpu" else ", ".join(allowed)
        what = (
            "hugepages"
            if kind.startswith("hugepages-")
            else {"ephemeral-storage": "local ephemeral storage"}.get(kind, kind)
        )
        detail = f"only divisor's values {listed} are supported with the {what} resource"
        yield field.invalid(f"{at}.divisor", resource, detail)


def validate_field_ref(reference: Document, at: str, fields: tuple[str, ...]) -> Errors:
    """Yield what is wrong with a reference to a field of the pod; *fields* may be referred to here."""
    if "apiVersion" in reference and not reference["apiVersion"]:
        yield field.required(f"{at}.apiVersion")
        return
    path = reference.get("fieldPath") or ""
    if not path:
        yield field.required(f"{at}.fieldPath")
        return
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        where, key = subscript.groups()
        checked = key.lower() if where.endswith("annotations") else key
        yield from field.each_invalid(at, key, check_label_key(checked))
    elif path not in _KNOWN_LABELS:
        yield field.invalid(
            f"{at}.fieldPath", path, f"error converting fieldPath: field label not supported: {path}"
        )
    elif path not in fields:
        yield field.not_supported(f"{at}.fieldPath", path, sorted(fields))


def validate_resource_field_ref(reference: Document, at: str, *, needs_container: bool) -> Errors:
    """Yield what is wrong with a reference to a container's resource."""
    if needs_container and not reference.get("containerName"):
        yield field.required(f"{at}.containerName")
    elif not reference.get("resource"):
        yield field.required(f"{at}.resource")
    else:
        resource: str = reference["resource"]
        if resource not in _RESOURCES and not resource.startswith(
            ("limits.hugepages-", "requests.hugepages-")
        ):
            yield field.not_supported(f"{at}.resource", resource, _RESOURCES)
        else:
            yield from _validate_divisor(reference, at)


def validate_env_from(sources: list[Document], at: str) -> Errors:
    """Yield what is wrong with whole maps taken into the environment."""
    for i, source in enumerate(sources):
        yield from field.well_formed(
            f"{at}[{i}].prefix", source.get("prefix") or None, check_environment_name
        )
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            if not source[name].get("name"):
                yield field.required(f"{at}[{i}].{name}.name")
            elif messages := check_dns1123_subdomain(source[name]["name"]):
                yield from field.each_invalid(f"{at}[{i}].{name}.name", source[name]["name"], messages)
        if not given:
            yield field.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield field.invalid(at, "", "may not have more than one field specified at a time")
