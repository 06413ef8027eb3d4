"""Which change of claims, classes or devices can help which waiting pod?

Spec: dra.md 4.5 "Requeue events". A claim that is freed may help anybody; one that changes otherwise, only the pods
that use it. A class helps those whose requests name it. Devices help when one of a pool that changed could be taken by
a request of the pod, or is held by a claim of it: a hint may be wrong in waking a pod, never in letting it sleep.
What surprises: a taint slice that completes its pool makes all devices of the pool available, so a change of one slice
is a change of the pool.
Not here: the queue (weir.scheduler.queue), the table of events (weir.scheduler.queueing_hints).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from weir.devices.outcome import AllocationError
from weir.devices.pool import PoolKey
from weir.devices.result import Ask
from weir.objects.core import Pod
from weir.objects.requests import pod_requests
from weir.objects.resource import DeviceClass, DeviceSubRequest, ResourceClaim
from weir.scheduler.claims import IMPLICIT_PREFIX, Claims, requests_of


class ClaimQueueingHints:
    """Answers for the queue, from what claims and devices are now."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def has_its_claims(self, pod: Pod) -> bool:
        """Return whether all claims of the pod are there and usable."""
        return not self._claims.gate(pod)

    def claim_helps(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
        """Return whether the change of a claim could help *pod*."""
        freed = old is not None and old.status.allocation is not None
        if new is None:
            return freed
        found = self._claims.of_pod(pod)
        if isinstance(found, str):
            return False  # another of its claims is missing
        if freed and new.status.allocation is None:
            return True
        if all(claim.metadata.uid != new.metadata.uid for claim in found):
            return False
        return old is None or old.status != new.status

    def class_helps(self, pod: Pod, old: DeviceClass | None, new: DeviceClass) -> bool:
        """Return whether a new or changed class could help *pod*."""
        if old is not None and old.spec == new.spec:
            return False
        return self.class_offers(pod, old, new) or any(
            asked.device_class_name == new.name for _, asked in self._asked(pod)
        )

    def class_offers(self, pod: Pod, old: DeviceClass | None, new: DeviceClass) -> bool:
        """Return whether a class offers an extended resource that *pod* asks for."""
        wanted = pod_requests(pod)
        if wanted.get(f"{IMPLICIT_PREFIX}{new.name}"):
            return True
        return bool(new.spec.extended_resource_name and wanted.get(new.spec.extended_resource_name))

    def devices_help(self, pod: Pod, pools: Collection[PoolKey]) -> bool:
        """Return whether devices of *pools* as they are now could help *pod*."""
        claims = self._claims
        found = claims.of_pod(pod)
        if isinstance(found, str):
            return False
        for claim in found:
            if any(result.id[:2] in pools for result in claim.results) and not claims.tainted(claim, pod):
                return True  # it may have been refused because of their taints, and need not be any more
        devices = [device for key in pools for device in claims.allocator.candidates.devices_in(key)]
        for label, asked in (*self._asked(pod), *self._extended(pod)):
            device_class = claims.classes.get(asked.device_class_name)
            if device_class is None:
                continue
            ask = Ask("", label, asked, device_class)
            try:
                if any(
                    claims.allocator.selected(ask, device) is None
                    and not claims.allocator.untolerated(ask, device)
                    for device in devices
                ):
                    return True
            except AllocationError:
                return True  # let the attempt say what is wrong
        return False

    def _extended(self, pod: Pod) -> Iterator[tuple[str, Any]]:
        for name, amount in pod_requests(pod).items():
            offered = self._claims.extended.get(name) if amount else None
            if offered is not None:
                yield name, DeviceSubRequest(device_class_name=offered)

    def _asked(self, pod: Pod) -> Iterator[tuple[str, Any]]:
        found = self._claims.of_pod(pod)
        for claim in found if not isinstance(found, str) else ():
            if claim.status.allocation is None:
                yield from requests_of(claim)
