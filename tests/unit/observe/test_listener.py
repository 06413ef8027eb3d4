"""Accepting connections and TLS handshakes: bounded, in a fair order, none cut off that waits for the server."""

import asyncio
import errno
import gc
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import asynccontextmanager, closing, suppress
from datetime import UTC, datetime
from functools import partial

import pytest

from weir.apiserver.auth import pki
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Request, Response
from weir.apiserver.transport.protocol import HttpProtocol
from weir.observe import listener as listening_sockets
from weir.observe.listener import ByAddress, Listener, listen


async def echo(request: Request) -> Response:
    return Response(200, request.path.encode())


@asynccontextmanager
async def listening(host: str = "127.0.0.1", context: ssl.SSLContext | None = None):
    connections = Connections(echo)
    listener = await listen(partial(HttpProtocol, connections), host, 0, context)
    try:
        yield listener, connections
    finally:
        listener.close()
        for connection in tuple(connections.open):
            connection.abort()
        await until(lambda: not connections.open)


async def until(true, seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


@pytest.fixture
def context(tmp_path) -> ssl.SSLContext:
    return pki.serving_context(pki.ensure(tmp_path, ["localhost"], now=datetime.now(UTC)))


async def test_all_that_wait_are_let_in_together():
    async with listening() as (listener, connections):
        clients = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(100)]
        turns = 0
        while len(connections.open) < 100 and turns < 20:
            await asyncio.sleep(0)
            turns += 1
        assert len(connections.open) == 100, f"{turns} turns"
        await until(lambda: listener.coming == 0)
        for client in clients:
            client.close()


async def test_a_request_is_answered_and_small_writes_do_not_wait():
    async with listening() as (listener, connections):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"/a")
        writer.close()
        with closing(socket.create_connection(("127.0.0.1", listener.port))):
            await until(lambda: connections.open)
            (connection,) = connections.open
            accepted = connection._transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_every_address_of_a_name_is_listened_at():
    async with listening("localhost") as (listener, connections):
        with closing(socket.create_connection(("127.0.0.1", listener.port))):
            await until(lambda: connections.open)
            assert len(connections.open) == 1


async def test_a_port_that_is_taken_is_named():
    async with listening() as (listener, connections):
        with pytest.raises(
            OSError, match=f"cannot listen at 127.0.0.1:{listener.port}: address already in use"
        ):
            await listen(partial(HttpProtocol, connections), "127.0.0.1", listener.port, None)


