"""DynamicResources: schedules pods to nodes where their claims have, or can get, their devices.

Spec: KEP-4381 "Scheduling", KEP-5055; dra.md 4.1–4.5, D-09. PreFilter checks the claims, Filter matches allocated
ones against each node and searches devices for the others, Score prefers nodes where earlier alternatives were met,
Reserve takes the devices on the chosen node. Preemption cannot help. An allocated claim that fits no node is
deallocated in PostFilter when no other pod uses it, also when a taint evicts from its devices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from weir.devices.allocation_search import MOST_STEPS
from weir.devices.claims import reserved_for
from weir.devices.eviction import Reason
from weir.devices.outcome import (
    CANNOT_ALLOCATE,
    INVALID_POOLS,
    AllocationError,
    DeviceRefusal,
    Unallocatable,
)
from weir.gates import Gates
from weir.objects.core import Node, Pod, read
from weir.objects.resource import AllocationResult, ResourceClaim, ResourceClaimStatus
from weir.scheduler.claim_feasibility import INVALID, REFUSED, ClaimFeasibilities, ClaimFeasibility
from weir.scheduler.claim_reasons import ClaimTied, NoDevices
from weir.scheduler.claims import BindingFailed, Claims, Readiness, requests_of, reservable
from weir.scheduler.framework import (
    MAX_NODE_SCORE,
    ClusterScorePlugin,
    Code,
    Extensions,
    LazyFilterPlugin,
    Plugin,
    PluginError,
    PostFilterPlugin,
    PreFilterPlugin,
    ReservePlugin,
    Scope,
    Status,
)
from weir.scheduler.node_columns import Bools, Ids, Ints
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.claim_reservation import ClaimBinding, ClaimReservation, Extended
from weir.scheduler.plugins.dynamic_resources_hints import DynamicResourcesHints
from weir.scheduler.plugins.extended_resources import (
    NO_SUCH_RESOURCE,
    STALE,
    Document,
    may_be_offered,
    offered_by_devices,
    requests_and_mappings,
    unwritten_claim,
)
from weir.scheduler.plugins.node_affinity import LabelJudge
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import QueueingHint
from weir.scheduler.reasons import Reason as FilterReason

NAME: Final = "DynamicResources"
UNAVAILABLE, TAINTED, LEFT_BEHIND, NO_RESOURCE = 3, 4, 5, 6
_REASONS: Final = {
    REFUSED: CANNOT_ALLOCATE,
    INVALID: INVALID_POOLS,
    UNAVAILABLE: "resourceclaim not available on the node",
    TAINTED: "resourceclaim has allocated devices with untolerated taints",
    LEFT_BEHIND: STALE,
    NO_RESOURCE: NO_SUCH_RESOURCE,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take: the plugin's arguments."""

    filter_seconds: float = 10.0
    binding_seconds: float = 600.0

    @property
    def steps(self) -> int:
        """How many devices a search may look at: it counts steps, not time, so that it ends alike every time."""
        return int(self.filter_seconds * MOST_STEPS / 10) or sys.maxsize


@dataclass(slots=True)
class _Plan:
    """What has to be allocated on some nodes, with the claim for extended resources if they need one there."""

    wanted: list[ResourceClaim]
    feasibility: ClaimFeasibility | None
    requests: list[Document]
    mappings: list[Document]


