"""How does a connection come in? Whoever waits at the door is let in at once, and few stand in it without a word.

An event loop that takes one connection a turn lets a new client wait for as many turns as others came before it, and a
turn is long when there is much to do. So the sockets are listened to here: every turn takes all that wait (up to
`limits.MOST_ACCEPTED`).
A connection that is agreeing on TLS has no protocol yet and is in no account of weir.apiserver.transport.connections;
it is counted here. Beyond `limits.MOST_HANDSHAKES` the oldest of the address that has most is cut off, so that one
machine that says nothing does not keep another out. A handshake takes a millisecond: few begin in one turn of the loop,
and addresses take turns, so that a flood of one machine delays another's by a turn.
When the system has no descriptor or memory for another connection, the door is shut for a moment instead of asked again
and again.
Not here: what happens on a connection (weir.apiserver.transport.protocol), certificates (weir.apiserver.auth.pki).
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from typing import Any

from weir.apiserver.transport import limits
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.fair_turns import FairTurns
from weir.observe.by_address import ByAddress
from weir.observe.logs import Log

__all__ = ["Listener", "listen"]

log = Log("weir.apiserver")
BACKLOG = 1024
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
Task = asyncio.Task[Any]


async def listen(connections: Connections, host: str, port: int, context: ssl.SSLContext | None) -> Listener:
    """Listen at every address of *host*; raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            sockets.append(_bound(family, address))
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return Listener(connections, sockets, context)


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what it accepts has it too
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            opened.bind(address)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OSError(error.errno, f"cannot listen at {address[0]}:{address[1]}: {reason}") from None
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


class Listener:
    """The sockets a server listens at, and the connections that are not made yet."""

    def __init__(
        self, connections: Connections, sockets: list[socket.socket], context: ssl.SSLContext | None
    ) -> None:
        self._connections, self._sockets, self._context = connections, sockets, context
        self._loop = asyncio.get_running_loop()
        self._coming = ByAddress[Task](limits.MOST_HANDSHAKES)
        self._turns = FairTurns()  # of addresses, to agree on TLS
        self._closed = False
        for opened in sockets:
            self._loop.add_reader(opened, self._accept, opened)

    @property
    def port(self) -> int:
        """Where clients find it."""
        return int(self._sockets[0].getsockname()[1])

    @property
    def coming(self) -> int:
        """How many connections are not made yet."""
        return len(self._coming)

    def close(self) -> None:
        """Let nobody in any more."""
        self._closed = True
        for opened in self._sockets:
            self._loop.remove_reader(opened)
            opened.close()
        for task in self._coming:
            task.cancel()

    # ------------------------------------------------------------------------------------ one turn

    def _accept(self, opened: socket.socket) -> None:
        """Take all that wait."""
        for _ in range(limits.MOST_ACCEPTED):
            try:
                connection, address = opened.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:  # it is gone already
                continue
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self._shut(opened, error)
                return
            connection.setblocking(False)
            self._make(connection, address[0])

    def _shut(self, opened: socket.socket, error: OSError) -> None:
        """Take nobody for a moment: there is no descriptor or memory for another."""
        log.error("no connection can be accepted for a moment", err=error)
        self._loop.remove_reader(opened)
        self._loop.call_later(limits.SHUT_SECONDS, self._open, opened)

    def _open(self, opened: socket.socket) -> None:
        if not self._closed:
            self._loop.add_reader(opened, self._accept, opened)

    def _make(self, connection: socket.socket, address: str) -> None:
        task = self._loop.create_task(self._agree(connection, address))
        evicted = self._coming.add(address, task)
        if evicted is not None:
            evicted.cancel()
        task.add_done_callback(lambda done: self._done(done, connection, address))

    async def _agree(self, connection: socket.socket, address: str) -> None:
        """Hand a connection to the loop, and wait until the client has agreed on TLS where there is any."""
        timeout = None
        if self._context is not None:
            timeout = limits.HANDSHAKE_SECONDS
            waiting = self._turns.wait(address)
            if waiting is not None:
                await waiting
        await self._loop.connect_accepted_socket(
            self._connections.protocol, connection, ssl=self._context, ssl_handshake_timeout=timeout
        )

    def _done(self, task: Task, connection: socket.socket, address: str) -> None:
        self._coming.discard(address, task)
        if task.cancelled():
            connection.close()
        elif (
            error := task.exception()
        ) is not None:  # a client's failure, which it knows better than anybody
            connection.close()
            if not isinstance(error, OSError):
                log.error("a connection could not be made", err=error)
