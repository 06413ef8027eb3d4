"""ConfigMaps, Secrets and variables that the containers of a pod cannot be created without.

Spec: core/v1 EnvVarSource, EnvFromSource, VolumeMount.subPathExpr. A missing ConfigMap, Secret or key, or an unusable
sub-path, prevents the start, with the kubelet's messages. Values that only a running container would see (downward
API, Services) are not computed.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Document = Mapping[str, Any]
#: The ConfigMaps and Secrets that a pod refers to, by kind and name; None: there is none.
Objects = Mapping[tuple[str, str], Document | None]
_VARIABLE: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_ALL_KEYS: Final = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))
_ONE_KEY: Final = (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"))
_ALWAYS_SET: Final = ("PATH", "HOSTNAME", "HOME")
_SOME_VALUE: Final = "-"  # of a variable whose value is not computed


class Missing(Exception):
    """Something that a container cannot be created without."""


def references(pod: Document) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the ConfigMaps and Secrets that the variables of a pod's containers come from."""
    spec = pod["spec"]
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            for source in container.get("envFrom") or ():
                for field, kind in _ALL_KEYS:
                    if field in source:
                        yield kind, source[field].get("name", "")
            for variable in container.get("env") or ():
                for field, kind in _ONE_KEY:
                    if reference := (variable.get("valueFrom") or {}).get(field):
                        yield kind, reference.get("name", "")


def check(pod: Document, container: Document, objects: Objects) -> None:
    """Raise Missing, in the kubelet's words, when a container of the pod cannot be created."""
    variables = _variables(pod, container, objects)
    for mount in container.get("volumeMounts") or ():
        _check_sub_path(mount, variables)


def _variables(pod: Document, container: Document, objects: Objects) -> dict[str, str]:
    variables = dict.fromkeys(_ALWAYS_SET, _SOME_VALUE)
    for source in container.get("envFrom") or ():
        for field, kind in _ALL_KEYS:
            if field in source:
                prefix, data = source.get("prefix", ""), _data(kind, source[field], objects)
                variables.update({f"{prefix}{key}": text for key, text in data.items()})
    for variable in container.get("env") or ():
        name, source = variable["name"], variable.get("valueFrom")
        value: str | None = _expand(variable.get("value") or "", variables) if not source else _SOME_VALUE
        for field, kind in _ONE_KEY:
            if reference := (source or {}).get(field):
                value = _data(kind, reference, objects).get(reference["key"])
                if value is None and not reference.get("optional"):
                    where = f"{kind} {pod['metadata']['namespace']}/{reference.get('name', '')}"
                    raise Missing(f"couldn't find key {reference['key']} in {where}")
        if value is not None:
            variables[name] = value
    return variables


def _data(kind: str, reference: Document, objects: Objects) -> dict[str, str]:
    """Return the keys and texts of a ConfigMap or Secret, none of an optional one that is missing."""
    name = reference.get("name", "")
    document = objects.get((kind, name))
    if document is None:
        if reference.get("optional"):
            return {}
        raise Missing(f'{kind.lower()} "{name}" not found')
    encoded = document.get("data" if kind == "Secret" else "binaryData") or {}
    plain = {} if kind == "Secret" else document.get("data") or {}
    return {
        **plain,
        **{key: base64.b64decode(text).decode("utf-8", "replace") for key, text in encoded.items()},
    }


def _check_sub_path(mount: Document, variables: Mapping[str, str]) -> None:
    path = str(mount.get("subPath") or "")
    if expression := mount.get("subPathExpr"):
        path = _expand(expression, variables)
        names = [match[1] for match in _VARIABLE.finditer(expression) if match[1]]
        if unset := [name for name in names if name not in variables and not _of_a_service(name)]:
            raise Missing("missing value for " + ", ".join(f'"{name}"' for name in unset))
    if path.startswith("/"):
        raise Missing(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise Missing(f"unable to provision SubPath `{path}`: must not contain '..'")


def _of_a_service(name: str) -> bool:
    return "_SERVICE_" in name or "_PORT" in name


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with `$(NAME)` replaced; what names no variable stays.

    >>> _expand("$(A)-$(B)-$$(A)", {"A": "1"})
    '1-$(B)-$(A)'
    """
    return _VARIABLE.sub(lambda match: "$" if match[0] == "$$" else variables.get(match[1], match[0]), text)
