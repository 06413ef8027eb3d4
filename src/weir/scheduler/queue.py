"""Scheduling queue: active pods, backoff, unschedulable and gated pods.

Spec: core.md 3.8 "Queue". Active pods by priority, then time. Unschedulable pods wait for an event that may help them
(weir.scheduler.queueing_hints), then for a backoff that doubles with every rejection. Events that arrive during a
pod's attempt are recorded for it. Pure: the time is an argument.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from weir.objects.core import Pod
from weir.scheduler.claims import Claims
from weir.scheduler.plugins.dynamic_resources import NAME as DYNAMIC_RESOURCES
from weir.scheduler.plugins.scheduling_gates import NAME as SCHEDULING_GATES
from weir.scheduler.queueing_hints import (
    ATTEMPT_FAILED,
    BACKOFF_OVER,
    FORCED,
    NEW_POD,
    POPPED_EARLY,
    TIMEOUT,
    WILDCARDS,
    ClusterEvent,
    QueueingHints,
    own_events,
)

INITIAL_BACKOFF_SECONDS: Final = 1.0
MAX_BACKOFF_SECONDS: Final = 10.0
#: After this long asleep a pod is tried again, whatever happened or not.
LONGEST_SLEEP_SECONDS: Final = 300.0

#: (queue, event): for the metric scheduler_queue_incoming_pods_total.
Incoming = Callable[[str, str], None]


@dataclass(eq=False)
class QueuedPod:
    """A pod that waits for its turn, and what its attempts have taught."""

    pod: Pod
    timestamp: float  #: when it entered its present place
    first_attempt: float | None = None
    attempts: int = 0
    rejections: int = 0
    errors: int = 0  #: in a row
    rejected_by: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()  #: of those, the plugins that answered Pending
    gated_by: str = ""  #: the plugin that keeps it from being tried at all
    expiry: float = 0.0
    successor: QueuedPod | None = None  #: another pod of the same name that came while this one had its turn

    @property
    def key(self) -> str:
        return self.pod.key

    @property
    def kept_by(self) -> frozenset[str]:
        """The plugins whose events can wake it."""
        return frozenset({self.gated_by}) if self.gated_by else self.rejected_by

    @property
    def order(self) -> tuple[int, float]:
        """What sorts ready pods: the more important first, then the one that waits longer."""
        return (-(self.pod.spec.priority or 0), self.timestamp)


#: Order, a number of its own and the pod: two are compared without looking at pods.
_Entry = tuple[tuple[float, ...], int, QueuedPod]


class _Heap:
    """A heap with removal by key."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._members: dict[str, _Entry] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: str) -> bool:
        return key in self._members

    def push(self, item: QueuedPod, order: tuple[float, ...]) -> None:
        self._count += 1
        entry = self._members[item.key] = (order, self._count, item)
        heapq.heappush(self._entries, entry)

    def peek(self) -> QueuedPod | None:
        while self._entries:
            top = self._entries[0]
            item = top[2]
            if self._members.get(item.key) is top:
                return item
            heapq.heappop(self._entries)  # taken out earlier
        return None

    def pop(self) -> QueuedPod | None:
        item = self.peek()
        if item is not None:
            heapq.heappop(self._entries)
            del self._members[item.key]
        return item

    def find(self, key: str) -> QueuedPod | None:
        entry = self._members.get(key)
        return entry[2] if entry is not None else None

    def remove(self, key: str) -> None:
        self._members.pop(key, None)


