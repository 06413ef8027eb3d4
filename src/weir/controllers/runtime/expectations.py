"""Expectations: a key is not reconciled again until the informers show its own writes.

Without them a controller would act on a cache that lacks its own creation and create twice. An expectation expires,
since the object may be deleted meanwhile or the watch may be late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from weir.client.cache import Informer, ObjectKey
from weir.clock import Clock
from weir.objects.kind import Kind

SEEN_WITHIN_SECONDS: Final = 30.0

Waiters = list[asyncio.Future[None]]


class Expectations:
    """Changes that one controller made and its copy does not show yet."""

    def __init__(self, informers: Mapping[Kind, Informer[Any]], clock: Clock) -> None:
        self._informers, self._clock = informers, clock
        self._waiting: dict[tuple[Kind, ObjectKey], Waiters] = {}
        self._waiting_for: dict[tuple[Kind, ObjectKey], list[tuple[int, asyncio.Future[None]]]] = {}

    def __bool__(self) -> bool:
        """Whether anything is waited for."""
        return bool(self._waiting or self._waiting_for)

    def presence(self, kind: Kind, key: ObjectKey, *, created: bool) -> Waiters:
        """Return what to wait for until the copy has an object, or shows that it goes."""
        informer = self._informers.get(kind)
        if informer is None:
            return []
        found = informer.cache.get(key)
        if created == (found is not None and not is_deleting(found)):
            return []
        if not created and found is not None and is_deleting(found):
            return []
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((kind, key), []).append(waiter)
        return [waiter]

    def version(self, kind: Kind, made: dict[str, Any]) -> Waiters:
        """Return what to wait for until the copy is as new as *made*."""
        informer, key = self._informers.get(kind), key_of(made)
        if informer is None:
            return []
        found, version = informer.cache.get(key), _version(made)
        if found is None or _version(found) >= version:
            return []
        waiter = asyncio.get_running_loop().create_future()
        self._waiting_for.setdefault((kind, key), []).append((version, waiter))
        return [waiter]

    def saw(self, kind: Kind, item: Any, *, gone: bool) -> None:
        """Complete the waits for a change of *item*."""
        place = (kind, key_of(item))
        waiters = self._waiting.pop(place, [])
        if place in self._waiting_for:
            seen = _version(item)
            waiting = self._waiting_for.pop(place)
            waiters += [waiter for version, waiter in waiting if gone or version <= seen]
            later = [each for each in waiting if not gone and each[0] > seen]
            if later:
                self._waiting_for[place] = later
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, waiters: Waiters) -> None:
        """Return when everything waited for was seen, or it took too long."""
        limit = asyncio.ensure_future(self._clock.sleep(SEEN_WITHIN_SECONDS))
        try:
            seen = asyncio.ensure_future(asyncio.wait(waiters))
            await asyncio.wait({seen, limit}, return_when=asyncio.FIRST_COMPLETED)
            seen.cancel()
        finally:
            limit.cancel()


def key_of(item: Any) -> ObjectKey:
    """Return namespace and name of an object, document or view."""
    if isinstance(item, dict):
        return ObjectKey(item["metadata"].get("namespace", ""), item["metadata"]["name"])
    return ObjectKey(item.metadata.namespace, item.metadata.name)


def _version(item: Any) -> int:
    """Return the version of an object; versions of one kind grow."""
    text = (
        item["metadata"].get("resourceVersion", "")
        if isinstance(item, dict)
        else item.metadata.resource_version
    )
    return int(text) if text.isdigit() else 0


def is_deleting(item: Any) -> bool:
    """Return whether an object is being deleted."""
    if isinstance(item, dict):
        return bool(item["metadata"].get("deletionTimestamp"))
    return item.metadata.deletion_timestamp is not None
