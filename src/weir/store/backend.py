"""The store interface: operations, values and errors.

A store maps keys (text, ordered by code point) to values (bytes). Every successful write gets a new, higher revision,
also across restarts. No reader sees a write before it is durable; reads come from memory and never wait.

A value may carry its own revision: a write names the offset (`stamp`) at which the store inserts the digits of the
revision it assigns, so that a list is a join of stored bytes and no document is re-encoded for its resourceVersion. A
deletion can show the last value under its own revision for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Protocol

import msgspec

NO_STAMP = -1
MOST_BYTES = 1_572_864  # of one key and value: etcd's default request limit
_MOST_SENT_BYTES = 2 << 20  # what its client sends at all


# ------------------------------------------------------------------------------------------------- errors


class StoreError(Exception):
    """Anything a store can refuse."""


class Compacted(StoreError):
    """The revision is older than what the store still keeps. List again and watch from there."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} has been compacted, the oldest kept is {oldest}")
        self.revision, self.oldest = revision, oldest


class FutureRevision(StoreError):
    """The revision has not happened yet: wait for it, or read the latest."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future, the store is at {current}")
        self.revision, self.current = revision, current


class StoreUnavailable(StoreError):
    """The store cannot take the write (disk full, read-only, engine away). Nothing acknowledged is lost.

    *unknown* is true when the write may or may not have happened: read before trying again.
    """

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class Locked(StoreUnavailable):
    """Another process has the data open. Stop it first, or use a store made for sharing."""


class TooLarge(StoreError):
    """The value is larger than any store takes. Nothing happened."""


class WriteError(StoreError):
    """A failed compare-and-set; found in `Result.error`, raised by `Result.check`."""

    def __init__(self, key: str, expected: int, found: int) -> None:
        super().__init__(self.wording.format(key=key, expected=expected, found=found))
        self.key, self.expected, self.found = key, expected, found

    wording: ClassVar[str] = "{key}: expected revision {expected}, found {found}"


class Exists(WriteError):
    """The key was expected not to exist, but does."""

    wording = "{key}: already exists, at revision {found}"


class Missing(WriteError):
    """The key was expected to exist, but does not."""

    wording = "{key}: does not exist"


class Conflict(WriteError):
    """The key has changed since the caller read it. Read it again, reapply the change, retry."""


# ------------------------------------------------------------------------------------------------- values


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One version of one key, as it is since `mod_revision`."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    stamp: int = NO_STAMP  # where in `value` the digits of mod_revision begin
    expires: float = 0.0  # when it is removed by itself, seconds since the epoch; 0 is never

    def stamped(self, revision: int) -> bytes:
        """Return the value as if it had been written at *revision*.

        >>> KeyValue("/a", b'{"rv":"7"}', 7, 7, stamp=7).stamped(12)
        b'{"rv":"12"}'
        """
        if self.stamp < 0:
            return self.value
        digits = b"%d" % self.mod_revision
        return b"%b%d%b" % (self.value[: self.stamp], revision, self.value[self.stamp + len(digits) :])


class Event(msgspec.Struct, gc=False, eq=False):
    """One change: `now` is what the key became (None: deleted), `before` what it was (None: new).

    The same object goes to every watcher, so what is computed from it once (`frames`) serves all.
    """

    key: str
    revision: int
    now: KeyValue | None
    before: KeyValue | None
    frames: Any = None  # shared by the event's readers (e.g. an encoded form); the store ignores it

    @property
    def type(self) -> str:
        """ADDED, MODIFIED or DELETED."""
        if self.now is None:
            return "DELETED"
        return "MODIFIED" if self.before is not None else "ADDED"

    @property
    def value(self) -> bytes:
        """The new value; of a deletion the last value, stamped with the deletion's revision."""
        if self.now is not None:
            return self.now.value
        return self.prev_stamped

    @property
    def prev_value(self) -> bytes | None:
        """The value before this change, as it was."""
        return None if self.before is None else self.before.value

    @property
    def prev_stamped(self) -> bytes:
        """The value before this change, under this change's revision (an object that leaves a selector)."""
        return b"" if self.before is None else self.before.stamped(self.revision)


#: What a write expects that goes on from the one before it in the same commit: the version that one made.
WRITTEN_BEFORE: Final = -1


class Write(msgspec.Struct, frozen=True, gc=False):
    """Put *value* at *key*, or delete *key* when value is None, if *expect* holds.

    expect: None always; 0 only if the key does not exist; n only if its mod_revision is n; `WRITTEN_BEFORE` only if
    the write before it in the same commit put this key, and nothing has happened to it since.
    A deletion of a key that does not exist fails with Missing whatever was expected.
    """

    key: str
    value: bytes | None
    expect: int | None = None
    stamp: int = NO_STAMP  # insert the revision's digits at this offset of value
    ttl_seconds: float = 0.0  # remove it by itself after this time; 0 is never


def check_writes(writes: Sequence[Write]) -> None:
    """Refuse a write that no etcd, or no client of one, would take. Raises TooLarge, in their words; ValueError.

    >>> check_writes([Write("/a", bytes(MOST_BYTES))])
    Traceback (most recent call last):
    weir.store.backend.TooLarge: etcdserver: request is too large
    """
    key = None
    for write in writes:
        if write.expect == WRITTEN_BEFORE and write.key != key:
            raise ValueError(f"{write.key}: the write before this one does not put this key")
        key = write.key if write.value is not None else None
        size = 0 if write.value is None else len(write.value) + len(write.key)
        if size > _MOST_SENT_BYTES:
            larger = f"trying to send message larger than max ({size} vs. {_MOST_SENT_BYTES})"
            raise TooLarge(f"rpc error: code = ResourceExhausted desc = {larger}")
        if size > MOST_BYTES:
            raise TooLarge("etcdserver: request is too large")


