"""Watch fan-out from any kept revision, without gap or duplicate.

Watches of one prefix form a group; a change finds its groups by cutting its key to the prefix lengths in use, so its
cost does not grow with the number of prefixes, and all watches of a group share the same Event objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

from weir.store.backend import Deliver, Ended, Event, StoreError

MOST_FOLDERS = 10_000


class Subscriptions(Protocol):
    """Where running watches are entered."""

    def remove(self, subscription: Subscription) -> None:
        """Forget *subscription*, if it is known."""


class Subscription:
    """A running watch; also what `Fanout` knows about it."""

    __slots__ = ("_entered", "after", "deliver", "ended", "place")

    def __init__(
        self, entered: Subscriptions, place: str, after: int, deliver: Deliver, ended: Ended | None
    ) -> None:
        """*place* is what it is entered under."""
        self._entered, self.place = entered, place
        self.after, self.deliver, self.ended = after, deliver, ended

    def cancel(self) -> None:
        """Deliver nothing more."""
        self._entered.remove(self)

    def take(self, batch: Sequence[Event]) -> None:
        """Deliver *batch*; a reader that fails is ended."""
        if batch[0].revision <= self.after:  # starts at a future revision
            batch = [event for event in batch if event.revision > self.after]
        if not batch:
            return
        try:
            self.deliver(batch)
        except Exception as error:  # a defect of one reader, which must not reach the writers
            self.cancel()
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a watch of {self.place} failed and was ended", "exception": error}
            )
            if self.ended is not None:
                self.ended(StoreError(f"the watch failed: {error!r}"))


class Fanout:
    """The watches of one store."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Subscription, None]] = {}
        self._lengths: dict[int, int] = {}  # length of prefix -> groups with that length
        self._folders: dict[
            str, tuple[str, ...]
        ] = {}  # where a key lies -> its groups, while they stay the same

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def add(
        self, prefix: str, after: int, deliver: Deliver, ended: Ended | None, missed: Iterable[Event]
    ) -> Subscription:
        """Start a watch; *missed* is what already happened after *after*, in order."""
        subscription = Subscription(self, prefix, after, deliver, ended)
        group = self._groups.get(prefix)
        if group is None:
            group = self._groups[prefix] = {}
            self._folders.clear()
            self._lengths[len(prefix)] = self._lengths.get(len(prefix), 0) + 1
        group[subscription] = None
        backlog = [event for event in missed if event.key.startswith(prefix)]
        if backlog:
            deliver(backlog)
        return subscription

    def remove(self, subscription: Subscription) -> None:
        group = self._groups.get(subscription.place)
        if group is None or subscription not in group:
            return
        del group[subscription]
        if not group:
            del self._groups[subscription.place]
            self._folders.clear()
            length = len(subscription.place)
            self._lengths[length] -= 1
            if not self._lengths[length]:
                del self._lengths[length]

    def publish(self, events: Sequence[Event]) -> None:
        """Hand *events* (in order) to every watch whose prefix they lie under."""
        if not self._groups:
            return
        events_by_key: dict[str, list[Event]] = {}
        for event in events:
            for prefix in self._groups_of(event.key):
                events_by_key.setdefault(prefix, []).append(event)
        for prefix, batch in events_by_key.items():
            for subscription in tuple(self._groups.get(prefix, ())):
                if subscription in self._groups.get(prefix, ()):  # not cancelled by one before it
                    subscription.take(batch)
        for event in events:  # or the readers' shared data would live as long as the event
            event.frames = None

    def _groups_of(self, key: str) -> tuple[str, ...]:
        """Return the prefixes of the groups that *key* lies under."""
        folder = key[: key.rfind("/") + 1]
        known = self._folders.get(folder)
        if known is None:
            found = (key[:length] for length in self._lengths if length <= len(key))
            known = tuple(prefix for prefix in found if prefix in self._groups)
            # Two keys of one folder differ only by a prefix that reaches into their names.
            if not any(len(prefix) > len(folder) and prefix.startswith(folder) for prefix in self._groups):
                if len(self._folders) >= MOST_FOLDERS:
                    self._folders.clear()
                self._folders[folder] = known
        return known

    def end(self, reason: StoreError) -> None:
        """End every watch: the store cannot continue without a gap."""
        everyone = [subscription for group in self._groups.values() for subscription in group]
        self._groups.clear()
        self._lengths.clear()
        self._folders.clear()
        for subscription in everyone:
            if subscription.ended is not None:
                subscription.ended(reason)
