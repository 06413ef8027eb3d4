"""Claims of a pod, with the reason why one cannot be used.

Spec: KEP-4381 "Resource claims of pods", dra.md 4.1 "Resolving a pod's claims", 1.11, D-18; the texts are upstream's.
A generated claim is found through the pod's status and must be owned by the pod; a status entry without a claim name
means that no claim is needed. Claims for extended resources are only in the pod's status, where the scheduler records
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weir.objects.core import Pod
from weir.objects.resource import ResourceClaim


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """One claim of a pod under the name the pod gives it; *problem* says why there is none to use."""

    name: str
    claim: ResourceClaim | None = None
    problem: str = ""


def claims_of(pod: Pod, claims: Mapping[str, ResourceClaim]) -> Iterator[ClaimUse]:
    """Return what each of the pod's claims resolves to; *claims* are by `namespace/name`.

    >>> from weir.objects.core import read
    >>> spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}
    >>> [use.problem for use in claims_of(read(Pod, {"metadata": {"name": "a"}, "spec": spec}), {})]
    ['could not find ResourceClaim "default/shared"']
    """
    namespace = pod.metadata.namespace or "default"
    statuses = {status.name: status for status in pod.status.resource_claim_statuses or ()}
    for entry in pod.spec.resource_claims or ():
        if entry.resource_claim_name is not None:
            yield _use(pod, entry.name, f"{namespace}/{entry.resource_claim_name}", claims, generated=False)
        elif entry.name not in statuses:
            yield ClaimUse(entry.name, None, f'pod "{pod.key}": ResourceClaim not created yet')
        elif (made := statuses[entry.name].resource_claim_name) is not None:
            yield _use(pod, entry.name, f"{namespace}/{made}", claims, generated=True)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        key = f"{namespace}/{extended.resource_claim_name}"
        yield _use(pod, extended.resource_claim_name, key, claims, generated=True)


def _use(pod: Pod, name: str, key: str, claims: Mapping[str, ResourceClaim], *, generated: bool) -> ClaimUse:
    claim = claims.get(key)
    if claim is None:
        return ClaimUse(name, None, f'could not find ResourceClaim "{key}"')
    if generated and not owned_by(claim, pod):
        problem = f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)"
        return ClaimUse(name, None, problem)
    if claim.metadata.deletion_timestamp is not None:
        return ClaimUse(name, claim, f'resourceclaim "{claim.metadata.name}" is being deleted')
    return ClaimUse(name, claim)


def claim_names(pod: Pod) -> list[str]:
    """Return the names of the claims the pod uses, as far as they are known: its own and those in its status.

    >>> from weir.objects.core import read
    >>> spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    >>> status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "a-gpu-x"}]}
    >>> claim_names(read(Pod, {"spec": spec})), claim_names(read(Pod, {"spec": spec, "status": status}))
    ([], ['a-gpu-x'])
    """
    statuses = {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses or ()}
    found: list[str] = []
    for entry in pod.spec.resource_claims or ():
        name = entry.resource_claim_name or statuses.get(entry.name)
        if name and name not in found:
            found.append(name)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        found.append(extended.resource_claim_name)
    return found


def owned_by(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether the pod controls the claim: the claim was made for it."""
    return any(
        owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references or ()
    )


def reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether the pod is among those the claim is reserved for."""
    return any(
        consumer.resource == "pods" and not consumer.api_group and consumer.uid == pod.metadata.uid
        for consumer in claim.status.reserved_for or ()
    )
