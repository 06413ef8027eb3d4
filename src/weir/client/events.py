"""Recorder of core/v1 events, with client-go's aggregation and rate limits.

The same event again increments its count; more than ten different messages of one kind within ten minutes become one
"(combined from similar events)"; one source may write 25 events about one object at once and one more every five
minutes. `Correlator` is pure; `Recorder` writes in order and never blocks its caller.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import structs

from weir import errors
from weir.client.api import STRATEGIC_MERGE_PATCH, Client, ResourceType, Unreachable
from weir.clock import Clock
from weir.objects.core import Pod
from weir.objects.times import format_time

SIMILAR_MESSAGES = 10
SIMILAR_SECONDS = 600.0
BURST = 25
REFILL_PER_SECOND = 1 / 300
REMEMBERED = 4096
TRIES = 12
TRY_AGAIN_SECONDS = 10.0
COMBINED = "(combined from similar events): "

Document = dict[str, Any]


class _EventsResource:
    group, version, plural, namespaced = "", "v1", "events", True


EVENTS = _EventsResource()


class ObjectReference(msgspec.Struct, frozen=True):
    """Names the object an event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"
    resource_version: str = ""
    field_path: str = ""

    @classmethod
    def of_pod(cls, pod: Pod) -> ObjectReference:
        """Return the reference to *pod*."""
        metadata = pod.metadata
        return cls("Pod", metadata.name, metadata.namespace, metadata.uid, "v1", metadata.resource_version)

    def document(self) -> Document:
        """Return the reference as the API spells it."""
        fields = {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "apiVersion": self.api_version,
            "resourceVersion": self.resource_version,
            "fieldPath": self.field_path,
        }
        return {key: value for key, value in fields.items() if value}


def reference(document: Document, kind: str = "", api_version: str = "") -> ObjectReference:
    """Return a reference to *document*; items of lists do not say their kind, so it may have to be given."""
    metadata = document.get("metadata", {})
    return ObjectReference(
        kind=document.get("kind") or kind,
        name=metadata.get("name", ""),
        namespace=metadata.get("namespace", ""),
        uid=metadata.get("uid", ""),
        api_version=document.get("apiVersion") or api_version or "v1",
        resource_version=metadata.get("resourceVersion", ""),
    )


class Event(msgspec.Struct, frozen=True):
    """Something that happened to an object."""

    about: ObjectReference
    type: str  # Normal or Warning
    reason: str
    message: str
    component: str = ""
    host: str = ""

    def kind_of(self) -> tuple[object, ...]:
        """What similar events have in common: everything but the message."""
        about = structs.replace(self.about, resource_version="", field_path="")
        return (self.component, self.host, about, self.type, self.reason)


class CountedEvent(msgspec.Struct, frozen=True):
    """What is to be written: a new event (count 1), or a count raised on one written before."""

    event: Event
    name: str
    count: int
    first: datetime
    last: datetime


class Names:
    """Names for events: the object's name and the time, never the same twice however fast events come.

    The nanoseconds distinguish sources that see the same thing at the same moment, which is usual in virtual time.
    """

    def __init__(self) -> None:
        self._last = 0

    def name(self, about: ObjectReference, now: datetime, source: str = "") -> str:
        """Return the name of a new event that *source* writes about *about*."""
        nanoseconds = zlib.crc32(source.encode()) % 1000
        self._last = max(int(now.timestamp() * 1_000_000) * 1000 + nanoseconds, self._last + 1)
        return f"{about.name}.{self._last:x}"


