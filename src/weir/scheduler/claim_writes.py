"""API writes for reserved devices: finalizer, allocation and reservation of claims, and their rollback.

Spec: dra.md 4.2 "PreBind", "PostFilter", "Unreserve". A write that conflicts with another client's (labels, drivers'
statuses) is retried on the new version, unless it no longer applies.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from weir.client.api import STRATEGIC_MERGE_PATCH, Client, Unreachable
from weir.clock import Clock
from weir.devices.claims import reserved_for
from weir.errors import Conflict, InternalError, NotFound, ServiceUnavailable, Timeout, WeirError
from weir.objects.core import read
from weir.objects.kinds import PODS, RESOURCE_CLAIMS
from weir.objects.resource import ResourceClaim
from weir.objects.times import format_time
from weir.scheduler.claims import EXTENDED_CLAIM, Claims
from weir.scheduler.framework import PluginError
from weir.scheduler.plugins.claim_reservation import FINALIZER, ClaimBinding, ClaimReservation, Extended
from weir.scheduler.plugins.extended_resources import claim_document

DEALLOCATED: Final = "deallocation of ResourceClaim completed"
DELETED: Final = "deletion of ResourceClaim completed"
_TRIES: Final = 5
_AGAIN_SECONDS: Final = 0.01
#: A write of which no answer came may have been made: devices are not given away before that is known.
_DOUBTS: Final = 10
_LONGEST_DOUBT_SECONDS: Final = 4.0

Document = dict[str, Any]


async def reserve_claims(promise: ClaimReservation, client: Client, clock: Clock) -> None:
    """Write what was promised; raises PluginError when it no longer holds or cannot be written."""
    if promise.extended is not None:
        promise.made(await _create(promise, promise.extended, client))
    for binding in promise.bindings:
        conflicts = doubts = 0
        while True:
            try:
                if conflicts or doubts:
                    await clock.sleep(min(_AGAIN_SECONDS * 2**doubts, _LONGEST_DOUBT_SECONDS))
                    binding.claim = await _read_again(binding.claim, client)
                await _reserve(promise, binding, client, clock)
                break
            except Conflict as conflict:
                conflicts += 1
                if conflicts == _TRIES:
                    raise PluginError(f"{_doing(binding)}: {conflict}") from conflict
            except (Unreachable, InternalError, Timeout, ServiceUnavailable) as error:
                doubts += 1
                if doubts == _DOUBTS:
                    raise PluginError(f"{_doing(binding)}: {error}") from error
    if promise.extended is not None:
        await _record_claim_in_pod(promise, promise.extended, client)


async def _create(promise: ClaimReservation, extended: Extended, client: Client) -> ResourceClaim:
    """Create the claim that stands for the pod's extended resources."""
    document = claim_document(promise.pod, extended.requests)
    namespace = document["metadata"]["namespace"]
    try:
        return read(ResourceClaim, await client.create(RESOURCE_CLAIMS, document, namespace))
    except (WeirError, OSError, TimeoutError) as error:
        raise PluginError(f"create claim for extended resources {namespace}/: {error}") from error


async def _record_claim_in_pod(promise: ClaimReservation, extended: Extended, client: Client) -> None:
    """Say in the pod's status which request of which claim serves which container."""
    metadata = promise.pod.metadata
    assert extended.written is not None
    status = {
        "extendedResourceClaimStatus": {
            "requestMappings": extended.mappings,
            "resourceClaimName": extended.written.metadata.name,
        }
    }
    patch = {"metadata": {"uid": metadata.uid}, "status": status}
    try:
        await client.patch(PODS, metadata.name, patch, metadata.namespace, subresource="status")
    except (WeirError, OSError, TimeoutError) as error:
        raise PluginError(f"update pod {promise.pod.key} ExtendedResourceClaimStatus: {error}") from error


async def _reserve(promise: ClaimReservation, binding: ClaimBinding, client: Client, clock: Clock) -> None:
    if reserved_for(binding.claim, promise.pod):  # written, but the answer got lost
        promise.wrote(binding, binding.claim)
        return
    binding.check()
    finalizer = binding.finalizer()
    if finalizer is not None:
        binding.claim = await _patch(
            binding.claim, finalizer, client, f"add finalizer to claim {binding.claim.key}"
        )
    status = binding.status(promise.pod, format_time(clock.now()) if promise.stamped else None)
    written = await _patch(binding.claim, status, client, _doing(binding), subresource="status")
    promise.wrote(binding, written)