class DynamicResources(Plugin):
    """The plugin over one cluster's claims."""

    name = NAME

    def __init__(
        self,
        table: NodeTable,
        claims: Claims,
        gates: Gates,
        share_id: Callable[[], str] = lambda: "",
        limits: Limits | None = None,
    ) -> None:
        self._table, self._claims, self._gates, self._share_id = table, claims, gates, share_id
        self._limits = limits or Limits()
        self._feasibilities = ClaimFeasibilities(claims, table, self._limits.steps)

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod without claims, until devices offer a resource it requests."""
        delegated, stale = offered_by_devices(pod, self._claims), self._watch_offers(pod)
        if not pod.pod.spec.resource_claims and not delegated:
            return Extensions(stale=stale)
        bound = BoundDynamicResources(
            self._claims,
            pod,
            self._table,
            self._gates,
            self._feasibilities,
            self._share_id,
            delegated,
            self._limits,
        )
        return Extensions(
            pre_filter=bound,
            filter=bound,
            post_filter=bound,
            cluster_score=bound,
            reserve=bound,
            stale=stale,
        )

    def _watch_offers(self, pod: PodClass) -> Callable[[], bool] | None:
        """Return what says whether devices offer other resources than now; None when that never concerns *pod*."""
        if not any(map(may_be_offered, pod.requests)):
            return None
        claims, version = self._claims, self._claims.extended_version
        return lambda: claims.extended_version != version

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return DynamicResourcesHints(self._claims).events_to_register()


class BoundDynamicResources(
    LazyFilterPlugin, PreFilterPlugin, PostFilterPlugin, ClusterScorePlugin, ReservePlugin
):
    """The check for pods of one class; `start_cycle` says which of them is meant."""

    name = NAME
    scope = Scope.SEARCH

    def __init__(
        self,
        claims: Claims,
        pod: PodClass,
        table: NodeTable,
        gates: Gates,
        feasibilities: ClaimFeasibilities,
        share_id: Callable[[], str],
        delegated: frozenset[str],
        limits: Limits,
    ) -> None:
        self._limits = limits
        self._claims, self._table, self._gates = claims, table, gates
        self._feasibilities, self._share_id = feasibilities, share_id
        self._delegated = sorted(delegated)
        self._others = [
            name for name, n in pod.requests.items() if n and may_be_offered(name) and name not in delegated
        ]
        self.start_cycle(pod.pod)

    def start_cycle(self, pod: Pod) -> None:
        """From now on answer for *pod*: pods of one class have claims of their own."""
        self._pod = pod
        self._allocated: list[ResourceClaim] = []
        self._wanted: list[ResourceClaim] = []
        self._plans: dict[int, _Plan] = {}
        self._special: ResourceClaim | None = None
        self._unavailable: dict[str, ResourceClaim] = {}
        self._problem: Status | None = None
        self._seen = False

    # ── PreFilter ────────────────────────────────────────────────────────────────────────────────

    def pre_filter(self) -> Status | None:
        """Return why no node can take the pod, or None."""
        self._seen = True
        found = self._claims.of_pod(self._pod)
        if isinstance(found, str):
            self._problem = _unresolvable(found)
            return self._problem
        self._allocated = [claim for claim in found if claim.status.allocation is not None]
        self._wanted = [claim for claim in found if claim.status.allocation is None]
        self._special = self._claims.special_of(self._pod) if self._delegated else None
        self._problem = next(filter(None, map(self._why_not, found)), None)
        return self._problem

    def _why_not(self, claim: ResourceClaim) -> Status | None:
        """Return what about one claim keeps the pod from every node."""
        if claim.status.allocation is not None:
            if not reservable(claim) and not reserved_for(claim, self._pod):
                return _unresolvable("resourceclaim in use")
            return None
        if self._claims.promised(claim.metadata.uid):
            return _unresolvable(f"resource claim {claim.key} is in the process of being allocated")
        if not self._gates.enabled("DRAPrioritizedList"):
            for request in claim.spec.devices.requests or ():
                if request.first_available:
                    return _unresolvable(
                        f"resource claim {claim.key}, request {request.name}: has subrequests, but the "
                        "DRAPrioritizedList feature is disabled"
                    )
        for label, asked in requests_of(claim):
            if asked.device_class_name not in self._claims.classes:
                return _unresolvable(
                    f"request {label}: device class {asked.device_class_name} does not exist"
                )
        return None

    # ── Filter ───────────────────────────────────────────────────────────────────────────────────

    def codes(self, rows: Any) -> Ids:
        """Return 0, or what speaks against each node; raises PluginError when a search breaks."""
        if not self._seen:
            self.pre_filter()
        picked = np.arange(self._table.size)[rows]
        if self._problem is not None:  # PreFilter already failed: infeasible everywhere
            return np.full(len(picked), REFUSED, np.int32)
        codes: Ids = np.zeros(len(picked), np.int32)
        for claim in self._allocated:
            if self._claims.tainted(claim, self._pod):
                codes[:] = TAINTED
                self._unavailable[claim.key] = claim
        for claim in self._allocated:
            elsewhere = ~self._available(claim, picked)
            if elsewhere.any():
                self._unavailable[claim.key] = claim
                codes[elsewhere & (codes == 0)] = UNAVAILABLE
        if self._special is not None:
            codes[:] = LEFT_BEHIND
            return codes
        for plan, rows_of_plan in self._by_plan(picked):
            if plan.feasibility is None:
                continue
            try:
                found = plan.feasibility.codes(plan.wanted, picked[rows_of_plan])
            except AllocationError as error:
                raise PluginError(f'running "{NAME}" filter plugin: {error}') from None
            codes[rows_of_plan] = np.where(found, found, codes[rows_of_plan])
        for name in self._others:
            codes[self._table.resource(name).alloc[picked] == 0] = NO_RESOURCE
        return codes

    def scores_alike(self) -> bool:
        """Return whether all that is to be had are devices, in one way, so that no node scores more than another."""
        return not (
            self._allocated
            or self._delegated
            or self._others
            or any(
                request.first_available
                for claim in self._wanted
                for request in claim.spec.devices.requests or ()
            )
        )

    def refused(self) -> Bools:
        """Return the rows where a search found nothing that has not changed since."""
        feasibility = self._plan(0).feasibility
        return feasibility.refused() if feasibility is not None else np.zeros(self._table.size, np.bool_)

    def _by_plan(self, rows: Any) -> Iterator[tuple[_Plan, Any]]:
        """Yield what has to be allocated, and on which of *rows*: it hangs on what device plugins offer there."""
        if not self._delegated:
            yield self._plan(0), slice(None)
            return
        needed = np.zeros(len(rows), np.int64)
        for bit, name in enumerate(self._delegated):
            needed |= (self._table.resource(name).alloc[rows] == 0).astype(np.int64) << bit
        for number in np.unique(needed).tolist():
            yield self._plan(number), np.flatnonzero(needed == number)

    def _plan(self, needed: int) -> _Plan:
        """Return what has to be allocated where the *needed* of the delegated resources come from devices."""
        plan = self._plans.get(needed)
        if plan is None:
            wanted = list(self._wanted)
            requests: list[Document] = []
            mappings: list[Document] = []
            if needed:
                names = [name for bit, name in enumerate(self._delegated) if needed >> bit & 1]
                requests, mappings = requests_and_mappings(self._pod, names, self._claims.extended)
                wanted.append(unwritten_claim(self._pod, requests))
            feasibility = self._feasibilities.of(wanted) if wanted else None
            plan = self._plans[needed] = _Plan(wanted, feasibility, requests, mappings)
        return plan

    def _available(self, claim: ResourceClaim, rows: Any) -> Bools:
        """Return where an allocated claim can be used."""
        try:
            ready = self._claims.readiness(claim, self._limits.binding_seconds)
            usable = ready is not Readiness.TIMED_OUT
        except BindingFailed:
            usable = False
        allocation = claim.status.allocation
        selector = allocation.node_selector if allocation is not None else None
        if not usable or selector is None:
            return np.full(len(rows), usable, np.bool_)
        return LabelJudge(self._table, self._gates).selects(selector, rows)

    def status(self, code: int) -> Status:
        return _unresolvable(_REASONS[code])

    def reasons(self, row: int, code: int) -> tuple[FilterReason, ...]:
        """Return why the node was refused, with every device and every taint that counts."""
        node, text = self._table.nodes[row], _REASONS[code]
        assert node is not None
        if code in (UNAVAILABLE, TAINTED):
            evicting_taints = self.evicting_taints() if code == TAINTED else ()
            return (ClaimTied(text, tuple((claim.key, reason.taint) for claim, reason in evicting_taints)),)
        if self._problem is not None:
            return ()  # the claims cannot be used at all: PreFilter speaks for all nodes at once
        try:
            return (NoDevices(text, self.refusals(node)),)
        except AllocationError:
            return (NoDevices(text),)

    def refusals(self, node: Node) -> tuple[DeviceRefusal, ...]:
        """Return why each device of a rejected node was rejected for each request, for explanations."""
        row = self._table.row_of[node.name]
        ((plan, _),) = self._by_plan(np.array([row]))
        found = self._claims.allocator.allocate(plan.wanted, node) if plan.wanted else None
        return found.refusals if isinstance(found, Unallocatable) else ()

    def allocated_on(self, row: int) -> list[ResourceClaim]:
        """Return the pod's claims as they would be allocated on a feasible node, for explanations."""
        ((plan, _),) = self._by_plan(np.array([row]))
        if plan.feasibility is None:
            return list(self._allocated)
        found = plan.feasibility.solution(plan.wanted, row).written(plan.wanted, self._share_id)
        made = [
            msgspec.structs.replace(claim, status=ResourceClaimStatus(read(AllocationResult, allocation)))
            for claim, allocation in zip(plan.wanted, found.claims, strict=True)
        ]
        return [*self._allocated, *made]

    def evicting_taints(self) -> Iterator[tuple[ResourceClaim, Reason]]:
        """Return the taints because of which allocated claims accept no new pods, for explanations."""
        for claim in self._allocated:
            for reason in self._claims.evicting_taints(claim, self._pod):
                yield claim, reason

    # ── Score ────────────────────────────────────────────────────────────────────────────────────

    def normalized_scores(self, feasible: Bools) -> Ints | None:
        """Return 0…100 by how far up in their lists the alternatives stand that each node meets."""
        size = self._table.size
        raw: Ints = np.zeros(size, np.int64)
        fixed = sum(_alternatives(claim) for claim in self._allocated)
        for plan, rows in self._by_plan(np.arange(size)):
            if plan.feasibility is not None:
                raw[rows] = plan.feasibility.scores()[rows] + fixed
        highest = int(raw.max(initial=0, where=feasible))
        return MAX_NODE_SCORE * np.minimum(raw, highest) // highest if highest else None

    # ── PostFilter, Reserve ──────────────────────────────────────────────────────────────────────

    def post_filter(self) -> ResourceClaim | None:
        """Return a claim that stood in the way on some node and that no other pod uses.

        Of an earlier attempt for extended resources it is that attempt's claim.
        """
        if self._special is not None:
            return self._special
        for claim in self._unavailable.values():
            consumers = claim.status.reserved_for or ()
            if all(consumer.uid == self._pod.metadata.uid for consumer in consumers):
                return claim
        return None

    def reserve(self, node: str) -> ClaimReservation | None:
        """Promise the devices that the pod's claims get on *node*; None when it has no claims after all."""
        row = self._table.row_of[node]
        ((plan, _),) = self._by_plan(np.array([row]))
        if not self._allocated and not plan.wanted:
            return None
        bindings = [
            ClaimBinding(claim, None) for claim in self._allocated if not reserved_for(claim, self._pod)
        ]
        if plan.feasibility is not None:
            found = plan.feasibility.solution(plan.wanted, row).written(plan.wanted, self._share_id)
            for claim, allocation in zip(plan.wanted, found.claims, strict=True):
                self._claims.promise(claim.metadata.uid, allocation)
                bindings.append(ClaimBinding(claim, allocation))
        claims = [*self._allocated, *self._wanted]
        extended = Extended(plan.requests, plan.mappings) if plan.mappings else None
        return ClaimReservation(
            self._claims, self._pod, node, bindings, claims, extended, self._limits.binding_seconds
        )


def _alternatives(claim: ResourceClaim) -> int:
    """Return the score of the alternatives an allocated claim got."""
    got = {result.request for result in claim.results}
    return sum(
        8 - index
        for request in claim.spec.devices.requests or ()
        for index, one in enumerate(request.first_available or ())
        if f"{request.name}/{one.name}" in got
    )


def _unresolvable(text: str) -> Status:
    return Status(Code.UNRESOLVABLE, (text,), NAME)
