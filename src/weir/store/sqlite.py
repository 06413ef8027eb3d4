"""SQLite backend: durable, one machine, one process.

Reads come from memory (weir.store.memory). Concurrent writes become durable together in one transaction with one
fsync (group commit), written by one thread, and are visible and acknowledged after that. After a clean failure (disk
full, locked) the next write is tried again. After a failure that leaves the file in doubt, reads go on and writes are
rejected. A disk that may come back (input/output errors, a read-only remount) is tried again every second by the next
write: the file is opened anew, and the group that failed is there as a whole or not at all. Damage is final.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from weir.store.backend import PLAIN, Event, Result, StoreUnavailable, Transformer, Write, check_writes
from weir.store.journal import Journal, JournalError, rows_to_forget
from weir.store.lockfile import LockFile
from weir.store.log import Log
from weir.store.memory import DEFAULT_KEEP_SECONDS, ReadCache, Retention

_GROUP_WRITES = 4096  # more than this waits for the next group, to bound every writer's waiting
_QUICK_WRITES = 64  # at most these are made into rows on the loop
_QUICK_BYTES = 256 * 1024
_SLICE_ROWS = 500
_IDLE_SECONDS = 0.05
_REOPEN_SECONDS = 1.0

Job = Callable[[], None]


class _PendingWrites(NamedTuple):
    """Writes of one caller, and where the answer goes."""

    writes: Sequence[Write]
    answer: asyncio.Future[list[Result]]


class _Writer(threading.Thread):
    """Runs jobs one after another; when there is none for a moment, moves the log into the main file."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(name="weir-store-writer", daemon=True)
        self._journal = journal
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                self._journal.checkpoint()
                job = self.jobs.get()
            if job is None:
                return
            job()
            if self._journal.checkpoint_due:
                self._journal.checkpoint()