def client_hello(most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    client = client_context()
    client.maximum_version = most
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def connected(listener: Listener, words: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", listener.port), source_address=(address, 0))
    client.sendall(words)
    return client


async def answer_over_tls(listener: Listener) -> bytes:
    """Return what an honest client is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=client_context())
    writer.write(b"GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    "words", [b"", client_hello()[:1], client_hello()[:4], client_hello()[:-1]], ids=range(4)
)
async def test_without_a_whole_client_hello_a_connection_is_a_socket(monkeypatch, context, words):
    """No protocol, no TLS buffers; beyond the limit the oldest of the address with the most is closed."""
    monkeypatch.setattr("weir.observe.listener.PEER_SECONDS", 1.0)
    monkeypatch.setattr(listening_sockets, "MOST_WAITING", 10)
    async with listening(context=context) as (listener, connections):
        protocols: list[object] = []
        monkeypatch.setattr(
            listener, "_protocol", lambda: protocols.append(connections) or HttpProtocol(connections)
        )
        other = connected(listener, words, "127.0.0.2")
        await until(lambda: listener.coming == 1)
        silent = [connected(listener, words) for _ in range(40)]
        await until(lambda: _is_cut_off(silent[30]))
        assert not protocols and listener.coming == 10
        assert [_is_cut_off(client) for client in (silent[0], silent[39], other)] == [True, False, False]
        assert (await answer_over_tls(listener)).endswith(b"/b")
        assert len(protocols) == 1
        for opened in (*silent, other):
            opened.close()
        await until(lambda: listener.coming == 0)


async def test_a_client_hello_that_drips_wakes_nobody_until_it_is_whole(monkeypatch, context):
    looks = 0
    missing = listening_sockets._missing

    def counted(connection: socket.socket) -> int:
        nonlocal looks
        looks += 1
        return missing(connection)

    monkeypatch.setattr(listening_sockets, "_missing", counted)
    async with listening(context=context) as (listener, _):
        client = connected(listener)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hello = client_hello()
        for at in range(len(hello)):
            client.send(hello[at : at + 1])
            await asyncio.sleep(0)
        await until(lambda: not _is_silent(client))  # the server's first message
        assert looks <= 3
        client.close()


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x28",  # an alert
        b"\x17\x03\x03\x00\x10",
        b"\x16\x03\x01\xff\xff",  # a record larger than there are
        b"\0",
    ],
)
async def test_what_is_no_client_hello_is_closed_at_once(context, words):
    async with listening(context=context) as (listener, connections):
        client = connected(listener, words)
        await until(lambda: _is_cut_off(client))
        assert listener.coming == 0 and not connections.open
        client.close()


def tls_protocols() -> int:
    return sum(type(each) is SSLProtocol for each in gc.get_objects())


@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_handshakes_that_wait_for_their_peer_are_parked(monkeypatch, context, most):
    """Their buffers are freed and their sockets stay open, for as long as a peer may take."""
    monkeypatch.setattr(listening_sockets, "MOST_HANDSHAKES", 8)
    gc.collect()
    others = tls_protocols()
    async with listening(context=context) as (listener, _):
        hello = client_hello(most)
        other = connected(listener, hello, "127.0.0.2")
        await until(lambda: len(listener._handshakes) == 1)
        half_open = [connected(listener, hello) for _ in range(60)]
        await until(lambda: len(listener._silent) == 61 - 8)
        assert (len(listener._handshakes), len(listener._ready)) == (8, 0)
        assert (await answer_over_tls(listener)).endswith(b"/b")
        for client in (*half_open, other):
            assert client.recv(10_000), "no message of the server's"
            assert not _is_cut_off(client)
        parked = {coming.socket.getpeername() for coming in listener._silent}
        assert other.getsockname() not in parked
        assert tls_protocols() - others <= 8 + 4  # the honest client's too
        for coming in (*listener._silent,):  # after PEER_SECONDS
            listener._drop(coming)
        for client in half_open:
            if client.getsockname() in parked:
                await until(lambda client=client: _is_cut_off(client))
        for client in (*half_open, other):
            client.close()
        await until(lambda: listener.coming == 0)


async def test_the_newest_and_the_oldest_start_first_and_addresses_take_turns(monkeypatch, context):
    """A flood delays itself: another machine's and its newest start at once, and the oldest do not wait for its end."""
    monkeypatch.setattr(listening_sockets, "HANDSHAKES_A_TURN", 0)
    loop, started = asyncio.get_running_loop(), []

    async def begin(protocol, connection, *, ssl):
        started.append(connection.getpeername())

    monkeypatch.setattr(loop, "connect_accepted_socket", begin)
    async with listening(context=context) as (listener, _):
        hello = client_hello()
        flood = [connected(listener, hello) for _ in range(100)]
        await until(lambda: len(listener._ready) == 100)
        others = [connected(listener, hello, "127.0.0.2") for _ in range(2)]
        await until(lambda: len(listener._ready) == 102)
        newest = connected(listener, hello)
        await until(lambda: len(listener._ready) == 103)
        monkeypatch.setattr(listening_sockets, "HANDSHAKES_A_TURN", 8)
        await until(lambda: len(started) == 103)
        assert started[:4] == [each.getsockname() for each in (newest, others[1], flood[99], others[0])]
        assert started[4:12] == [each.getsockname() for each in (*flood[:4], *reversed(flood[95:99]))]
        for client in (*flood, *others, newest):
            client.close()


async def test_who_waits_for_us_is_neither_parked_nor_closed(monkeypatch, context):
    """However slow the machine is: what the peer sent lies unread."""
    monkeypatch.setattr(listening_sockets, "MOST_HANDSHAKES", 4)
    monkeypatch.setattr(listening_sockets, "PEER_SECONDS", 0.05)
    loop, started, expiries, expire = asyncio.get_running_loop(), [], 0, Listener._expire

    def expired(listener, coming):
        nonlocal expiries
        expiries += 1
        expire(listener, coming)

    monkeypatch.setattr(Listener, "_expire", expired)

    async def begin(protocol, connection, *, ssl):  # nobody reads it
        started.append(connection)
        await loop.create_future()

    monkeypatch.setattr(loop, "connect_accepted_socket", begin)
    async with listening(context=context) as (listener, _):
        clients = [connected(listener, client_hello()) for _ in range(20)]
        await until(lambda: len(started) == 4)
        await until(lambda: expiries >= 8)  # each had its time, twice
        assert (len(listener._handshakes), len(listener._ready)) == (4, 16)
        assert not any(_is_cut_off(client) for client in clients)
        started[0].recv(10_000)  # now it waits for its peer
        await until(lambda: len(started) == 5)
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    "words", [b"", client_hello()[:100], client_hello(), client_hello() + b"\x14"], ids=range(4)
)
async def test_a_peer_that_never_agrees_is_closed_in_time(monkeypatch, context, words):
    monkeypatch.setattr(listening_sockets, "PEER_SECONDS", 0.1)
    async with listening(context=context) as (listener, _):
        client = connected(listener, words)
        await until(lambda: _is_cut_off(client))  # after the server's message, if any
        await until(lambda: listener.coming == 0)
        assert not listener.coming
        client.close()


async def test_a_handshake_that_fails_leaves_nothing_for_the_collector(context):
    """Each has buffers of a quarter of a megabyte, and components look for cycles rarely."""

    def handshakes() -> int:
        return sum(1 for each in gc.get_objects() if type(each) is SSLProtocol)

    async with listening(context=context) as (listener, _):
        gc.collect()
        before = handshakes()
        gc.disable()
        try:
            for words in (b"GET / HTTP/1.1\r\n\r\n", b"", b"\x16\x03\x01\xff\xff"):
                for _ in range(5):
                    client = socket.create_connection(("127.0.0.1", listener.port))
                    client.sendall(words)
                    client.close()
            await until(lambda: listener.coming == 0)
            await until(lambda: handshakes() <= before)
            assert handshakes() == before
        finally:
            gc.enable()


async def test_no_protocol_of_a_connection_without_tls_agreement_is_left(context):
    def protocols() -> int:
        return sum(1 for each in gc.get_objects() if type(each) is HttpProtocol)

    async with listening(context=context) as (listener, _):
        gc.collect()
        gc.disable()
        try:
            clients = [connected(listener, client_hello()) for _ in range(5)]
            await until(lambda: protocols() == 5)
            for client in clients:
                client.close()
            await until(lambda: listener.coming == 0 and protocols() == 0)
            assert protocols() == 0
        finally:
            gc.enable()


async def test_a_closed_tls_connection_leaves_nothing_for_the_collector(context):
    """uvloop's TLS protocol keeps bound methods of the application's: the transport must be let go."""

    async with listening(context=context) as (listener, connections):
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=client_context())
        await until(lambda: connections.open)
        (connection,) = connections.open
        transport = connection._transport
        writer.transport.abort()
        await until(lambda: not connections.open)
        assert transport not in gc.get_referents(connection)


