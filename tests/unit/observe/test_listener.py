"""How connections come in: all that wait at once, few that say nothing, and none where there is no room."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime

import pytest

from weir.apiserver.auth import pki
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Request, Response
from weir.apiserver.transport.protocol import HttpProtocol
from weir.observe import listener as listening_sockets
from weir.observe.fair_turns import REQUESTS_A_TURN
from weir.observe.listener import Listener, listen


async def echo(request: Request) -> Response:
    return Response(200, request.path.encode())


@asynccontextmanager
async def listening(host: str = "127.0.0.1", context: ssl.SSLContext | None = None):
    connections = Connections(echo)
    listener = await listen(connections.protocol, host, 0, context)
    try:
        yield listener, connections
    finally:
        listener.close()
        for connection in tuple(connections.open):
            connection.abort()
        await until(lambda: not connections.open)


async def until(true, seconds: float = 20.0) -> None:
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
            await listen(connections.protocol, "127.0.0.1", listener.port, None)


async def test_whoever_agrees_on_nothing_makes_room_by_address(monkeypatch, context):
    """Silent connections of one machine are cut off, the oldest first; another machine's is not."""
    monkeypatch.setattr(listening_sockets, "MOST_HANDSHAKES", 10)
    async with listening(context=context) as (listener, connections):
        other = socket.create_connection(("127.0.0.1", listener.port), source_address=("127.0.0.2", 0))
        await until(lambda: listener.coming == 1)
        silent = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(40)]
        await until(lambda: _is_cut_off(silent[30]))
        assert listener.coming <= 10 and not connections.open
        assert [_is_cut_off(client) for client in (silent[0], silent[39], other)] == [True, False, False]
        client = ssl.create_default_context()
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=client)
        writer.write(b"GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"/b")
        writer.close()
        for opened in (*silent, other):
            opened.close()
        await until(lambda: listener.coming == 0)


async def test_addresses_take_turns_to_agree_on_tls(monkeypatch, context):
    """Behind two hundred connections of one machine, another's handshake begins within two turns of the loop."""
    begun: list[str] = []
    loop = asyncio.get_running_loop()

    async def begin(protocol, connection, *, ssl, ssl_handshake_timeout):
        begun.append(connection.getpeername()[0])
        connection.close()

    monkeypatch.setattr(loop, "connect_accepted_socket", begin)
    async with listening(context=context) as (listener, _):
        flood = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(200)]
        other = socket.create_connection(("127.0.0.1", listener.port), source_address=("127.0.0.2", 0))
        await until(lambda: len(begun) == 201)
        assert begun.index("127.0.0.2") < 3 * REQUESTS_A_TURN
        for opened in (*flood, other):
            opened.close()


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


async def test_handshakes_beyond_the_limit_wait_for_one_that_had_its_time(monkeypatch, context):
    """A burst is delayed, not cut: nobody is closed for another within FRESH_SECONDS, and buffers stay few."""
    monkeypatch.setattr(listening_sockets, "MOST_HANDSHAKES", 16)
    monkeypatch.setattr(listening_sockets, "FRESH_SECONDS", 3600)
    async with listening(context=context) as (listener, _):
        burst = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(60)]
        await until(lambda: listener.coming == 60)
        for _ in range(50):  # turns of the loop, in which more could start
            await asyncio.sleep(0)
        assert len(listener._handshakes) <= 16
        assert not any(_is_cut_off(client) for client in burst)
        monkeypatch.setattr(listening_sockets, "FRESH_SECONDS", 0)
        await until(lambda: listener.coming <= 16)
        assert [_is_cut_off(burst[0]), _is_cut_off(burst[59])] == [True, False]
        for client in burst:
            client.close()
        await until(lambda: listener.coming == 0 and not listener._started)


async def test_no_protocol_of_a_connection_without_tls_agreement_is_left(context):
    def protocols() -> int:
        return sum(1 for each in gc.get_objects() if type(each) is HttpProtocol)

    async with listening(context=context) as (listener, _):
        gc.collect()
        gc.disable()
        try:
            clients = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(5)]
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
        client = ssl.create_default_context()
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=client)
        await until(lambda: connections.open)
        (connection,) = connections.open
        transport = connection._transport
        writer.transport.abort()
        await until(lambda: not connections.open)
        assert transport not in gc.get_referents(connection)


def _is_cut_off(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
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
    listener = Listener(connections.protocol, [door], None)
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
