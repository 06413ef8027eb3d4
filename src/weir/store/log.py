"""Multi-version state in memory, shared by all backends.

The current version of each key, the keys in order, and the changes since the compacted revision. The state at an
older revision is the current one with later changes undone, key by key, so old versions need no index. Two steps,
with durability in between: `decide` turns writes into results and changes nothing; `apply` makes the changes visible
and notifies the watches.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush, merge
from itertools import islice
from operator import attrgetter

from weir.store.backend import (
    NO_STAMP,
    WRITTEN_BEFORE,
    Compacted,
    Conflict,
    Deliver,
    Ended,
    Event,
    Exists,
    FutureRevision,
    KeyValue,
    Missing,
    Page,
    Result,
    StoreError,
    Write,
    WriteError,
)
from weir.store.watch import Fanout, Subscription

# ── ordered text keys with cheap insertion ──
# A list of short sorted lists: insertion moves at most one of them, a range is a few slices, and a key's position is a
# sum of lengths. Order is by code point, the same as of UTF-8 bytes, so all backends agree.


_SPLIT = 1024


def after_prefix(prefix: str) -> str:
    """Return the smallest key greater than every key with *prefix*; empty when there is none.

    >>> after_prefix("/pods/")
    '/pods0'
    """
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            step = 0xE000 if last == 0xD7FF else last + 1  # surrogates cannot be encoded
            return prefix[:-1] + chr(step)
        prefix = prefix[:-1]
    return ""


class OrderedKeys:
    """A set of keys, in order.

    >>> keys = OrderedKeys(["/b", "/a/2", "/a/1"])
    >>> list(keys.between("/a/", "/a0")), keys.count("/a/", "/a0")
    (['/a/1', '/a/2'], 2)
    """

    __slots__ = ("_first", "_runs")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(keys)
        self._runs = [ordered[i : i + _SPLIT // 2] for i in range(0, len(ordered), _SPLIT // 2)]
        self._first = [run[0] for run in self._runs]

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def _run_of(self, key: str) -> int:
        """Return the index of the run that holds *key*, or would."""
        at = bisect_left(self._first, key)
        if at < len(self._first) and self._first[at] == key:
            return at
        return max(at - 1, 0)

    def add(self, key: str) -> None:
        """Insert *key*, which must not be there yet."""
        if not self._runs:
            self._runs.append([key])
            self._first.append(key)
            return
        at = self._run_of(key)
        run = self._runs[at]
        if key > run[-1]:
            run.append(key)
        else:
            insort(run, key)
        self._first[at] = run[0]
        if len(run) > _SPLIT:
            half = len(run) // 2
            self._runs.insert(at + 1, run[half:])
            self._first.insert(at + 1, run[half])
            del run[half:]

    def discard(self, key: str) -> None:
        """Remove *key* if it is there."""
        if not self._runs:
            return
        at = self._run_of(key)
        run = self._runs[at]
        position = bisect_left(run, key)
        if position == len(run) or run[position] != key:
            return
        del run[position]
        if run:
            self._first[at] = run[0]
        else:
            del self._runs[at], self._first[at]

    def between(self, start: str, stop: str) -> Iterator[str]:
        """Yield the keys from *start* on and before *stop* (empty: to the end)."""
        for run in self.runs(start, stop):
            yield from run

    def runs(self, start: str, stop: str) -> Iterator[list[str]]:
        """Yield the same keys, many at a time; the lists are not the caller's to change."""
        if not self._runs:
            return
        for at in range(self._run_of(start), len(self._runs)):
            run = self._runs[at]
            if stop and run[0] >= stop:
                return
            low = bisect_left(run, start) if run[0] < start else 0
            high = bisect_left(run, stop) if stop and run[-1] >= stop else len(run)
            yield run if low == 0 and high == len(run) else run[low:high]

    def count(self, start: str, stop: str) -> int:
        """Return how many keys lie from *start* on and before *stop*."""
        if not self._runs or (stop and stop <= start):
            return 0
        first = self._run_of(start)
        last = self._run_of(stop) if stop else len(self._runs) - 1
        whole = sum(map(len, self._runs[first : last + 1]))
        skipped = bisect_left(self._runs[first], start)
        beyond = len(self._runs[last]) - bisect_left(self._runs[last], stop) if stop else 0
        return whole - skipped - beyond


_REVISION = attrgetter("revision")


