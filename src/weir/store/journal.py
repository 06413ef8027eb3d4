"""Journal of changes in a SQLite file.

One table, one row per change, in revision order; one transaction, and so one fsync, per group of changes. The current
state follows from reading the rows in order. Each row has a checksum, because SQLite would return a flipped bit as
data. All calls block; weir.store.sqlite makes them from its writer thread. `rows` is computed on the event loop,
because the writer thread competes for the GIL.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from weir.store.backend import NO_STAMP, PLAIN, Event, KeyValue, StoreUnavailable, Transformer
from weir.store.wal import find_damage

T = TypeVar("T")

FORMAT = 1
_CHECKPOINT_BYTES = 16 << 20  # of keys and values; the write-ahead log itself is somewhat larger
_ROW_BYTES = 2048  # about what removing a row adds to the write-ahead log
_MOST_ROWS = 64  # of one statement with a place for each value

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
  rev INTEGER PRIMARY KEY, key TEXT NOT NULL, create_rev INTEGER NOT NULL,
  value BLOB, stamp INTEGER NOT NULL, expires REAL NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
"""

# One statement for a group, its own transaction: the thread lets go of the interpreter once, for the whole of the
# work and the fsync, instead of once for every row. Groups are small as a rule, and then have a statement of their
# size; a large one comes as a list in JSON with the values in one blob.
_APPEND_MANY = """
INSERT INTO log (rev, key, create_rev, stamp, expires, crc, value)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
       CASE WHEN value ->> 7 < 0 THEN NULL ELSE CAST(substr(?2, value ->> 6, value ->> 7) AS BLOB) END
FROM json_each(?1)
"""


@cache
def _append(rows: int) -> str:
    places = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * rows)
    return f"INSERT INTO log (rev, key, create_rev, value, stamp, expires, crc) VALUES {places}"


_CLEAN = {  # the transaction did not happen and the file is as it was
    "SQLITE_FULL": "no space left",
    "SQLITE_READONLY": "it is read-only",
    "SQLITE_BUSY": "another program has it locked",
    "SQLITE_LOCKED": "another program has it locked",
    "SQLITE_PERM": "access denied",
    "SQLITE_CANTOPEN": "it cannot be opened or created there",
}
_CORRUPT = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_SCHEMA")


class JournalError(StoreUnavailable):
    """A failure of the file; *broken* when only opening it again shows what it holds, *passing* when that may help."""

    def __init__(self, message: str, *, broken: bool, passing: bool = False) -> None:
        super().__init__(message, unknown=broken)
        self.broken, self.passing = broken, passing


class Rows(NamedTuple):
    """Changes as the file takes them."""

    sql: str
    values: list[object]
    changes: int
    size: int  #: of keys and values, in bytes


class Loaded(NamedTuple):
    """What the file holds."""

    compacted: int
    items: list[KeyValue]  # current as of the compacted revision
    events: list[Event]  # what changed since
    stale: list[int]  # rows a compaction was interrupted before removing
    last: int  # the last revision


def checksum(key: str, create_revision: int, revision: int, value: bytes | None) -> int:
    """Return what a row says of itself, so that a flipped bit is noticed."""
    if not (isinstance(key, str) and isinstance(create_revision, int) and isinstance(value, bytes | None)):
        return -1  # SQLite returns whatever type a damaged page names
    head = b"%d %d %b %d" % (revision, create_revision, key.encode(), -1 if value is None else len(value))
    return zlib.crc32(value or b"", zlib.crc32(head))


def _is_lifetime(expires: object) -> bool:
    """Return whether this can have been written as the time a row expires.

    The checksum does not cover it. SQLite stores 0.0 as a type without content, one bit away from NULL, an empty
    blob and 1.0, which would expire the object at once.
    """
    return isinstance(expires, float) and (expires == 0.0 or 1.0 < expires < math.inf)


def _is_stamp(stamp: object, value: bytes, revision: int) -> bool:
    """Return whether *stamp* is none, or where the digits of *revision* are in *value*."""
    if not isinstance(stamp, int) or stamp < 0:
        return stamp == NO_STAMP
    return value.startswith(b"%d" % revision, stamp)


def _in_order(events: Sequence[Event], transformer: Transformer) -> list[object]:
    """Return the values of `_append`, row after row."""
    values: list[object] = []
    plain = transformer.plain
    for event in events:
        item = event.now
        if item is None:
            crc = checksum(event.key, 0, event.revision, None)
            values += (event.revision, event.key, 0, None, -1, 0.0, crc)
        else:
            stored = item.value if plain else transformer.to_storage(item.key, item.value)
            crc = checksum(item.key, item.create_revision, item.mod_revision, stored)
            values += (
                item.mod_revision,
                item.key,
                item.create_revision,
                stored,
                item.stamp,
                item.expires,
                crc,
            )
    return values


