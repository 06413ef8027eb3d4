"""May a container get its environment from here?

Spec: apiserver.md 13 (`env[j].name`). Names may hold any printable ASCII but `=`.
Not here: whether a referenced ConfigMap or Secret exists; nobody checks that on a write.
"""

from __future__ import annotations

import re
from typing import Final

from weir.validate.field import Document, Errors, each_invalid, invalid, not_supported, required
from weir.values.names import (
    check_config_key,
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
        name = variable.get("name") or ""
        if not name:
            yield required(f"{at}[{i}].name")
        elif messages := check_environment_name(name):
            yield from each_invalid(f"{at}[{i}].name", name, messages)
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
            if not reference.get("name"):
                yield required(f"{where}.name")
            if not reference.get("key"):
                yield required(f"{where}.key")
            else:
                yield from each_invalid(f"{where}.key", reference["key"], check_config_key(reference["key"]))
    if not sources:
        yield invalid(
            at,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        )
    elif has_value:
        yield invalid(at, "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield invalid(at, "", "may not have more than one field specified at a time")


def _validate_file_key(reference: Document, at: str) -> Errors:
    for name in ("volumeName", "path", "key"):
        if not reference.get(name):
            yield required(f"{at}.{name}")
    path = reference.get("path") or ""
    if path.startswith("/"):
        yield invalid(f"{at}.path", path, "must be a relative path")
    if ".." in path.split("/"):
        yield invalid(f"{at}.path", path, "must not contain '..'")
    if key := reference.get("key"):
        yield from each_invalid(f"{at}.key", key, check_environment_name(key))


def validate_field_ref(reference: Document, at: str, fields: tuple[str, ...]) -> Errors:
    """Yield what is wrong with a reference to a field of the pod; *fields* may be referred to here."""
    if "apiVersion" in reference and not reference["apiVersion"]:
        yield required(f"{at}.apiVersion")
        return
    path = reference.get("fieldPath") or ""
    if not path:
        yield required(f"{at}.fieldPath")
        return
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        where, key = subscript.groups()
        checked = key.lower() if where.endswith("annotations") else key
        yield from each_invalid(at, key, check_label_key(checked))
    elif path not in _KNOWN_LABELS:
        yield invalid(
            f"{at}.fieldPath", path, f"error converting fieldPath: field label not supported: {path}"
        )
    elif path not in fields:
        yield not_supported(f"{at}.fieldPath", path, sorted(fields))


def validate_resource_field_ref(reference: Document, at: str, *, needs_container: bool) -> Errors:
    """Yield what is wrong with a reference to a container's resource."""
    if needs_container and not reference.get("containerName"):
        yield required(f"{at}.containerName")
    elif not reference.get("resource"):
        yield required(f"{at}.resource")
    else:
        resource: str = reference["resource"]
        if resource not in _RESOURCES and not resource.startswith(
            ("limits.hugepages-", "requests.hugepages-")
        ):
            yield not_supported(f"{at}.resource", resource, _RESOURCES)


def validate_env_from(sources: list[Document], at: str) -> Errors:
    """Yield what is wrong with whole maps taken into the environment."""
    for i, source in enumerate(sources):
        if prefix := source.get("prefix"):
            yield from each_invalid(f"{at}[{i}].prefix", prefix, check_environment_name(prefix))
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            if not source[name].get("name"):
                yield required(f"{at}[{i}].{name}.name")
            elif messages := check_dns1123_subdomain(source[name]["name"]):
                yield from each_invalid(f"{at}[{i}].{name}.name", source[name]["name"], messages)
        if not given:
            yield invalid(f"{at}[{i}]", "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(f"{at}[{i}]", "", "may not have more than one field specified at a time")
