"""HTTP/1.1 on a connection: what goes in, what comes out, in which order."""

from __future__ import annotations

import asyncio

import pytest

from tests.fake_transport import FakeTransport
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.transport import limits
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Request, Response, Stream
from weir.apiserver.transport.limits import ANSWER_SECONDS, BODY_BYTES, HEAD_BYTES


async def echo(request: Request) -> Response:
    await asyncio.sleep(0)
    return Response(200, f"{request.method} {request.path}?{request.query} {len(request.body)}".encode())


async def talk(handle, *pieces: bytes) -> FakeTransport:
    return await converse(Connections(handle), *pieces)


async def converse(connections: Connections, *pieces: bytes) -> FakeTransport:
    protocol, transport = connections.protocol(), FakeTransport()
    protocol.connection_made(transport)
    transport.protocol = protocol
    for piece in pieces:
        protocol.data_received(piece)
    for _ in range(40):
        await asyncio.sleep(0)
    return transport


@pytest.fixture(autouse=True)
def no_linger(monkeypatch):
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0)


async def test_a_request_in_pieces_is_one_request():
    transport = await talk(
        echo, b"POST /a?b=c HT", b"TP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab", b"cd"
    )
    assert transport.sent.endswith(b"Content-Length: 13\r\n\r\nPOST /a?b=c 4")


