"""Claim and device state of the scheduler, including allocations in flight.

Spec: dra.md 4.1, 4.2 (devices in use, in flight), 4.4 (D-09), 4.5 "Requeue events". Fed by the watches one change at
a time; every change names the nodes it affects, so that cached results are re-evaluated only there. Of the watched
claim and the scheduler's own last write, the newer counts, and a device counts as in use from Reserve on: two
consecutive pods never get the same one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from weir.devices.allocation_search import Allocator
from weir.devices.claims import claim_names, claims_of, owned_by, reserved_for
from weir.devices.eviction import Reason, claim_eviction, moment
from weir.devices.outcome import AllocationError, RequestWithClass
from weir.devices.published import PoolKey
from weir.devices.tracker import Tracker, Update
from weir.devices.usage import InUse
from weir.gates import DEVICE_TAINTS, Gates
from weir.objects.core import Pod, read
from weir.objects.requests import CPU, pod_requests
from weir.objects.resource import (
    AllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from weir.taints.toleration import Evaluate

Results = tuple[DeviceRequestAllocationResult, ...]
#: Called with a claim before and after a change; None where there was or is none.
Listener = Callable[[ResourceClaim | None, ResourceClaim | None], None]

EVERYWHERE: Final = ""  #: in the log of nodes: all of them
MOST_CONSUMERS: Final = 256
BINDING_TIMEOUT_SECONDS: Final = 600.0
EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
_LONGEST_LOG: Final = 10_000
_PLAIN: Final = frozenset({CPU, "memory"})  # resources that no devices stand for


class Readiness(enum.Enum):
    """Whether the devices of an allocated claim are ready for a pod to be bound."""

    READY = "ready"
    WAITING = "waiting"
    TIMED_OUT = "timed out"


class BindingFailed(Exception):
    """A driver says that a device cannot be made ready; the text is Kubernetes'."""