def refusal(write: Write, found: KeyValue | None) -> WriteError | None:
    """Return why *write* must not happen when *found* is there, or None.

    >>> str(refusal(Write("/a", b"x", expect=0), KeyValue("/a", b"", 3, 4)))
    '/a: already exists, at revision 4'
    """
    expect = write.expect
    if found is None:
        if expect or write.value is None:
            return Missing(write.key, expect or 0, 0)
        return None
    if expect is None or expect == found.mod_revision:
        return None
    return (Exists if expect == 0 else Conflict)(write.key, expect, found.mod_revision)


def next_version(write: Write, found: KeyValue | None, revision: int, now: float) -> KeyValue | None:
    """Return what the key becomes when *write* happens at *revision*."""
    value = write.value
    if value is None:
        return None
    if write.stamp != NO_STAMP:
        value = b"%b%d%b" % (value[: write.stamp], revision, value[write.stamp :])
    return KeyValue(
        write.key,
        value,
        found.create_revision if found is not None else revision,
        revision,
        write.stamp,
        now + write.ttl_seconds if write.ttl_seconds else 0.0,
    )


class Log:
    """The state and its recent changes. Every backend has one; it does no I/O."""

    def __init__(self, revision: int = 0, compacted: int = 0, items: Iterable[KeyValue] = ()) -> None:
        self._fanout = Fanout()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self.reset(revision, compacted, items)

    def reset(self, revision: int, compacted: int, items: Iterable[KeyValue]) -> None:
        """Start over from *items*; watches have to start over too."""
        self.revision = revision
        self.compacted = compacted
        self._current: dict[str, KeyValue] = {item.key: item for item in items}
        self._order = OrderedKeys(self._current)
        self._gone = OrderedKeys()  # deleted, but still part of a state that can be listed
        self._events: list[Event] = []
        self._by_key: dict[str, list[Event]] = {}  # the kept changes of each key
        self.total_changes = 0  # ever applied here
        self._expiries: list[tuple[float, int, str]] = []
        for item in self._current.values():
            self._note_expiry(item)

    # ---------------------------------------------------------------------------------------------- reads

    def get(self, key: str) -> KeyValue | None:
        return self._current.get(key)

    def get_at(self, key: str, revision: int) -> KeyValue | None:
        self._require_kept(revision)
        return self._at(key, revision)

    def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        """Return part of the list of *prefix*; see `Store.range`. A page costs its own length, whatever follows it."""
        if revision:
            self._require_kept(revision)
        stop = after_prefix(prefix)
        low = max(start, prefix)
        past = revision and revision < self.revision
        items = self._items_at(low, stop, limit, revision) if past else self._items(low, stop, limit)
        if not limit or len(items) < limit:
            return Page(items, revision or self.revision)
        after = items[-1].key + "\0"
        left = self._order.count(after, stop)
        if past:
            left += self._more_then(after, stop, revision)
        return Page(items, revision or self.revision, left)

    def _items(self, low: str, stop: str, limit: int) -> list[KeyValue]:
        """Return what lies from *low* on and before *stop*, the first *limit* of it if there is one."""
        current = self._current
        if limit:
            return [current[key] for key in islice(self._order.between(low, stop), limit)]
        items: list[KeyValue] = []
        for run in self._order.runs(low, stop):
            items += map(current.__getitem__, run)
        return items

    def _items_at(self, low: str, stop: str, limit: int, revision: int) -> list[KeyValue]:
        """Return the same as it was at *revision*."""
        keys: Iterable[str] = self._order.between(low, stop)
        if self._gone.count(low, stop):
            keys = merge(keys, self._gone.between(low, stop))
        found = (self._at(key, revision) for key in keys)
        there = (item for item in found if item is not None)
        return list(islice(there, limit) if limit else there)

    def _more_then(self, low: str, stop: str, revision: int) -> int:
        """Return how many more keys there were at *revision* than are now; the first change since knows."""
        changed: dict[str, bool] = {}
        for event in self._events[bisect_right(self._events, revision, key=_REVISION) :]:
            if event.key >= low and (not stop or event.key < stop):
                changed.setdefault(event.key, event.before is not None)
        return sum(then - (key in self._current) for key, then in changed.items())

    def count(self, prefix: str) -> int:
        return self._order.count(prefix, after_prefix(prefix))

    def event_at(self, revision: int) -> Event | None:
        """Return the kept change that made *revision*."""
        at = bisect_right(self._events, revision, key=_REVISION) - 1
        return self._events[at] if at >= 0 and self._events[at].revision == revision else None

    def _at(self, key: str, revision: int) -> KeyValue | None:
        item = self._current.get(key)
        if item is not None and item.mod_revision <= revision:
            return item
        for event in reversed(self._by_key.get(key, ())):
            if event.revision <= revision:
                break
            item = event.before
        return item

    def _require_kept(self, revision: int) -> None:
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)

    # --------------------------------------------------------------------------------------------- writes

    def decide(self, writes: Iterable[Write], now: float) -> list[Result]:
        """Return what each write would do, in order, each seeing those before it. Changes nothing."""
        results: list[Result] = []
        pending: dict[str, KeyValue | None] = {}
        revision = self.revision
        for write in writes:
            key = write.key
            found = pending[key] if key in pending else self._current.get(key)
            if write.expect == WRITTEN_BEFORE:
                if results[-1].error is not None:
                    results.append(results[-1])
                    continue
            else:
                error = refusal(write, found)
                if error is not None:
                    results.append(Result(None, error, found))
                    continue
            revision += 1
            pending[key] = item = next_version(write, found, revision, now)
            results.append(Result(Event(key, revision, item, found)))
        return results

    def apply(self, events: Sequence[Event]) -> None:
        """Make *events* visible, in order, and notify the watches."""
        for event in events:
            key, item = event.key, event.now
            if item is None:
                del self._current[key]
                self._order.discard(key)
                self._gone.add(key)
            else:
                if event.before is None:
                    self._order.add(key)
                    if key in self._by_key:
                        self._gone.discard(key)
                self._current[key] = item
                if item.expires:
                    self._note_expiry(item)
            changes = self._by_key.get(key)
            if changes is None:
                self._by_key[key] = [event]
            else:
                changes.append(event)
        if events:
            self._events.extend(events)
            self.total_changes += len(events)
            self.advance(events[-1].revision)
            self._fanout.publish(events)

    def advance(self, revision: int) -> None:
        """Reads now see *revision*."""
        self.revision = max(self.revision, revision)
        while self._waiting and self._waiting[0][0] <= self.revision:
            waiter = heappop(self._waiting)[2]
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, revision: int) -> None:
        """Return as soon as reads see *revision*."""
        if revision <= self.revision:
            return
        waiter = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (revision, id(waiter), waiter))
        await waiter

    def give_up(self, reason: StoreError) -> None:
        """Fail every caller that waits for a future revision."""
        waiting, self._waiting = self._waiting, []
        for _, _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(reason)

    # -------------------------------------------------------------------------------------------- watches

    def watch(self, prefix: str, after: int, deliver: Deliver, ended: Ended | None = None) -> Subscription:
        """Start a watch; see `Store.watch`."""
        if after < self.compacted:
            raise Compacted(after, self.compacted)
        missed: Iterable[Event] = ()
        if after < self.revision:
            missed = self._events[bisect_right(self._events, after, key=_REVISION) :]
        return self._fanout.add(prefix, after, deliver, ended, missed)

    @property
    def fanout(self) -> Fanout:
        return self._fanout

    # ----------------------------------------------------------------------------------- expiry, compaction

    def _note_expiry(self, item: KeyValue) -> None:
        if item.expires:
            heappush(self._expiries, (item.expires, item.mod_revision, item.key))

    def expired(self, now: float) -> list[Write]:
        """Return the deletions due at *now*; a key written again since then is not deleted."""
        due: list[Write] = []
        while self._expiries and self._expiries[0][0] <= now:
            _, revision, key = heappop(self._expiries)
            item = self._current.get(key)
            if item is not None and item.mod_revision == revision:
                due.append(Write(key, None, expect=revision))
        return due

    @property
    def kept_changes(self) -> int:
        """How many changes can still be replayed."""
        return len(self._events)

    def compact(self, revision: int) -> list[Event]:
        """Forget what was superseded at or before *revision*, and return the changes forgotten."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self.compacted:
            return []
        self.compacted = revision
        cut = bisect_right(self._events, revision, key=_REVISION)
        forgotten = self._events[:cut]
        del self._events[:cut]
        for event in forgotten:
            changes = self._by_key[event.key]
            if len(changes) > 1:
                del changes[0]
                continue
            del self._by_key[event.key]
            if event.now is None:
                self._gone.discard(event.key)
        return forgotten
