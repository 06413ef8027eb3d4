"""Dispatches requests: divides event loop turns between priority levels and flows.

Spec: decision 14.
All requests share one event loop, so seats (requests in execution) and loop time are both limited. At most
`SEATS_A_TURN` seats start per loop turn; other requests wait in their level. Each turn starts, of the levels whose
next request can start, the one with the least service for its share. The exempt level never waits for a seat, is
never rejected, and gets every other turn while others wait. If nothing waits, a request starts immediately. A changed
configuration applies to new requests; queued ones keep their place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from time import monotonic, perf_counter
from typing import Any, Final, Protocol
from weakref import WeakSet

from weir.apiserver.auth.authn import User
from weir.apiserver.compat.flowcontrol.bootstrap import FLOW_SCHEMA, PRIORITY_LEVEL
from weir.apiserver.compat.flowcontrol.classify import Configuration, width_of
from weir.apiserver.compat.flowcontrol.levels import (
    Flow,
    Level,
    QueuedRequest,
    RetryAfter,
    can_start,
    divide,
    flow_hash,
)
from weir.apiserver.compat.flowcontrol.metrics import CONCURRENCY, QUEUE_FULL, TIME_OUT, FlowControlMetrics
from weir.apiserver.transport.http import TEXT, Response
from weir.apiserver.transport.paths import RequestInfo
from weir.caches import REGISTRY, Bounded, BoundedDict
from weir.objects.kind import Kind
from weir.observe.metrics import Registry

SEATS_A_TURN: Final = 8
WAIT_SECONDS: Final = 15.0  # in a queue, before it is refused
SWEEP_SECONDS: Final = 1.0
MOST_FLOWS: Final = 20_000


class Reader(Protocol):
    """Read-only access to stored objects (weir.apiserver.registry.codec.Reader)."""

    def version(self, kind: Kind) -> int: ...
    def list_now(self, kind: Kind, namespace: str | None = None) -> list[Mapping[str, Any]]: ...


class Refused(Exception):
    """There is no room for a request: 429."""

    def __init__(self, flow: Flow, reason: str, retry_after: int) -> None:
        super().__init__(reason)
        self.flow, self.reason, self.retry_after = flow, reason, retry_after

    def answer(self) -> Response:
        """Return what the client gets: plain text, as a real server's."""
        headers = [(b"Retry-After", str(self.retry_after).encode()), (b"X-Content-Type-Options", b"nosniff")]
        return Response(429, b"Too many requests, please try again later.\n", TEXT, headers)


