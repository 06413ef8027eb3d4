"""Recorder of events.k8s.io/v1 events with series, for the scheduler.

A repeated event about the same object (whatever the note) makes the first one a series; a new resourceVersion of the
object is a different event. A series is written at once, then every half hour and after six minutes without a
repetition, as by Kubernetes' event broadcaster. `Series` is pure; `SeriesRecorder` writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from weir.client.api import Client
from weir.client.events import EventWriter, Names, ObjectReference
from weir.clock import Clock
from weir.objects.times import format_micro_time

FINISH = timedelta(minutes=6)
REFRESH = timedelta(minutes=30)
CHECK_SECONDS = 60.0
NOTE_LIMIT_BYTES = 1024
#: Events may be written a little later while the work itself goes on.
WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 1.0
MOST_WAITING = 20_000
#: A server makes what it gets at once durable together.
AT_ONCE = 16

Document = dict[str, Any]


class _EventsResource:
    group, version, plural, namespaced = "events.k8s.io", "v1", "events", True


EVENTS = _EventsResource()


class Occurrence(msgspec.Struct, frozen=True):
    """Something that happened: what a series consists of."""

    regarding: ObjectReference
    type: str
    reason: str
    action: str
    note: str
    controller: str
    instance: str
    related: ObjectReference | None = None

    def key(self) -> tuple[object, ...]:
        """What occurrences of one series have in common."""
        return (
            self.type,
            self.action,
            self.reason,
            self.controller,
            self.instance,
            self.regarding,
            self.related,
        )


@dataclass
class EventSeries:
    """An event as far as it has been written."""

    occurrence: Occurrence
    name: str
    began: datetime
    count: int = 1
    last: datetime = field(default=datetime.min)
    written: datetime = field(default=datetime.min)
    written_count: int = 1

    @property
    def namespace(self) -> str:
        return self.occurrence.regarding.namespace or "default"


def cut(note: str) -> str:
    """Return *note* cut to what the API takes, at a character's end.

    >>> len(cut("é" * 600).encode())
    1024
    """
    data = note.encode()
    return note if len(data) <= NOTE_LIMIT_BYTES else data[:NOTE_LIMIT_BYTES].decode(errors="ignore")


class Series:
    """Decides what is written. No I/O; the time is an argument."""

    def __init__(self) -> None:
        self._names = Names()
        self._by_key: dict[object, EventSeries] = {}

    def occurred(self, occurrence: Occurrence, now: datetime) -> EventSeries | None:
        """Return what must be written now: a new event (count 1) or one that just became a series (count 2)."""
        key = occurrence.key()
        series = self._by_key.get(key)
        if series is None or (series.count == 1 and now - series.began > FINISH):
            name = self._names.name(occurrence.regarding, now, occurrence.controller)
            self._by_key[key] = series = EventSeries(occurrence, name, now, last=now, written=now)
            return series
        series.count += 1
        series.last = now
        if series.count > 2:
            return None
        series.written, series.written_count = now, series.count
        return series

    def due(self, now: datetime) -> Iterator[EventSeries]:
        """Yield the series whose count is to be written at *now*, and forget what is over."""
        for key, series in list(self._by_key.items()):
            over = now - series.last > FINISH
            if over:
                del self._by_key[key]
            if series.count > series.written_count and (over or now - series.written >= REFRESH):
                series.written, series.written_count = now, series.count
                yield series


def document(series: EventSeries) -> Document:
    """Return the Event object to create."""
    what = series.occurrence
    made: Document = {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"name": series.name, "namespace": series.namespace},
        "eventTime": format_micro_time(series.began),
        "reportingController": what.controller,
        "reportingInstance": what.instance,
        "action": what.action,
        "reason": what.reason,
        "regarding": what.regarding.document(),
        "note": cut(what.note),
        "type": what.type,
    }
    if what.related is not None:
        made["related"] = what.related.document()
    if series.count > 1:
        made["series"] = {"count": series.count, "lastObservedTime": format_micro_time(series.last)}
    return made


class SeriesRecorder(EventWriter[Occurrence, EventSeries]):
    """Writes occurrences in the background: several at once, those of one event in order."""

    resource = EVENTS

    def __init__(
        self,
        client: Client,
        clock: Clock,
        controller: str,
        instance: str,
        *,
        lost: Callable[[Occurrence, Exception], None] | None = None,
        busy: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(client, clock, lost)
        self._busy = busy or (lambda: False)  #: whether more urgent work is pending
        self._controller, self._instance = controller, instance
        self._series = Series()
        self._came = 0  #: since it was looked for work

    def record(
        self,
        regarding: ObjectReference,
        type: str,
        reason: str,
        action: str,
        note: str,
        *,
        related: ObjectReference | None = None,
    ) -> None:
        """Record that something happened to *regarding*. Returns at once."""
        if not self._is_recorded(reason):
            return
        occurrence = Occurrence(
            regarding, type, reason, action, note, self._controller, self._instance, related
        )
        series = self._series.occurred(occurrence, self._clock.now())
        if series is not None:
            self._enqueue(series)

    def _enqueue(self, series: EventSeries) -> None:
        self._came += 1
        super()._enqueue(replace(series))

    async def run(self) -> None:
        """Write what is recorded, until cancelled."""
        checker = asyncio.ensure_future(self._check())
        try:
            await super().run()
        finally:
            checker.cancel()

    async def _write_waiting(self) -> None:
        while self._waiting:
            await self._let_others_first()
            await asyncio.gather(*map(self._write, self._next()))

    def _next(self) -> Iterator[EventSeries]:
        """Take what is written next, of every event the first."""
        taken: set[str] = set()
        while self._waiting and len(taken) < AT_ONCE and self._waiting[0].name not in taken:
            taken.add(self._waiting[0].name)
            yield self._waiting.popleft()

    async def _let_others_first(self) -> None:
        """Wait while something is more urgent: not long, and not at all once much has piled up."""
        until = self._clock.monotonic() + LONGEST_WAIT_SECONDS
        while self._is_busy() and len(self._waiting) < MOST_WAITING and self._clock.monotonic() < until:
            await self._clock.sleep(WAIT_SECONDS)

    def _is_busy(self) -> bool:
        """Whether there is work, or was a moment ago: a burst is not over when there is none at this instant."""
        came, self._came = self._came, 0
        return self._busy() or (came > 0 and len(self._waiting) > AT_ONCE)

    async def _check(self) -> None:
        while True:
            await self._clock.sleep(CHECK_SECONDS)
            for series in self._series.due(self._clock.now()):
                self._enqueue(series)

    async def _write(self, series: EventSeries) -> None:
        whole = document(series)
        patch = {"series": whole["series"]} if series.count > 1 else None
        await self._send(series.occurrence, whole, patch)