def _is_silent(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return not client.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True


def _is_cut_off(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(10_000) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


class Door:
    """A listening socket that says *answers* when it is asked for a connection."""

    def __init__(self, real: socket.socket, *answers: OSError) -> None:
        self._real, self._answers, self.asked = real, list(answers), 0

    def accept(self):
        self.asked += 1
        if self._answers:
            raise self._answers.pop(0)
        return self._real.accept()

    def __getattr__(self, name: str):
        return getattr(self._real, name)


async def test_without_a_free_descriptor_the_door_is_shut_for_a_moment(monkeypatch):
    monkeypatch.setattr(listening_sockets, "SHUT_SECONDS", 3600)
    real = socket.create_server(("127.0.0.1", 0))
    real.setblocking(False)
    door = Door(real, ConnectionAbortedError(), OSError(errno.EMFILE, "Too many open files"))
    connections = Connections(echo)
    listener = Listener(partial(HttpProtocol, connections), [door], None)
    with closing(socket.create_connection(real.getsockname())):
        await until(lambda: door.asked == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (door.asked, len(connections.open)) == (2, 0)
        listener._open(door)  # an hour later
        await until(lambda: connections.open)
        assert door.asked == 4  # for the connection, and that there is no other
    listener.close()
    await until(lambda: not connections.open)


# ── who makes room when there are too many connections ──


def test_the_address_that_has_most_loses_its_oldest():
    few = ByAddress[int](5)
    assert [few.add("a", number) for number in range(4)] == [None] * 4
    assert few.add("b", 10) is None
    assert [few.add("b", 11), few.add("a", 4), few.add("c", 20)] == [0, 1, 2]
    assert (len(few), sorted(few)) == (5, [3, 4, 10, 11, 20])


def test_what_is_gone_is_forgotten_once():
    few = ByAddress[int](5)
    few.add("a", 1)
    few.add("a", 2)
    for _ in range(2):
        few.discard("a", 1)
        few.discard("b", 7)
    assert (len(few), list(few)) == (1, [2])
    few.discard("a", 2)
    assert (len(few), few._of) == (0, {})
