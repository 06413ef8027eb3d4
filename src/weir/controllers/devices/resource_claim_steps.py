"""Multi-call steps of a claim: create it and record its name in the pod's status; release it.

Spec: dra.md 6.1 "Creating claims from templates", 6.2 "Releasing". The server generates the claim's name, so the
pod's status is written afterwards; the finalizer is removed from the object that the status write returned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weir import errors
from weir.client.api import APPLY_PATCH
from weir.client.cache import ObjectKey
from weir.client.events import ObjectReference
from weir.controllers.runtime.actions import ActionContext, Document, Steps
from weir.objects.kinds import PODS, RESOURCE_CLAIMS

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
