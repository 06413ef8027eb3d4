"""Claims about weir.apiserver.transport.limits: lanes fill, empty, and tell when to come back."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fake_transport import FakeTransport
from weir.apiserver.auth.authn import User
from weir.apiserver.transport import limits
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Request, Response
from weir.apiserver.transport.limits import HeadError, InFlight, body_length, timed_out, too_large
from weir.apiserver.transport.paths import RequestInfo
from weir.apiserver.transport.protocol import HttpProtocol
from weir.errors import TooManyRequests


def asks(verb, subresource=""):
    return RequestInfo("", verb, subresource=subresource)


def test_a_full_lane_says_when_to_come_back():
    lanes = InFlight(1, 1)
    lanes.enter(asks("create"))
    with pytest.raises(TooManyRequests) as refused:
        lanes.enter(asks("patch"))
    assert (refused.value.message, refused.value.retry_after_seconds) == (
        "Too many requests, please try again later.",
        1,
    )


def test_writes_do_not_fill_the_lane_of_reads():
    lanes = InFlight(1, 1)
    lanes.enter(asks("create"))
    assert lanes.enter(asks("list")).name == "readOnly"


def test_leaving_makes_room():
    lanes = InFlight(1, 1)
    lanes.leave(lanes.enter(asks("create")))
    assert lanes.enter(asks("create")).now == 1


@pytest.mark.parametrize(("verb", "subresource"), [("watch", ""), ("get", "log"), ("create", "exec")])
def test_long_running_requests_take_no_place(verb, subresource):
    lanes = InFlight(1, 1)
    assert [lanes.enter(asks(verb, subresource)) for _ in range(3)] == [None, None, None]


def test_masters_get_in_when_it_is_full():
    lanes = InFlight(1, 1)
    lanes.enter(asks("create"))
    assert lanes.enter(asks("create"), groups=("system:masters",)).now == 2


def test_no_limit_is_no_limit():
    lanes = InFlight(0, 0)
    assert [lanes.enter(asks("get")).now for _ in range(3)] == [1, 2, 3]


@given(st.lists(st.sampled_from(["enter", "leave"])))
def test_a_lane_never_holds_more_than_its_limit_and_never_less_than_nothing(steps):
    lanes, held = InFlight(3, 3), []
    for step in steps:
        if step == "leave" and held:
            lanes.leave(held.pop())
        elif step == "enter":
            try:
                held.append(lanes.enter(asks("create")))
            except TooManyRequests:
                assert len(held) == 3
        assert lanes.writing.now == len(held) <= 3


def test_refusals_read_as_upstreams():
    assert (too_large().code, too_large().message) == (413, "Request entity too large: limit is 3145728")
    assert timed_out().message == "Timeout: request did not complete within the allotted timeout"


# ── heads of requests: which announce a body, which are not understood, and that no stranger's body is kept ──


SIZE = 3_000_000
START = b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
#: Heads of requests with a body that are understood; without a credential they are answered, and nothing is read.
UNDERSTOOD = {
    "a length": START + b"Content-Length: %d\r\n\r\n" % SIZE,
    "a blank behind it": START + b"Content-Length: %d \r\n\r\n" % SIZE,
    "a tab behind it": START + b"Content-Length: %d\t\r\n\r\n" % SIZE,
    "blanks before it": START + b"Content-Length: \t  %d\r\n\r\n" % SIZE,
    "leading zeros": START + b"Content-Length: 00%d\r\n\r\n" % SIZE,
    "chunks": START + CHUNKED + b"\r\n2DC6C0\r\n",
    "chunks in capitals": START + b"TRANSFER-ENCODING: Chunked \r\n\r\n2DC6C0\r\n",
    "chunks with extensions": START + CHUNKED + b"\r\n2DC6C0;a=b;c\r\n",
    "asks first": START + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "absolute form": b"POST http://x/api HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "HTTP/1.0": b"POST /api HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "a GET with a body": b"GET /api HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "an upgrade": START + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "a health check": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % SIZE,
}
#: Heads that are not understood: 400, and the connection is closed.
REFUSED = {
    "digits without end": START + b"Content-Length: %s%d\r\n\r\n" % (b"0" * 20, SIZE),
    "2^64 - 1": START + b"Content-Length: 18446744073709551615\r\n\r\n",
    "more than 64 bits": START + b"Content-Length: 99999999999999999999\r\n\r\n",
    "a sign": START + b"Content-Length: +%d\r\n\r\n" % SIZE,
    "negative": START + b"Content-Length: -%d\r\n\r\n" % SIZE,
    "hexadecimal": START + b"Content-Length: 0x2DC6C0\r\n\r\n",
    "empty": START + b"Content-Length: \r\n\r\n",
    "a list": START + b"Content-Length: %d, %d\r\n\r\n" % (SIZE, SIZE),
    "a blank inside": START + b"Content-Length: 3 000000\r\n\r\n",
    "the same twice": START + b"Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % (SIZE, SIZE),
    "two lengths": START + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "length and chunks": START + b"Content-Length: %d\r\n" % SIZE + CHUNKED + b"\r\n2DC6C0\r\n",
    "chunks and length": START + CHUNKED + b"Content-Length: %d\r\n\r\n2DC6C0\r\n" % SIZE,
    "identity": START + b"Transfer-Encoding: identity\r\n\r\n",
    "gzip, chunked": START + b"Transfer-Encoding: gzip, chunked\r\n\r\n2DC6C0\r\n",
    "chunked, gzip": START + b"Transfer-Encoding: chunked, gzip\r\n\r\n2DC6C0\r\n",
    "chunked twice": START + CHUNKED + CHUNKED + b"\r\n2DC6C0\r\n",
    "quoted chunked": START + b'Transfer-Encoding: "chunked"\r\n\r\n2DC6C0\r\n',
    "chunkedx": START + b"Transfer-Encoding: chunkedx\r\n\r\n2DC6C0\r\n",
    "a vertical tab": START + b"Transfer-Encoding: \x0bchunked\r\n\r\n2DC6C0\r\n",
    "chunks in HTTP/1.0": b"POST /api HTTP/1.0\r\n" + CHUNKED + b"\r\n2DC6C0\r\n",
    "a blank before the colon": START + b"Content-Length : %d\r\n\r\n" % SIZE,
    "folded": START + b"Content-Length:\r\n %d\r\n\r\n" % SIZE,
    "folded behind another": START + b"X-A: b\r\n Content-Length: %d\r\n\r\n" % SIZE,
    "bare LF": b"POST /api HTTP/1.1\nHost: x\nContent-Length: %d\n\n" % SIZE,
    "bare CR": b"POST /api HTTP/1.1\r\nHost: x\rContent-Length: %d\r\n\r\n" % SIZE,
    "NUL in a value": START + b"X-A: a\x00b\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "NUL in a name": START + b"X\x00A: b\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "no name": START + b": b\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "no host": b"POST /api HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "two hosts": START + b"Host: y\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "HTTP/0.9": b"GET /api\r\n\r\n",
    "HTTP/2.0": b"POST /api HTTP/2.0\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % SIZE,
    "HTTP/1.2": b"POST /api HTTP/1.2\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % SIZE,
}


async def answer(request: Request) -> Response:
    return Response(401 if request.proven is None else 200, b"")


async def send(authenticate, head: bytes) -> tuple[FakeTransport, Connections, int]:
    """Send *head* and as much of a body as there is; return the most bytes that were held for it."""
    connections = Connections(answer, authenticate)
    protocol, transport = HttpProtocol(connections), FakeTransport()
    protocol.connection_made(transport)
    held = 0
    for piece in (head, *[b"x" * 65_536] * 40):
        protocol.data_received(piece)
        held = max(held, connections.received_bytes, sum(map(len, protocol._body)))
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    return transport, connections, held


@pytest.fixture(autouse=True)
def no_linger(monkeypatch):
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0)


@pytest.mark.parametrize("head", UNDERSTOOD.values(), ids=UNDERSTOOD)
async def test_no_byte_of_a_strangers_body_is_kept(head):
    transport, connections, held = await send(lambda request: None, head)
    assert (held, connections.received_bytes) == (0, 0)
    assert transport.sent[:12] == b"HTTP/1.1 401" and transport.closed


@pytest.mark.parametrize(
    "authenticate", [lambda request: None, lambda request: User("jane")], ids=["stranger", "jane"]
)
@pytest.mark.parametrize("head", REFUSED.values(), ids=REFUSED)
async def test_a_head_that_is_not_understood_is_refused_and_nothing_read(head, authenticate):
    transport, connections, held = await send(authenticate, head)
    assert (held, connections.received_bytes) == (0, 0)
    assert transport.sent[:12] == b"HTTP/1.1 400" and transport.closed
    assert transport.sent.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "name", ["a length", "a blank behind it", "a tab behind it", "leading zeros", "chunks"]
)
async def test_a_large_body_of_any_understood_length_waits_for_a_place(name, monkeypatch):
    monkeypatch.setattr(limits, "MOST_LARGE_OF_ONE_USER", 1)
    connections = Connections(answer, lambda request: User("jane"))
    both = []
    for _ in range(2):
        protocol, transport = HttpProtocol(connections), FakeTransport()
        protocol.connection_made(transport)
        protocol.data_received(UNDERSTOOD[name])
        both.append((protocol, transport))
    assert [transport.reading for _, transport in both] == [True, False]
    for protocol, _ in both:
        protocol.connection_lost(None)


async def test_a_body_that_the_head_does_not_announce_is_refused(monkeypatch):
    """Parser and head are held against each other: where they differ, nothing is read."""
    monkeypatch.setattr("weir.apiserver.transport.protocol.body_length", lambda headers, version: 0)
    transport, _, held = await send(lambda request: User("jane"), UNDERSTOOD["a length"])
    assert held == 0 and transport.sent[:12] == b"HTTP/1.1 400" and transport.closed


def test_lengths_that_are_no_numbers_or_two_are_errors():
    for text in (b"", b"1 2", b"1_000", b"\xd9\xa3", b"1" * 19):
        with pytest.raises(HeadError):
            body_length({b"host": b"x", b"content-length": text}, "1.1")
    for extra, version in (({b"content-length": b"1"}, "1.1"), ({}, "1.0")):
        with pytest.raises(HeadError):
            body_length({b"host": b"x", b"transfer-encoding": b"chunked", **extra}, version)
