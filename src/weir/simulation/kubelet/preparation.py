"""Objects that a pod and its containers wait for: claims, volumes, ConfigMaps, Secrets and variables.

Spec: dra.md 11 "Simulated kubelet", KEP-5721 "PersistentVolume node affinity"; core/v1 EnvVarSource, EnvFromSource,
VolumeMount.subPathExpr; the texts are upstream's. A claim must list the pod in `reservedFor`, and the node affinity of
its volumes must select the node; until then the pod stays Pending and an event says why. A missing ConfigMap, Secret or
key, or an unusable sub-path, prevents the start of a container. Values that only a running container would see
(downward API, Services) are not computed.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from weir.devices.claims import claims_of, reserved_for
from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.resource import ResourceClaim
from weir.objects.volumes import PersistentVolume
from weir.selectors.node import volume_selects_node

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


CLAIMS_REASON: Final = "FailedPrepareDynamicResources"
_PREFIX: Final = "Failed to prepare dynamic resources: prepare dynamic resources: "
MOUNT_REASON: Final = "FailedMount"


def volume_claim_names(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the PersistentVolumeClaims of a pod, those of its ephemeral volumes too.

    >>> volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "t", "ephemeral": {}}]
    >>> list(volume_claim_names({"metadata": {"name": "p"}, "spec": {"volumes": volumes}}))
    ['data', 'p-t']
    """
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}"


def mount_problem(volume: PersistentVolume, labels: Mapping[str, str], gates: Gates) -> str:
    """Return why *volume* cannot be mounted on a node with *labels*, or ""."""
    if volume_selects_node(volume, labels, gates):
        return ""
    return (
        f'MountVolume.NodeAffinity check failed for volume "{volume.metadata.name}" '
        ": no matching NodeSelectorTerms"
    )


def resource_claim_names(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims that have to be asked for, as far as they are known.

    >>> from weir.objects.core import read
    >>> spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}
    >>> list(resource_claim_names(read(Pod, {"spec": spec})))
    ['shared']
    """
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    for entry in pod.spec.resource_claims or ():
        name = entry.resource_claim_name or made.get(entry.name)
        if name:
            yield name
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield extended.resource_claim_name


def unprepared(pod: Pod, claims: Mapping[str, ResourceClaim]) -> str:
    """Return why the pod cannot start yet, or ""; *claims* are by `namespace/name`."""
    for use in claims_of(pod, claims):
        if use.claim is None:
            return f"{_PREFIX}{use.problem}"
        if not reserved_for(use.claim, pod):
            mine, its = pod.metadata, use.claim.metadata
            return f"{_PREFIX}pod {mine.name} ({mine.uid}) is not allowed to use ResourceClaim {its.name} ({its.uid})"
    return ""
