"""Queueing hints of DynamicResources.

Spec: KEP-4381 "Scheduling"; dra.md 4.5 "Requeue events". A hint may wake a pod in vain, but never miss a helpful
event. A change of one slice is a change of its pool, and a released claim may help any pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weir.devices.outcome import AllocationError
from weir.devices.result import RequestWithClass
from weir.objects.core import Pod
from weir.objects.requests import pod_requests
from weir.objects.resource import DeviceSubRequest
from weir.scheduler.claims import Claims, requests_of
from weir.scheduler.framework import QueueingHint
from weir.scheduler.plugins.extended_resources import class_offers
from weir.scheduler.queueing_hints import (
    DEVICE_CLASS_ADD,
    DEVICE_CLASS_UPDATE,
    NODE_ADD,
    NODE_ALLOCATABLE,
    NODE_LABEL,
    OWN_CLAIMS,
    RESOURCE_CLAIM_ADD,
    RESOURCE_CLAIM_DELETE,
    RESOURCE_CLAIM_UPDATE,
    SLICE_ADD,
    SLICE_UPDATE,
    ClusterEvent,
    always,
)


class DynamicResourcesHints:
    """The hints over one cluster's claims."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {
            NODE_ADD: always,
            NODE_LABEL: always,
            NODE_ALLOCATABLE: always,
            RESOURCE_CLAIM_ADD: self._claim_helps,
            RESOURCE_CLAIM_UPDATE: self._claim_helps,
            RESOURCE_CLAIM_DELETE: self._claim_helps,
            OWN_CLAIMS: self._has_its_claims,
            DEVICE_CLASS_ADD: self._class_helps,
            DEVICE_CLASS_UPDATE: self._class_helps,
            SLICE_ADD: self._devices_help,
            SLICE_UPDATE: self._devices_help,
        }

    def _has_its_claims(self, pod: Pod, event: ClusterEvent) -> bool:
        """All claims of the pod are there and usable."""
        return not self._claims.gate(event.new)

    def _claim_helps(self, pod: Pod, event: ClusterEvent) -> bool:
        """A claim was freed, which may help any pod, or changed otherwise, which helps the pods that use it."""
        old, new = event.old, event.new
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

    def _class_helps(self, pod: Pod, event: ClusterEvent) -> bool:
        """Whether a new or changed class is named by a request of the pod, or offers a resource it requests."""
        if event.old is not None and event.old.spec == event.new.spec:
            return False
        return class_offers(event.new, pod) or any(
            asked.device_class_name == event.new.name for _, asked in self._requests(pod)
        )

    def _devices_help(self, pod: Pod, event: ClusterEvent) -> bool:
        """Devices of the pools that changed could be taken by a request, or are held by a claim, of the pod.

        A slice that completes its pool makes all devices of the pool available, so a change of one slice is a
        change of the pool. The hint may be wrong in waking a pod, never in letting it sleep.
        """
        claims, pools = self._claims, event.new
        found = claims.of_pod(pod)
        if isinstance(found, str):
            return False
        for claim in found:
            if any(result.id[:2] in pools for result in claim.results) and not claims.tainted(claim, pod):
                return True  # it may have been refused because of their taints, and need not be any more
        devices = [device for key in pools for device in claims.allocator.candidates.devices_in(key)]
        for label, asked in (*self._requests(pod), *self._extended_requests(pod)):
            device_class = claims.classes.get(asked.device_class_name)
            if device_class is None:
                continue
            ask = RequestWithClass("", label, asked, device_class)
            try:
                if any(
                    claims.allocator.selected(ask, device) is None
                    and not claims.allocator.untolerated(ask, device)
                    for device in devices
                ):
                    return True
            except AllocationError:
                return True  # the attempt reports what is wrong
        return False

    def _requests(self, pod: Pod) -> Iterator[tuple[str, Any]]:
        """Yield the requests of the pod's unallocated claims."""
        found = self._claims.of_pod(pod)
        for claim in found if not isinstance(found, str) else ():
            if claim.status.allocation is None:
                yield from requests_of(claim)

    def _extended_requests(self, pod: Pod) -> Iterator[tuple[str, Any]]:
        """Yield the same for extended resources that devices offer."""
        for name, amount in pod_requests(pod).items():
            offered = self._claims.extended.get(name) if amount else None
            if offered is not None:
                yield name, DeviceSubRequest(device_class_name=offered)
