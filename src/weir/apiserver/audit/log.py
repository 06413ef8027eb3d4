"""Audit log file with rotation.

A file that would exceed its size is renamed as by Kubernetes' server: `audit.log` becomes
`audit-2026-01-02T03-04-05.678.log`. The number and age of renamed files are bounded. Mode 0600.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

__all__ = ["AuditLog", "LogRetention", "backup_name"]

MEGABYTE: Final = 1024 * 1024
DEFAULT_MEGABYTES: Final = 100
_STAMP: Final = "%Y-%m-%dT%H-%M-%S"


@dataclass(frozen=True)
class LogRetention:
    """How much of an audit log is kept; zero means no bound, except for the size, which is then 100 MB."""

    megabytes: int = 0
    backups: int = 0
    days: int = 0

    @property
    def bytes(self) -> int:
        return (self.megabytes or DEFAULT_MEGABYTES) * MEGABYTE


def backup_name(path: Path, when: datetime) -> Path:
    """Return what a file is called after it was set aside.

    >>> backup_name(Path("/var/log/audit.log"), datetime(2026, 1, 2, 3, 4, 5, 678000)).name
    'audit-2026-01-02T03-04-05.678.log'
    """
    return path.with_name(f"{path.stem}-{when.strftime(_STAMP)}.{when.microsecond // 1000:03d}{path.suffix}")


class AuditLog:
    """A file that is appended to and begins anew when it is full. Call it with a line."""

    def __init__(self, path: Path, keep: LogRetention, now: Callable[[], datetime]) -> None:
        self._path, self._keep, self._now = path, keep, now
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open()
        self._tidy()

    def __call__(self, line: bytes) -> None:
        if self._size and self._size + len(line) > self._keep.bytes:
            self._rotate()
        os.write(self._descriptor, line)
        self._size += len(line)

    def close(self) -> None:
        """Let the file go."""
        os.close(self._descriptor)

    def _open(self) -> None:
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        self.close()
        when = self._now().astimezone(UTC)
        while (aside := backup_name(self._path, when)).exists():
            when += timedelta(milliseconds=1)
        self._path.rename(aside)
        self._open()
        self._tidy()

    def _tidy(self) -> None:
        """Remove what is too old or too much."""
        found = sorted(self._backups(), reverse=True)
        oldest = self._now().astimezone(UTC) - timedelta(days=self._keep.days)
        for number, (when, path) in enumerate(found):
            surplus = bool(self._keep.backups) and number >= self._keep.backups
            if surplus or (self._keep.days and when < oldest):
                path.unlink(missing_ok=True)

    def _backups(self) -> list[tuple[datetime, Path]]:
        stem, suffix = re.escape(self._path.stem), re.escape(self._path.suffix)
        pattern = re.compile(rf"{stem}-(\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d)\.(\d{{3}}){suffix}")
        found = []
        for path in self._path.parent.iterdir():
            if match := pattern.fullmatch(path.name):
                when = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
                found.append((when + timedelta(milliseconds=int(match[2])), path))
        return found
