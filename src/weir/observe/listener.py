"""Listening sockets with bounded TLS handshakes, shared by all servers.

Each loop turn accepts every pending connection (up to `MOST_ACCEPTED`). Over TLS a connection is first *silent*: it
holds a socket and no buffers until its ClientHello is complete. Then it is *ready*: few handshakes start per turn,
addresses take turns, and of one address the newest start first, so that a flood delays itself, and then as many of the
oldest, so that none waits for the flood's end (decision 170). With *most_handshakes* in progress the oldest of the
address with the most is *parked* if it waits for its peer: its buffers are freed and its socket stays open unread,
because a closed connection comes back at once. Only a connection that waits for its peer is closed, after
`PEER_SECONDS`. Without descriptors or memory, accepting pauses for `SHUT_SECONDS`.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from weir.observe.logs import Log

# ── connection limit that evicts the oldest connection of the address with the most ──
# One client that opens many connections loses its own, and other clients still get in.


Item = TypeVar("Item", bound=Hashable)


class ByAddress(Generic[Item]):
    """At most *most* connections, of each address the oldest first.

    >>> few = ByAddress[str](2)
    >>> few.add("a", "first"), few.add("b", "other"), few.add("a", "second"), few.add("a", "third")
    (None, None, 'first', 'second')
    """

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._of: dict[str, dict[Item, None]] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        return iter([item for items in self._of.values() for item in items])

    def add(self, address: str, item: Item) -> Item | None:
        """Take *item* in; return the one that has to go for it, which is forgotten."""
        self._of.setdefault(address, {})[item] = None
        self._count += 1
        if self._count <= self._most:
            return None
        # the new connection counts too, so a repeated client evicts its own
        largest, evicted = self._next_evicted()
        self.discard(largest, evicted)
        return evicted

    def next_evicted(self) -> Item | None:
        """Return the oldest item of the address with the most, None without items."""
        return self._next_evicted()[1] if self._of else None

    def _next_evicted(self) -> tuple[str, Item]:
        largest = max(self._of, key=lambda address: len(self._of[address]))
        return largest, next(iter(self._of[largest]))

    def pop(self, *, newest: bool) -> Item:
        """Take out the newest or the oldest item of the address whose turn it is; addresses take turns."""
        address = next(iter(self._of))
        items = self._of.pop(address)
        item = next(reversed(items) if newest else iter(items))
        del items[item]
        self._count -= 1
        if items:
            self._of[address] = items  # behind the others
        return item

    def discard(self, address: str, item: Item) -> None:
        """Forget *item*, if it is still here."""
        items = self._of.get(address)
        if items is not None and item in items:
            del items[item]
            self._count -= 1
            if not items:
                del self._of[address]


# ── listening sockets with bounded TLS handshakes, shared by all servers ──


log = Log("weir.listener")
BACKLOG = 4096  # a connection beyond it is dropped, and its client tries again after a second
MOST_ACCEPTED = 512  # connections taken in one turn of the loop, twenty microseconds each
MOST_WAITING = 8192  # connections that are silent or parked, and as many that are ready: descriptors
MOST_HANDSHAKES = 1024  # TLS handshakes in progress, each with some sixty kilobytes of buffers
HANDSHAKES_A_TURN = 8  # started in one turn of the loop, each some tenths of a millisecond
PAUSE_SECONDS = 0.005  # between looks at whether there is room for a handshake
PEER_SECONDS = 10.0  # for a client to send its ClientHello, and to agree on TLS from then on
RECEIVE_BYTES = 32 << 10  # of a connection that the system holds and one read returns: TLS copies them twice
SHUT_SECONDS = 0.5  # accepting pauses for so long without descriptors or memory
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RECORD_HEAD = 5  # bytes of type, version and length before a TLS record
_HANDSHAKE_RECORD = 22
_PEEKED = bytearray(_RECORD_HEAD + (16 << 10))  # the largest record of plain text
#: How a request without TLS begins, and what Go's servers answer.
_METHODS = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO", b"PATCH", b"DELET")
_PLAIN_HTTP = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
ProtocolFactory = Callable[[], asyncio.BaseProtocol]


async def listen(
    protocol: ProtocolFactory,
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    *,
    most_handshakes: Callable[[], int] = lambda: MOST_HANDSHAKES,
    shared: bool = False,
) -> Listener:
    """Listen at every address of *host*; raises OSError.

    *most_handshakes* returns how many TLS handshakes may be in progress now. A *shared* port may be listened at by
    several processes of one user, among which the system divides connections.
    """
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in infos):
            sockets.append(_bound(family, address, shared=shared))
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return Listener(protocol, sockets, context, most_handshakes)


def _bound(family: int, address: tuple[Any, ...], *, shared: bool) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what it accepts has it too
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
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


class _Coming:
    """A connection that is not made yet."""

    __slots__ = ("address", "deadline", "socket", "task")

    def __init__(self, connection: socket.socket, address: str) -> None:
        self.socket, self.address = connection, address
        self.task: asyncio.Task[Any] | None = None  # of its handshake
        self.deadline: asyncio.TimerHandle | None = None


class Listener:
    """The sockets a server listens at, and the connections that are not made yet."""

    def __init__(
        self,
        protocol: ProtocolFactory,
        sockets: list[socket.socket],
        context: ssl.SSLContext | None,
        most_handshakes: Callable[[], int] = lambda: MOST_HANDSHAKES,
    ) -> None:
        self._protocol, self._sockets, self._context = protocol, sockets, context
        self._most_handshakes = most_handshakes
        self._loop = asyncio.get_running_loop()
        most_waiting = min(MOST_WAITING, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        self._silent = ByAddress[_Coming](most_waiting)
        self._ready = ByAddress[_Coming](most_waiting)
        self._handshakes = ByAddress[_Coming](MOST_HANDSHAKES)
        self._has_turn = False  # the next turn of handshakes is scheduled
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
        return len(self._silent) + len(self._ready) + len(self._handshakes)

    def close(self) -> None:
        """Stop accepting connections."""
        self._closed = True
        for opened in self._sockets:
            self._loop.remove_reader(opened)
            opened.close()
        for coming in (*self._silent, *self._ready, *self._handshakes):
            self._drop(coming)

    # ------------------------------------------------------------------------------------ accepting

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
            coming = _Coming(connection, address[0])
            if self._context is None:
                self._start(coming)
            else:
                self._loop.add_reader(connection, self._on_hello, coming)
                self._wait(coming)

    def _shut(self, opened: socket.socket, error: OSError) -> None:
        """Pause accepting: there is no descriptor or memory for another connection."""
        log.error("no connection can be accepted for a moment", err=error)
        self._loop.remove_reader(opened)
        self._loop.call_later(SHUT_SECONDS, self._open, opened)

    def _open(self, opened: socket.socket) -> None:
        if not self._closed:
            self._loop.add_reader(opened, self._accept, opened)

    # ------------------------------------------------------------------------------------ before the handshake

    def _wait(self, coming: _Coming) -> None:
        """Keep the socket of a connection for as long as its peer may take."""
        coming.deadline = self._loop.call_later(PEER_SECONDS, self._drop, coming)
        self._drop(self._silent.add(coming.address, coming))

    def _on_hello(self, coming: _Coming) -> None:
        """Let the handshake start if the ClientHello is complete; what is no ClientHello is dropped."""
        try:
            missing = _missing(coming.socket)
            coming.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, missing or 1)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._drop(coming)
            return
        if missing:
            return
        assert coming.deadline is not None
        coming.deadline.cancel()
        self._loop.remove_reader(coming.socket)
        self._silent.discard(coming.address, coming)
        self._drop(self._ready.add(coming.address, coming))
        if not self._has_turn:
            self._has_turn = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Start the handshakes of one turn."""
        for number in range(HANDSHAKES_A_TURN):
            if not self._ready:
                self._has_turn = False
                return
            if not self._has_room():
                self._loop.call_later(PAUSE_SECONDS, self._turn)
                return
            self._start(self._ready.pop(newest=number < HANDSHAKES_A_TURN // 2))
        self._loop.call_soon(self._turn)

    def _has_room(self) -> bool:
        """Return whether another handshake can start; if need be, one that waits for its peer is parked."""
        most = self._most_handshakes()
        while len(self._handshakes) >= most:
            oldest = self._handshakes.next_evicted()
            if oldest is None or _has_unread(oldest.socket):
                return False
            with suppress(OSError):  # no descriptor
                parked = oldest.socket.dup()  # keeps the connection open
                self._wait(_Coming(parked, oldest.address))
            self._drop(oldest)
        return True

    def _expire(self, coming: _Coming) -> None:
        """Drop a handshake whose peer had its time, unless its peer waits for us."""
        if _has_unread(coming.socket):
            coming.deadline = self._loop.call_later(PEER_SECONDS, self._expire, coming)
        else:
            self._drop(coming)

    def _drop(self, coming: _Coming | None) -> None:
        """Close a connection that is not made."""
        if coming is None:
            return
        if coming.deadline is not None:
            coming.deadline.cancel()
        self._silent.discard(coming.address, coming)
        self._ready.discard(coming.address, coming)
        self._handshakes.discard(coming.address, coming)
        if coming.task is not None:
            # the end of what it reads ends the handshake; a cancelled one would keep uvloop's buffers for a minute
            with suppress(OSError):
                coming.socket.shutdown(socket.SHUT_RD)
        else:
            self._loop.remove_reader(coming.socket)
            coming.socket.close()

    # ------------------------------------------------------------------------------------ making

    def _start(self, coming: _Coming) -> None:
        """Hand a connection to the loop, which agrees with the client on TLS where there is any."""
        if self._context is not None:
            self._handshakes.add(coming.address, coming)
            coming.deadline = self._loop.call_later(PEER_SECONDS, self._expire, coming)
        making = self._loop.connect_accepted_socket(self._protocol, coming.socket, ssl=self._context)
        coming.task = self._loop.create_task(making)
        coming.task.add_done_callback(lambda task: self._done(task, coming))

    def _done(self, task: asyncio.Task[Any], coming: _Coming) -> None:
        coming.task = None  # refers back
        self._handshakes.discard(coming.address, coming)
        if coming.deadline is not None:
            coming.deadline.cancel()
        if task.cancelled():
            coming.socket.close()
        elif (error := task.exception()) is not None:  # usually the client's failure
            coming.socket.close()
            if not isinstance(error, OSError):
                log.error("a connection could not be made", err=error)
            # the frames of the failure hold the handshake's buffers, and themselves, until the collector comes
            error.__traceback__ = None


def _missing(connection: socket.socket) -> int:
    """Return how many bytes *connection* must have sent for its ClientHello to be complete, 0 when it is.

    Raises OSError when it ended or sends something else.
    """
    size = connection.recv_into(_PEEKED, 0, socket.MSG_PEEK)
    if not size or _PEEKED[0] != _HANDSHAKE_RECORD:
        if _PEEKED[:_RECORD_HEAD] in _METHODS and size >= _RECORD_HEAD:
            connection.recv_into(
                _PEEKED
            )  # a connection closed with bytes unread is reset, and its answer lost
            connection.send(_PLAIN_HTTP)
        raise ConnectionResetError
    if size < _RECORD_HEAD:
        return _RECORD_HEAD
    record = _RECORD_HEAD + int.from_bytes(_PEEKED[3:_RECORD_HEAD], "big")
    if record > len(_PEEKED):
        raise ConnectionResetError
    return 0 if size >= record else record


def _has_unread(connection: socket.socket) -> bool:
    """Return whether the peer has sent what was not read yet."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
