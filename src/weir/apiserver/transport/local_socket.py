"""Unix socket for components on the same machine, without TLS.

A client that can open the socket acts as administrator: it is in a folder that only its owner may enter. Requests go
through authentication, authorization and admission with the administrator's current certificate. Unix socket paths
are limited to about a hundred bytes; for longer data folders the socket is in a temporary folder.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from weir.apiserver.transport.connections import Connections

__all__ = ["local_socket"]

NAME: Final = "api.sock"
LONGEST: Final = 100  #: bytes; the shortest bound among systems is 104, with a byte for its end


@asynccontextmanager
async def local_socket(
    connections: Connections, folder: Path, whose: Callable[[], bytes | None], name: str = NAME
) -> AsyncIterator[Path]:
    """Listen while the block runs, and give the socket's path; *whose* is the certificate that requests count for."""
    path = folder.resolve() / name
    own = None
    if len(os.fsencode(path)) > LONGEST or not _is_private(folder):
        own = Path(tempfile.mkdtemp(prefix="weir-"))
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
                own.rmdir()


def _is_private(folder: Path) -> bool:
    """Return whether only its owner may enter *folder*."""
    found = folder.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077
