"""Claims and devices of a World for the scheduler's engine.

Spec: dra.md 4 (DynamicResources). A pod that was not created yet has no claims; those of its templates are used
instead. Without a clock, now is when the last taint in the World was added.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from weir.devices.eviction import moment
from weir.explain.storage import UNBORN
from weir.gates import Gates
from weir.objects.core import OwnerReference, Pod, PodResourceClaimStatus
from weir.objects.resource import ClaimMeta, ResourceClaim
from weir.scheduler.claim_reasons import DeviceClaimUnusable
from weir.scheduler.claims import Claims
from weir.taints.toleration import EVICTING, tolerates
from weir.world import World


def considered(world: World, gates: Gates) -> bool:
    """Return whether *world* says enough about devices to judge claims."""
    return world.knows("DeviceClass", "ResourceSlice", "ResourceClaim") and gates.enabled(
        "DynamicResourceAllocation"
    )


def claims_in(world: World, gates: Gates) -> Claims:
    """Return the claims and devices of *world* as the scheduler would count them."""
    last = _last_taint(world)
    claims = Claims(gates, lambda: last)
    for device_class in world.device_classes.values():
        claims.put_class(device_class)
    for rule in world.device_taint_rules.values():
        claims.put_rule(rule)
    for resource_slice in world.resource_slices.values():
        claims.put_slice(resource_slice)
    for key, claim in world.resource_claims.items():
        claims.put_claim(_named(claim, key))
    return claims


def _named(claim: ResourceClaim, key: str) -> ResourceClaim:
    """Return a claim that may be written by hand with what a stored one has: namespace and UID."""
    metadata = msgspec.structs.replace(
        claim.metadata, namespace=claim.metadata.namespace or "default", uid=claim.metadata.uid or key
    )
    return msgspec.structs.replace(claim, metadata=metadata)


def _last_taint(world: World) -> datetime:
    times = [rule.spec.taint.time_added for rule in world.device_taint_rules.values()]
    for resource_slice in world.resource_slices.values():
        times += [
            taint.time_added for device in resource_slice.spec.devices or () for taint in device.taints or ()
        ]
        times += [entry.taint.time_added for entry in resource_slice.spec.taints or ()]
    return max(
        (at for text in times if (at := moment(text)) is not None), default=datetime(1970, 1, 1, tzinfo=UTC)
    )


def born(pod: Pod, world: World, claims: Claims) -> Pod:
    """Return *pod* as it would be once the claims of its templates are made, which are then among *claims*."""
    statuses = {status.name for status in pod.status.resource_claim_statuses or ()}
    open_entries = [
        entry
        for entry in pod.spec.resource_claims or ()
        if entry.resource_claim_name is None and entry.name not in statuses
    ]
    if not open_entries:
        return pod
    namespace = pod.metadata.namespace or "default"
    metadata = msgspec.structs.replace(pod.metadata, uid=pod.metadata.uid or UNBORN)
    made: list[PodResourceClaimStatus] = []
    for entry in open_entries:
        template = world.resource_claim_templates.get(f"{namespace}/{entry.resource_claim_template_name}")
        if template is None:
            continue
        name = f"{pod.metadata.name}-{entry.name}"
        owner = OwnerReference(kind="Pod", name=pod.metadata.name, uid=metadata.uid, controller=True)
        about = ClaimMeta(
            name=name, namespace=namespace, uid=f"{namespace}/{name}", owner_references=(owner,)
        )
        claims.put_claim(ResourceClaim(metadata=about, spec=template.spec.spec))
        made.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=name))
    status = msgspec.structs.replace(
        pod.status, resource_claim_statuses=(*(pod.status.resource_claim_statuses or ()), *made)
    )
    return msgspec.structs.replace(pod, metadata=metadata, status=status)


def evicted_at_once(claim: ResourceClaim, claims: Claims, gates: Gates) -> Iterator[str]:
    """Yield the taints of a claim's devices because of which its pod is deleted as soon as it runs.

    Kubernetes' device-taint-eviction reads only tolerations that name the effect NoExecute; weir's own reads those
    without an effect as well (dra.md D-07).
    """
    for result in claim.results:
        for tracked in claims.tracker.taints_on(result.id):
            taint = tracked.plain
            if taint.effect not in EVICTING:
                continue
            tolerating = [one for one in result.tolerations or () if tolerates(one, taint, gates)]
            if not any(one.effect in EVICTING or one.expression for one in tolerating):
                yield (
                    f"deleted at once by device-taint-eviction: {tracked.taint} of {result.id} is tolerated, but not "
                    "for the effect NoExecute by name"
                )


def missing(pod: Pod, world: World, problem: str) -> DeviceClaimUnusable:
    """Return why the claims of *pod* cannot be used, with what is missing."""
    namespace = pod.metadata.namespace or "default"
    absent = [
        entry.resource_claim_template_name
        for entry in pod.spec.resource_claims or ()
        if entry.resource_claim_template_name is not None
        and f"{namespace}/{entry.resource_claim_template_name}" not in world.resource_claim_templates
    ]
    hint = (
        f"there is no ResourceClaimTemplate {namespace}/{absent[0]}"
        if absent and "not created yet" in problem
        else ""
    )
    return DeviceClaimUnusable(problem, hint)
