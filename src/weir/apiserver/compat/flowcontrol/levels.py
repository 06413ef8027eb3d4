"""Seats, fair queues and Retry-After of priority levels (API Priority and Fairness).

Spec: decision 14.
A request occupies as many seats as its width. One that cannot start goes to the shortest queue of its flow's hand; a
full queue rejects. Start-time fair queuing: a request's virtual start is the latest of the level's virtual time and
the ends of its queue's and its flow's last request, its end is its width further; the earliest start is next. So wide
requests are served less often, and a flow gains nothing by using all its queues. A level that rejects instead of
queuing has lines only for the loop's turns. Pure state machine: no event loop, no clock.

Shuffle sharding: the queues a flow may use, by its hash. Two flows rarely share all their queues, so a flow that fills
its own leaves the others at least one. Hands are the same as upstream's.

Minimum and maximum seats of priority levels. The server's seats are divided by the levels' shares; a level keeps what
it does not lend and may borrow up to its limit. As upstream, a level's own seats are rounded up and its lendable seats
rounded.

Retry-After of rejected requests, adapted to the rejection rate. As upstream: a level starts with one second; each
second, if fewer requests than the current value were rejected within that many seconds it decreases by one, if at least
three times as many it doubles (up to 32), and not again before that time has passed.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from weir.apiserver.compat.flowcontrol.classify import PriorityLevel

#: Queues that are remembered for what they have had, beside those that hold something.
_REMEMBERED = 1024
_WIDEST = 0.15  # of a level's seats


LONGEST: Final = 32


class RetryAfter:
    """The Retry-After of one level."""

    def __init__(self) -> None:
        self.seconds = 1
        self._second = self._refused = 0  # the second that runs, and how many were refused in it
        self._history: deque[tuple[int, int]] = deque(maxlen=LONGEST)
        self._raised = 0  # when it was last made longer

    def refuse(self, now: float) -> int:
        """Count a rejected request and return its Retry-After."""
        second = int(now)
        if second != self._second:
            self._history.append((self._second, self._refused))
            self._second, self._refused = second, 0
            self._adapt(second)
        self._refused += 1
        return self.seconds

    def _adapt(self, second: int) -> None:
        lately = sum(count for then, count in self._history if second - then <= self.seconds)
        if lately < self.seconds and self.seconds > 1:
            self.seconds -= 1
        elif lately >= 3 * self.seconds and second - self._raised >= self.seconds:
            self._raised = second
            self.seconds = min(2 * self.seconds, LONGEST)


class Seats(NamedTuple):
    """The seats of one level."""

    nominal: int  #: its own
    lower: int  #: what is left of its own when it has lent all it lends
    upper: int  #: with all it may borrow


def divide(levels: Iterable[PriorityLevel], seats: int) -> dict[str, Seats]:
    """Return the seats of each level, of *seats* in all.

    >>> level = PriorityLevel("low", "", False, 100, 90, None, 128, 6, 50)
    >>> other = level._replace(name="high", shares=145, lendable_percent=0, borrowing_percent=50)
    >>> divide([level, other], 600)
    {'low': Seats(nominal=245, lower=24, upper=845), 'high': Seats(nominal=356, lower=356, upper=534)}
    """
    levels = list(levels)
    whole = sum(level.shares for level in levels)
    found = {}
    for level in levels:
        nominal = math.ceil(seats * level.shares / whole) if whole else 0
        lower = nominal - math.floor(nominal * level.lendable_percent / 100 + 0.5)
        borrowing = seats
        if level.borrowing_percent is not None:
            borrowing = math.floor(nominal * level.borrowing_percent / 100 + 0.5)
        found[level.name] = Seats(nominal, lower, nominal + borrowing)
    return found


def flow_hash(schema: str, distinguisher: str) -> int:
    """Return the number that stands for a flow: sixty-four bits.

    >>> flow_hash("service-accounts", "system:serviceaccount:default:web") >> 64
    0
    """
    text = f"{schema}\0{distinguisher}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


def shuffle_shard(number: int, queues: int, hand_size: int) -> tuple[int, ...]:
    """Return *hand_size* different queues of *queues*, chosen by *number*.

    >>> shuffle_shard(0, 4, 2), shuffle_shard(5, 4, 2), shuffle_shard(11, 4, 4)
    ((0, 1), (1, 2), (3, 2, 0, 1))
    """
    left = []
    for i in range(hand_size):
        number, card = divmod(number, queues - i)
        left.append(card)
    hand = []
    for i, card in enumerate(left):
        for before in reversed(left[:i]):
            if card >= before:
                card += 1
        hand.append(card)
    return tuple(hand)


class Flow:
    """Requests with the same flow schema and flow distinguisher."""

    __slots__ = ("distinguisher", "hand", "headers", "level", "metrics", "number", "schema")

    def __init__(self, schema: str, distinguisher: str, number: int, level: Level) -> None:
        self.schema, self.distinguisher, self.number, self.level = schema, distinguisher, number, level
        self.hand: tuple[int, ...] | None = None  #: the queues it was dealt; dealt when it first has to wait
        self.headers: tuple[tuple[bytes, bytes], ...] = ()
        self.metrics: Any = None  #: what is counted about it (weir.apiserver.compat.flowcontrol.metrics)


class QueuedRequest:
    """One request: its flow, its width in seats, and its queue.

    Most requests never wait: what only waiting sets are defaults of the class, which cost a request nothing.
    """

    queue: Queue | None = None
    has_seats = begun = watch = False
    waiting: Any = None  #: what the dispatcher resolves when the request may begin
    arrived = started = start = 0.0
    user = ""
    info: Any = None

    def __init__(self, flow: Flow, width: int) -> None:
        self.flow, self.width = flow, width


class Queue:
    """Requests that wait for each other."""

    __slots__ = ("ends", "index", "requests", "seats_in_use")

    def __init__(self, index: int) -> None:
        self.index = index
        self.requests: deque[QueuedRequest] = deque()
        self.seats_in_use = 0  #: seats that requests from this queue take
        self.ends = 0.0  #: where, in the level's virtual time, its last request ends


class Level:
    """One priority level: what it may have, and what it has."""

    def __init__(self, described: PriorityLevel, seats: Seats) -> None:
        self.described, self.seats = described, seats
        self.weight = 1
        self.seats_in_use = 0  #: seats taken
        self.executing = 0  #: requests on them
        self.waiting = 0
        self.ends = 0.0  #: where, in the server's virtual time, its last request ends
        self._now = 0.0
        self._queues: dict[int, Queue] = {}
        self._next: list[tuple[float, int, Queue]] = []  # one entry for every queue that holds something
        self._entries = 0
        self._flows: dict[int, float] = {}  # where, in the level's virtual time, a flow's last request ends

    @property
    def name(self) -> str:
        """The level's name."""
        return self.described.name

    @property
    def widest(self) -> int:
        """How many seats one request takes at most: no flow is to fill the level with its hand of requests."""
        nominal, hand = self.seats.nominal, max(self.described.hand_size, 1)
        return max(1, min(math.ceil(nominal * _WIDEST), nominal // hand))

    @property
    def queues(self) -> Iterable[Queue]:
        """The queues that are or recently were in use."""
        return self._queues.values()

    # ---------------------------------------------------------------------------------------- waiting

    def join(self, queued: QueuedRequest) -> bool:
        """Enqueue *queued*; False when its queue is full."""
        described = self.described
        if described.exempt or not described.queues:
            # Without queuing there are only lines for the loop's turns: one per flow.
            queue = self._queue(queued.flow.number)
        else:
            queue = self._shortest(queued.flow)
            if len(queue.requests) >= described.queue_length:
                return False
        number = queued.flow.number
        queued.start = max(self._now, self._flows.get(number, 0.0))
        self._flows[number] = queued.start + queued.width
        if not queue.requests:
            self._enter(queue, max(queued.start, queue.ends))
        queue.requests.append(queued)
        queued.queue = queue
        self.waiting += 1
        return True

    def _shortest(self, flow: Flow) -> Queue:
        """Return the shortest of the queues that *flow* was dealt."""
        if flow.hand is None:
            flow.hand = shuffle_shard(flow.number, self.described.queues, self.described.hand_size)
        shortest, length = None, 0
        for index in flow.hand:
            queue = self._queues.get(index) or self._queue(index)
            here = len(queue.requests) + queue.seats_in_use
            if not here:
                return queue
            if shortest is None or here < length:
                shortest, length = queue, here
        assert shortest is not None
        return shortest

    def _queue(self, index: int) -> Queue:
        found = self._queues.get(index)
        if found is None:
            if len(self._queues) + len(self._flows) > 2 * (self.waiting + self.executing) + _REMEMBERED:
                self._forget()
            found = self._queues[index] = Queue(index)
        return found

    def _forget(self) -> None:
        """Forget queues that are empty and, like flows, have had no more than others."""
        self._flows = {number: ends for number, ends in self._flows.items() if ends > self._now}
        self._queues = {
            index: queue
            for index, queue in self._queues.items()
            if queue.requests or queue.seats_in_use or queue.ends > self._now
        }

    def _enter(self, queue: Queue, start: float) -> None:
        self._entries += 1
        heappush(self._next, (start, self._entries, queue))

    def head(self) -> QueuedRequest | None:
        """Return the next request."""
        while self._next:
            queue = self._next[0][2]
            if queue.requests:
                return queue.requests[0]
            heappop(self._next)  # those that waited here are gone
        return None

    def pop(self) -> QueuedRequest:
        """Remove the next request from its queue."""
        start, _, queue = heappop(self._next)
        queued = queue.requests.popleft()
        self._now = start
        queue.ends = start + queued.width
        if queue.requests:
            self._enter(queue, max(queue.requests[0].start, queue.ends))
        self.waiting -= 1
        return queued

    def leave(self, queued: QueuedRequest) -> None:
        """Take a request out that no longer waits: its client is gone, or its time is over."""
        queue = queued.queue
        if queue is not None and queued in queue.requests:
            queue.requests.remove(queued)
            self.waiting -= 1
            if not self.waiting:
                self._next.clear()

    def oldest(self) -> Iterable[QueuedRequest]:
        """Yield the request that waits longest in each queue."""
        return [queue.requests[0] for queue in self._queues.values() if queue.requests]

    # ---------------------------------------------------------------------------------------- seats

    def occupy(self, queued: QueuedRequest) -> None:
        """Give *queued* its seats."""
        self.seats_in_use += queued.width
        self.executing += 1
        if queued.queue is not None:
            queued.queue.seats_in_use += queued.width
        queued.has_seats = True

    def release(self, queued: QueuedRequest) -> None:
        """Take the seats back."""
        self.seats_in_use -= queued.width
        self.executing -= 1
        if queued.queue is not None:
            queued.queue.seats_in_use -= queued.width
        queued.has_seats = False
        if not self.executing and not self.waiting:
            self._queues.clear()  # idle: reset virtual time
            self._flows.clear()
            self._now = 0.0


def can_start(level: Level, width: int, levels: Iterable[Level], total: int) -> bool:
    """Return whether a request of *width* seats can start in *level*, of *levels* with *total* seats together.

    Its own seats that it does not lend are always available. Beyond them it borrows free seats, as long as every
    other level can still take the seats that it does not lend. An idle level may always start one
    request, however wide.
    """
    described, seats, seats_in_use = level.described, level.seats, level.seats_in_use
    if described.exempt or not seats_in_use or seats_in_use + width <= seats.lower:
        return True
    if seats_in_use + width > seats.upper:
        return False
    free = total
    for each in levels:
        if not each.described.exempt:
            free -= max(each.seats_in_use, each.seats.lower) if each is not level else seats_in_use
    return width <= free
