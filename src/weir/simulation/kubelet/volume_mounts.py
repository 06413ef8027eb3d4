"""Volume mount check of the kubelet: node affinity of PersistentVolumes.

Spec: KEP-5721 "PersistentVolume node affinity"; the texts are upstream's. Until every volume is usable on the node,
the pod stays Pending and an event says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from weir.gates import Gates
from weir.objects.volumes import PersistentVolume
from weir.selectors.node import volume_selects_node

REASON: Final = "FailedMount"


def claim_names(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the PersistentVolumeClaims of a pod, those of its ephemeral volumes too.

    >>> volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "t", "ephemeral": {}}]
    >>> list(claim_names({"metadata": {"name": "p"}, "spec": {"volumes": volumes}}))
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