class SchedulingQueue:
    """All pods that are not placed yet."""

    def __init__(
        self,
        hints: QueueingHints,
        *,
        pop_from_backoff: bool = True,
        ungated: frozenset[str] = frozenset(),
        initial_backoff: float = INITIAL_BACKOFF_SECONDS,
        max_backoff: float = MAX_BACKOFF_SECONDS,
        incoming: Incoming | None = None,
        claims: Claims | None = None,
    ) -> None:
        self._hints = hints
        self._claims = claims  #: whose pods wait until their claims are there
        self._pop_from_backoff = pop_from_backoff
        self._ungated = ungated  #: schedulers that do not look at scheduling gates
        self._initial, self._max = initial_backoff, max_backoff
        self._incoming = incoming or (lambda queue, event: None)
        self._active = _Heap()
        self._backoff = _Heap()  # rejected pods
        self._error_backoff = _Heap()
        self._asleep: dict[str, QueuedPod] = {}
        self._kept_by: Counter[str] = Counter()  # plugins, by the sleeping pods they keep asleep
        self._in_flight: dict[str, tuple[QueuedPod, int]] = {}
        self._events: list[ClusterEvent] = []  # since the oldest pod in flight was popped
        self._events_start = 0
        #: pods held back by others than their gates: key → plugin and reason (preemption under way)
        self.held: dict[str, str] = {}

    # ── coming and going ─────────────────────────────────────────────────────────────────────────

    def add(self, pod: Pod, now: float) -> None:
        """Take in a new pod, or an existing one that changed."""
        self.update(pod, now)

    def update(self, pod: Pod, now: float) -> None:
        """Bring a waiting pod up to date; its own change may be what it waited for."""
        key = pod.key
        if key in self._in_flight:
            flying = self._in_flight[key][0]
            if flying.pod.metadata.uid != pod.metadata.uid:
                flying.successor = QueuedPod(pod, now)
                return
            old, flying.pod = flying.pod, pod
            for event in own_events(old, pod):
                self._record(event)
            return
        item = self.find(key)
        if item is None:
            self._enqueue(QueuedPod(pod, now), NEW_POD, now)
            return
        old, item.pod = item.pod, pod
        if key in self._active:
            self._active.remove(key)
            self._active.push(item, item.order)
        elif key in self._asleep:
            if item.gated_by:
                self._get_up(key)
                self._enqueue(item, next((e.label for e in own_events(old, pod)), FORCED), now)
                return
            for event in own_events(old, pod):
                if self._helps(item, event):
                    self._wake(item, event, now)
                    return

    def delete(self, key: str) -> None:
        """Forget a pod: it is gone, or it has been placed."""
        self._get_up(key)
        self.held.pop(key, None)
        if key in self._in_flight:
            self._in_flight[key][0].successor = None
        for heap in (self._active, self._backoff, self._error_backoff):
            heap.remove(key)

    def find(self, key: str) -> QueuedPod | None:
        """Return the waiting pod *key*, wherever it waits."""
        if key in self._asleep:
            return self._asleep[key]
        heaps = (self._active, self._backoff, self._error_backoff)
        return next((item for heap in heaps if (item := heap.find(key)) is not None), None)

    def _enqueue(self, item: QueuedPod, event: str, now: float) -> None:
        """Put a pod where it belongs: outside when gated, else into the active queue."""
        gates = bool(item.pod.spec.scheduling_gates) and item.pod.spec.scheduler_name not in self._ungated
        missing = not gates and self._claims is not None and self._claims.gate(item.pod)
        if gates or missing or item.key in self.held:
            item.gated_by = (
                SCHEDULING_GATES if gates else DYNAMIC_RESOURCES if missing else "DefaultPreemption"
            )
            self._fall_asleep(item)
            self._incoming("gated", event)
            return
        item.gated_by = ""
        self._active.push(item, item.order)
        self._incoming("active", event)

    def release(self, key: str, now: float) -> None:
        """Release a pod that was held back (the preemption it waited for is done)."""
        self.held.pop(key, None)
        item = self._asleep.get(key)
        if item is not None and item.gated_by == "DefaultPreemption":
            self._get_up(key)
            self._to_backoff_or_active(item, FORCED, now)

    # ── taking turns ─────────────────────────────────────────────────────────────────────────────

    def pop(self, now: float) -> QueuedPod | None:
        """Return the next pod to schedule, or None when none is ready."""
        item = self._active.pop()
        if item is None and self._pop_from_backoff:
            item = self._backoff.pop()
            if item is not None:
                self._incoming("active", POPPED_EARLY)
        if item is None:
            return None
        item.attempts += 1
        if item.first_attempt is None:
            item.first_attempt = item.timestamp
        item.rejected_by = item.pending = frozenset()
        self._in_flight[item.key] = (item, self._events_start + len(self._events))
        return item

    def done(self, key: str) -> bool:
        """End the attempt of a pod that was placed or dropped; True when that lets another of its name in."""
        item, _ = self._in_flight.pop(key, (None, 0))
        self._trim()
        if item is None or item.successor is None:
            return False
        self._enqueue(item.successor, NEW_POD, item.successor.timestamp)
        return True

    def rejected(self, item: QueuedPod, plugins: frozenset[str], pending: frozenset[str], now: float) -> None:
        """Take back a pod that no node took; events that came meanwhile may already help it."""
        item.rejections += 1
        item.errors = 0
        item.rejected_by, item.pending = plugins, pending
        self._return(item, now)

    def failed(self, item: QueuedPod, now: float) -> None:
        """Requeue a pod whose attempt failed with an error, with backoff."""
        item.errors += 1
        item.rejected_by = item.pending = frozenset()
        self._return(item, now)

    def _return(self, item: QueuedPod, now: float) -> None:
        _, position = self._in_flight.pop(item.key, (item, self._events_start + len(self._events)))
        item.timestamp = now
        missed = self._events[max(0, position - self._events_start) :]
        self._trim()
        if not item.rejected_by:
            self._to_backoff_or_active(item, ATTEMPT_FAILED, now)
            return
        for event in missed:
            if self._helps(item, event):
                self._wake(item, event, now)
                return
        self._fall_asleep(item)
        self._incoming("unschedulable", ATTEMPT_FAILED)

    def _trim(self) -> None:
        oldest = min(
            (start for _, start in self._in_flight.values()), default=self._events_start + len(self._events)
        )
        del self._events[: oldest - self._events_start]
        self._events_start = oldest

    # ── waking up ────────────────────────────────────────────────────────────────────────────────

    def on_event(self, event: ClusterEvent, now: float) -> int:
        """Wake the pods that *event* can help and return how many; pods in flight receive it when they return."""
        self._record(event)
        if not self._is_registered(event.label):
            return 0
        if event.pods is None:
            candidates: Iterable[QueuedPod] = self._asleep.values()
        else:
            candidates = [self._asleep[key] for key in event.pods if key in self._asleep]
        woken = [item for item in candidates if self._helps(item, event)]
        for item in woken:
            self._wake(item, event, now)
        return len(woken)

    def _is_registered(self, label: str) -> bool:
        """Return whether a plugin that keeps some pod asleep registered such events."""
        if label in WILDCARDS:
            return True
        return any(self._hints.registers(plugin, label) for plugin in self._kept_by)

    def _fall_asleep(self, item: QueuedPod) -> None:
        self._get_up(item.key)
        self._asleep[item.key] = item
        for plugin in item.kept_by:
            self._kept_by[plugin] += 1

    def _get_up(self, key: str) -> None:
        item = self._asleep.pop(key, None)
        for plugin in item.kept_by if item is not None else ():
            self._kept_by[plugin] -= 1
            if not self._kept_by[plugin]:
                del self._kept_by[plugin]

    def _record(self, event: ClusterEvent) -> None:
        if self._in_flight:
            self._events.append(event)

    def _helps(self, item: QueuedPod, event: ClusterEvent) -> bool:
        if item.gated_by:
            return event.label in WILDCARDS or bool(self._hints.helps(item.gated_by, item.pod, event))
        if event.label in WILDCARDS:
            return True
        if event.pods is not None and item.key not in event.pods:
            return False
        if event.label.startswith("TargetPod") and event.new.key != item.key:
            return False
        return any(self._hints.helps(plugin, item.pod, event) for plugin in item.rejected_by)

    def _wake(self, item: QueuedPod, event: ClusterEvent, now: float) -> None:
        self._get_up(item.key)
        if item.gated_by:
            self._enqueue(item, event.label, now)
            return
        at_once = any(self._hints.helps(plugin, item.pod, event) for plugin in item.pending)
        if at_once:
            self._active.push(item, item.order)
            self._incoming("active", event.label)
        else:
            self._to_backoff_or_active(item, event.label, now)

    def _to_backoff_or_active(self, item: QueuedPod, event: str, now: float) -> None:
        item.expiry = self._expiry(item)
        if item.expiry >= self._floor(now) and self._wait(item) > 0:
            # Only a pod that plugins rejected may be taken early; an attempt that broke waits its time out.
            heap = self._backoff if item.rejected_by or item.pending else self._error_backoff
            heap.push(item, (item.expiry, *item.order))
            self._incoming("backoff", event)
        else:
            self._enqueue(item, event, now)

    def _wait(self, item: QueuedPod) -> float:
        count = item.errors or item.rejections
        if count == 0 or self._max == 0:
            return 0.0
        return float(min(self._initial * 2 ** min(count - 1, 30), self._max))

    def _expiry(self, item: QueuedPod) -> float:
        return self._floor(item.timestamp + self._wait(item))

    def _floor(self, moment: float) -> float:
        """Return *moment* cut to the second, so that pods of one second keep the order of their priority."""
        return float(moment // 1) if self._pop_from_backoff else moment

    def tick(self, now: float) -> int:
        """Do what time alone does: end backoffs, and wake pods that slept too long. Return how many moved."""
        moved = 0
        for heap in (self._backoff, self._error_backoff):
            while (item := heap.peek()) is not None and item.expiry < self._floor(now):
                heap.pop()
                self._enqueue(item, BACKOFF_OVER, now)
                moved += 1
        stale = [
            item
            for item in self._asleep.values()
            if not item.gated_by and now - item.timestamp > LONGEST_SLEEP_SECONDS
        ]
        for item in stale:
            self._wake(item, ClusterEvent(TIMEOUT), now)
        return moved + len(stale)

    # ── looking in ───────────────────────────────────────────────────────────────────────────────

    @property
    def idle(self) -> bool:
        """Whether no pod is here, waiting or having its turn."""
        heaps = (self._active, self._backoff, self._error_backoff)
        return not (self._asleep or self._in_flight or any(map(len, heaps)))

    def counts(self) -> dict[str, int]:
        """Return how many pods wait where, for scheduler_pending_pods."""
        gated = sum(1 for item in self._asleep.values() if item.gated_by)
        return {
            "active": len(self._active),
            "backoff": len(self._backoff) + len(self._error_backoff),
            "unschedulable": len(self._asleep) - gated,
            "gated": gated,
        }

    def rejecting(self) -> Counter[tuple[str, str]]:
        """Return how many sleeping pods of each profile each plugin rejected, for scheduler_unschedulable_pods."""
        return Counter(
            (plugin, item.pod.spec.scheduler_name)
            for item in self._asleep.values()
            for plugin in item.rejected_by
        )
