"""Resource claims and volumes that a pod waits for before its containers start.

Spec: dra.md 11 "Simulated kubelet", KEP-5721 "PersistentVolume node affinity"; the texts are upstream's. A claim must
list the pod in `reservedFor`, and the node affinity of its volumes must select the node; until then the pod stays
Pending and an event says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from weir.devices.claims import claims_of, reserved_for
from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.resource import ResourceClaim
from weir.objects.volumes import PersistentVolume
from weir.selectors.node import volume_selects_node

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