class SqliteStore(ReadCache):
    """The contract of `weir.store.backend.Store`, in a SQLite file."""

    def __init__(
        self, lock: LockFile, journal: Journal, log: Log, time: Callable[[], float], keep_seconds: float
    ) -> None:
        """Use `open`."""
        super().__init__(log)
        self._lock, self._journal, self._time = lock, journal, time
        self._retention = Retention(keep_seconds)
        self._writer = _Writer(journal)
        self._loop = asyncio.get_running_loop()
        self._asked: list[_PendingWrites] = []
        self._chores: deque[tuple[Job, asyncio.Future[None]]] = deque()
        self._busy = False
        self._chore_is_next = False
        self._broken: StoreUnavailable | None = None
        self._doubtful: list[
            Event
        ] = []  # of the group whose write failed, and may have happened all the same
        self._reopen_at: float | None = None  # when a broken file is tried again
        self._stale: list[int] = []
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        time: Callable[[], float] = time.time,
        keep_seconds: float = DEFAULT_KEEP_SECONDS,
        sync_delay: float = 0.0,
        max_pages: int = 0,
        transformer: Transformer = PLAIN,
    ) -> Self:
        """Open the store at *path*, creating it if there is none. Raises Locked, StoreUnavailable.

        *transformer* says in what form values lie in the file. *sync_delay* and *max_pages* imitate a slow or a
        small disk, for tests and benches.
        """
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreUnavailable(f"cannot make the directory {path.parent}: {error.strerror}") from None
        lock = LockFile(path.with_name(path.name + ".lock"))
        try:
            journal = await asyncio.to_thread(
                Journal, path, sync_delay=sync_delay, max_pages=max_pages, transformer=transformer
            )
            try:
                loaded = await asyncio.to_thread(journal.load)
                log = Log(loaded.compacted, loaded.compacted, loaded.items)
                log.apply(loaded.events)
            except BaseException:
                journal.close()
                raise
        except BaseException:
            lock.release()
            raise
        store = cls(lock, journal, log, time, keep_seconds)
        store._stale = loaded.stale
        return store

    # --------------------------------------------------------------------------------------------- writes

    async def commit(self, writes: Sequence[Write]) -> list[Result]:
        if not self._may_reopen():
            self._require_open()
        check_writes(writes)
        answer: asyncio.Future[list[Result]] = self._loop.create_future()
        self._asked.append(_PendingWrites(writes, answer))
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._next)  # let concurrent writes join this group
        return await answer

    def _require_open(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._closing is not None:
            raise StoreUnavailable("the store is closed")

    def _may_reopen(self) -> bool:
        return self._reopen_at is not None and self._loop.time() >= self._reopen_at and self._closing is None

    def _next(self) -> None:
        """Start the next job of the writer: a group of writes or a chore, in turn when there are both."""
        if self._chores and (self._chore_is_next or not self._asked):
            self._chore_is_next = False
            job, done = self._chores.popleft()
            self._hand_over(job, lambda error: self._chore_done(done, error))
        elif self._asked:
            self._chore_is_next = True
            self._start_group()
        else:
            self._busy = False
            if self._closing is not None and not self._closing.done():
                self._closing.set_result(None)

    def _start_group(self) -> None:
        if self._may_reopen():
            last: list[int] = []
            self._hand_over(
                lambda: last.append(self._journal.reopen()), lambda error: self._reopened(last, error)
            )
            return
        group = self._take_group()
        if self._broken is not None:
            self._group_done(group, [], [], self._broken)
            return
        results = self._log.decide([write for asked in group for write in asked.writes], self._time())
        events = [result.event for result in results if result.event is not None]
        if not events:
            self._group_done(group, results, events, None)
            return
        self._hand_over(self._append(events), lambda error: self._group_done(group, results, events, error))

    def _reopened(self, last: list[int], error: StoreUnavailable | None) -> None:
        """Go on if the file holds what was acknowledged, with the group in doubt or without it."""
        doubtful, self._reopen_at = self._doubtful, None
        if error is None:
            if doubtful and last[0] == doubtful[-1].revision:
                self._log.apply(doubtful)
            elif last[0] != self._log.revision:
                message = f"the store {self._journal.path} holds revision {last[0]}, not {self._log.revision}"
                error = JournalError(message, broken=True)
        elif isinstance(error, JournalError) and not error.broken:
            error = JournalError(str(error), broken=True, passing=True)
        self._broken = None
        if error is None:
            self._doubtful = []
            self._next()
        else:
            self._note(error, doubtful)
            self._group_done(self._take_group(), [], [], self._broken)

    def _append(self, events: list[Event]) -> Job:
        """Return the job that makes *events* durable; the rows of a few are made here already.

        Two threads that want the interpreter take it from each other every few microseconds, which costs each of them
        as much as a row does.
        """
        journal = self._journal
        if (
            journal.transformer.plain
            and len(events) <= _QUICK_WRITES
            and sum([len(event.now.value) for event in events if event.now]) <= _QUICK_BYTES
        ):
            with suppress(Exception):  # a failure here also fails in the writer, which reports it
                return partial(journal.write, journal.rows(events))
        return partial(journal.append, events)

    def _take_group(self) -> list[_PendingWrites]:
        total = 0
        for count, asked in enumerate(self._asked, 1):
            total += len(asked.writes)
            if total >= _GROUP_WRITES:
                group, self._asked = self._asked[:count], self._asked[count:]
                return group
        group, self._asked = self._asked, []
        return group

    def _hand_over(self, job: Job, done: Callable[[StoreUnavailable | None], None]) -> None:
        """Run *job* in the writer's thread, then *done* here with what went wrong."""
        loop = self._loop

        def run() -> None:
            failure: StoreUnavailable | None = None
            try:
                job()
            except StoreUnavailable as error:
                failure = error
            except Exception as error:  # a defect; still, no writer may wait for ever
                failure = JournalError(f"the store failed: {error!r}", broken=True)
            loop.call_soon_threadsafe(done, failure)

        self._writer.jobs.put(run)

    def _group_done(
        self,
        group: list[_PendingWrites],
        results: list[Result],
        events: list[Event],
        error: StoreUnavailable | None,
    ) -> None:
        if error is None:
            self._log.apply(events)
            at = 0
            for asked in group:
                end = at + len(asked.writes)
                if not asked.answer.done():
                    asked.answer.set_result(results[at:end])
                at = end
        else:
            self._note(error, events)
            for asked in group:
                if not asked.answer.done():
                    asked.answer.set_exception(error)
        self._loop.call_soon(self._next)  # let concurrent writes join the next group

    def _note(self, error: StoreUnavailable, events: list[Event]) -> None:
        if isinstance(error, JournalError) and error.broken and self._broken is None:
            again = ", which is tried every second" if error.passing else ""
            self._broken = StoreUnavailable(f"{error}; no more writes until the store is opened again{again}")
            self._doubtful = events
            self._reopen_at = self._loop.time() + _REOPEN_SECONDS if error.passing else None

    # ------------------------------------------------------------------------------------- upkeep and end

    def _chore_done(self, done: asyncio.Future[None], error: StoreUnavailable | None) -> None:
        if error is not None:
            self._note(error, [])
        if not done.done():
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)
        self._next()

    async def _chore(self, job: Job) -> None:
        self._require_open()
        done: asyncio.Future[None] = self._loop.create_future()
        self._chores.append((job, done))
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._next)
        await done

    async def stale(self, key: str) -> bool:
        found = self._log.get(key)
        if found is None or not self._journal.transformer.may_be_stale(key):
            return False
        answer: list[bool] = []
        await self._chore(lambda: answer.append(self._journal.is_stale(key, found.mod_revision)))
        return answer[0]

    async def compact(self, revision: int) -> None:
        if revision > self._log.compacted:
            self._stale += rows_to_forget(self._log.compact(revision))
            compacted = self._log.compacted
            await self._chore(lambda: self._journal.set_compacted(compacted))
        await self._forget_stale()

    async def _forget_stale(self) -> None:
        """Remove rows that cannot be read any more, a slice at a time so that writers get their turn."""
        while self._stale:
            part = self._stale[:_SLICE_ROWS]
            await self._chore(lambda part=part: self._journal.forget(part))  # type: ignore[misc]
            del self._stale[: len(part)]

    async def upkeep(self, now: float) -> None:
        if due := self._log.expired(now):
            await self.commit(due)
        await self.compact(self._retention.compact_to(now, self._log))

    async def close(self) -> None:
        if self._closing is None:
            self._closing = self._loop.create_future()
            if not self._busy:
                self._closing.set_result(None)
            await self._closing
            self._writer.jobs.put(None)
            await asyncio.to_thread(self._writer.join)
            self._journal.close()
            self._lock.release()
            self._log.fanout.end(StoreUnavailable("the store is closed"))