class Claims:
    """Claims, devices and classes of one cluster as the scheduler counts them."""

    def __init__(self, gates: Gates, now: Callable[[], datetime], evaluate: Evaluate | None = None) -> None:
        self.gates, self.now, self._evaluate = gates, now, evaluate
        self._waits = gates.enabled("DRADeviceBindingConditions") and gates.enabled(
            "DRAResourceClaimDeviceStatus"
        )
        self._taints = gates.enabled(DEVICE_TAINTS)
        self.tracker = Tracker(gates)
        self.claims: dict[str, ResourceClaim] = {}  #: by `namespace/name`
        self.classes: dict[str, DeviceClass] = {}
        self.classes_version = 0  #: changes whenever a class does
        self.extended: dict[str, str] = {}  #: resources that pods may ask for, and the class that offers each
        self.extended_version = 0
        self._extends = gates.enabled("DRAExtendedResource")
        self._held: dict[str, Results] = {}  # by claim, what is counted as in use for it
        self._promised: dict[str, Results] = {}  # by UID of a claim whose allocation is in flight
        self._special: dict[str, str] = {}  # UID of a pod → key of the claim made for its extended resources
        self._users: dict[str, set[str]] = {}  # claim → pods that wait and use it
        self._uses: dict[str, list[str]] = {}  # the same the other way round
        self._alike: dict[bytes, dict[str, None]] = {}  # spec → claims with it that waiting pods use
        self._asked: dict[
            str, frozenset[str]
        ] = {}  # waiting pod → what it asks of nodes beside CPU and memory
        self.changed: Listener = lambda old, new: None  #: called for every change of a claim, once
        self.in_use = InUse()
        self.allocator = Allocator(
            self.tracker, self.classes, self.in_use, gates, self.tracker.expressions, evaluate
        )
        self.log: list[str] = []  #: names of nodes whose devices, or what is left of them, changed
        self.log_start = 0  #: position of log[0] since the beginning

    def _touch(self, nodes: Iterable[str]) -> None:
        self.log.extend(nodes)
        if len(self.log) > _LONGEST_LOG:
            # Keep the newer half, so that recent readers need not re-evaluate every node.
            old = len(self.log) // 2
            self.log_start += old
            del self.log[:old]

    # ── claims ───────────────────────────────────────────────────────────────────────────────────

    def put_claim(self, new: ResourceClaim) -> None:
        """Take in a claim as the watch, or the answer to a write, shows it, unless something newer is known."""
        old = self.claims.get(new.key)
        if old is not None and not _newer(new, old):
            return
        self.claims[new.key] = new
        if new.key in self._users:
            self._alike.setdefault(_spec_of(new), {})[new.key] = None
        promised = self._promised.get(new.metadata.uid)
        if promised is not None and promised == new.results:
            # What was promised is written: it stays counted, only under the claim itself.
            self._release(new.key)
            self._held[new.key] = self._promised.pop(new.metadata.uid)
        else:
            self._hold(new.key, new.results)
        if (new.metadata.annotations or {}).get(EXTENDED_CLAIM) == "true":
            for owner in new.metadata.owner_references or ():
                if owner.controller:
                    self._special[owner.uid] = new.key
        self.changed(old, new)

    def remove_claim(self, key: str) -> None:
        """Forget a claim that was deleted."""
        old = self.claims.pop(key, None)
        if old is None:
            return
        self._forget_alike(old)
        self._release(key)
        for owner in old.metadata.owner_references or ():
            if self._special.get(owner.uid) == key:
                del self._special[owner.uid]
        self.changed(old, None)

    def _hold(self, key: str, results: Results) -> None:
        if self._held.get(key, ()) == results:
            return
        self._release(key)
        if results:
            self._held[key] = results
            self.in_use.add(results)
            self._touch_devices(results)

    def _release(self, key: str) -> None:
        before = self._held.pop(key, ())
        if before:
            self.in_use.remove(before)
            self._touch_devices(before)

    def _touch_devices(self, results: Results) -> None:
        for pool in {result.id[:2] for result in results}:
            self._touch(self.allocator.candidates.nodes_of(pool))

    def special_of(self, pod: Pod) -> ResourceClaim | None:
        """Return the claim made earlier for the pod's extended resources, if there is one."""
        key = self._special.get(pod.metadata.uid)
        claim = self.claims.get(key) if key is not None else None
        return claim if claim is not None and owned_by(claim, pod) else None

    # ── promises ─────────────────────────────────────────────────────────────────────────────────

    def promise(self, uid: str, allocation: Mapping[str, Any]) -> None:
        """Count an allocation of the claim *uid* that will be written."""
        results = read(AllocationResult, allocation).devices.results or ()
        self._promised[uid] = results
        self.in_use.add(results)
        self._touch_devices(results)

    def rename_promise(self, uid: str, to: str) -> None:
        """Note that the claim a promise was made for exists now, under a UID of its own."""
        if uid in self._promised:
            self._promised[to] = self._promised.pop(uid)

    def promised(self, uid: str) -> bool:
        """Return whether an allocation of the claim is in flight."""
        return uid in self._promised

    def take_back(self, uid: str) -> bool:
        """Stop counting a promise that was not kept; return whether there was one."""
        results = self._promised.pop(uid, None)
        if results is None:
            return False
        self.in_use.remove(results)
        self._touch_devices(results)
        return True

    # ── devices ──────────────────────────────────────────────────────────────────────────────────

    def put_slice(self, new: ResourceSlice) -> Update:
        return self._tracked(self.tracker.put_slice(new))

    def remove_slice(self, name: str) -> Update:
        return self._tracked(self.tracker.remove_slice(name))

    def put_rule(self, new: DeviceTaintRule) -> Update:
        return self._tracked(self.tracker.put_rule(new))

    def remove_rule(self, name: str) -> Update:
        return self._tracked(self.tracker.remove_rule(name))

    def put_class(self, new: DeviceClass) -> Update:
        self.classes[new.name] = new
        self._class_changed()
        return self._tracked(self.tracker.put_class(new))

    def remove_class(self, name: str) -> Update:
        self.classes.pop(name, None)
        self._class_changed()
        return self._tracked(self.tracker.remove_class(name))

    def _class_changed(self) -> None:
        self.classes_version += 1
        if not self._extends:
            return
        extended = {f"{IMPLICIT_PREFIX}{name}": name for name in self.classes}
        # Of several classes that offer a resource the youngest does, so that one can take over from another.
        by_age = sorted(self.classes.values(), key=lambda one: one.name, reverse=True)
        for one in sorted(by_age, key=lambda one: one.metadata.creation_timestamp or ""):
            if one.spec.extended_resource_name:
                extended[one.spec.extended_resource_name] = one.name
        if extended != self.extended:
            self.extended = extended
            self.extended_version += 1

    def _tracked(self, update: Update) -> Update:
        if update.slices:
            self._touch(self.allocator.refresh(update.slices))
        return update

    def pools_of(self, update: Update) -> frozenset[PoolKey]:
        """Return the pools of the slices that a change concerned."""
        found = {
            key for name in update.slices if (key := self.allocator.candidates.pool_of(name)) is not None
        }
        return frozenset(found)

    def unpublished_pools(self) -> frozenset[PoolKey]:
        """Return the pools of devices that are held and no longer published: rules still reach them by name."""
        held = {result.id[:2] for results in self._held.values() for result in results}
        return frozenset(key for key in held if self.tracker.find_pool(key) is None)

    # ── questions about one pod ──────────────────────────────────────────────────────────────────

    def of_pod(self, pod: Pod) -> list[ResourceClaim] | str:
        """Return the claims the pod's spec names, or why they cannot be used (PreEnqueue and PreFilter say it)."""
        uses = list(claims_of(pod, self.claims))
        extended = pod.status.extended_resource_claim_status
        if extended is not None and extended.resource_claim_name:
            uses.pop()  # the claim for extended resources: the scheduler's own
        found: list[ResourceClaim] = []
        for use in uses:
            if use.problem:
                return use.problem
            if use.claim is not None:
                found.append(use.claim)
        return found

    def gate(self, pod: Pod) -> str:
        """PreEnqueue: return why the pod need not be tried yet, "" when it may be."""
        if not pod.spec.resource_claims:
            return ""
        found = self.of_pod(pod)
        return found if isinstance(found, str) else ""

    def tainted(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Return whether *pod* must not join a claim whose devices its consumers have to leave by now (D-09)."""
        return bool(self.evicting_taints(claim, pod))

    def evicting_taints(self, claim: ResourceClaim, pod: Pod) -> tuple[Reason, ...]:
        """Return the taints because of which that is so."""
        if not self._taints or reserved_for(claim, pod):
            return ()
        now = self.now()
        found = claim_eviction(claim, self.tracker.taints_on, self.gates, now, self._evaluate)
        return found.due_reasons(now) if found is not None else ()

    def readiness(self, claim: ResourceClaim, timeout_seconds: float = BINDING_TIMEOUT_SECONDS) -> Readiness:
        """Return whether all devices of an allocated claim are ready; raises BindingFailed."""
        if not self._waits or not any(result.binding_conditions for result in claim.results):
            return Readiness.READY
        statuses = {status.id: status for status in claim.status.devices or ()}
        for result in claim.results:
            if not result.binding_conditions:
                continue
            said = statuses.get(result.id)
            true = {c.type: c for c in (said.conditions or () if said else ()) if c.status == "True"}
            for failure in result.binding_failure_conditions or ():
                if failure in true:
                    why = true[failure]
                    raise BindingFailed(
                        f"device binding failed: claim={claim.metadata.name}, reason={why.reason}, "
                        f'message="{why.message}"'
                    )
            if not all(condition in true for condition in result.binding_conditions):
                return Readiness.TIMED_OUT if self._late(claim, timeout_seconds) else Readiness.WAITING
        return Readiness.READY

    def _late(self, claim: ResourceClaim, timeout_seconds: float) -> bool:
        allocation = claim.status.allocation
        since = moment(allocation.allocation_timestamp) if allocation else None
        return since is not None and since + timedelta(seconds=timeout_seconds) < self.now()

    # ── waiting pods ─────────────────────────────────────────────────────────────────────────────

    def note_waiting(self, pod: Pod) -> None:
        """Remember which claims a waiting pod uses."""
        namespace = pod.metadata.namespace or "default"
        names = [f"{namespace}/{name}" for name in claim_names(pod)]
        if self._uses.get(pod.key) == names:
            return
        self.forget_waiting(pod.key)
        self._uses[pod.key] = names
        asked = frozenset(pod_requests(pod)) - _PLAIN
        if asked:
            self._asked[pod.key] = asked
        for name in names:
            self._users.setdefault(name, set()).add(pod.key)
            if (claim := self.claims.get(name)) is not None:
                self._alike.setdefault(_spec_of(claim), {})[name] = None

    def forget_waiting(self, key: str) -> None:
        """Forget a pod that no longer waits."""
        self._asked.pop(key, None)
        for name in self._uses.pop(key, ()):
            users = self._users[name]
            users.discard(key)
            if not users:
                del self._users[name]
                if (claim := self.claims.get(name)) is not None:
                    self._forget_alike(claim)

    def _forget_alike(self, claim: ResourceClaim) -> None:
        """No waiting pod uses a claim any more."""
        spec = _spec_of(claim)
        names = self._alike.get(spec, {})
        names.pop(claim.key, None)
        if not names:
            self._alike.pop(spec, None)

    @property
    def waiting(self) -> Collection[str]:
        """The pods with claims, or with extended resources that devices stand for, that wait."""
        return self._uses.keys()

    def waiting_for(self, claim: ResourceClaim) -> frozenset[str]:
        """Return the waiting pods that use *claim*."""
        return frozenset(self._users.get(claim.key, ()))

    def waiting_for_devices_of(self, claim: ResourceClaim) -> list[str]:
        """Return the waiting pods that use *claim*, or that may take its devices or their neighbours.

        Claims of one template are equal: each spec is held against the devices once.
        """
        pools = {result.id[:2] for result in claim.results}
        found = set(self.waiting_for(claim))
        for names in self._alike.values():
            if self.could_take(requests_of(self.claims[next(iter(names))]), pools):
                found.update(key for name in names for key in self._users[name])
        found.update(key for key, asked in self._asked.items() if not asked.isdisjoint(self.extended))
        return [key for key in self._uses if key in found] if found else []

    def could_take(self, requests: Iterable[tuple[str, Any]], pools: Collection[PoolKey]) -> bool:
        """Return whether one of *requests* selects and tolerates a device of *pools*, whoever holds it."""
        allocator = self.allocator
        try:
            for label, asked in requests:
                if (device_class := self.classes.get(asked.device_class_name)) is None:
                    continue
                ask = RequestWithClass("", label, asked, device_class)
                if any(
                    allocator.selected(ask, device) is None and not allocator.untolerated(ask, device)
                    for key in pools
                    for device in allocator.candidates.devices_in(key)
                ):
                    return True
        except AllocationError:
            return True  # the attempt reports what is wrong
        return False


def reservable(claim: ResourceClaim) -> bool:
    """Return whether one more pod may use an allocated claim."""
    return len(claim.status.reserved_for or ()) < MOST_CONSUMERS


def requests_of(claim: ResourceClaim) -> Iterator[tuple[str, Any]]:
    """Return every request of a claim and every alternative, with the label it has in results."""
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None:
            yield request.name, request.exactly
        for alternative in request.first_available or ():
            yield f"{request.name}/{alternative.name}", alternative


def _spec_of(claim: ResourceClaim) -> bytes:
    """Return the spec of a claim as what equal ones have in common."""
    return msgspec.json.encode(claim.spec, order="sorted")


def _newer(new: ResourceClaim, old: ResourceClaim) -> bool:
    mine, theirs = new.metadata.resource_version, old.metadata.resource_version
    if mine.isdigit() and theirs.isdigit():
        return int(mine) > int(theirs)
    return mine != theirs or new != old
