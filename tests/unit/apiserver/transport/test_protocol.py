"""HTTP/1.1 on a connection: what goes in, what comes out, in which order."""

from __future__ import annotations

import asyncio

import pytest

from weir.apiserver.transport.http import Request, Response, Stream
from weir.apiserver.transport.limits import ANSWER_SECONDS, BODY_BYTES
from weir.apiserver.transport.protocol import Connections


class FakeTransport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 4711) if name == "peername" else None

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


async def echo(request: Request) -> Response:
    await asyncio.sleep(0)
    return Response(200, f"{request.method} {request.path}?{request.query} {len(request.body)}".encode())


async def talk(handle, *pieces: bytes) -> FakeTransport:
    connections = Connections(handle)
    protocol, transport = connections.protocol(), FakeTransport()
    protocol.connection_made(transport)
    for piece in pieces:
        protocol.data_received(piece)
    for _ in range(20):
        await asyncio.sleep(0)
    return transport


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
    transport = await talk(echo, head, b"x" * size)
    assert (transport.sent[:12], transport.closed) == (b"HTTP/1.1 413", True)


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
