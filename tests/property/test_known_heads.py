"""A connection that knows heads hears and answers what one does that parses each.

Both are sent the same bytes in the same pieces: requests that come again and again, alone or several at once, whole or
cut, with bodies that look like requests, between others that have to be parsed, refused or ended.
"""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.fake_transport import FakeTransport
from weir.apiserver.auth.authn import User, proven
from weir.apiserver.transport import limits
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Request, Response

BODIES = [
    b"{}",
    b"ab",
    b"\r\n\r\n",
    b"POST /pods HTTP/1.1\r\n\r\n",
    b"x" * 40,
    b"y" * limits.LARGE_BODY_BYTES,
]
HEADERS = [
    b"Authorization: Bearer jane\r\nContent-Length: %d\r\n",
    b"content-length: %d\r\nAuthorization: Bearer jane\r\nX: 1\r\nX: 2\r\n",
    b"Authorization: Bearer joe\r\nContent-Length: %d\r\nConnection: keep-alive\r\n",
    b"Authorization: Bearer nobody\r\nContent-Length: %d\r\n",
    b"Content-Length: %d\r\n",
    b"Authorization: Bearer jane\r\nContent-Length: %d\r\nConnection: close\r\n",
    b"Authorization: Bearer jane\r\nContent-Length: %d\r\nExpect: 100-continue\r\n",
    b"Authorization: Bearer jane\r\nContent-Length: %d\r\nUpgrade: h2c\r\nConnection: upgrade\r\n",
    b"Authorization: Bearer jane\r\nAuthorization: Bearer joe\r\nContent-Length: %d\r\n",
    b"Authorization: Bearer jane\r\nContent-Length: %d\r\nContent-Length: 1\r\n",
    b"Authorization: Bearer jane\r\nContent-Length: 00%d\r\n",
    b"Authorization: Bearer jane\r\nContent-Length: %d\r\nFolded: a\r\n b\r\n",
]
TARGETS = [b"/pods", b"/pods?dryRun=All", b"http://other/pods", b"*"]
CHUNKED = b"POST /pods HTTP/1.1\r\nAuthorization: Bearer jane\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
OTHERS = [
    CHUNKED,
    b"GET /pods HTTP/1.1\r\nAuthorization: Bearer jane\r\n\r\n",
    b"\r\n",
    b"POST /pods HTTP/1.1\nContent-Length: 1\n\na",
]


@st.composite
def common(draw: st.DrawFn) -> bytes:
    """Draw a request as clients send it."""
    body = draw(st.sampled_from(BODIES[:5]))
    return (
        b"POST /pods HTTP/1.1\r\nHost: x\r\n"
        + draw(st.sampled_from(HEADERS[:3])) % len(body)
        + b"\r\n"
        + body
    )


@st.composite
def rare(draw: st.DrawFn) -> bytes:
    """Draw a request that is somehow special."""
    body = draw(st.sampled_from(BODIES))
    line = draw(st.sampled_from([b"POST ", b"PUT ", b"COPY "])) + draw(st.sampled_from(TARGETS))
    version = draw(
        st.sampled_from([b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b" HTTP/1.0\r\nConnection: keep-alive\r\n"])
    )
    return line + version + draw(st.sampled_from(HEADERS)) % len(body) + b"\r\n" + body


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[list[bytes], bool]]:
    """Draw what is read of connections, read by read, and whether each answer is awaited; few requests come often."""
    kinds = st.one_of(common(), common(), rare(), st.sampled_from(OTHERS))
    few = draw(st.lists(kinds, min_size=1, max_size=4))
    several = []
    for _ in range(draw(st.integers(1, 4))):
        read: list[bytes] = []
        for message in draw(st.lists(st.sampled_from(few), min_size=1, max_size=12)):
            how = draw(st.sampled_from(["whole"] * 6 + ["cut", "with the one before"]))
            if how == "cut":
                at = draw(st.integers(1, len(message)))
                read += [message[:at], message[at:]]
            elif how == "with the one before" and read:
                read[-1] += message
            else:
                read.append(message)
        several.append(([piece for piece in read if piece], draw(st.sampled_from([True, True, False]))))
    return several


class Server:
    """A server that notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []
        self.connections = Connections(self.handle, self.user_of, divides=True)

    async def handle(self, request: Request) -> Response:
        who = request.proven.name if request.proven is not None else None
        self.heard.append(
            (
                request.method,
                request.path,
                request.query,
                dict(request.headers),
                request.body,
                who,
                request.unread,
            )
        )
        await asyncio.sleep(0)
        return Response(200, request.body)

    @staticmethod
    def user_of(request: Request) -> User | None:
        name = request.headers.get(b"authorization", b"").removeprefix(b"Bearer ").decode()
        return proven(name) if name in ("jane", "joe") else None

    async def converse(self, sent: list[bytes], *, knows: bool, waits: bool) -> tuple[bytes, bool]:
        protocol, transport = self.connections.protocol(), FakeTransport()
        transport.protocol = protocol
        protocol.connection_made(transport)
        for piece in sent:
            if transport.closed:
                break
            if knows:
                protocol.get_buffer(len(piece))[: len(piece)] = piece
                protocol.buffer_updated(len(piece))
            else:
                protocol.data_received(piece)
            for _ in range(20 if waits else 0):
                await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        return transport.sent, transport.closed


@settings(max_examples=tries(200, 2000), deadline=None)
@given(conversations())
def test_what_is_heard_and_answered_is_the_same(several):
    async def both() -> None:
        parses, knows = Server(), Server()
        for sent, waits in several:
            plain = await parses.converse(sent, knows=False, waits=waits)
            quick = await knows.converse(sent, knows=True, waits=waits)
            assert quick == plain
            assert knows.heard == parses.heard
            assert knows.connections.received_bytes == parses.connections.received_bytes == 0

    asyncio.run(both())
