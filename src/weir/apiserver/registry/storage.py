"""Stored objects of one server: reads, writes and deletes in the versions that clients use.

Custom resources with a conversion webhook are converted on the way in and out; other conversions happen in decoding
(.codec). Also the context of every verb: clock, feature gates, randomness. The stages before a write are in
.write_path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeVar

from weir import errors
from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.off_loop import LARGE_BYTES, OffLoop
from weir.apiserver.registry import codec, conversion
from weir.apiserver.registry.object_write import new_uid
from weir.apiserver.transport.http import Turn
from weir.clock import Clock
from weir.compat.customresources.served import CustomResourceKind
from weir.gates import Gates
from weir.objects.kind import Document, Kind
from weir.objects.times import format_time
from weir.store import KeyValue, Store, Write
from weir.values.entropy import system_bytes

Answer = TypeVar("Answer")
ATTEMPTS = 8  # of a write that loses the race against others


class Admission(Protocol):
    """The chain of admission plugins. An awaitable comes back only when a webhook must be asked."""

    def mutate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Edit the object, or raise why it is refused."""

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Raise why the object is refused."""


class Parts(NamedTuple):
    """What the verbs are made of."""

    store: Store
    reader: codec.Reader
    admission: Admission
    gates: Gates
    clock: Clock
    #: for uids and generated names; a simulation seeds it
    random_bytes: Callable[[int], bytes] = system_bytes
    event_ttl_seconds: float | None = None  #: how long Events are kept; None: as the kind says
    off_loop: OffLoop | None = None  #: where large documents are worked on; None: one of its own
    conversion: conversion.Conversion | None = None  #: by webhooks; None: none is called


class Storage:
    """The stored objects, and the context of every verb."""

    def __init__(self, parts: Parts) -> None:
        self.store, self.reader, self.admission = parts.store, parts.reader, parts.admission
        self.gates, self.clock, self.random_bytes = parts.gates, parts.clock, parts.random_bytes
        self._event_ttl = parts.event_ttl_seconds
        self.off_loop, self.conversion = parts.off_loop or OffLoop(), parts.conversion
        self._entropy = bytearray()
        self._second, self._now = -1, ""

    # ------------------------------------------------------------------------------------------ context

    @property
    def now(self) -> str:
        """The time, RFC 3339 with seconds."""
        second = int(self.clock.time())
        if second != self._second:
            self._second = second
            self._now = format_time(datetime.fromtimestamp(second, UTC))
        return self._now

    def new_uid(self) -> str:
        """Return a fresh random uid."""
        return new_uid(self._entropy, self.random_bytes)

    def ttl_seconds(self, kind: Kind) -> float:
        """Return after how long an object of *kind* is forgotten; 0 is never. Events alone are."""
        if not kind.ttl_seconds:
            return 0.0
        return float(kind.ttl_seconds) if self._event_ttl is None else self._event_ttl

    def turn_for(self, value: bytes, user: str) -> Turn | None:
        """Return *user*'s turn to work on a large stored value beside the loop; None for others."""
        return self.off_loop.turn(user) if len(value) >= LARGE_BYTES else None

    # ------------------------------------------------------------------------------------------ reading

    def documents(self, kind: Kind) -> list[Document]:
        """Return every stored object of *kind*, all namespaces."""
        return [codec.decode(kind, item.value) for item in self.store.range(kind.prefix).items]

    def find(self, kind: Kind, namespace: str, name: str) -> KeyValue:
        """Return the stored object; raises 404."""
        stored = self.store.get(kind.key(namespace, name))
        if stored is None:
            raise errors.NotFound.object(kind, name)
        return stored

    async def read(self, kind: Kind, namespace: str, name: str) -> KeyValue:
        """Return the stored object in the version of *kind*; raises 404."""
        try:
            return await self.in_version(kind, self.find(kind, namespace, name))
        except conversion.Undecodable as error:
            raise error.of_read() from error

    async def in_version(self, kind: Kind, stored: KeyValue) -> KeyValue:
        """Return a stored object as it can be read in the version of *kind*: a webhook may have to convert it."""
        if not conversion.asks_webhook(kind):
            return stored
        return (await conversion.in_version(self.conversion, kind, (stored,)))[0]

    # ------------------------------------------------------------------------------------------ storing

    async def encode(self, kind: Kind, document: Document, turn: Turn | None = None) -> bytes:
        """Return the value to store for *document*: a webhook may have to convert it."""
        if kind.converted:
            document = await self._to_stored_version(kind, document)
        return await self.off_loop.run(turn, codec.encode, document, kind)

    async def _to_stored_version(self, kind: Kind, document: Document) -> Document:
        if self.conversion is None or not isinstance(kind, CustomResourceKind) or not kind.asks_webhook:
            return document
        return await self.conversion.write(kind, document)

    async def as_if_stored(self, kind: Kind, document: Document) -> Document:
        """Return what a dry run shows of *document*: as it would come back from the store."""
        if not conversion.asks_webhook(kind):
            return document
        metadata = document["metadata"]
        value = await self.encode(kind, document)
        shown = codec.decode(kind, (await self.in_version(kind, KeyValue("", value, 0, 0))).value)
        version = {name: metadata[name] for name in ("resourceVersion",) if name in metadata}
        shown["metadata"].pop("resourceVersion", None)
        return {**shown, "metadata": {**version, **shown["metadata"]}}

    async def replace(self, stored: KeyValue, value: bytes | None) -> KeyValue | None:
        """Store *value* in place of *stored*, or remove it (None); return what is stored, None if it has changed."""
        (result,) = await self.store.commit((Write(stored.key, value, stored.mod_revision, codec.STAMP),))
        if result.error is not None:
            return None
        event = result.check()
        return event.now if value is not None else stored

    async def edit(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Document, KeyValue], None],
        *,
        dry_run: bool,
    ) -> Document:
        """Store what *change* makes of an object, again on the newer one while other writes are faster; raises 409."""

        async def attempt() -> Document | None:
            stored = self.find(kind, namespace, name)
            document = codec.decode(kind, stored.value)
            change(document, stored)
            if dry_run or await self.replace(stored, codec.encode(document, kind)) is not None:
                return document
            return None

        return await retried(attempt, kind, name)


async def retried(attempt: Callable[[], Awaitable[Answer | None]], kind: Kind, name: str) -> Answer:
    """Return the first answer of *attempt* that is not None, which means that another write was faster; raises 409."""
    for _ in range(ATTEMPTS):
        answer = await attempt()
        if answer is not None:
            return answer
    raise errors.Conflict.object(kind, name)