class FlowControl:
    """Decides when requests begin; one per server."""

    def __init__(
        self,
        reader: Reader,
        seats: int,
        count: Callable[[str], int] = lambda prefix: 0,
        registry: Registry | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """*count* says how many objects the store has under a prefix."""
        self._reader, self._seats, self._count, self._now = reader, seats, count, now
        self.metrics = FlowControlMetrics(registry)
        self._schemas_seen = self._levels_seen = -1  # versions of what the configuration was made of
        self.configuration = Configuration()
        self._flows: BoundedDict[Flow] = BoundedDict(MOST_FLOWS)
        self._levels: dict[str, Level] = {}
        self._limited: tuple[Level, ...] = ()
        self._total = 0
        self._retry: dict[str, RetryAfter] = {}
        self._busy: dict[str, Level] = {}  # levels with queued requests
        self._begun = 0  # seats, in this turn of the loop
        self._waiting = 0
        self._behind = False  # some that could begin did not, because the turn was over
        self._scheduled = False
        self._sweeping = False
        self._virtual = 0.0
        _SERVERS.add(self)

    # ---------------------------------------------------------------------------------------- configuration

    def levels(self) -> Iterable[Level]:
        """Return the levels as they are now."""
        self._look()
        return self._levels.values()

    def _look(self) -> None:
        version = self._reader.version
        schemas, levels = version(FLOW_SCHEMA), version(PRIORITY_LEVEL)
        if schemas != self._schemas_seen or levels != self._levels_seen:
            self._schemas_seen, self._levels_seen = schemas, levels
            read = self._reader.list_now
            self.configure(Configuration(read(FLOW_SCHEMA), read(PRIORITY_LEVEL)))

    def configure(self, configuration: Configuration) -> None:
        """Work by *configuration* from now on; levels that are gone serve out what they hold."""
        self.configuration = configuration
        self._flows.clear()
        seats = divide(configuration.levels.values(), self._seats)
        kept = {
            name: level
            for name, level in self._levels.items()
            if name in configuration.levels or level.waiting or level.executing
        }
        for name, described in configuration.levels.items():
            level = kept.get(name)
            if level is None:
                level = kept[name] = Level(described, seats[name])
                level.ends = self._virtual
            level.described, level.seats = described, seats[name]
            level.weight = max(1, level.seats.nominal)
        self._levels = kept
        self._limited = tuple(level for level in kept.values() if not level.described.exempt)
        self._total = sum(level.seats.nominal for level in self._limited)
        self._retry = {name: found for name, found in self._retry.items() if name in kept}
        self.metrics.configured(kept.values())
        self._schedule()

    def _flow(self, user: User, info: RequestInfo, key: tuple[Any, ...]) -> Flow:
        schema = self.configuration.classify(user, info)
        level = self._levels[schema.level]
        distinguisher = schema.distinguish(user, info)
        # Turns of the loop are per user, also where the schema has no flow distinguisher.
        line = key[0] or user.name
        whose = line if level.described.exempt or not level.described.queues else distinguisher
        flow = Flow(schema.name, distinguisher, flow_hash(schema.name, whose), level)
        flow.headers = (
            (b"X-Kubernetes-PF-FlowSchema-UID", schema.uid.encode()),
            (b"X-Kubernetes-PF-PriorityLevel-UID", level.described.uid.encode()),
        )
        flow.metrics = self.metrics.of(level.name, schema.name)
        self._flows.keep(key, flow)
        return flow

    # ---------------------------------------------------------------------------------------- one request

    def admit(
        self, user: User, info: RequestInfo, params: Mapping[str, str], line: str = ""
    ) -> QueuedRequest:
        """Return the request, which starts now or, when `waiting` is set, once that is done.

        *line* distinguishes requests of one user where a level has lines and no queues. The caller must call
        `finish` with it exactly once. Raises Refused, as `waiting` may.
        """
        self._look()
        verb = info.verb
        if info.is_resource:
            key: tuple[Any, ...] = (
                line, user.name, user.groups, verb, info.api_group, info.resource, info.subresource, info.namespace,
            )  # fmt: skip
        else:
            key = (line, user.name, user.groups, verb, info.path)
        flow = self._flows.get(key) or self._flow(user, info, key)
        level = flow.level
        width = 1
        queued = QueuedRequest(flow, width)
        if verb == "list" or verb == "watch":
            width = queued.width = min(
                width_of(info, info.kind, info.name, params, self._count), level.widest
            )
            queued.watch = verb == "watch"
            flow.metrics.width.observe(width)
        if (
            self._begun < SEATS_A_TURN
            and not self._behind
            and not level.waiting
            and (not level.seats_in_use or can_start(level, width, self._limited, self._total))
        ):
            level.occupy(queued)
            self._begin(queued)
            flow.metrics.waited.observe(0.0)
        else:
            self._line_up(queued, user, info)
        return queued

    def _begin(self, queued: QueuedRequest) -> None:
        self._begun += queued.width
        if not self._scheduled:
            self._schedule()
        metrics = queued.flow.metrics
        metrics.executing += 1
        metrics.seats_in_use += queued.width
        queued.begun = True
        queued.started = perf_counter()

    def _line_up(self, queued: QueuedRequest, user: User, info: RequestInfo) -> None:
        """Let a request wait; raises Refused."""
        flow, level = queued.flow, queued.flow.level
        if not level.described.queues and not level.described.exempt:
            if not can_start(level, queued.width, self._limited, self._total):
                raise self._refused(flow, CONCURRENCY)
            level.occupy(queued)  # it only waits for its turn
        if not level.join(queued):
            raise self._refused(flow, QUEUE_FULL)
        queued.arrived = self._now()
        queued.user, queued.info = user.name, info
        loop = asyncio.get_running_loop()
        queued.waiting = loop.create_future()
        if level.waiting == 1:
            self._busy[level.name] = level
        self._waiting += 1
        flow.metrics.waiting += 1
        if level.described.queues and queued.queue is not None:
            flow.metrics.length.observe(len(queued.queue.requests))
        if not self._scheduled:
            self._schedule()
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(SWEEP_SECONDS, self._sweep)

    def _served(self, queued: QueuedRequest) -> None:
        """Note that a request no longer waits."""
        self._waiting -= 1
        queued.flow.metrics.waiting -= 1
        if not queued.flow.level.waiting:
            self._busy.pop(queued.flow.level.name, None)

    def _refused(self, flow: Flow, reason: str) -> Refused:
        flow.metrics.rejected(reason).inc()
        retry = self._retry.get(flow.level.name)
        if retry is None:
            retry = self._retry[flow.level.name] = RetryAfter()
        return Refused(flow, reason, retry.refuse(self._now()))

    def release_seats(self, queued: QueuedRequest) -> None:
        """Free the seats of a request that continues off the loop, where users take turns too (decision 13).

        Otherwise one user's large bodies, waiting for the single thread, would hold every seat for seconds.
        """
        if queued.has_seats:
            queued.flow.level.release(queued)
            queued.flow.metrics.seats_in_use -= queued.width
            queued.width = 0
            if self._waiting and not self._scheduled:
                self._schedule()

    def finish(self, queued: QueuedRequest) -> None:
        """Free what a request holds, whether it began or not."""
        level, metrics = queued.flow.level, queued.flow.metrics
        if queued.begun:
            queued.begun = False
            metrics.executing -= 1
            metrics.seats_in_use -= queued.width
            (metrics.watch if queued.watch else metrics.regular).observe(perf_counter() - queued.started)
        elif queued.waiting is not None:
            self._gone(queued)
        if queued.has_seats:
            level.release(queued)
        if self._waiting and not self._scheduled:
            self._schedule()

    def _gone(self, queued: QueuedRequest) -> None:
        """Take a request out of its line, where it still is in one."""
        level, before = queued.flow.level, queued.flow.level.waiting
        level.leave(queued)
        if level.waiting < before:
            self._served(queued)
            queued.flow.metrics.unwaited.observe(self._now() - queued.arrived)

    def waited(self, queued: QueuedRequest) -> float:
        """Return for how many seconds a request has waited."""
        return self._now() - queued.arrived

    # ---------------------------------------------------------------------------------------- turns

    def _schedule(self) -> None:
        if self._begun or self._waiting:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Begin as many requests as one turn of the loop takes."""
        self._scheduled, self._begun = False, 0
        now = self._now() if self._waiting else 0.0
        while self._waiting:
            if self._begun >= SEATS_A_TURN:
                self._behind = True
                break
            level = self._next_level()
            if level is None:
                self._behind = False
                break
            queued = level.pop()
            self._served(queued)
            if not queued.has_seats:
                level.occupy(queued)
            self._begin(queued)
            queued.flow.metrics.waited.observe(now - queued.arrived)
            if not queued.waiting.done():
                queued.waiting.set_result(None)
        else:
            self._behind = False
        if self._begun and not self._scheduled:
            self._schedule()

    def _next_level(self) -> Level | None:
        """Return the level with the least service for its share, of those whose next request can start."""
        if len(self._busy) == 1:  # no other level waits
            (level,) = self._busy.values()
            queued = level.head()
            may = queued is not None and (
                queued.has_seats or can_start(level, queued.width, self._limited, self._total)
            )
            return level if may else None
        best, earliest, cost = None, 0.0, 0.0
        others = sum(level.weight for level in self._busy.values() if not level.described.exempt)
        for level in self._busy.values():
            queued = level.head()
            start = max(self._virtual, level.ends)
            if queued is None or (best is not None and start >= earliest):
                continue
            if queued.has_seats or can_start(level, queued.width, self._limited, self._total):
                best, earliest = level, start
                cost = queued.width / (max(1, others) if level.described.exempt else level.weight)
        if best is not None:
            self._virtual = earliest
            best.ends = earliest + cost
        return best

    def _sweep(self) -> None:
        """Refuse what has waited too long."""
        self._sweeping = False
        latest = self._now() - WAIT_SECONDS
        for level in tuple(self._levels.values()):
            while level.waiting:
                late = [queued for queued in level.oldest() if queued.arrived <= latest]
                if not late:
                    break
                for queued in late:
                    self._gone(queued)
                    if not queued.waiting.done():
                        queued.waiting.set_exception(self._refused(queued.flow, TIME_OUT))
        if self._waiting:
            self._sweeping = True
            asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)


_SERVERS: WeakSet[FlowControl] = WeakSet()


def _forget() -> None:
    for server in _SERVERS:
        server._flows.clear()


REGISTRY.append(
    Bounded(
        "weir.apiserver.compat.flowcontrol.dispatcher.FlowControl._flows",
        MOST_FLOWS,
        lambda: max((len(server._flows) for server in _SERVERS), default=0),
        _forget,
    )
)
