"""Node lifecycle: taints nodes by condition, marks missing heartbeats, and taints for eviction at a rate per zone.

Spec: core.md 4.6 "Node lifecycle controller". NoSchedule taints follow conditions at once. NoExecute taints wait in
their zone's queue, indefinitely when no node of the cluster is ready. A heartbeat counts from when this process
observed it, so a restart gives every node a new grace period. Each five-second pass visits only nodes that changed,
are unhealthy, or whose grace period ended.

Interface for heartbeats that a simulation did not write one by one. Under virtual time the simulated kubelets write a
ledger (weir.simulation.kubelet.heartbeats) that node lifecycle reads through this interface. In real time every
heartbeat is written and `NodeLifecycle` gets none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Any, Final, Protocol

import msgspec

from weir.client.events import ObjectReference
from weir.controllers.nodes.condition_taints import (
    EVICTING_KEYS,
    OWNED,
    evicting,
    node_event,
    ready_status,
    set_taints,
    status_patch,
    unknown_conditions,
    wanted_keys,
    without,
)
from weir.controllers.nodes.zones import Counted, ZoneQueue, ZoneState, rate_of, zone_of, zone_state
from weir.controllers.runtime.controller import Action, Controller, Record, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Node, parse_time
from weir.gates import Gates
from weir.objects.core import Taint
from weir.objects.kind import Kind
from weir.objects.kinds import LEASES, NODES, PODS
from weir.objects.times import format_time
from weir.taints.wellknown import NOT_READY, UNREACHABLE

LEASE_NAMESPACE: Final = "kube-node-lease"
CHECK_PERIOD: Final = timedelta(seconds=5)
GRACE: Final = timedelta(seconds=50)
STARTUP_GRACE: Final = timedelta(seconds=60)


# Keys are dataclasses, not tuples: tuples of one name would be equal, and one item would hide the other.


class PostponedHeartbeats(Protocol):
    """Heartbeats that are due but not written yet, or were written late."""

    def in_time(self, node: str) -> bool:
        """Return whether *node* sends its heartbeats in time, written or not."""

    def due_at(self, node: str, text: str) -> datetime | None:
        """Return when the heartbeat that says *text* was due, if it was written late."""

    def take_ended(self) -> list[tuple[str, datetime]]:
        """Return the nodes that stopped being in time since the last call, and when each sent its last heartbeat."""


class NodeKey(msgspec.Struct, frozen=True):
    """A node whose NoSchedule taints may have to follow its conditions."""

    node: str


class HealthKey(msgspec.Struct, frozen=True):
    """A node whose heartbeat is to be checked."""

    node: str


class CheckKey(msgspec.Struct, frozen=True):
    """Time to look at the nodes."""

    due: str = "check"


class DisruptionKey(msgspec.Struct, frozen=True):
    """The nodes were checked: recompute the zone states."""

    due: str = "disruption"


class ZoneKey(msgspec.Struct, frozen=True):
    """A zone whose next node may be due for its taint."""

    zone: str


Key = NodeKey | HealthKey | CheckKey | DisruptionKey | ZoneKey
#: The key of the NoExecute taint of a node, by the status of its Ready condition.
_EVICTING_KEY: Final = {"False": NOT_READY, "Unknown": UNREACHABLE}


@dataclass
class Health:
    """What a node last reported, and when this process saw it."""

    seen_at: datetime
    reported: tuple[
        tuple[str, str | None] | None, str | None
    ]  # (Ready and its heartbeat, the Lease's renewal)


class NodeLifecycle(Controller):
    """The node lifecycle controller."""

    name = "node-controller"
    kinds: Sequence[Kind] = (NODES, PODS, LEASES)
    reads = {PODS: ()}
    first_keys = (CheckKey(),)

    def __init__(
        self, gates: Gates, *, grace: timedelta = GRACE, postponed: PostponedHeartbeats | None = None
    ) -> None:
        """Set the grace period and the source of heartbeats.

        *grace* is how long a node may miss heartbeats after the last one; *postponed* holds heartbeats that were not
        written when due (simulations under virtual time only).
        """
        self._grace, self._postponed = grace, postponed
        self._registered: dict[str, str] = {}  # uids of the nodes an event announced
        self._moved: dict[str, None] = {}  # nodes that came or went since
        self._health: dict[str, Health] = {}
        self._ready: dict[str, str] = {}  # what each node's Ready condition is, or is about to be
        self._counted = Counted()
        self._changed: dict[str, None] = {}  # nodes that changed, or reported, since the last check
        self._unwell: dict[str, None] = {}  # nodes whose taints do not say yet what their condition says
        self._graces: list[tuple[datetime, str]] = []  # a heap: when to check a node's heartbeat
        self._waiting: dict[str, datetime] = {}  # the earliest entry of each node in it
        self._checked_at: datetime | None = None
        self._queues: dict[str, ZoneQueue] = {}
        self._zones: dict[str, tuple[int, int]] | None = None  # what the last look at them found
        self._stopped = False  # every zone looks dead: no pod is evicted

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield what a change of an object makes worth looking at."""
        if kind is LEASES:
            metadata = (new or old)["metadata"]
            if metadata["namespace"] == LEASE_NAMESPACE:
                self._changed[metadata["name"]] = None
            return
        if kind is not NODES:
            return
        if old is None or new is None:
            self._moved[(new or old).name] = None
        if new is None:
            self._forget(old.name)
            return
        self._changed[new.name] = None
        yield NodeKey(new.name)
        if old is None or ready_status(old) != ready_status(new):
            yield HealthKey(new.name)

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what must happen at *now*; safe to repeat."""
        match key:
            case NodeKey(name):
                node = listers.node(name)
                if node is not None:
                    yield from self._follow_conditions(node, now)
            case HealthKey(name):
                node = listers.node(name)
                if node is not None:
                    yield from self._check(node, listers, now)
            case CheckKey():
                self._checked_at = now
                yield from self._register(listers)
                chosen = self._to_check(now)
                for name in chosen:
                    yield WakeAt(HealthKey(name), now)
                if chosen or not self._calm():
                    yield WakeAt(DisruptionKey(), now)
                yield WakeAt(CheckKey(), now + CHECK_PERIOD)
            case DisruptionKey():
                yield from self._disruption(listers, now)
            case ZoneKey(zone):
                yield from self._taint_next(zone, listers, now)

    def _register(self, listers: Listers) -> Iterator[Action]:
        """Announce nodes that came and went since the last round."""
        moved, self._moved = sorted(self._moved), {}
        there = {name: node.metadata.uid for name in moved if (node := listers.node(name)) is not None}
        for name, uid in there.items():
            if name not in self._registered:
                yield node_event(name, uid, "RegisteredNode", f"Registered Node {name} in Controller")
            self._registered[name] = uid
        for name in moved:
            if name not in there and (uid := self._registered.pop(name, "")):
                yield node_event(name, uid, "RemovingNode", f"Removing Node {name} from Controller")

    # ── conditions → NoSchedule taints ───────────────────────────────────────────────────────────

    def _follow_conditions(self, node: Node, now: datetime) -> Iterator[Action]:
        wanted = list(wanted_keys(node))
        kept = [t for t in node.taints if t.effect != "NoSchedule" or t.key not in OWNED or t.key in wanted]
        present = {t.key for t in kept if t.effect == "NoSchedule"}
        added = [Taint(key, "", "NoSchedule", format_time(now)) for key in wanted if key not in present]
        if added or len(kept) != len(node.taints):
            yield set_taints(node, [*kept, *added])

    # ── health ───────────────────────────────────────────────────────────────────────────────────

    def _to_check(self, now: datetime) -> list[str]:
        """Return the nodes to be looked at, by name: about all others nothing new can be said."""
        self._note_last_heartbeat(now)
        chosen = {*self._changed, *self._unwell}
        self._changed = {}
        while self._graces and self._graces[0][0] < now:
            over, name = heappop(self._graces)
            if self._waiting.get(name) == over:
                del self._waiting[name]
                chosen.add(name)
        return sorted(chosen)

    def _note_last_heartbeat(self, now: datetime) -> None:
        """Record the last heartbeat of nodes that stop reporting from now on, as if observed when it was made."""
        for name, last in self._postponed.take_ended() if self._postponed is not None else ():
            self._changed[name] = None
            health = self._health.get(name)
            if health is not None:
                health.seen_at = max(health.seen_at, self._check_after(last, now))

    def _wait_for_silence(self, node: str, over: datetime) -> None:
        """See to it that the node is looked at when its grace is over."""
        if node not in self._waiting or over < self._waiting[node]:
            # One that comes too early does no harm, so a report moves nothing.
            self._waiting[node] = over
            heappush(self._graces, (over, node))

    def _forget(self, name: str) -> None:
        self._health.pop(name, None)
        self._ready.pop(name, None)
        self._unwell.pop(name, None)
        self._counted.drop(name)

    def _check(self, node: Node, listers: Listers, now: datetime) -> Iterator[Action]:
        self._note_last_heartbeat(now)
        health = self._observe(node, listers, now)
        ready = ready_status(node)
        grace = self._grace if node.status.condition("Ready") is not None else STARTUP_GRACE
        in_time = self._postponed is not None and self._postponed.in_time(node.name)
        if not in_time and now > health.seen_at + grace and (lost := list(unknown_conditions(node, now))):
            yield status_patch(NODES, node.name, "", lost)
            if ready == "True":
                message = f"Node {node.name} status is now: NodeNotReady"
                about = ObjectReference("Node", node.name, "", node.metadata.uid)
                yield Record(about, "Normal", "NodeNotReady", message)
                yield from self._pods_not_ready(node, listers, now)
            ready = "Unknown"
        self._ready[node.name] = ready
        self._counted.put(node, ready)
        carried = {t.key for t in node.taints if t.effect == "NoExecute"} & EVICTING_KEYS
        wanted = {_EVICTING_KEY[ready]} if ready in _EVICTING_KEY else set()
        if not ready or carried == wanted:
            self._unwell.pop(node.name, None)
        else:
            self._unwell[node.name] = None
        if ready != "Unknown" and not in_time:
            self._wait_for_silence(node.name, health.seen_at + grace)
        yield from self._evicting_taints(node, ready, now)

    def _observe(self, node: Node, listers: Listers, now: datetime) -> Health:
        """Note what the node reports; what it newly reports was seen now."""
        lease = listers.get(LEASES, node.name, LEASE_NAMESPACE)
        renewed = ((lease or {}).get("spec") or {}).get("renewTime")
        ready = node.status.condition("Ready")
        unknown = (
            ready is not None and ready.status == "Unknown"
        )  # written by this controller, not by the node
        condition = None if ready is None or unknown else (ready.status, ready.last_heartbeat_time)
        health = self._health.get(node.name)
        if health is None:
            born = parse_time(node.metadata.creation_timestamp)
            seen = born if ready is None and renewed is None and born is not None else now
            health = self._health[node.name] = Health(seen, (condition, renewed))
        else:
            # What is missing says nothing: neither a Lease that was deleted nor a condition written here.
            reported = (condition or health.reported[0], renewed or health.reported[1])
            news = [health.seen_at]
            if reported[1] != health.reported[1]:
                news.append(self._observed_at(node.name, reported[1], now))
            if reported[0] is not None and reported[0] != health.reported[0]:
                again = health.reported[0] is not None and reported[0][1] == health.reported[0][1]
                # Another status at the time of an old heartbeat was written by another client, now.
                news.append(now if again else self._observed_at(node.name, reported[0][1], now))
            health.seen_at, health.reported = max(news), reported
        return health

    def _observed_at(self, node: str, text: str | None, now: datetime) -> datetime:
        """Return when a report was seen: now, or by the check after the time at which a postponed one was due."""
        due = self._postponed.due_at(node, text) if self._postponed is not None and text else None
        return now if due is None else self._check_after(due, now)

    def _check_after(self, due: datetime, now: datetime) -> datetime:
        """Return the time of the first check that saw what was due then: *now*, if none was yet."""
        if self._checked_at is None or due > self._checked_at:
            return now
        return self._checked_at - (self._checked_at - due) // CHECK_PERIOD * CHECK_PERIOD

    def _pods_not_ready(self, node: Node, listers: Listers, now: datetime) -> Iterator[Action]:
        for pod in listers.pods_on(node.name):
            if not pod.ready:
                continue
            metadata = pod.metadata
            condition = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(now)}
            yield status_patch(PODS, metadata.name, metadata.namespace, [condition])
            about = ObjectReference("Pod", metadata.name, metadata.namespace, metadata.uid)
            yield Record(about, "Warning", "NodeNotReady", "Node is not ready")

    # ── NoExecute taints ─────────────────────────────────────────────────────────────────────────

    def _evicting_taints(self, node: Node, ready: str, now: datetime) -> Iterator[Action]:
        queue = self._queue(zone_of(node))
        key = _EVICTING_KEY.get(ready)
        present = {taint.key for taint in node.taints if taint.effect == "NoExecute"}
        if key is None:
            queue.remove(node.name)
            if ready == "True" and present & {NOT_READY, UNREACHABLE}:
                yield set_taints(node, without(node, NOT_READY, UNREACHABLE))
            return
        other = UNREACHABLE if key == NOT_READY else NOT_READY
        if key in present and other not in present:
            queue.remove(node.name)
        elif other in present:
            yield set_taints(node, [*without(node, NOT_READY, UNREACHABLE), evicting(key, now)])
        else:
            queue.add(node.name)

    def _taint_next(self, zone: str, listers: Listers, now: datetime) -> Iterator[Action]:
        queue = self._queue(zone)
        due = queue.due(now)
        if due is None:
            return
        name = queue.head()
        assert name is not None
        if due > now:
            yield WakeAt(ZoneKey(zone), due)
            return
        node = listers.node(name)
        key = _EVICTING_KEY.get(self._ready.get(name, ""))
        if node is None or key is None:
            queue.remove(name)  # gone, or back: it uses no allowance
        else:
            queue.let_through(now)
            yield set_taints(node, [*without(node, NOT_READY, UNREACHABLE), evicting(key, now)])
        if (then := queue.due(now)) is not None:
            yield WakeAt(ZoneKey(zone), then)

    def _queue(self, zone: str) -> ZoneQueue:
        return self._queues.setdefault(zone, ZoneQueue())

    # ── zones ────────────────────────────────────────────────────────────────────────────────────

    def _calm(self) -> bool:
        """Whether another look at the zones would say what the last one said: no node waits, nothing has moved."""
        waits = self._stopped or any(self._queues.values())
        return not waits and self._counted.zones() == self._zones

    def _disruption(self, listers: Listers, now: datetime) -> Iterator[Action]:
        zones = self._zones = self._counted.zones()
        for gone in [zone for zone, queue in self._queues.items() if not queue and zone not in zones]:
            del self._queues[gone]
        states = {zone: zone_state(ready, unready) for zone, (ready, unready) in zones.items()}
        all_dead = bool(zones) and all(state is ZoneState.FULL_DISRUPTION for state in states.values())
        if all_dead:
            for queue in self._queues.values():
                queue.rate = 0.0
            if not self._stopped:
                self._stopped = True
                for node in listers.all(NODES):
                    self._queue(zone_of(node)).remove(node.name)
                    if any(t.effect == "NoExecute" and t.key in EVICTING_KEYS for t in node.taints):
                        yield set_taints(node, without(node, NOT_READY, UNREACHABLE))
            return
        if self._stopped:
            self._stopped = False
            for health in self._health.values():
                health.seen_at = now
        for zone, (ready, unready) in zones.items():
            queue = self._queue(zone)
            queue.rate = rate_of(states[zone], ready + unready)
            if queue.due(now) is not None:
                yield WakeAt(ZoneKey(zone), now)
