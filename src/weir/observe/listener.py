"""Listening sockets with bounded TLS handshakes, shared by all servers.

Each loop turn accepts every pending connection (up to `MOST_ACCEPTED`), so that a new client does not wait one turn
per earlier connection. Few TLS handshakes start per turn, and addresses take turns. A connection that waits for its
turn holds a socket and no buffers. With *most_handshakes* in progress the next ones wait until the oldest of the
address with the most has had `FRESH_SECONDS`; then it is closed for them, so that a burst is delayed and silent
connections make room. Beyond `MOST_WAITING` the longest waiting of the address with the most is closed. Without
descriptors or memory, accepting pauses for `SHUT_SECONDS`.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any

from weir.observe.by_address import ByAddress
from weir.observe.fair_turns import REQUESTS_A_TURN, FairTurns
from weir.observe.logs import Log

__all__ = ["Listener", "listen"]

log = Log("weir.listener")
BACKLOG = 1024
MOST_ACCEPTED = 256  # connections taken in one turn of the loop
MOST_WAITING = 1024  # connections whose TLS handshake has not started
MOST_HANDSHAKES = 96  # TLS handshakes in progress, each with up to half a megabyte of buffers
FRESH_SECONDS = 1.0  # for a handshake before it makes room for another
HANDSHAKE_SECONDS = 10.0  # for a client to agree on TLS
SHUT_SECONDS = 0.5  # accepting pauses for so long without descriptors or memory
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
Task = asyncio.Task[Any]
ProtocolFactory = Callable[[], asyncio.BaseProtocol]


async def listen(
    protocol: ProtocolFactory,
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    *,
    most_handshakes: int | None = None,
    receive_bytes: int = 0,
) -> Listener:
    """Listen at every address of *host*; raises OSError.

    *receive_bytes* bounds what the system holds of a connection that is not read (0: its own default).
    """
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in infos):
            sockets.append(_bound(family, address, receive_bytes))
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return Listener(protocol, sockets, context, most_handshakes)


def _bound(family: int, address: tuple[Any, ...], receive_bytes: int) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what it accepts has it too
        if receive_bytes:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
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
        self,
        protocol: ProtocolFactory,
        sockets: list[socket.socket],
        context: ssl.SSLContext | None,
        most_handshakes: int | None = None,
    ) -> None:
        self._protocol, self._sockets, self._context = protocol, sockets, context
        self._loop = asyncio.get_running_loop()
        self._most_handshakes = most_handshakes or MOST_HANDSHAKES
        self._waiting = ByAddress[Task](MOST_WAITING)
        self._handshakes = ByAddress[Task](self._most_handshakes)
        self._started: dict[Task, float] = {}
        self._turns = FairTurns(self._can_start)  # of addresses, to start a handshake
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
        return len(self._waiting) + len(self._handshakes)

    def close(self) -> None:
        """Stop accepting connections."""
        self._closed = True
        for opened in self._sockets:
            self._loop.remove_reader(opened)
            opened.close()
        for task in (*self._waiting, *self._handshakes):
            task.cancel()

    # ------------------------------------------------------------------------------------ one turn

    def _accept(self, opened: socket.socket) -> None:
        """Take all that wait."""
        for _ in range(MOST_ACCEPTED):
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
        """Pause accepting: there is no descriptor or memory for another connection."""
        log.error("no connection can be accepted for a moment", err=error)
        self._loop.remove_reader(opened)
        self._loop.call_later(SHUT_SECONDS, self._open, opened)

    def _open(self, opened: socket.socket) -> None:
        if not self._closed:
            self._loop.add_reader(opened, self._accept, opened)

    def _make(self, connection: socket.socket, address: str) -> None:
        task = self._loop.create_task(self._agree(connection, address))
        evicted = self._waiting.add(address, task)
        if evicted is not None:
            evicted.cancel()
        task.add_done_callback(lambda done: self._done(done, connection, address))

    async def _agree(self, connection: socket.socket, address: str) -> None:
        """Hand a connection to the loop, and wait until the client has agreed on TLS where there is any."""
        timeout = None
        if self._context is not None:
            timeout = HANDSHAKE_SECONDS
            waiting = self._turns.wait(address)
            if waiting is not None:
                await waiting
            self._start(address)
        await self._loop.connect_accepted_socket(
            self._protocol, connection, ssl=self._context, ssl_handshake_timeout=timeout
        )

    def _can_start(self) -> bool:
        """Return whether another turn of handshakes can start without closing one that had no time yet."""
        if len(self._handshakes) + REQUESTS_A_TURN <= self._most_handshakes:
            return True
        oldest = self._handshakes.next_evicted()
        return oldest is None or self._loop.time() - self._started[oldest] >= FRESH_SECONDS

    def _start(self, address: str) -> None:
        """Count the handshake of the current task; close another one for it beyond the limit."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.discard(address, task)
        self._started[task] = self._loop.time()
        evicted = self._handshakes.add(address, task)
        if evicted is not None:
            evicted.cancel()

    def _done(self, task: Task, connection: socket.socket, address: str) -> None:
        self._waiting.discard(address, task)
        self._handshakes.discard(address, task)
        self._started.pop(task, None)
        if task.cancelled():
            connection.close()
        elif (error := task.exception()) is not None:  # usually the client's failure
            connection.close()
            if not isinstance(error, OSError):
                log.error("a connection could not be made", err=error)
            # the frames of the failure hold the handshake's buffers, and themselves, until the collector comes
            error.__traceback__ = None
