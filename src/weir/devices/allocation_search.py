"""Backtracking search for devices of one node that satisfy all requests of several claims together.

Spec: KEP-4381 "Scheduling", dra.md 4.6 "Allocator", 4.3 (messages).
Claims in pod order, requests in claim order, pools by driver and name (those with binding conditions last), slices by
name, devices as listed: the first complete solution wins, and every combination is tried before giving up. Admin
access does not bypass taints; `All` fails as a whole when one selected device is tainted or in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from weir.devices.constraint import Constraint
from weir.devices.device_matcher import DeviceMatcher
from weir.devices.expression import Selectors
from weir.devices.origin import TrackedTaint
from weir.devices.outcome import (
    CANNOT_ALLOCATE,
    INVALID_POOLS,
    Allocation,
    AllocationError,
    DeviceRefusal,
    Pick,
    Refusal,
    RequestWithClass,
    SliceCandidate,
    Unallocatable,
    alternatives_chosen,
    written,
)
from weir.devices.published import Pool, TrackedDevice
from weir.devices.slice_candidates import SliceCandidates
from weir.devices.tracker import Tracker
from weir.devices.usage import Amounts, InUse, capacity_needed, counters_left, counters_needed, fits
from weir.gates import Gates
from weir.objects.core import Node
from weir.objects.resource import DeviceClass, DeviceID, ResourceClaim
from weir.taints.toleration import Evaluate

MOST_RESULTS: Final = 32


class Solution:
    """The devices found on one node, valid for claims with the same requests."""

    __slots__ = ("_node", "_picks")

    def __init__(self, node: str, picks: list[list[Pick]]) -> None:
        self._node, self._picks = node, picks

    @property
    def score(self) -> int:
        """How early in their lists the alternatives stand that were chosen."""
        return sum(8 - index for picks in self._picks for index in alternatives_chosen(picks))

    def written(self, claims: Sequence[ResourceClaim], share_id: Callable[[], str]) -> Allocation:
        """Return it as the API writes it into *claims*."""
        return Allocation(
            tuple(
                written(claim, picks, self._node, share_id)
                for claim, picks in zip(claims, self._picks, strict=True)
            ),
            self.score,
        )


class AllocationSearch:
    """One attempt to allocate all of *claims* on one node."""

    def __init__(
        self,
        matcher: DeviceMatcher,
        slices: SliceCandidates,
        in_use: InUse,
        claims: Sequence[ResourceClaim],
        node: Node,
        most_steps: int,
    ) -> None:
        self._matcher, self._slices, self._in_use = matcher, slices, in_use
        self.claims, self.node = claims, node
        self.candidates = slices.on(node)
        self.devices = slices.devices_on(node)
        self.asks = [[list(self._asks(claim, request)) for request in _requests(claim)] for claim in claims]
        self.constraints = [
            [Constraint(one) for one in claim.spec.devices.constraints or ()] for claim in claims
        ]
        self.picks: list[list[Pick]] = [[] for _ in claims]
        self._taken: dict[DeviceID, int] = {}
        self._consumed: dict[DeviceID, Amounts] = {}  # of the devices this search took shares of
        self._left: dict[tuple[str, str], dict[tuple[str, str], Any]] = {}
        self._steps = most_steps

    def _asks(self, claim: ResourceClaim, request: Any) -> Iterator[RequestWithClass]:
        options = (
            [(request.name, request.exactly)]
            if request.exactly is not None
            else [(f"{request.name}/{one.name}", one) for one in request.first_available or ()]
        )
        for index, (label, asked) in enumerate(options):
            found = self._matcher.find_class(asked.device_class_name)
            if found is None:
                raise AllocationError(
                    f"request {label}: device class {asked.device_class_name} does not exist"
                )
            self._matcher.check_features(claim.key, label.rpartition("/")[2], asked)
            yield RequestWithClass(claim.key, label, asked, found, index, request.exactly is None)

    # ── the search ───────────────────────────────────────────────────────────────────────────────

    def solve(self) -> bool:
        """Return whether every request of every claim got its devices."""
        for number, claim in enumerate(self.claims):
            accounted = 0
            for asks in self.asks[number]:
                least = min(map(self._needed, asks))
                if accounted + least > MOST_RESULTS:
                    raise AllocationError(
                        f"claim {claim.key}, request {asks[0].label.partition('/')[0]}: adding {least} devices exceeds "
                        f"the claim limit of {MOST_RESULTS}, with {accounted} already accounted for"
                    )
                accounted += least
        return self._claim(0)

    def _needed(self, ask: RequestWithClass) -> int:
        return ask.asked.count if ask.asked.allocation_mode != "All" else len(self._every(ask))

    def _claim(self, number: int) -> bool:
        return number == len(self.claims) or self._request(number, 0)

    def _request(self, number: int, position: int) -> bool:
        if position == len(self.asks[number]):
            return self._claim(number + 1)
        for ask in self.asks[number][position]:
            if ask.alternatives and len(self.picks[number]) + self._needed(ask) > MOST_RESULTS:
                continue
            if ask.asked.allocation_mode == "All":
                if self._all(number, position, ask):
                    return True
            elif self._some(number, position, ask, ask.asked.count, 0):
                return True
        return False

    def _some(self, number: int, position: int, ask: RequestWithClass, missing: int, start: int) -> bool:
        """Choose *missing* more devices from *start* on, in every combination."""
        if missing == 0:
            return self._request(number, position + 1)
        for index in range(start, len(self.devices) - missing + 1):
            self._steps -= 1
            if self._steps < 0:
                raise AllocationError(f"node {self.node.name}: timed out trying to allocate devices")
            candidate, device = self.devices[index]
            if not self._take(number, ask, candidate, device):
                continue
            if self._some(number, position, ask, missing - 1, index + 1):
                return True
            self._give_back(number)
        return False

    def _every(self, ask: RequestWithClass) -> list[tuple[SliceCandidate, TrackedDevice]]:
        """Return every device that `All` means; a pool that is not usable is an error."""
        for candidate in self.candidates:
            if not candidate.pool.usable:
                state = "invalid" if candidate.pool.problems else "being updated"
                raise AllocationError(
                    f"claim {ask.claim}, request {ask.name}: asks for all devices, but resource pool "
                    f"{candidate.pool} is currently {state}"
                )
        return [
            (candidate, device)
            for candidate, device in self.devices
            if self._matcher.selected(ask, device) is None and self._capacity(ask, device) is not None
        ]

    def _all(self, number: int, position: int, ask: RequestWithClass) -> bool:
        devices = self._every(ask)
        before = len(self.picks[number])
        for candidate, device in devices:
            if self._why_not(number, ask, candidate, device) is not None:
                break
            if not self._take(number, ask, candidate, device):
                raise AllocationError(
                    f"claim {ask.claim}, request {ask.name}: cannot add device {device.id} because a claim "
                    "constraint would not be satisfied"
                )
        else:
            if devices and self._request(number, position + 1):
                return True
        while len(self.picks[number]) > before:
            self._give_back(number)
        return False

    # ── one device ───────────────────────────────────────────────────────────────────────────────

    def _why_not(
        self, number: int, ask: RequestWithClass, candidate: SliceCandidate, device: TrackedDevice
    ) -> Refusal | None:
        """Return the first check that keeps the request from the device, constraints aside."""
        assert device.device is not None
        if device.device.allow_multiple_allocations:
            if any(pick.ask is ask and pick.device is device for pick in self.picks[number]):
                return Refusal.IN_USE
        elif ask.asked.admin_access:
            if any(pick.device is device for pick in self.picks[number]):
                return Refusal.IN_USE
        elif device.id in self._in_use.devices or device.id in self._taken:
            return Refusal.IN_USE
        if self._matcher.feature_off(device.device):
            return Refusal.FEATURE_OFF
        refused = self._matcher.selected(ask, device)
        if refused is not None:
            return refused
        taken = self._capacity(ask, device)
        if taken is None:
            return Refusal.CAPACITY
        # Admin access looks at devices that others use, but takes its own part of what is counted.
        if taken and not fits(device.device, taken, self._consumption(device.id)):
            return Refusal.CAPACITY
        if self._draws(device):
            left = self._counters(candidate.pool)
            if any(left[key] < amount for key, amount in counters_needed(device.device).items()):
                return Refusal.COUNTERS
        if self._matcher.untolerated(ask, device):
            return Refusal.TAINTED
        return None

    def _capacity(self, ask: RequestWithClass, device: TrackedDevice) -> Amounts | None:
        asked = ask.asked.capacity.requests if ask.asked.capacity else None
        assert device.device is not None
        if not asked and not device.device.allow_multiple_allocations:
            return {}
        return capacity_needed(device.device, asked or {})

    def _counters(self, pool: Pool) -> dict[tuple[str, str], Any]:
        key = (pool.driver, pool.name)
        if key not in self._left:
            self._left[key] = counters_left(pool, self._in_use.held_in(key))
        return self._left[key]

    def _consumption(self, device: DeviceID) -> Amounts:
        """Return what is taken of a shared device, by others and by this search."""
        found = self._consumed.get(device)
        return self._in_use.consumed.get(device, {}) if found is None else found

    def _take(
        self, number: int, ask: RequestWithClass, candidate: SliceCandidate, device: TrackedDevice
    ) -> bool:
        if self._why_not(number, ask, candidate, device) is not None:
            return False
        assert device.device is not None
        concerned: list[Constraint] = []
        for constraint in self.constraints[number]:
            if constraint.concerns(ask.label):
                if not constraint.add(device.device, device.id.driver):
                    for added in concerned:
                        added.remove()
                    return False
                concerned.append(constraint)
        taken = self._capacity(ask, device) or {}
        self._count(candidate.pool, device, taken, 1)
        self.picks[number].append(Pick(ask, candidate, device, taken, tuple(concerned)))
        return True

    def _give_back(self, number: int) -> None:
        pick = self.picks[number].pop()
        for constraint in pick.constraints:
            constraint.remove()
        self._count(pick.candidate.pool, pick.device, pick.taken, -1)

    def _draws(self, device: TrackedDevice) -> bool:
        """Whether taking the device draws on counters: shares of one device do so once."""
        assert device.device is not None
        held = device.id in self._taken or device.id in self._in_use.consumed
        shared = bool(device.device.allow_multiple_allocations) and held
        return bool(device.device.consumes_counters) and not shared

    def _count(self, pool: Pool, device: TrackedDevice, taken: Amounts, times: int) -> None:
        """Note that a device, or a share of it, was taken (1) or given back (-1)."""
        assert device.device is not None
        draws = self._draws(device)
        self._taken[device.id] = self._taken.get(device.id, 0) + times
        if not self._taken[device.id]:
            del self._taken[device.id]
            draws = self._draws(device)
        if taken and device.id not in self._consumed:
            self._consumed[device.id] = dict(self._in_use.consumed.get(device.id, {}))
        amounts = self._consumed[device.id] if taken else {}
        for name, amount in taken.items():
            change = amount if times > 0 else -amount
            amounts[name] = amounts[name] + change if name in amounts else change
        if draws:
            left = self._counters(pool)
            for key, amount in counters_needed(device.device).items():
                left[key] = left[key] - amount if times > 0 else left[key] + amount

    # ── the answer ───────────────────────────────────────────────────────────────────────────────

    def solution(self) -> Solution:
        """Return what was found."""
        return Solution(self.node.name, self.picks)

    def message(self) -> str:
        """Return what Kubernetes says when nothing was found."""
        return (
            INVALID_POOLS
            if any(candidate.pool.problems for candidate in self.candidates)
            else CANNOT_ALLOCATE
        )

    def refusals(self) -> Iterator[DeviceRefusal]:
        """Yield for every request and every device of the node what is in the way."""
        for number, by_request in enumerate(self.asks):
            for ask in (ask for asks in by_request for ask in asks):
                for candidate in self.candidates:
                    for device in candidate.devices:
                        if self._slices.usable_on(candidate, device, self.node):
                            yield self._refusal(number, ask, candidate, device)

    def _refusal(
        self, number: int, ask: RequestWithClass, candidate: SliceCandidate, device: TrackedDevice
    ) -> DeviceRefusal:
        taints: tuple[TrackedTaint, ...] = ()
        if candidate.pool.problems:
            refusal = Refusal.POOL_INVALID
        elif not candidate.pool.complete:
            refusal = Refusal.POOL_INCOMPLETE
        else:
            try:
                refusal = self._why_not(number, ask, candidate, device) or Refusal.LEFT_OVER
            except AllocationError:
                refusal = Refusal.SELECTOR_FAILED
            if refusal is Refusal.TAINTED:
                taints = tuple(self._matcher.untolerated(ask, device))
        exact = ask.asked.allocation_mode == "ExactCount" and not ask.asked.admin_access
        shared = device.device is not None and device.device.allow_multiple_allocations
        needed = ask.asked.count if exact and not shared else 0
        return DeviceRefusal(ask.claim, ask.label, device.id, refusal, taints, needed)


def _requests(claim: ResourceClaim) -> Iterable[Any]:
    return claim.spec.devices.requests or ()


MOST_STEPS: Final = 200_000  #: devices looked at before an attempt is given up


class Allocator(DeviceMatcher):
    """Allocates from what a tracker shows; ask it for any claims on any node, and `refresh` it after changes."""

    def __init__(
        self,
        tracker: Tracker,
        classes: Mapping[str, DeviceClass],
        in_use: InUse,
        gates: Gates,
        expressions: Selectors | None = None,
        evaluate: Evaluate | None = None,
    ) -> None:
        super().__init__(classes, expressions or tracker.expressions, gates, evaluate)
        self.in_use = in_use
        self.candidates = SliceCandidates(tracker, gates)

    def refresh(self, slices: Iterable[str]) -> set[str]:
        """Take in that *slices* changed in the tracker; return the nodes concerned, with "" for all of them."""
        self.forget([device for name in slices for device in self.candidates.devices_of(name)])
        return self.candidates.refresh(slices)

    def allocate(
        self,
        claims: Sequence[ResourceClaim],
        node: Node,
        share_id: Callable[[], str] = lambda: "",
        most_steps: int = MOST_STEPS,
    ) -> Allocation | Unallocatable:
        """Return an allocation of all *claims* on *node*, or why there is none; raises AllocationError."""
        search = AllocationSearch(self, self.candidates, self.in_use, claims, node, most_steps)
        if search.solve():
            return search.solution().written(claims, share_id)
        return Unallocatable(search.message(), tuple(search.refusals()))

    def solve(
        self, claims: Sequence[ResourceClaim], node: Node, most_steps: int = MOST_STEPS
    ) -> Solution | str:
        """Return the devices that *claims* get on *node*, or what Kubernetes says of it; raises AllocationError."""
        search = AllocationSearch(self, self.candidates, self.in_use, claims, node, most_steps)
        return search.solution() if search.solve() else search.message()