async def test_pipelined_requests_are_answered_in_order():
    transport = await talk(echo, b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert transport.sent.index(b"GET /1") < transport.sent.index(b"GET /2")


async def test_a_connection_stays_open_unless_the_client_says_otherwise():
    kept = await talk(echo, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    left = await talk(echo, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (kept.closed, left.closed) == (False, True)


async def test_a_body_beyond_the_limit_is_refused_and_the_connection_closed():
    size = BODY_BYTES + 1
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
    seen = []

    async def handle(request: Request) -> Response:
        seen.append((request.too_large, request.body))
        return Response(413, b"")

    transport = await talk(handle, head, b"x" * size)
    assert (transport.sent[:12], transport.closed, seen) == (b"HTTP/1.1 413", True, [(True, b"")])


async def test_headers_without_end_are_refused():
    transport = await talk(echo, b"GET / HTTP/1.1\r\n", b"a: " + b"b" * 70_000)
    assert (transport.sent[:12], transport.closed) == (b"HTTP/1.1 431", True)


async def test_bytes_that_are_not_http_are_refused():
    transport = await talk(echo, b"\x16\x03\x01 nonsense\r\n\r\n")
    assert (transport.sent[:12], transport.closed) == (b"HTTP/1.1 400", True)


async def test_a_stream_is_chunked_and_the_connection_goes_on():
    async def watch(request: Request) -> Stream | Response:
        async def run(sink) -> None:
            sink.write(b"one\n")
            sink.write(b"two\n")
            sink.close()

        return Stream(run) if request.path == "/watch" else await echo(request)

    transport = await talk(
        watch, b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    assert b"4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\nHTTP/1.1 200 OK" in transport.sent


async def test_a_lost_connection_stops_the_work_for_it():
    stopped = asyncio.Event()

    async def slow(request: Request) -> Response:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stopped.set()
            raise
        raise AssertionError

    connections = Connections(slow)
    protocol = connections.protocol()
    protocol.connection_made(FakeTransport())
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0)
    protocol.connection_lost(None)
    await asyncio.sleep(0)
    assert stopped.is_set()


async def test_a_head_request_gets_no_body():
    transport = await talk(echo, b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n")
    assert transport.sent.endswith(b"Content-Length: 10\r\n\r\n")


async def test_closing_ends_idle_connections_and_lets_the_others_finish():
    gate = asyncio.Event()

    async def wait(request: Request) -> Response:
        await gate.wait()
        return Response(200, b"done")

    connections = Connections(wait)
    idle, busy = connections.protocol(), connections.protocol()
    transports = FakeTransport(), FakeTransport()
    idle.connection_made(transports[0])
    busy.connection_made(transports[1])
    busy.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0)
    connections.close_idle()
    before = [transport.closed for transport in transports]
    gate.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (before, transports[1].closed, b"Connection: close" in transports[1].sent) == (
        [True, False],
        True,
        True,
    )


@pytest.mark.parametrize(("seconds", "closed"), [(10.0, False), (1000.0, True)])
async def test_connections_idle_too_long_are_closed(seconds, closed):
    connections = Connections(echo)
    protocol, transport = connections.protocol(), FakeTransport()
    protocol.connection_made(transport)
    connections.sweep(asyncio.get_running_loop().time() + seconds)
    assert transport.closed is closed


async def test_an_answer_that_takes_too_long_is_given_up_but_a_watch_is_not():
    async def never(request: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def watching(request: Request) -> Stream:
        return Stream(lambda sink: asyncio.Event().wait())

    for handle, given_up in ((never, True), (watching, False)):
        connections = Connections(handle)
        protocol, transport = connections.protocol(), FakeTransport()
        protocol.connection_made(transport)
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0)
        connections.sweep(asyncio.get_running_loop().time() + ANSWER_SECONDS + 1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert (transport.sent[:12] == b"HTTP/1.1 504", transport.closed) == (given_up, given_up)
        protocol.connection_lost(None)


async def test_any_code_a_webhook_refuses_with_can_be_sent():
    async def odd(request: Request) -> Response:
        return Response(499, b"no")

    transport = await talk(odd, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert transport.sent.startswith(b"HTTP/1.1 499 ")


# ------------------------------------------------------------------------- bounds before and after authentication


class SlowTransport(FakeTransport):
    """A client that takes nothing: after the first write the protocol is asked to pause."""

    protocol = None

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.protocol is not None:
            self.protocol.pause_writing()


def users(request: Request) -> User | None:
    token = request.headers.get(b"authorization")
    return User(token.decode()) if token else None


async def test_a_body_without_a_credential_is_not_read():
    seen = []

    async def handle(request: Request) -> Response:
        seen.append(request.body)
        return Response(401, b"")

    connections = Connections(handle, users)
    head = b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    transport = await converse(connections, head, *[b"x" * 10_000] * 5)
    assert (seen, connections.received_bytes, transport.closed) == ([b""], 0, True)


async def test_trailers_are_not_headers_and_do_not_grow_for_ever():
    seen = []

    async def handle(request: Request) -> Response:
        seen.append(dict(request.headers))
        return Response(200, b"")

    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
    polite = await talk(handle, head + b"Authorization: Bearer stolen\r\n\r\n")
    endless = await talk(handle, head, *[b"X: " + b"y" * 9000 + b"\r\n"] * 20)
    assert b"authorization" not in seen[0] and polite.sent.startswith(b"HTTP/1.1 200")
    assert (len(seen), endless.sent[:12]) == (1, b"HTTP/1.1 431")


async def test_endless_headers_behind_a_watch_are_refused():
    async def watch(request: Request) -> Stream:
        async def run(sink) -> None:
            await asyncio.sleep(3600)

        return Stream(run)

    transport = await talk(
        watch,
        b"GET /w HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /2 HTTP/1.1\r\n",
        *[b"X: " + b"y" * 9000 + b"\r\n"] * 20,
    )
    assert transport.closed


@pytest.mark.parametrize("name", [b"Authorization", b"Impersonate-User", b"Content-Length", b"Host"])
async def test_a_header_that_says_who_asks_is_given_once(name):
    transport = await talk(echo, b"GET / HTTP/1.1\r\n" + (name + b": 0\r\n") * 2 + b"\r\n")
    assert (transport.sent[:12], transport.closed) == (b"HTTP/1.1 400", True)


async def test_a_connection_that_ends_leaves_nothing_behind():
    connections = Connections(echo, users)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: jane\r\nContent-Length: 1000000\r\n\r\n"
    transport = await converse(connections, head, b"x" * 500_000)
    held = connections.received_bytes
    transport.protocol.connection_lost(None)
    assert (held, connections.received_bytes, connections.open) == (500_000, 0, set())
    assert transport.protocol._parser is None


async def test_bodies_of_all_connections_together_have_a_bound(monkeypatch):
    monkeypatch.setattr(limits, "RECEIVED_BYTES", 250_000)
    connections = Connections(echo, users)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: jane\r\nContent-Length: 1000000\r\n\r\n"
    first, second, third = [await converse(connections, head, b"x" * 100_000) for _ in range(3)]
    assert (first.closed, second.closed, third.closed) == (False, False, True)
    assert third.sent.startswith(b"HTTP/1.1 429") and b"Retry-After: 1" in third.sent


async def test_pipelined_requests_wait_until_the_reader_has_taken_the_answer():
    handled = []

    async def handle(request: Request) -> Response:
        handled.append(request.path)
        return Response(200, b"x" * 100_000)

    connections = Connections(handle)
    protocol, transport = connections.protocol(), SlowTransport()
    protocol.connection_made(transport)
    transport.protocol = protocol
    protocol.data_received(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n" * 10)
    for _ in range(40):
        await asyncio.sleep(0)
    assert (len(handled), len(transport.sent) < 70_000) == (1, True)
    transport.protocol = None
    protocol.resume_writing()
    for _ in range(100):
        await asyncio.sleep(0)
    assert (len(handled), connections.unsent_bytes) == (10, 0)


async def test_too_many_pipelined_requests_end_the_connection():
    async def never(request: Request) -> Response:
        await asyncio.sleep(3600)
        raise AssertionError

    transport = await talk(never, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n" * (limits.MOST_PIPELINED + 2))
    assert transport.closed


async def test_the_reader_that_was_slow_for_longest_is_cut_off_when_answers_pile_up(monkeypatch):
    monkeypatch.setattr(limits, "UNSENT_BYTES", 250_000)

    async def large(request: Request) -> Response:
        return Response(200, b"x" * 200_000)

    connections, transports = Connections(large), []
    for _ in range(3):
        protocol, transport = connections.protocol(), SlowTransport()
        protocol.connection_made(transport)
        transport.protocol = protocol
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(20):
            await asyncio.sleep(0)
        transports.append(transport)
    assert [transport.closed for transport in transports] == [True, True, False]


async def test_an_answer_nobody_takes_is_given_up():
    async def large(request: Request) -> Response:
        return Response(200, b"x" * 200_000)

    connections = Connections(large)
    protocol, transport = connections.protocol(), SlowTransport()
    protocol.connection_made(transport)
    transport.protocol = protocol
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    for _ in range(20):
        await asyncio.sleep(0)
    now = asyncio.get_running_loop().time()
    connections.sweep(now + limits.SENDING_SECONDS - 1)
    early = transport.closed
    connections.sweep(now + limits.SENDING_SECONDS + 1)
    assert (early, transport.closed) == (False, True)


async def test_the_oldest_connection_without_a_credential_makes_room(monkeypatch):
    monkeypatch.setattr(limits, "MOST_UNPROVEN", 3)
    monkeypatch.setattr(limits, "UNPROVEN_SECONDS", 0)
    connections = Connections(echo, users)
    known = await converse(connections, b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: jane\r\n\r\n")
    strangers = [await converse(connections) for _ in range(5)]
    assert [stranger.closed for stranger in strangers] == [True, True, False, False, False]
    assert not known.closed


async def test_a_connection_has_time_to_show_a_credential_even_when_many_come_at_once(monkeypatch):
    monkeypatch.setattr(limits, "MOST_UNPROVEN", 2)
    monkeypatch.setattr(limits, "UNPROVEN_SECONDS", 1e6)
    monkeypatch.setattr(limits, "MOST_FRESH", 4)
    connections = Connections(echo, users)
    strangers = [await converse(connections) for _ in range(6)]
    assert [stranger.closed for stranger in strangers] == [True, True, False, False, False, False]


async def test_one_user_has_a_bounded_number_of_connections_but_an_administrator_gets_in(monkeypatch):
    monkeypatch.setattr(limits, "MOST_OF_ONE_USER", 2)

    def prove(request: Request) -> User | None:
        name = request.headers[b"authorization"].decode()
        return User(name, groups=(MASTERS,) if name == "admin" else ())

    connections = Connections(echo, prove)

    async def connect(name: bytes) -> FakeTransport:
        return await converse(
            connections, b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: " + name + b"\r\n\r\n"
        )

    jane = [await connect(b"jane") for _ in range(3)]
    joe = await connect(b"joe")
    admins = [await connect(b"admin") for _ in range(3)]
    assert [one.sent[9:12] for one in (*jane, joe)] == [b"200", b"200", b"429", b"200"]
    assert all(one.sent.startswith(b"HTTP/1.1 200") for one in admins)
    jane[0].protocol.connection_lost(None)
    assert (await connect(b"jane")).sent.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent, seconds",
    [
        (b"", limits.FIRST_REQUEST_SECONDS),
        (b"GET / HTTP/1.1\r\n", limits.ARRIVAL_SECONDS),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: j\r\nContent-Length: 9\r\n\r\nab",
            limits.ARRIVAL_SECONDS,
        ),
    ],
)
async def test_a_request_has_one_deadline_to_be_here_whole(sent, seconds):
    connections = Connections(echo, users)
    transport = await converse(connections, *([sent] if sent else []))
    now = asyncio.get_running_loop().time()
    connections.sweep(now + seconds - 1)
    early = transport.closed
    connections.sweep(now + seconds + 1)
    assert (early, transport.closed) == (False, True)


async def test_what_a_refused_client_still_writes_is_read_past_only_so_far(monkeypatch):
    monkeypatch.setattr(limits, "LINGER_SECONDS", 3600)
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {10**9}\r\n\r\n".encode()
    polite = await talk(echo, head, *[b"x" * 1_000_000] * 3)
    rude = await talk(echo, head, *[b"x" * 1_000_000] * 12)
    assert (polite.closed, rude.closed) == (False, True)


async def test_an_upgrade_is_answered_as_an_ordinary_request_and_closed():
    transport = await talk(
        echo, b"GET /up HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    assert transport.sent.endswith(b"GET /up? 0") and transport.closed


async def test_a_head_as_long_as_allowed_is_read():
    transport = await talk(echo, b"GET / HTTP/1.1\r\nX: " + b"y" * (HEAD_BYTES - 100) + b"\r\n\r\n")
    assert transport.sent.startswith(b"HTTP/1.1 200")
