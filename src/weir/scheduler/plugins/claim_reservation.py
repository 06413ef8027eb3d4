"""Reserved devices of one pod: the writes they need, and whether the devices are ready.

Spec: dra.md 4.2 "Reserve", "PreBind", "Unreserve"; 1.8. Pure: it states what to write and reads the results; writing,
retrying and waiting are in weir.scheduler.claim_writes. The finalizer needs its own write, because a status write
ignores metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from weir.devices.claims import reserved_for
from weir.objects.core import Pod
from weir.objects.resource import DeviceRequestAllocationResult, ResourceClaim
from weir.scheduler.claims import BINDING_TIMEOUT_SECONDS, BindingFailed, Claims, Readiness
from weir.scheduler.framework import PluginError, Reservation

FINALIZER: Final = "resource.kubernetes.io/delete-protection"

Document = dict[str, Any]


class NotReady(PluginError):
    """A device will not be ready; *outcome* is what metrics call that."""

    def __init__(self, text: str, outcome: str) -> None:
        super().__init__(text)
        self.outcome = outcome


@dataclass(slots=True)
class ClaimBinding:
    """One claim that has to be reserved for the pod, with its new allocation if it had none."""

    claim: ResourceClaim
    allocation: Document | None

    def check(self) -> None:
        """Refuse to write what is no longer true; raises PluginError."""
        if self.claim.metadata.deletion_timestamp is not None:
            raise PluginError(f"claim {self.claim.key} got deleted in the meantime")
        if self.allocation is not None and self.claim.status.allocation is not None:
            raise PluginError(f"claim {self.claim.key} got allocated elsewhere in the meantime")
        if self.allocation is None and self.claim.status.allocation is None:
            raise PluginError(f"claim {self.claim.key} got deallocated elsewhere in the meantime")

    def finalizer(self) -> Document | None:
        """Return the patch that protects the claim from being deleted, None when it is protected."""
        finalizers = self.claim.metadata.finalizers or ()
        if self.allocation is None or FINALIZER in finalizers:
            return None
        return {"metadata": {**self._version(), "finalizers": [*finalizers, FINALIZER]}}

    def status(self, pod: Pod, time: str | None) -> Document:
        """Return the patch of the status: the allocation if it is new, made at *time*, and the reservation."""
        consumers = [
            {
                **({"apiGroup": consumer.api_group} if consumer.api_group else {}),
                "resource": consumer.resource,
                "name": consumer.name,
                "uid": consumer.uid,
            }
            for consumer in self.claim.status.reserved_for or ()
        ]
        consumers.append({"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid})
        status: Document = {"reservedFor": consumers}
        if self.allocation is not None:
            stamp = {"allocationTimestamp": time} if time is not None else {}
            status["allocation"] = {**self.allocation, **stamp}
        return {"metadata": self._version(), "status": status}

    def _version(self) -> Document:
        metadata = self.claim.metadata
        return {"uid": metadata.uid, "resourceVersion": metadata.resource_version}


@dataclass(slots=True)
class Extended:
    """The requests of the claim that stands for extended resources, and what of the pod each of them serves."""

    requests: list[Document]
    mappings: list[Document]
    written: ResourceClaim | None = None  #: the claim once it exists


class ClaimReservation(Reservation):
    """What was promised for one pod's claims on one node."""

    plugin = "DynamicResources"

    def __init__(
        self,
        claims: Claims,
        pod: Pod,
        node: str,
        bindings: list[ClaimBinding],
        uses: list[ResourceClaim],
        extended: Extended | None = None,
        binding_seconds: float = BINDING_TIMEOUT_SECONDS,
    ) -> None:
        """*extended* goes with the last of *bindings*, whose claim does not exist yet."""
        self.extended, self.binding_seconds = extended, binding_seconds
        self.claims, self.pod, self.node, self.bindings = claims, pod, node, bindings
        self._uses = {claim.key: claim for claim in uses}
        fresh = [binding for binding in bindings if binding.allocation is not None]
        self._promised = [binding.claim.metadata.uid for binding in fresh]
        self.pools = frozenset(
            (result["driver"], result["pool"])
            for binding in fresh
            for result in (binding.allocation or {})["devices"].get("results", ())
        )

    @property
    def stamped(self) -> bool:
        """Whether allocations say when they were made: conditions of devices are waited for so long at most."""
        gates = self.claims.gates
        return gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")

    def wrote(self, binding: ClaimBinding, claim: ResourceClaim) -> None:
        """Note what a write made of a claim."""
        binding.claim = claim
        self._uses[claim.key] = claim
        self.claims.put_claim(claim)

    def made(self, claim: ResourceClaim) -> None:
        """Note that the claim for extended resources exists now."""
        assert self.extended is not None
        binding = self.bindings[-1]
        self.claims.rename_promise(binding.claim.metadata.uid, claim.metadata.uid)
        self._promised.append(claim.metadata.uid)
        self.extended.written = binding.claim = claim
        self.claims.put_claim(claim)

    def waits(self) -> bool:
        """Return whether a device of the pod has conditions to be met before the pod is bound."""
        return self.stamped and any(result.binding_conditions for result in self.results())

    def results(self) -> Iterator[DeviceRequestAllocationResult]:
        """Yield every device of the pod's claims."""
        for claim in self._uses.values():
            yield from claim.results

    def settled(self) -> bool:
        """Return whether every device is ready; raise PluginError when one never will be."""
        for key in self._uses:
            claim = self.claims.claims.get(key)
            if claim is None:
                raise NotReady(f'could not find ResourceClaim "{key}"', "error")
            try:
                ready = self.claims.readiness(claim, self.binding_seconds)
            except BindingFailed as error:
                raise NotReady(str(error), "failure") from None
            if ready is Readiness.TIMED_OUT:
                raise NotReady(f"device binding timeout: claim={claim.metadata.name}", "timeout")
            if ready is not Readiness.READY:
                return False
        return True

    def reserved(self) -> list[ResourceClaim]:
        """Unreserve: return the claims that are reserved for the pod and should not stay so."""
        special = self.extended.written.key if self.extended and self.extended.written else ""
        return [
            claim for key, claim in self._uses.items() if key != special and reserved_for(claim, self.pod)
        ]

    def end(self) -> bool:
        """Take back what is still only promised; return whether that freed a device."""
        freed = [self.claims.take_back(uid) for uid in self._promised]
        self._promised = []
        return any(freed)
