"""Device allocator: devices for claims on a node, or why there are none.

Spec: KEP-4381 "Scheduling", dra.md 4.6 "Allocator". One allocator serves all nodes and is updated as slices change.
The search is in weir.devices.allocation_search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from weir.devices.allocation_search import AllocationSearch, Solution
from weir.devices.device_matcher import DeviceMatcher
from weir.devices.expression import Selectors
from weir.devices.outcome import Allocation, Unallocatable
from weir.devices.slice_candidates import SliceCandidates
from weir.devices.tracker import Tracker
from weir.devices.usage import InUse
from weir.gates import Gates
from weir.objects.core import Node
from weir.objects.resource import DeviceClass, ResourceClaim
from weir.taints.toleration import Evaluate

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