class Result(msgspec.Struct, frozen=True, gc=False):
    """What became of one write.

    Done: `error` is None, `event` the change. Refused: `error` says why, `found` is what is there instead.
    """

    event: Event | None
    error: WriteError | None = None
    found: KeyValue | None = None

    def check(self) -> Event:
        """Return the change, or raise why there is none."""
        if self.error is not None:
            raise self.error
        assert self.event is not None
        return self.event


class Page(msgspec.Struct, frozen=True, gc=False):
    """Part of a list: everything under a prefix at one revision, in key order."""

    items: Sequence[KeyValue]
    revision: int  # the state this shows; name it to read the next page
    remaining: int = 0  # how many keys of the prefix come after the last item

    @property
    def next_start(self) -> str:
        """Where the next page starts: the smallest key after the last item; empty on the last page."""
        return self.items[-1].key + "\0" if self.remaining else ""


# ----------------------------------------------------------------------------------------------- contract

Deliver = Callable[[Sequence[Event]], None]
Ended = Callable[[StoreError], None]


class Watch(Protocol):
    """A running watch."""

    def cancel(self) -> None:
        """Deliver nothing more. Harmless when repeated."""


class Timer(Protocol):
    """A time that nobody sets and a way to wait: all that a store needs of a clock."""

    def steady_time(self) -> float:
        """Seconds since the epoch; passes evenly."""

    async def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""


class Store(Protocol):
    """The contract; `tests/contract/test_store.py` holds every backend to it. One event loop, no threads."""

    @property
    def revision(self) -> int:
        """The revision of the state that reads see. Every event up to it has been delivered to its watches,
        so a bookmark may name it at any time."""

    @property
    def compacted(self) -> int:
        """The oldest revision that can be listed or watched from."""

    def get(self, key: str) -> KeyValue | None:
        """Return the current version of *key*."""

    def get_at(self, key: str, revision: int) -> KeyValue | None:
        """Return *key* as it was at *revision*. Raises Compacted, FutureRevision."""

    def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        """Return keys beginning with *prefix*, from *start* on, at most *limit* (0: all), as of *revision*
        (0: now). Raises Compacted, FutureRevision."""

    def count(self, prefix: str) -> int:
        """Return how many keys begin with *prefix* now."""

    def watch(self, prefix: str, after: int, deliver: Deliver, ended: Ended | None = None) -> Watch:
        """Call *deliver* with every change under *prefix* whose revision is greater than *after*, in order,
        without gap or duplicate; what already happened is delivered before this returns. A revision in
        the future is allowed: nothing comes until it has passed. *ended* is called, with the
        reason, when the store can no longer go on without a gap. Raises Compacted."""

    async def commit(self, writes: Sequence[Write]) -> list[Result]:
        """Try each write in order and return one result for each; returns when they are durable and visible.
        Writes of concurrent callers become durable together. Raises StoreUnavailable, TooLarge."""

    async def fresh(self) -> int:
        """Return a revision at least as new as every write acknowledged anywhere before the call, once reads
        see it. At once where the store has one writer."""

    async def until(self, revision: int) -> None:
        """Return as soon as reads see *revision*. Put a time limit around it."""

    async def stale(self, key: str) -> bool:
        """Return whether *key* lies on the disk in another form than it would be written in now (an older
        encryption key): writing it again without a change is then worth while."""

    async def compact(self, revision: int) -> None:
        """Forget what was superseded at or before *revision*; older lists and watches answer Compacted."""

    async def upkeep(self, now: float) -> None:
        """Do what is due at *now*: remove what has outlived its time, compact, tidy the disk.
        `weir.store.memory.upkeep_loop` calls this at intervals."""

    async def close(self) -> None:
        """Finish accepted writes and close the data."""


# ── transformers between a value in memory and on disk, such as encryption ──
# A transformer gets the value with its key; one object serves every thread of a store. Ciphers are in
# weir.apiserver.compat.encryption.


class Unreadable(StoreUnavailable):
    """A value on the disk cannot be turned back; the text names its key and why."""


class Transformer(Protocol):
    """What is done with values on their way to the disk and back."""

    @property
    def plain(self) -> bool:
        """Whether values lie on the disk as they are; else nothing that is forgotten may be left there either."""

    def to_storage(self, key: str, value: bytes) -> bytes:
        """Return what is written to the disk for *value*."""

    def from_storage(self, key: str, stored: bytes) -> bytes:
        """Return the value that *stored* was made from. Raises Unreadable."""

    def is_stale(self, key: str, stored: bytes) -> bool:
        """Return whether *stored* is in another form than `to_storage` would give it now."""

    def may_be_stale(self, key: str) -> bool:
        """Return whether it is worth reading the disk to ask `is_stale`."""


class Plain:
    """Values as they are."""

    plain = True

    def to_storage(self, key: str, value: bytes) -> bytes:
        return value

    def from_storage(self, key: str, stored: bytes) -> bytes:
        return stored

    def is_stale(self, key: str, stored: bytes) -> bool:
        return False

    def may_be_stale(self, key: str) -> bool:
        return False


PLAIN: Transformer = Plain()
