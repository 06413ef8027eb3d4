"""Heads of requests: which are known again, and what of a request is asked for all the same."""

from __future__ import annotations

import asyncio

import pytest

from tests.fake_transport import FakeTransport
from weir.apiserver.auth.authn import User
from weir.apiserver.transport import heads, limits
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Request, Response

LARGE = limits.LARGE_BODY_BYTES


def post(body: bytes, *more: str, target: str = "/pods", method: str = "POST") -> bytes:
    lines = (f"{method} {target} HTTP/1.1", "Host: x", *more, f"Content-Length: {len(body)}", "", "")
    return "\r\n".join(lines).encode() + body


class Server:
    """A server of which a test says who may ask, and when it answers."""

    def __init__(self) -> None:
        self.heard: list[Request] = []
        self.users = {b"jane"}
        self.held: list[asyncio.Future[None]] | None = None
        self.connections = Connections(self.handle, self.prove, divides=True)
        self.protocol, self.transport = self.connect()

    def connect(self):
        protocol, transport = self.connections.protocol(), FakeTransport()
        transport.protocol = protocol
        protocol.connection_made(transport)
        return protocol, transport

    def prove(self, request: Request) -> User | None:
        name = request.headers.get(b"authorization", b"jane")
        return User(name.decode()) if name in self.users else None

    async def handle(self, request: Request) -> Response:
        self.heard.append(request)
        if self.held is not None:
            self.held.append(asyncio.get_running_loop().create_future())
            await self.held[-1]
        return Response(200, request.body)

    async def read(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.protocol.get_buffer(len(piece))[: len(piece)] = piece
            self.protocol.buffer_updated(len(piece))
            await settled()

    async def knows(self, message: bytes) -> None:
        """Let *message* come until its head is known."""
        await self.read(message, message)
        assert self.connections.heads.find(memoryview(message)) is not None


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_head_is_known_when_it_came_twice():
    server, message = Server(), post(b"ab", "X: 1")
    await server.read(message)
    assert server.connections.heads.find(memoryview(message)) is None
    await server.read(message)
    head, body = server.connections.heads.find(memoryview(message))
    assert (head.method, head.path, head.headers[b"x"], body) == ("POST", "/pods", b"1", b"ab")
    await server.read(message[:-2] + b"cd")
    assert [request.body for request in server.heard] == [b"ab", b"ab", b"cd"]
    assert server.transport.sent.count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize(
    "message",
    [
        post(b"ab", "Expect: 100-continue"),
        post(b"ab", "Upgrade: h2c"),
        post(b"ab", "Connection: close"),
        post(b"ab", "Authorization: nobody"),
        post(b"ab", "X: " + "x" * heads.LONGEST_HEAD),
        post(b"x" * LARGE),
        post(b""),
        post(b"ab", method="PUT"),
        post(b"ab", method="PATCH"),
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_a_head_that_says_more_than_what_comes_is_parsed_each_time(message):
    server = Server()
    for _ in range(4):
        server.protocol, server.transport = server.connect()
        await server.read(message)
    assert len(server.connections.heads) == 0


async def test_heads_of_two_requests_at_once_are_not_learnt():
    server, message = Server(), post(b"ab")
    await server.read(message + message, message + message)
    assert (len(server.heard), len(server.connections.heads)) == (4, 0)


async def test_who_sends_a_known_head_is_asked_each_time():
    server, message = Server(), post(b"ab", "Authorization: jane")
    await server.knows(message)
    server.users.clear()
    await server.read(message)
    (*_, last) = server.heard
    assert (last.proven, last.unread, last.body) == (None, True, b"")


async def test_a_body_that_looks_like_a_known_request_is_a_body():
    server, message = Server(), post(b"ab")
    await server.knows(message)
    around = post(message)
    await server.read(around[: -len(message)], message)
    assert [request.body for request in server.heard] == [b"ab", b"ab", message]


async def test_a_known_request_waits_for_the_one_before_it():
    server, message = Server(), post(b"ab")
    await server.knows(message)
    server.held = []
    await server.read(post(b"first"), message)
    assert [request.body for request in server.heard[2:]] == [b"first"]
    server.held[0].set_result(None)
    await settled()
    assert [request.body for request in server.heard[2:]] == [b"first", b"ab"]


async def test_a_known_request_waits_behind_a_large_one_that_waits_for_its_place(monkeypatch):
    monkeypatch.setattr(limits, "MOST_LARGE_OF_ONE_USER", 1)
    server, message = Server(), post(b"ab")
    await server.knows(message)
    server.held = []
    await server.read(post(b"x" * LARGE))
    server.protocol, server.transport = server.connect()
    await server.read(post(b"y" * LARGE), message)
    assert [request.body[:1] for request in server.heard[2:]] == [b"x"]
    for number in range(3):
        server.held[number].set_result(None)
        await settled()
    assert [request.body[:1] for request in server.heard[2:]] == [b"x", b"y", b"a"]


async def test_what_came_in_pieces_says_nothing_about_what_follows():
    server, message = Server(), post(b"ab")
    other = post(b"abcdefghi", target="/other")
    for _ in range(3):
        await server.read(message[:9], message[9:], other[:-7], other[-7:])
    assert [(request.path, request.body) for request in server.heard] == [
        ("/pods", b"ab"),
        ("/other", b"abcdefghi"),
    ] * 3
    assert len(server.connections.heads) == 0


async def test_the_body_of_a_known_request_counts_as_received():
    server, message = Server(), post(b"ab")
    await server.knows(message)
    server.held = []
    await server.read(message)
    assert server.connections.received_bytes == 2
    server.held[0].set_result(None)
    await settled()
    assert server.connections.received_bytes == 0


async def test_a_known_request_is_refused_when_there_is_no_room(monkeypatch):
    server, message = Server(), post(b"ab")
    await server.knows(message)
    monkeypatch.setattr(limits, "RECEIVED_BYTES", 1)
    await server.read(message)
    assert b"HTTP/1.1 429" in server.transport.sent
    assert (len(server.heard), server.transport.ended) == (2, True)


async def test_the_time_of_a_known_request_begins_when_it_comes(monkeypatch):
    server, message = Server(), post(b"ab")
    await server.knows(message)
    server.held = []
    loop, later = asyncio.get_running_loop(), server.protocol.since + limits.ANSWER_SECONDS + 1
    monkeypatch.setattr(loop, "time", lambda: later)
    await server.read(message)
    server.protocol.check_time(later + 1)
    server.held[0].set_result(None)
    await settled()
    assert server.transport.sent.count(b"HTTP/1.1 200") == 3


async def test_so_many_heads_are_known_and_no_more():
    server = Server()
    for number in range(heads.MOST_HEADS + 2):
        await server.read(post(b"ab", target=f"/{number}"))
    assert len(server.connections.heads) == 2