def _doing(binding: ClaimBinding) -> str:
    what = "allocation and reservation" if binding.allocation is not None else "reservation"
    return f"add {what} to claim {binding.claim.key}"


async def _read_again(claim: ResourceClaim, client: Client) -> ResourceClaim:
    try:
        found = await client.get(RESOURCE_CLAIMS, claim.metadata.name, claim.metadata.namespace)
    except (Unreachable, InternalError, Timeout, ServiceUnavailable):
        raise
    except (WeirError, OSError, TimeoutError) as error:
        raise PluginError(f"get updated claim {claim.key} after conflict: {error}") from error
    return read(ResourceClaim, found)


async def _patch(
    claim: ResourceClaim, patch: Document, client: Client, doing: str, subresource: str = ""
) -> ResourceClaim:
    try:
        return await client.patch(
            RESOURCE_CLAIMS,
            claim.metadata.name,
            patch,
            claim.metadata.namespace,
            subresource=subresource,
            into=ResourceClaim,
        )
    except (Conflict, Unreachable, InternalError, Timeout, ServiceUnavailable):
        raise
    except (WeirError, OSError, TimeoutError, msgspec.ValidationError) as error:
        raise PluginError(f"{doing}: {error}") from error


async def deallocate(claim: ResourceClaim, claims: Claims, client: Client) -> str:
    """Free a claim that keeps its pod from every node (PostFilter); return what was done, "" when nothing was."""
    if (claim.metadata.annotations or {}).get(EXTENDED_CLAIM) == "true":
        return DELETED if await _delete(claim, client) else ""
    return DEALLOCATED if await _deallocate(claim, claims, client) else ""


async def _delete(claim: ResourceClaim, client: Client) -> bool:
    """Delete a claim that was made for extended resources, finalizer and all."""
    try:
        finalizers = [each for each in claim.metadata.finalizers or () if each != FINALIZER]
        if len(finalizers) != len(claim.metadata.finalizers or ()):
            patch = {"metadata": {"uid": claim.metadata.uid, "finalizers": finalizers or None}}
            await client.patch(RESOURCE_CLAIMS, claim.metadata.name, patch, claim.metadata.namespace)
        await client.delete(RESOURCE_CLAIMS, claim.metadata.name, claim.metadata.namespace)
    except NotFound:
        return True
    except (WeirError, OSError, TimeoutError):
        return False
    return True


async def _deallocate(claim: ResourceClaim, claims: Claims, client: Client) -> bool:
    metadata = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
    status = {"allocation": None, "reservedFor": None, "devices": None}
    try:
        answer = await client.patch(
            RESOURCE_CLAIMS,
            claim.metadata.name,
            {"metadata": metadata, "status": status},
            claim.metadata.namespace,
            subresource="status",
        )
    except (WeirError, OSError, TimeoutError):
        return False  # another client was faster, or the next attempt gets through
    claims.put_claim(read(ResourceClaim, answer))
    return True


async def unreserve(promise: ClaimReservation, client: Client, clock: Clock) -> None:
    """Take the pod out of the claims that were reserved for it and were not used after all."""
    if promise.extended is not None and promise.extended.written is not None:
        await _delete(promise.bindings[-1].claim, client)
    for claim in promise.reserved():
        entry = {"$patch": "delete", "uid": promise.pod.metadata.uid}
        patch = {"metadata": {"uid": claim.metadata.uid}, "status": {"reservedFor": [entry]}}
        try:
            answer = await client.patch(
                RESOURCE_CLAIMS,
                claim.metadata.name,
                patch,
                claim.metadata.namespace,
                patch_type=STRATEGIC_MERGE_PATCH,
                subresource="status",
            )
        except (Unreachable, InternalError, Timeout, ServiceUnavailable):
            # The pod must not be bound relying on a reservation that may be gone.
            found = await _look_up(claim, client, clock)
            if found is not None:
                promise.claims.put_claim(found)
            continue
        except (WeirError, OSError, TimeoutError):
            continue  # the claim is gone, or the next attempt of the pod finds it reserved
        promise.claims.put_claim(read(ResourceClaim, answer))


async def _look_up(claim: ResourceClaim, client: Client, clock: Clock) -> ResourceClaim | None:
    """Return the claim as it is, however long that takes within reason; None when it cannot be found out."""
    for doubts in range(_DOUBTS):
        try:
            return await _read_again(claim, client)
        except PluginError:
            return None
        except (Unreachable, InternalError, Timeout, ServiceUnavailable):
            await clock.sleep(min(_AGAIN_SECONDS * 2**doubts, _LONGEST_DOUBT_SECONDS))
    return None
