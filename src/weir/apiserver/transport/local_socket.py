"""Unix socket for components on the same machine, without TLS.

A client that can open the socket acts as administrator: it is in a folder that only its owner may enter. Requests go
through authentication, authorization and admission with the administrator's current certificate. Unix socket paths
are limited to about a hundred bytes; for longer data folders, or one that others may enter, the socket is in a
temporary folder. Its server holds a lock there while it lives, so that the next start removes those of killed
servers only.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from weir.apiserver.transport.connections import Connections

__all__ = ["local_socket"]

NAME: Final = "api.sock"
LOCK: Final = "lock"
PREFIX: Final = "weir-socket-"
LONGEST: Final = 100  #: bytes; the shortest bound among systems is 104, with a byte for its end


@asynccontextmanager
async def local_socket(
    connections: Connections, folder: Path, whose: Callable[[], bytes | None], name: str = NAME
) -> AsyncIterator[Path]:
    """Listen while the block runs, and give the socket's path; *whose* is the certificate that requests count for."""
    path = folder.resolve() / name
    own, lock = None, -1
    if len(os.fsencode(path)) > LONGEST or not _is_private(folder):
        remove_abandoned()
        own = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(own / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = own / name
    with suppress(FileNotFoundError):
        path.unlink()  # of a process that was killed
    before = os.umask(0o177)
    try:
        server = await asyncio.get_running_loop().create_unix_server(
            lambda: connections.protocol(whose), str(path), backlog=1024
        )
    finally:
        os.umask(before)
    try:
        yield path
    finally:
        server.close()
        with suppress(OSError):
            path.unlink()
        if own is not None:
            with suppress(OSError):
                (own / LOCK).unlink()
                own.rmdir()
            os.close(lock)


def remove_abandoned() -> None:
    """Remove the socket folders of servers of this user that no longer live.

    A folder without a socket may be one that is just being made: the lock is taken before the socket appears.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            sockets = [each for each in folder.iterdir() if each.name != LOCK]
            if not sockets or not all(stat.S_ISSOCK(each.lstat().st_mode) for each in sockets):
                continue
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a live server has it: BlockingIOError
                for each in sockets:
                    each.unlink()
                (folder / LOCK).unlink()
                folder.rmdir()
            finally:
                os.close(lock)


def _is_private(folder: Path) -> bool:
    """Return whether only its owner may enter *folder*."""
    found = folder.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077
