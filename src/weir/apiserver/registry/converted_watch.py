"""Watches of objects that a webhook converts, in order.

A change is converted once for all watchers of a version (cached on the store's event). If the webhook fails, the
watch ends with its error, and the client lists again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from weir.apiserver.registry.conversion import Conversion
from weir.customresources.served import CustomResourceKind
from weir.errors import ApiError
from weir.store import Event

__all__ = ["ConvertedChanges"]

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
