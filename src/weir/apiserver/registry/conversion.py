"""Conversion between storage and served versions.

Events are stored as core/v1 and also served in events.k8s.io/v1; resource.k8s.io kinds are stored as v1 and served in
older versions (weir.objects.versions); HorizontalPodAutoscalers as autoscaling/v2 and served in v1
(weir.objects.autoscaler_versions). Everything else is stored as served. Custom resources with a conversion webhook
need an awaited step (`Conversion`) before decoding and before storing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from weir.compat.customresources.reading import from_stored, to_stored
from weir.compat.customresources.served import CustomResourceKind
from weir.errors import ApiError, InternalError
from weir.objects import versions
from weir.objects.kind import Document, Kind
from weir.objects.kinds import hub_of
from weir.store import Event, KeyValue

#: field of events.k8s.io/v1 → field of core/v1
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_EVENT_BACK = {core: new for new, core in _EVENT_FIELDS.items()}
#: fields of core/v1 that are printed even when nothing stands in them, and not in events.k8s.io/v1
_EVENT_EMPTY = frozenset({"reportingComponent", "reportingInstance"})
MOST_CAUSES = 100  # of a list that cannot be read
_encode = msgspec.json.Encoder().encode


class Conversion(Protocol):
    """How webhooks convert custom resources (weir.apiserver.compat.customresources.webhook_conversion)."""

    async def read(self, kind: CustomResourceKind, items: Sequence[KeyValue]) -> Sequence[KeyValue]:
        """Return stored objects in the version of *kind*."""

    async def write(self, kind: CustomResourceKind, document: Document) -> Document:
        """Return an object of *kind*'s version in the version it is stored in."""


class Undecodable(InternalError):
    """What is stored cannot be had in another version: its webhook failed."""

    def __init__(self, message: str, items: Sequence[KeyValue]) -> None:
        self.items, self._why = items, message
        super().__init__(self._of(items[0]))

    def _of(self, item: KeyValue) -> str:
        return f"object not decodable revision={item.mod_revision}: {self._why}"

    def _corrupt(self, item: KeyValue, key: str) -> str:
        text = self._of(item)
        return f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {text}"

    def of_read(self) -> InternalError:
        """Return the error of a request that reads the object first: storage names it there."""
        text = self._corrupt(self.items[0], self.items[0].key.removeprefix("/registry"))
        return InternalError(
            f"Internal error occurred: {text}",
            reason="InternalError",
            details={"causes": [{"message": text}]},
        )

    def of_list(self, kind: Kind) -> InternalError:
        """Return the error of a list: every object that could not be read is a cause."""
        texts = [self._corrupt(item, item.key) for item in self.items[:MOST_CAUSES]]
        causes = [
            {"reason": "UnexpectedServerResponse", "message": text, "field": item.key}
            for item, text in zip(self.items, texts, strict=False)
        ]
        more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
        return InternalError(
            f"failed to read one or more {kind.plural}.{kind.group} from the storage: {texts[0]}{more}",
            reason="StorageReadError",
            details={"name": "list", "group": kind.group, "kind": kind.plural, "causes": causes},
        )


def asks_webhook(kind: Kind) -> bool:
    """Return whether objects of *kind* have to be converted by a webhook before anything here looks at them."""
    return kind.converted and isinstance(kind, CustomResourceKind) and kind.asks_webhook


async def in_version(
    conversion: Conversion | None, kind: Kind, items: Sequence[KeyValue]
) -> Sequence[KeyValue]:
    """Return stored objects as everything here can read them in the version of *kind*."""
    if conversion is None or not isinstance(kind, CustomResourceKind) or not kind.asks_webhook:
        return items
    return await conversion.read(kind, items)


def _is_event(kind: Kind) -> bool:
    return kind.group == "events.k8s.io"


def to_storage(kind: Kind, document: Document) -> Document:
    """Return the document in the version it is stored in."""
    if isinstance(kind, CustomResourceKind):
        return to_stored(kind, document)
    if kind.hub:
        return _named(hub_of(kind), versions.to_hub(kind.group, kind.version, kind.kind, document))
    if not _is_event(kind):
        return document
    return {_EVENT_FIELDS.get(name, name): value for name, value in document.items()}


def from_storage(kind: Kind, document: Document) -> Document:
    """Return a stored document in the version *kind* stands for."""
    if isinstance(kind, CustomResourceKind):
        return from_stored(kind, document)
    if kind.hub:
        return _named(kind, versions.from_hub(kind.group, kind.version, kind.kind, document))
    if not _is_event(kind):
        return document
    return {
        _EVENT_BACK.get(name, name): value
        for name, value in document.items()
        if value != "" or name not in _EVENT_EMPTY
    }


def _named(kind: Kind, document: Document) -> Document:
    """Return the document under the version of *kind*, if it names one at all."""
    return {**document, "apiVersion": kind.api_version} if "apiVersion" in document else document


def convert_value(kind: Kind, value: bytes) -> bytes:
    """Return stored bytes in the version *kind* stands for."""
    if not kind.converted:
        return value
    return _encode(from_storage(kind, msgspec.json.decode(value)))


# ── watches of objects that a webhook converts, in order ──
# A change is converted once for all watchers of a version (cached on the store's event). If the webhook fails, the
# watch ends with its error, and the client lists again.


MOST_WAITING = 1000  # deliveries; a watch that is further behind is ended


class ConvertedChanges:
    """Hands on the changes of a store in the version of a kind."""

    def __init__(
        self,
        kind: CustomResourceKind,
        conversion: Conversion,
        deliver: Callable[[Sequence[Event]], None],
        fail: Callable[[ApiError | None], None],
        *,
        both: bool,
    ) -> None:
        """*both*: what an object was before matters too. *fail* ends the watch; None: it is too far behind."""
        self._kind, self._conversion, self._both = kind, conversion, both
        self._deliver, self._fail = deliver, fail
        self._waiting: asyncio.Queue[Sequence[Event]] = asyncio.Queue(MOST_WAITING)
        self._open = 0  # deliveries that are not handed on yet
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def idle(self) -> bool:
        """Whether everything the store told has been handed on."""
        return self._open == 0

    def take(self, events: Sequence[Event]) -> None:
        """Receive changes from the store."""
        try:
            self._waiting.put_nowait(events)
            self._open += 1
        except asyncio.QueueFull:
            self.stop()
            self._fail(None)

    def stop(self) -> None:
        """Hand on nothing more."""
        self._task.cancel()

    async def _run(self) -> None:
        try:
            while True:
                events = await self._waiting.get()
                self._deliver([await self._converted(event) for event in events])
                self._open -= 1
        except ApiError as error:
            self._fail(error)
        finally:
            self._fail(None)  # whatever ended it: nothing more would come

    async def _converted(self, event: Event) -> Event:
        if event.frames is None:
            event.frames = {}
        both = self._both or event.now is None
        key = ("converted", self._kind, both)
        task = event.frames.get(key)
        if task is None:
            task = event.frames[key] = asyncio.ensure_future(self._convert(event, both))
        found: Event = await asyncio.shield(task)  # others wait for it too
        return found

    async def _convert(self, event: Event, both: bool) -> Event:
        now, before = event.now, event.before
        items = [item for item in (now, before if both else None) if item is not None]
        converted = list(await self._conversion.read(self._kind, items))
        if before is not None and both:
            before = converted.pop()
        if now is not None:
            now = converted.pop()
        return Event(event.key, event.revision, now, before)