def _in_json(events: Sequence[Event], transformer: Transformer) -> list[object]:
    """Return the values of `_APPEND_MANY`: the rows as a list, and what they store."""
    rows: list[tuple[object, ...]] = []
    values: list[bytes] = []
    at = 1  # SQLite counts from one
    for event in events:
        item = event.now
        if item is None:
            crc = checksum(event.key, 0, event.revision, None)
            rows.append((event.revision, event.key, 0, -1, 0.0, crc, 0, -1))
            continue
        stored = transformer.to_storage(item.key, item.value)
        crc = checksum(item.key, item.create_revision, item.mod_revision, stored)
        size = len(stored)
        rows.append(
            (item.mod_revision, item.key, item.create_revision, item.stamp, item.expires, crc, at, size)
        )
        values.append(stored)
        at += size
    return [msgspec.json.encode(rows).decode(), b"".join(values)]


class Journal:
    """The file. Not safe for use from two threads at once."""

    def __init__(
        self,
        path: Path,
        *,
        sync_delay: float = 0.0,
        max_pages: int = 0,
        transformer: Transformer = PLAIN,
    ) -> None:
        """Open or create the file. *sync_delay* (seconds) stands for a slower disk, *max_pages* for a
        smaller one; both are for tests and benches. Raises StoreUnavailable."""
        self.path = path
        self.transformer = transformer
        self._sync_delay = sync_delay
        self._unchecked = 0  # changes not yet moved from the write-ahead log into the file
        self._unchecked_bytes = 0
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # it will hold secrets
        except OSError as error:
            raise StoreUnavailable(f"cannot open the store {path}: {error.strerror}") from None
        if (damage := find_damage(path)) is not None:
            raise JournalError(
                f"the store {path} is damaged at {damage}: committed changes lie behind it; it was left as it is: "
                f"restore a copy, or go on without them after `truncate -s {damage.offset} {path}-wal`",
                broken=True,
            )
        self._max_pages = max_pages
        self._connect()

    def _connect(self) -> None:
        self._db = sqlite3.connect(self.path, timeout=1.0, isolation_level=None, check_same_thread=False)
        self._guarded(lambda: self._prepare(self._max_pages), "open")

    def reopen(self) -> int:
        """Open the file again after a failure that left it in doubt; return the last revision in it.

        All that is in the write-ahead log is written and synced anew: after a failed fsync it may be in memory only.
        Raises JournalError.
        """
        self.close()
        if not self.path.exists():  # or it would begin empty
            raise JournalError(
                f"cannot open the store {self.path}: it is not there", broken=True, passing=True
            )
        self._connect()
        busy, *_ = self._guarded(
            lambda: self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone(), "open"
        )
        if busy:
            raise JournalError(
                f"cannot open the store {self.path}: {_CLEAN['SQLITE_BUSY']}", broken=True, passing=True
            )
        self._unchecked = self._unchecked_bytes = 0
        return self.load().last

    def _prepare(self, max_pages: int) -> None:
        db = self._db
        if sqlite3.sqlite_version_info < (3, 38):
            message = f"the store needs SQLite 3.38 or later, this Python has {sqlite3.sqlite_version}"
            raise JournalError(message, broken=False)
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise JournalError(f"cannot open the store {self.path}: no write-ahead log there", broken=False)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(
            f"PRAGMA journal_size_limit = {_CHECKPOINT_BYTES}"
        )  # a log that grew large gives its space back
        if not self.transformer.plain:
            db.execute("PRAGMA secure_delete = ON")  # what lay there before the encryption is overwritten
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if tables and not tables >= {"log", "meta"}:  # or a damaged name would become an empty store
            raise self._damaged(": a table is missing")
        db.executescript(_SCHEMA)
        if max_pages:
            db.execute(f"PRAGMA max_page_count = {int(max_pages)}")
        row = db.execute("SELECT number FROM meta WHERE name = 'format'").fetchone()
        if row is None:
            db.execute("INSERT INTO meta VALUES ('format', ?), ('compacted', 1)", (FORMAT,))
        elif row[0] != FORMAT:
            message = f"the store {self.path} has format {row[0]}, this version reads format {FORMAT}"
            raise JournalError(message, broken=False)

    def _guarded(self, action: Callable[[], T], verb: str) -> T:
        try:
            return action()
        except sqlite3.Error as error:
            raise self._translated(error, verb) from error

    def _translated(self, error: sqlite3.Error, verb: str) -> JournalError:
        name = getattr(error, "sqlite_errorname", "") or ""
        text = f"cannot {verb} the store {self.path}: "
        for prefix in _CORRUPT:
            if name.startswith(prefix):
                hint = "; it was left as it is: restore a copy, or move it away to start empty"
                reason = " ".join(str(error).split())  # it may cite a table's definition, lines and all
                return JournalError(f"{text}the file is damaged ({reason}){hint}", broken=True)
        for prefix, reason in _CLEAN.items():
            if name.startswith(prefix):
                return JournalError(f"{text}{reason}", broken=False)
        passing = name.startswith("SQLITE_IOERR")  # a disk that is away, read-only or at its limit
        return JournalError(f"{text}{error} ({name or 'no code'})", broken=True, passing=passing)

    # ---------------------------------------------------------------------------------------------- reading

    def load(self) -> Loaded:
        """Read everything. Raises StoreUnavailable when the file is damaged."""
        return self._guarded(self._load, "read")

    def _load(self) -> Loaded:
        compacted: int = self._db.execute("SELECT number FROM meta WHERE name = 'compacted'").fetchone()[0]
        current: dict[str, KeyValue] = {}
        stale: list[int] = []
        events: list[Event] = []
        last = 0  # nothing after the compacted revision is ever missing, and no row comes twice
        for rev, key, create_rev, value, stamp, expires, crc in self._db.execute(
            "SELECT rev, key, create_rev, value, stamp, expires, crc FROM log ORDER BY rev"
        ):
            lost = rev <= last or rev > max(last, compacted) + 1
            if lost or crc != checksum(key, create_rev, rev, value) or not _is_lifetime(expires):
                raise self._damaged(f" at revision {rev}")
            last = rev
            item = None
            if value is not None:
                value = self.transformer.from_storage(key, value)
                if not _is_stamp(stamp, value, rev):
                    raise self._damaged(f" at revision {rev}")
                item = KeyValue(key, value, create_rev, rev, stamp, expires)
            before = current.pop(key, None)
            if item is not None:
                current[key] = item
            if rev > compacted:
                events.append(Event(key, rev, item, before))
                continue
            if before is not None:
                stale.append(before.mod_revision)
            if item is None:
                stale.append(rev)
        kept = {event.key: event.before for event in reversed(events)}
        items = [kept.get(key, item) for key, item in current.items()]
        items += [before for key, before in kept.items() if key not in current]
        current_items = [item for item in items if item is not None]
        return Loaded(compacted, current_items, events, sorted(stale), max(last, compacted))

    def _damaged(self, where: str) -> JournalError:
        hint = "it was left as it is: restore a copy, or move it away to start empty"
        return JournalError(f"the store {self.path} is damaged{where}; {hint}", broken=True)

    def is_stale(self, key: str, revision: int) -> bool:
        """Return whether the row of *revision* is in another form than it would be written in now."""
        sql = "SELECT value FROM log WHERE rev = ?"
        row = self._guarded(lambda: self._db.execute(sql, (revision,)).fetchone(), "read")
        return row is not None and row[0] is not None and self.transformer.is_stale(key, row[0])

    # ---------------------------------------------------------------------------------------------- writing

    def append(self, events: Sequence[Event]) -> None:
        """Make *events* durable, all or none. Raises JournalError."""
        self.write(self.rows(events))

    def rows(self, events: Sequence[Event]) -> Rows:
        """Return *events* as `write` takes them. This may be called from another thread than all else."""
        size = sum([len(event.key) + (len(event.now.value) if event.now else 0) for event in events])
        if len(events) > _MOST_ROWS:
            return Rows(_APPEND_MANY, _in_json(events, self.transformer), len(events), size)
        return Rows(_append(len(events)), _in_order(events, self.transformer), len(events), size)

    def write(self, rows: Rows) -> None:
        """Make *rows* durable, all or none. Raises JournalError."""
        self._transaction(rows.sql, "write to", rows.values)
        self._unchecked_bytes += rows.size
        self._unchecked += rows.changes

    def set_compacted(self, revision: int) -> None:
        """Record that revisions before *revision* can no longer be read."""
        sql = "UPDATE meta SET number = ? WHERE name = 'compacted'"
        self._transaction(sql, "compact", (revision,))

    def forget(self, revisions: Sequence[int]) -> None:
        """Remove these rows; call it in order of revision, or a deleted key comes back after a crash."""
        sql = f"DELETE FROM log WHERE rev IN ({','.join(map(str, revisions))})"
        self._transaction(sql, "compact")
        self._unchecked += len(revisions)
        self._unchecked_bytes += len(revisions) * _ROW_BYTES

    def _transaction(self, sql: str, verb: str, parameters: Sequence[object] = ()) -> None:
        """Run one statement, which SQLite commits by itself."""
        try:
            self._db.execute(sql, parameters)
        except sqlite3.Error as error:
            raise self._translated(error, verb) from error
        if self._sync_delay:
            time.sleep(self._sync_delay)

    # ----------------------------------------------------------------------------------------- housekeeping

    @property
    def checkpoint_due(self) -> bool:
        """Whether the write-ahead log has grown past what should wait for a quiet moment."""
        return self._unchecked_bytes > _CHECKPOINT_BYTES

    def checkpoint(self) -> None:
        """Move what was written into the main file. A failure costs nothing: it is tried again."""
        if self._unchecked:
            try:
                how = (
                    "PASSIVE" if self.transformer.plain else "TRUNCATE"
                )  # the log keeps what it held, until cut
                self._db.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
                self._unchecked = self._unchecked_bytes = 0
            except sqlite3.Error:
                pass  # the write-ahead log still holds everything; the next append says what is wrong

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._db.close()


def rows_to_forget(events: Iterable[Event]) -> list[int]:
    """Return the rows that cannot be read once *events* are compacted, in order of revision."""
    rows: list[int] = []
    for event in events:
        if event.before is not None:
            rows.append(event.before.mod_revision)
        if event.now is None:
            rows.append(event.revision)
    return sorted(rows)
