"""Queueing hints of DynamicResources.

Spec: KEP-4381 "Scheduling"; dra.md 4.5 "Requeue events". A hint may wake a pod in vain, but never miss a helpful
event. A change of one slice is a change of its pool; so is a released claim, whose devices may share counters with
others of their pool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from weir.devices.published import PoolKey
from weir.objects.core import Pod
from weir.objects.requests import pod_requests
from weir.objects.resource import DeviceSubRequest, ResourceClaim
from weir.scheduler.claims import Claims, requests_of
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
    QueueingHint,
    always,
)


class DynamicResourcesHints:
    """The hints over one cluster's claims."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._event: ClusterEvent | None = None  # that was asked about last
        self._answers: list[tuple[Any, bool]] = []  # specs of claims, and whether they could take its devices

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
        """A claim of the pod changed, or one was freed whose devices, or their neighbours, the pod could take."""
        old, new = event.old, event.new
        found = self._claims.of_pod(pod)
        if isinstance(found, str):
            return False  # a claim of it is missing
        if new is not None and any(claim.metadata.uid == new.metadata.uid for claim in found):
            return old is None or old.status != new.status
        if old is None or old.status.allocation is None or (new is not None and new.status.allocation):
            return False
        return self._could_take(pod, found, event, {result.id[:2] for result in old.results})

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
        return self._could_take(pod, found, event, pools)

    def _could_take(
        self, pod: Pod, found: Iterable[ResourceClaim], event: ClusterEvent, pools: Collection[PoolKey]
    ) -> bool:
        """Whether a request of the pod, whose claims are *found*, selects and tolerates a device of *pools*.

        Claims of one template are equal, so each spec is held against the devices of an event once.
        """
        if event is not self._event:
            self._event, self._answers = event, []
        for claim in found:
            if claim.status.allocation is not None:
                continue
            answer = next((answer for spec, answer in self._answers if spec == claim.spec), None)
            if answer is None:
                answer = self._claims.could_take(requests_of(claim), pools)
                self._answers.append((claim.spec, answer))
            if answer:
                return True
        return self._claims.could_take(self._extended_requests(pod), pools)

    def _requests(self, pod: Pod) -> Iterator[tuple[str, Any]]:
        """Yield the requests of the pod's unallocated claims."""
        found = self._claims.of_pod(pod)
        for claim in found if not isinstance(found, str) else ():
            if claim.status.allocation is None:
                yield from requests_of(claim)

    def _extended_requests(self, pod: Pod) -> Iterator[tuple[str, Any]]:
        """Yield the requests of extended resources that devices offer."""
        if not self._claims.extended:
            return
        for name, amount in pod_requests(pod).items():
            offered = self._claims.extended.get(name) if amount else None
            if offered is not None:
                yield name, DeviceSubRequest(device_class_name=offered)
