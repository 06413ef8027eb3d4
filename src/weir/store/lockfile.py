"""Lock file: one process at a time may open the data directory.

The lock is the kernel's (flock), so it ends with the process; the file's text holds the owner's process ID for the
message.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

from weir.store.backend import Locked, StoreUnavailable


class LockFile:
    """A lock on *path*, held from construction until `release`. Raises Locked, StoreUnavailable."""

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"cannot lock the data at {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._descriptor, 1000).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise Locked(f"{path.with_suffix('')} is in use by {holder or 'another process'}") from None
        started = datetime.now(UTC).isoformat(timespec="seconds")
        program = Path(sys.argv[0]).name or "python"
        text = f"process {os.getpid()} ({program}) on {socket.gethostname()} since {started}\n"
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text.encode(), 0)
        except OSError:  # a full disk must not keep us from the data; the lock itself holds
            pass

    def release(self) -> None:
        """Let others have the data. Harmless when repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
