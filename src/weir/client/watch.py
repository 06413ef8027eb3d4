"""Reflector: list and watch of one collection, with resume and relist.

The list is paged. The watch resumes at the last seen revision (bookmarks advance it); on 410 everything is listed
again and the difference delivered. Failures are retried with jittered exponential backoff.
"""

from __future__ import annotations

import random
from typing import Protocol

import msgspec

from weir.client.api import Client, ResourceType, Unreachable
from weir.clock import Clock
from weir.errors import ApiError, Gone

FIRST_PAUSE_SECONDS = 0.8
LONGEST_PAUSE_SECONDS = 30.0
CALM_SECONDS = 120.0  # after this long without a failure the pauses start small again
SHORT_WATCH_SECONDS = 1.0
WATCH_SECONDS = (300, 600)  # servers end a watch by themselves; not all clients at once
# An in-process connection cannot break, so the watch needs no timeout and no bookmarks.
FOR_EVER_SECONDS = 1_000_000_000


class Target(Protocol):
    """What a reflector keeps up to date."""

    def replace(self, items: list[msgspec.Raw], resource_version: str) -> None:
        """Everything there is now; what is not among it is gone."""

    def change(self, type: str, item: msgspec.Raw) -> str:
        """One change (ADDED, MODIFIED, DELETED); return the resourceVersion it carries."""

    def progress(self, resource_version: str) -> None:
        """Nothing changed up to here."""


class Backoff:
    """Pauses that double up to a limit, with up to as much again at random.

    >>> backoff = Backoff(random.Random(1))
    >>> [round(backoff.pause(now=0.0), 1) for _ in range(4)]
    [0.9, 3.0, 5.6, 8.0]
    """

    def __init__(
        self,
        chance: random.Random,
        *,
        first_seconds: float = FIRST_PAUSE_SECONDS,
        longest_seconds: float = LONGEST_PAUSE_SECONDS,
    ) -> None:
        self._chance = chance
        self._first = self._next = first_seconds
        self._longest = longest_seconds
        self._last_failure = 0.0

    def pause(self, now: float) -> float:
        """Return how long to wait after a failure at *now* (monotonic seconds)."""
        if now - self._last_failure > CALM_SECONDS:
            self._next = self._first
        self._last_failure = now
        pause = self._next * (1 + self._chance.random())
        self._next = min(self._next * 2, self._longest)
        return pause


class _RawMeta(msgspec.Struct, gc=False):
    resourceVersion: str = ""  # noqa: N815  (the wire's spelling)


class _RawObject(msgspec.Struct, gc=False):
    metadata: _RawMeta = msgspec.field(default_factory=_RawMeta)


_decode_version = msgspec.json.Decoder(_RawObject).decode


class Reflector:
    """Keeps a target up to date with one collection, until cancelled."""

    def __init__(
        self,
        client: Client,
        kind: ResourceType,
        target: Target,
        clock: Clock,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
        seed: int | None = None,
    ) -> None:
        """*seed* makes pauses and watch times repeatable; without it every reflector has its own."""
        self._client, self._kind, self._target, self._clock = client, kind, target, clock
        self._namespace = namespace
        self._labels, self._fields = label_selector, field_selector
        self._page_size = page_size
        self._chance = random.Random(seed)
        self._backoff = Backoff(self._chance)
        self.resource_version = ""
        self._just_listed = False
        self.lists = 0  # how often everything had to be read

    async def run(self) -> None:
        """List and watch for ever. Only cancelling ends it."""
        while True:
            try:
                if not self.resource_version:
                    await self._list()
                await self._watch()
            except Gone:
                self.resource_version = ""
                if self._just_listed:  # a server that forgets faster than we read
                    await self._pause()
            except (ApiError, Unreachable, msgspec.DecodeError):
                await self._pause()

    async def _pause(self) -> None:
        await self._clock.sleep(self._backoff.pause(self._clock.monotonic()))

    async def _list(self) -> None:
        items: list[msgspec.Raw] = []
        version = ""
        try:
            async for page in self._client.pages(
                self._kind,
                self._namespace,
                label_selector=self._labels,
                field_selector=self._fields,
                limit=self._page_size,
            ):
                items += page.items
                version = page.resource_version
        except Gone:  # the first page's revision was compacted while we read: all at once, then
            whole = await self._client.list(
                self._kind, self._namespace, label_selector=self._labels, field_selector=self._fields
            )
            items, version = whole.items, whole.resource_version
        self.lists += 1
        self._just_listed = True
        self._target.replace(items, version)
        self.resource_version = version

    async def _watch(self) -> None:
        target, steady = self._target, self._client.steady
        began, received = self._clock.monotonic(), False
        async with self._client.watch(
            self._kind,
            self._namespace,
            resource_version=self.resource_version,
            timeout_seconds=FOR_EVER_SECONDS if steady else self._chance.randint(*WATCH_SECONDS),
            bookmarks=not steady,
            label_selector=self._labels,
            field_selector=self._fields,
        ) as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    self.resource_version = _decode_version(event.object).metadata.resourceVersion
                    target.progress(self.resource_version)
                else:
                    self.resource_version = target.change(event.type, event.object)
                self._just_listed, received = False, True
        if not received and self._clock.monotonic() - began < SHORT_WATCH_SECONDS:
            await self._pause()  # back off from a server that ends watches at once
