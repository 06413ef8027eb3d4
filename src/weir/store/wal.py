"""Damage in the middle of SQLite's write-ahead log, told apart from the torn end that a crash leaves.

SQLite ends a log at the first frame whose checksum is wrong, silently. After a crash that is right: only the last
transaction, which nobody was told of, can be incomplete (every commit is synced before the next begins). It is wrong
when the log was damaged later: behind the damage lies a commit, and a frame that continues its checksum, which was
written after the commit was synced. Of the last two transactions that cannot always be told; the index that a killed
process leaves beside the log says how much was committed, after a power cut it is lost.
Format: https://sqlite.org/fileformat2.html#walformat and https://sqlite.org/walformat.html.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import quote

_HEADER: Final = struct.Struct(">8I")  # magic, version, page size, checkpoint, two salts, two checksums
_FRAME: Final = struct.Struct(">6I")  # page, size of the file after a commit or 0, two salts, two checksums
#: Frames looked at behind the end: two commits are enough to tell, and no transaction of the journal is longer.
_MOST_FRAMES: Final = 20_000

Sums = tuple[int, int]


class Damage(NamedTuple):
    """Where the log stops to add up."""

    frame: int  #: the first that SQLite does not read, counted from 1
    offset: int  #: of that frame in the file
    frames: int  #: of the log, as far as they are its own

    def __str__(self) -> str:
        return f"frame {self.frame} of {self.frames} in its write-ahead log"


class _Index(NamedTuple):
    """Header of the index beside the log: how many frames are committed, and the salts of the log it is about."""

    frames: int
    salts: Sums


def find_damage(path: Path) -> Damage | None:
    """Return where the write-ahead log of the database at *path* is damaged, or None; the files stay as they are.

    Nobody else has the database open.
    """
    log = path.with_name(path.name + "-wal")
    with suppress(OSError):
        if log.stat().st_size <= _HEADER.size:
            return None
        before = _read_index(path)
        read = _frames_that_sqlite_reads(path)
        if read is None:
            return None
        with log.open("rb") as file, path.open("rb") as database:
            return _examine(file, _page_bytes(database), read, before)
    return None


def _frames_that_sqlite_reads(path: Path) -> int | None:
    """Return how many frames SQLite takes from the log; None where it cannot say.

    A connection that only reads builds the index anew, and neither moves anything into the file nor removes the log.
    """
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1.0)) as db:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            index = _read_index(path)
    except sqlite3.Error:
        return None  # whatever it is, opening the database says so
    return 0 if index is None else index.frames


def _read_index(path: Path) -> _Index | None:
    """Return the header of the index, if both copies of it agree."""
    try:
        with path.with_name(path.name + "-shm").open("rb") as file:
            head = file.read(96)
    except OSError:
        return None
    if len(head) < 96 or head[:48] != head[48:96] or not head[12]:
        return None
    (frames,) = struct.unpack_from("=I", head, 16)
    salts: Sums = struct.unpack_from(">2I", head, 32)  # copied from the log as they are
    return _Index(frames, salts)


def _page_bytes(database: BinaryIO) -> int:
    """Return the size of a page; a database that has none yet gets the usual one."""
    pages = int.from_bytes(database.read(18)[16:], "big")
    return 65_536 if pages == 1 else pages or 4096


def _examine(file: BinaryIO, page: int, read: int, before: _Index | None) -> Damage | None:
    head = file.read(_HEADER.size)
    header = _HEADER.unpack(head)
    step = _FRAME.size + page
    total = (os.fstat(file.fileno()).st_size - _HEADER.size) // step
    salts = {(header[4], header[5])}
    # Behind an intact header frames with other salts are those of an earlier log, which was moved into the file before
    # the header was written: a process may be killed between the header and its first frame.
    intact = header[6:] in (_sum(head[:24], (0, 0), ">"), _sum(head[:24], (0, 0), "<"))
    if read == 0 and not intact:
        salts |= {_salts_of(file, number, step) for number in range(1, min(total, 2) + 1)}
    last = min(total, read + _MOST_FRAMES)
    frames = [number for number in range(read + 1, last + 1) if _salts_of(file, number, step) in salts]
    committed = before.frames if before is not None and before.salts in salts else 0
    damage = Damage(read + 1, _HEADER.size + read * step, max([*frames[-1:], committed, read + 1]))
    if committed > read:
        return damage  # the index that a killed process left says that more was committed
    for number, behind in pairwise(frames):
        if behind == number + 1 and _is_commit(file, number, step) and _is_chained(file, behind, step):
            return damage  # a transaction begun after one that was synced
    return None


def _frame(file: BinaryIO, number: int, step: int) -> tuple[int, ...]:
    file.seek(_HEADER.size + (number - 1) * step)
    return _FRAME.unpack(file.read(_FRAME.size))


def _salts_of(file: BinaryIO, number: int, step: int) -> Sums:
    frame = _frame(file, number, step)
    return frame[2], frame[3]


def _is_commit(file: BinaryIO, number: int, step: int) -> bool:
    return _frame(file, number, step)[1] != 0


def _is_chained(file: BinaryIO, number: int, step: int) -> bool:
    """Return whether a frame's checksum continues the one that is stored in the frame before it."""
    sums = _frame(file, number - 1, step)[4:]
    file.seek(_HEADER.size + (number - 1) * step)
    data = file.read(step)
    words, stored = data[:8] + data[24:], struct.unpack_from(">2I", data, 16)
    return stored in (_sum(words, sums, ">"), _sum(words, sums, "<"))


def _sum(data: bytes, sums: tuple[int, ...], order: str) -> tuple[int, ...]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = first + even + second & 0xFFFFFFFF
        second = second + odd + first & 0xFFFFFFFF
    return first, second