class _Recent:
    """A dictionary that forgets what was not used for longest."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._entries: OrderedDict[object, Any] = OrderedDict()
        self._size = size

    def get(self, key: object) -> Any:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: object, value: Any) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)


class Correlator:
    """Decides what is written for each event. No I/O; the time is an argument."""

    def __init__(self) -> None:
        self._names = Names()
        self._similar = _Recent()  # kind of event -> (messages, when the last came)
        self._counted = _Recent()  # key of event -> CountedEvent
        self._allowance = _Recent()  # source and object -> (tokens, when counted)

    def correlate(self, event: Event, now: datetime) -> CountedEvent | None:
        """Return what to write for *event* at *now*; None when there were too many."""
        event, key = self._combined(event, now)
        before: CountedEvent | None = self._counted.get(key)
        if before is None:
            counted = CountedEvent(event, self._names.name(event.about, now, event.component), 1, now, now)
        else:
            counted = CountedEvent(event, before.name, before.count + 1, before.first, now)
        self._counted.put(key, counted)
        return counted if self._allowed(event, now) else None

    def _combined(self, event: Event, now: datetime) -> tuple[Event, object]:
        kind = event.kind_of()
        messages, last = self._similar.get(kind) or (set(), now)
        if (now - last).total_seconds() > SIMILAR_SECONDS:
            messages = set()
        messages = set(messages) | {event.message}
        if len(messages) < SIMILAR_MESSAGES:
            self._similar.put(kind, (messages, now))
            return event, (kind, event.message)
        messages.pop()  # stays just below the limit, so that quiet times end the combining
        self._similar.put(kind, (messages, now))
        return structs.replace(event, message=COMBINED + event.message), kind

    def _allowed(self, event: Event, now: datetime) -> bool:
        who = (event.component, event.host, structs.replace(event.about, resource_version="", field_path=""))
        tokens, counted = self._allowance.get(who) or (float(BURST), now)
        tokens = min(float(BURST), tokens + (now - counted).total_seconds() * REFILL_PER_SECOND)
        allowed = tokens >= 1
        self._allowance.put(who, (tokens - 1 if allowed else tokens, now))
        return allowed


def document(counted: CountedEvent) -> Document:
    """Return the Event object to create."""
    event = counted.event
    source = {key: value for key, value in (("component", event.component), ("host", event.host)) if value}
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": counted.name, "namespace": event.about.namespace or "default"},
        "involvedObject": event.about.document(),
        "reason": event.reason,
        "message": event.message,
        "source": source,
        "firstTimestamp": format_time(counted.first),
        "lastTimestamp": format_time(counted.last),
        "count": counted.count,
        "type": event.type,
        "reportingComponent": event.component,
        "reportingInstance": event.host,
    }


def count_patch(counted: CountedEvent) -> Document:
    """Return the patch that raises the count."""
    return {
        "count": counted.count,
        "lastTimestamp": format_time(counted.last),
        "message": counted.event.message,
    }


E = TypeVar("E")  # what happened
W = TypeVar("W")  # what is to be written about it


class EventWriter(Generic[E, W]):
    """Holds what is to be written in the background, and writes it while the server can be reached."""

    #: The resource that events are written to.
    resource: ResourceType

    def __init__(
        self, client: Client, clock: Clock, lost: Callable[[E, Exception], None] | None = None
    ) -> None:
        """*lost* receives events that could not be written."""
        self._client, self._clock, self._lost = client, clock, lost
        self._waiting: deque[W] = deque()
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def _is_recorded(self, reason: str) -> bool:
        """Return whether the client writes events with *reason*."""
        return self._client.event_reasons is None or reason in self._client.event_reasons

    def _enqueue(self, item: W) -> None:
        self._waiting.append(item)
        self._idle.clear()
        self._more.set()

    async def flush(self) -> None:
        """Return when everything recorded has been written or given up."""
        await self._idle.wait()

    async def _write_waiting(self) -> None:
        """Write until nothing waits."""
        raise NotImplementedError

    async def run(self) -> None:
        """Write what is recorded, until cancelled."""
        while True:
            await self._write_waiting()
            self._idle.set()
            self._more.clear()
            await self._more.wait()

    async def _send(self, event: E, document: Document, patch: Document | None) -> None:
        """Write *event* as *document*, or as *patch* to what was written before, if there is one."""
        for attempt in range(1, TRIES + 1):
            try:
                await self._send_once(document, patch)
                return
            except errors.ApiError as error:  # the server has answered; asking again would not help
                if not isinstance(error, errors.AlreadyExists) and self._lost is not None:
                    self._lost(event, error)
                return
            except Unreachable as error:
                if attempt == TRIES:
                    if self._lost is not None:
                        self._lost(event, error)
                    return
                await self._clock.sleep(TRY_AGAIN_SECONDS)

    async def _send_once(self, document: Document, patch: Document | None) -> None:
        name, namespace = document["metadata"]["name"], document["metadata"]["namespace"]
        if patch is not None:
            try:
                await self._client.patch(
                    self.resource, name, patch, namespace, patch_type=STRATEGIC_MERGE_PATCH, read=False
                )
                return
            except errors.NotFound:
                pass  # it expired: create it anew, with its history
        await self._client.create(self.resource, document, namespace, read=False)


class Recorder(EventWriter[Event, tuple[Event, datetime]]):
    """Writes events, in order, in the background."""

    resource = EVENTS

    def __init__(
        self,
        client: Client,
        clock: Clock,
        component: str,
        *,
        host: str = "",
        lost: Callable[[Event, Exception], None] | None = None,
        calm: asyncio.Event | None = None,
    ) -> None:
        """*lost* receives events that could not be written; none is written while *calm* is not set."""
        super().__init__(client, clock, lost)
        self._component, self._host, self._calm = component, host, calm
        self._correlator = Correlator()

    def record(self, about: ObjectReference, type: str, reason: str, message: str) -> None:
        """Record that something happened to *about*. Returns at once."""
        if self._is_recorded(reason):
            event = Event(about, type, reason, message, self._component, self._host)
            self._enqueue((event, self._clock.now()))

    async def _write_waiting(self) -> None:
        while self._waiting:
            event, now = self._waiting.popleft()
            counted = self._correlator.correlate(event, now)
            if counted is not None:
                if self._calm is not None:
                    await self._calm.wait()
                patch = count_patch(counted) if counted.count > 1 else None
                await self._send(counted.event, document(counted), patch)
