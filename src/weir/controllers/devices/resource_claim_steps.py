"""What a pod still needs for its claims, and the steps of several calls that make, record and release them.

Spec: KEP-4381 "Resource claims of pods", dra.md 6.1 "Creating claims from templates", 6.2 "Releasing". A claim that its
pod no longer owns is replaced only when the pod needs another claim, too, as upstream does. The server generates the
claim's name, so the pod's status is written afterwards; the finalizer is removed from the object that the status write
returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weir import errors
from weir.client.api import APPLY_PATCH
from weir.client.cache import ObjectKey
from weir.client.events import ObjectReference
from weir.controllers.runtime.controller import ActionContext, Document, Patch, Steps
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.objects.kinds import PODS, RESOURCE_CLAIMS

POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
LONGEST_BASE: Final = 57  # the server appends five characters, and a label ends at 63
MOST_CONSUMERS: Final = 256


def claim_document(pod: Pod, pod_claim: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claim to be made from *template* for one entry of the pod's `resourceClaims`."""
    given = template["spec"].get("metadata") or {}
    metadata: dict[str, Any] = {
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


FIELD_MANAGER: Final = "ResourceClaimController"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
FAILED: Final = "FailedResourceClaimCreation"


@dataclass(frozen=True, slots=True)
class MissingClaim:
    """A claim that a pod lacks: the object to create and the pod's name for it."""

    pod_claim: str
    document: Document
    recorded: str = ""  #: the name in the pod's status; read live before another claim is created


@dataclass(frozen=True, slots=True)
class MakeClaims(Steps):
    """Create the claims a pod lacks, then write all their names into the pod's status."""

    pod: ObjectReference
    wanted: tuple[MissingClaim, ...]
    names: Mapping[str, str]  #: the names that are known already, by the pod's names for them

    async def carry_out(self, context: ActionContext) -> None:
        names = dict(self.names)
        for each in self.wanted:
            name = await self._recorded(each, context) or await self._create(each, context)
            names[each.pod_claim] = name
        statuses = [{"name": name, "resourceClaimName": names[name]} for name in sorted(names)]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.pod.name, "namespace": self.pod.namespace, "uid": self.pod.uid},
            "status": {"resourceClaimStatuses": statuses},
        }
        try:
            await context.client.patch(
                PODS,
                self.pod.name,
                pod,
                self.pod.namespace,
                patch_type=APPLY_PATCH,
                subresource="status",
                field_manager=FIELD_MANAGER,
                force=True,
                read=False,
            )
        except errors.NotFound:
            return  # the pod is gone; its claims follow it

    async def _recorded(self, each: MissingClaim, context: ActionContext) -> str:
        if not each.recorded:
            return ""
        found = await context.client.find(RESOURCE_CLAIMS, each.recorded, self.pod.namespace)
        owners = (found or {}).get("metadata", {}).get("ownerReferences") or ()
        owned = any(owner.get("controller") and owner["uid"] == self.pod.uid for owner in owners)
        return each.recorded if owned else ""

    async def _create(self, each: MissingClaim, context: ActionContext) -> str:
        labels = (str(requests_admin_access(each.document)).lower(), "", "Pod")
        try:
            made = await context.client.create(RESOURCE_CLAIMS, dict(each.document), self.pod.namespace)
        except errors.ApiError as error:
            context.metrics.claim_creates.child("failure", *labels).inc()
            # The generated name differs each time; without it, repeated events aggregate into one with a count.
            prefix = each.document["metadata"]["generateName"]
            text = re.sub(re.escape(prefix) + "[a-z0-9]{5}", prefix, str(error))
            message = f"PodResourceClaim {each.pod_claim}: create ResourceClaim : {text}"
            context.recorder.record(self.pod, "Warning", FAILED, message)
            raise
        context.metrics.claim_creates.child("success", *labels).inc()
        name: str = made["metadata"]["name"]
        context.made.append((RESOURCE_CLAIMS, ObjectKey(self.pod.namespace, name)))
        return name


@dataclass(frozen=True, slots=True)
class ReleaseClaim(Steps):
    """Take consumers out of a claim's reservations; when none is left, deallocate it and let it be deleted."""

    claim: Document
    kept: tuple[Mapping[str, Any], ...]
    #: reserved pods missing from the informer cache: read live, and removed if they are gone
    doubted: tuple[Mapping[str, Any], ...] = ()
    half_done: bool = False  #: it was deallocated before, and only the finalizer is left

    async def carry_out(self, context: ActionContext) -> None:
        metadata = self.claim["metadata"]
        kept = [entry for entry in self.kept if await self._still_there(entry, context)]
        present = self.claim.get("status") or {}
        status: dict[str, Any] = {}
        if len(kept) < len(present.get("reservedFor") or ()):
            status["reservedFor"] = kept or None
        protected = FINALIZER in (metadata.get("finalizers") or ())
        if not kept and protected and "allocation" in present:
            status["allocation"] = None
        version = metadata["resourceVersion"]
        try:
            if status:
                patch = {"metadata": {"resourceVersion": version}, "status": status}
                written = await self._patch(patch, context, "status")
                metadata, present = written["metadata"], written.get("status") or {}
            finalizers: Sequence[str] = metadata.get("finalizers") or ()
            let_go = bool(status) or self.half_done or bool(metadata.get("deletionTimestamp"))
            if let_go and not kept and FINALIZER in finalizers and not present.get("allocation"):
                rest = [each for each in finalizers if each != FINALIZER]
                await self._patch(
                    {
                        "metadata": {
                            "resourceVersion": metadata["resourceVersion"],
                            "finalizers": rest or None,
                        }
                    },
                    context,
                )
        except errors.NotFound:
            return

    async def _patch(
        self, patch: Mapping[str, Any], context: ActionContext, subresource: str = ""
    ) -> dict[str, Any]:
        metadata = self.claim["metadata"]
        return await context.client.patch(
            RESOURCE_CLAIMS, metadata["name"], dict(patch), metadata["namespace"], subresource=subresource
        )

    async def _still_there(self, entry: Mapping[str, Any], context: ActionContext) -> bool:
        if entry not in self.doubted:
            return True
        found = await context.client.find(PODS, entry["name"], self.claim["metadata"]["namespace"])
        return found is not None and found["metadata"]["uid"] == entry["uid"]


def requests_admin_access(claim: Mapping[str, Any]) -> bool:
    """Return whether a request of the claim wants adminAccess."""
    requests = ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    return any((request.get("exactly") or {}).get("adminAccess") for request in requests)
