"""Damage in a write-ahead log, and what only looks like it."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from pathlib import Path

import pytest

from weir.store import wal


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The files that a killed process leaves: a database, its log of several transactions, and the index."""
    path, copy = tmp_path / "live.db", tmp_path / "store.db"
    live = sqlite3.connect(path, isolation_level=None)
    live.execute("PRAGMA journal_mode=WAL")
    live.execute("PRAGMA wal_autocheckpoint=0")
    live.execute("CREATE TABLE t (x)")
    for number in range(20):
        live.execute("INSERT INTO t VALUES (?)", (bytes([number]) * 3000,))
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    live.close()
    return copy


def header_of(path: Path) -> bytearray:
    return bytearray(path.with_name(path.name + "-wal").read_bytes()[:32])


def write_header(path: Path, header: bytes) -> None:
    with path.with_name(path.name + "-wal").open("r+b") as file:
        file.write(header)


@pytest.mark.parametrize("index", [True, False])
def test_a_log_that_was_begun_anew_and_has_no_frame_yet_is_no_damage(killed: Path, index: bool) -> None:
    """A process was killed between the header of a new log and its first frame: the old frames lie behind it."""
    header = header_of(killed)
    first, second = struct.unpack_from(">2I", header, 16)
    struct.pack_into(">2I", header, 16, first + 1, second ^ 0x5A5A5A5A)
    order = ">" if header[3] & 1 else "<"
    struct.pack_into(">2I", header, 24, *wal._sum(bytes(header[:24]), (0, 0), order))
    write_header(killed, header)
    if not index:
        killed.with_name(killed.name + "-shm").unlink()
    assert wal.find_damage(killed) is None
    with sqlite3.connect(killed) as reopened:
        assert reopened.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_whole_log_is_no_damage(killed: Path) -> None:
    assert wal.find_damage(killed) is None


@pytest.mark.parametrize("at", [16, 25])
def test_a_damaged_header_before_committed_frames_is_damage(killed: Path, at: int) -> None:
    header = header_of(killed)
    header[at] ^= 0xFF
    write_header(killed, header)
    assert wal.find_damage(killed) is not None
