"""Audit logs begin anew when they are full, and old ones go."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta

import pytest

from weir.apiserver.audit import log
from weir.apiserver.audit.log import AuditLog, LogRetention

T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Clock:
    def __init__(self):
        self.time = T0

    def __call__(self):
        return self.time


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(log, "MEGABYTE", 10)


def written(folder, keep, lines, clock=None, step=timedelta(seconds=1)):
    """Write lines of nine bytes, and return the files there are then, by name."""
    clock = clock or Clock()
    log = AuditLog(folder / "audit.log", keep, clock)
    for number in range(lines):
        log(f"line {number:3d}\n".encode())
        clock.time += step
    log.close()
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_a_full_file_is_set_aside_under_the_time(tmp_path, small):
    assert written(tmp_path, LogRetention(megabytes=1), 2) == {
        "audit-2026-01-02T03-04-06.000.log": "line   0\n",
        "audit.log": "line   1\n",
    }


def test_only_so_many_are_kept(tmp_path, small):
    assert len(written(tmp_path, LogRetention(megabytes=1, backups=2), 6)) == 3


def test_none_is_kept_longer_than_asked(tmp_path, small):
    files = written(tmp_path, LogRetention(megabytes=1, days=2), 6, step=timedelta(days=1))
    assert sorted(files) == [
        *("audit-2026-01-05T03-04-05.000.log", "audit-2026-01-06T03-04-05.000.log"),
        *("audit-2026-01-07T03-04-05.000.log", "audit.log"),
    ]


def test_two_in_one_moment_get_two_names(tmp_path, small):
    assert len(written(tmp_path, LogRetention(megabytes=1), 4, step=timedelta(0))) == 4


def test_a_line_longer_than_the_size_is_still_written(tmp_path, small):
    log = AuditLog(tmp_path / "audit.log", LogRetention(megabytes=1), Clock())
    log(b"x" * 50)
    log.close()
    assert (tmp_path / "audit.log").read_bytes() == b"x" * 50


def test_only_the_owner_may_read_it(tmp_path):
    AuditLog(tmp_path / "audit.log", LogRetention(), Clock()).close()
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_other_files_of_the_folder_stay(tmp_path, small):
    (tmp_path / "audit-notes.log").write_text("mine")
    assert "audit-notes.log" in written(tmp_path, LogRetention(megabytes=1, backups=1, days=1), 4)
