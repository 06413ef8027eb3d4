"""Online backup and restore of a store.

A SQLite store is copied page by page at one revision while its server runs, and every row is verified against its
checksum. Encrypted values stay encrypted. A restore moves the revision far ahead and drops the history, so that
clients with older or newer revisions get Expired and relist instead of mixing two histories. For etcd a snapshot is
taken, as by `etcdctl snapshot save`; etcdutl restores it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from weir.store.backend import StoreUnavailable
from weir.store.journal import FORMAT, checksum
from weir.store.lockfile import LockFile

AHEAD = 1_000_000_000  #: what a restored store's revision is moved by, as etcd's documentation advises


class Copy(NamedTuple):
    """What a copy of a SQLite store holds."""

    revision: int
    objects: int
    bytes: int


def copy(store: Path, target: Path) -> Copy:
    """Copy the SQLite store at *store*, in use or not, to the new file *target*. Raises StoreUnavailable."""
    if not store.is_file():
        raise StoreUnavailable(f"there is no store at {store}")
    partial = _new_file(target)
    try:
        with (
            closing(sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True, timeout=30.0)) as source,
            closing(sqlite3.connect(partial)) as copied,
        ):
            source.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        found = check(partial)
        _settle(partial, target)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"cannot copy the store {store}: {error}") from None
    except OSError as error:
        raise StoreUnavailable(f"cannot write {target}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    return found


def check(path: Path) -> Copy:
    """Return what the copy at *path* holds. Raises StoreUnavailable when it is none, or damaged."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            row = db.execute("SELECT number FROM meta WHERE name = 'format'").fetchone()
            if row is None or row[0] != FORMAT:
                raise StoreUnavailable(f"{path} is not a backup of this version of weir's store")
            (last,) = db.execute("SELECT number FROM meta WHERE name = 'compacted'").fetchone()
            there: dict[str, None] = {}
            for rev, key, create_rev, value, crc in db.execute(
                "SELECT rev, key, create_rev, value, crc FROM log ORDER BY rev"
            ):
                if crc != checksum(key, create_rev, rev, value):
                    raise StoreUnavailable(f"{path} is damaged at revision {rev}")
                last = max(last, rev)
                there.pop(key, None)
                if value is not None:
                    there[key] = None
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path} is not a backup of weir's store: {error}") from None
    return Copy(last, len(there), path.stat().st_size)


#: How etcd's file begins: the number that says what it is, behind the header of its first page.
_BOLT_MAGIC, _BOLT_MAGIC_AT = (0xED0CDAED).to_bytes(4, "little"), 16


def is_snapshot(path: Path) -> bool:
    """Return whether *path* is a snapshot of etcd."""
    try:
        with path.open("rb") as file:
            head = file.read(_BOLT_MAGIC_AT + 4)
    except OSError:
        return False
    return head[_BOLT_MAGIC_AT:] in (_BOLT_MAGIC, _BOLT_MAGIC[::-1])


def restore(backup: Path, store: Path) -> Copy:
    """Replace the SQLite store at *store*, which must not be open, by *backup*. Raises StoreUnavailable.

    Return what is there now. A failure leaves the store as it was.
    """
    if not backup.is_file():
        raise StoreUnavailable(f"there is no backup at {backup}")
    found = check(backup)
    store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = LockFile(store.with_name(store.name + ".lock"))
    partial = _new_file(store, replace=True)
    try:
        with (
            closing(sqlite3.connect(f"{backup.resolve().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(partial)) as restored,
        ):
            source.backup(restored)
            ahead = _highest(store, found.revision) + AHEAD
            restored.execute("UPDATE meta SET number = ? WHERE name = 'compacted'", (ahead,))
            restored.commit()
        for beside in ("-wal", "-shm"):  # of the store before: they would be played into the new one
            store.with_name(store.name + beside).unlink(missing_ok=True)
        _settle(partial, store)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"cannot restore {backup}: {error}") from None
    except OSError as error:
        raise StoreUnavailable(f"cannot write {store}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
        lock.release()
    return Copy(ahead, found.objects, store.stat().st_size)


def _highest(store: Path, known: int) -> int:
    """Return the highest revision a client can have seen: of the copy, or of the store that it replaces."""
    try:
        with closing(sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True)) as db:
            (last,) = db.execute("SELECT max(rev) FROM log").fetchone()
            (compacted,) = db.execute("SELECT number FROM meta WHERE name = 'compacted'").fetchone()
            return max(known, int(last or 0), int(compacted))
    except (sqlite3.Error, TypeError):
        return known  # there is none, or it is damaged, which is why it is replaced


def _new_file(target: Path, *, replace: bool = False) -> Path:
    """Make an empty file beside *target* that only the owner may read."""
    if target.exists() and not replace:
        raise StoreUnavailable(f"{target} exists already: name another file, or remove it first")
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnavailable(f"cannot write {target}: {error.strerror}") from None
    return partial


def _settle(partial: Path, target: Path) -> None:
    """Rename the finished file into place and sync it to disk."""
    for path, flags in ((partial, os.O_RDONLY), (target.parent, os.O_RDONLY | os.O_DIRECTORY)):
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if path is partial:
            partial.replace(target)


async def save_snapshot(parts: AsyncIterator[bytes], target: Path) -> int:
    """Write an etcd snapshot that comes in *parts* to the new file *target*, and return its size."""
    partial = _new_file(target)
    size = 0
    try:
        with partial.open("wb") as file:
            async for part in parts:
                size += len(part)
                file.write(part)
        _settle(partial, target)
    except OSError as error:
        raise StoreUnavailable(f"cannot write {target}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    return size
