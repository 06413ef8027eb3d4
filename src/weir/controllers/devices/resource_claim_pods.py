"""What a pod still needs for its claims: generated claims, and reservations once it has a node.

Spec: KEP-4381 "Resource claims of pods", dra.md 6.1 "Creating claims from templates". A claim that its pod no longer
owns is replaced only when the pod needs another claim, too, as upstream does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from weir.controllers.runtime.actions import Patch
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.objects.kinds import RESOURCE_CLAIMS

Document = dict[str, Any]

POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
LONGEST_BASE: Final = 57  # the server appends five characters, and a label ends at 63
MOST_CONSUMERS: Final = 256


def claim_document(pod: Pod, pod_claim: str, template: Mapping[str, Any]) -> Document:
    """Return the claim to be made from *template* for one entry of the pod's `resourceClaims`."""
    given = template["spec"].get("metadata") or {}
    metadata: Document = {
        "generateName": generate_name(pod.metadata.name, pod_claim),
        "namespace": pod.metadata.namespace,
        "annotations": {**(given.get("annotations") or {}), POD_CLAIM: pod_claim},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.metadata.name,
                "uid": pod.metadata.uid,
                "controller": True,
            }
        ],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": metadata,
        "spec": template["spec"].get("spec") or {},
    }


def generate_name(pod: str, pod_claim: str) -> str:
    """Return the beginning of a claim's name; when too long, both parts give way by their length.

    >>> generate_name("web-0", "gpu"), len(generate_name("w" * 60, "gpu"))
    ('web-0-gpu-', 55)
    """
    whole = f"{pod}-{pod_claim}-"
    if len(whole) <= LONGEST_BASE:
        return whole
    shorter = pod[: len(pod) * LONGEST_BASE // len(whole)]
    return f"{shorter}-{pod_claim[: len(pod_claim) * LONGEST_BASE // len(whole)]}"


def recorded_claims(pod: Pod) -> dict[str, str | None]:
    """Return what the pod's status says about its claims; a name with None needs no claim."""
    return {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses or ()}


def lacks_claim(
    pod: Pod, pod_claim: str, template: str | None, recorded: Mapping[str, str | None], listers: Listers
) -> bool:
    """Return whether a claim has to be made, or found again, for one entry of the pod's `resourceClaims`."""
    if not template:
        return False
    if pod_claim not in recorded:
        return True
    name = recorded[pod_claim]
    if name is None:
        return False
    claim = listers.get(RESOURCE_CLAIMS, name, pod.metadata.namespace)
    return claim is None or not is_owned(claim, pod)


def claim_made_before(pod: Pod, pod_claim: str, listers: Listers) -> str | None:
    """Return a claim that was made for this entry, if the pod's status names none or another one."""
    for claim in listers.owned(RESOURCE_CLAIMS, pod.metadata.uid):
        metadata = claim["metadata"]
        if (metadata.get("annotations") or {}).get(POD_CLAIM) == pod_claim and is_owned(claim, pod):
            name: str = metadata["name"]
            return name
    return None


def needs_work(pod: Pod, listers: Listers) -> bool:
    """Return whether the pod lacks a claim or a reservation; a claim it no longer owns is not missed by itself."""
    if pod.deleting or pod.terminated:
        return False
    recorded = recorded_claims(pod)
    for entry in pod.spec.resource_claims or ():
        if not entry.resource_claim_template_name:
            continue
        name = recorded.get(entry.name, "")
        if name is not None and (
            not name or listers.get(RESOURCE_CLAIMS, name, pod.metadata.namespace) is None
        ):
            return True
    return bool(pod.spec.node_name) and any(True for _ in missing_reservations(pod, listers))


def missing_reservations(pod: Pod, listers: Listers) -> Iterator[Patch]:
    """Yield the reservations that a pod lacks which got its node without the scheduler."""
    recorded = recorded_claims(pod)
    for entry in pod.spec.resource_claims or ():
        name = entry.resource_claim_name or recorded.get(entry.name)
        claim = listers.get(RESOURCE_CLAIMS, name, pod.metadata.namespace) if name else None
        if claim is None or (not entry.resource_claim_name and not is_owned(claim, pod)):
            continue
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        if (
            status.get("allocation") is None
            or any(consumer["uid"] == pod.metadata.uid for consumer in reserved)
            or len(reserved) >= MOST_CONSUMERS
            or claim["metadata"].get("deletionTimestamp")
        ):
            continue
        consumer = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        version = claim["metadata"]["resourceVersion"]
        patch = {
            "metadata": {"resourceVersion": version},
            "status": {"reservedFor": [*reserved, consumer]},
        }
        yield Patch(
            RESOURCE_CLAIMS, claim["metadata"]["name"], pod.metadata.namespace, patch, subresource="status"
        )


def owning_pod(claim: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the owner reference of the pod that the claim was made for."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("apiVersion") == "v1" and owner.get("kind") == "Pod":
            found: Mapping[str, Any] = owner
            return found
    return None


def is_owned(claim: Mapping[str, Any], pod: Pod) -> bool:
    """Return whether the claim was made for this very pod."""
    owner = owning_pod(claim)
    return owner is not None and owner["uid"] == pod.metadata.uid
