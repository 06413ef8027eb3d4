"""HTTP/1.1 on a connection: what goes in, what comes out, in which order."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from tests.fake_transport import FakeTransport
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.transport import limits
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import ListResponse, Request, Response, Stream
from weir.apiserver.transport.limits import ANSWER_SECONDS, BODY_BYTES, HEAD_BYTES
from weir.apiserver.transport.protocol import HttpProtocol


async def echo(request: Request) -> Response:
    await asyncio.sleep(0)
    return Response(200, f"{request.method} {request.path}?{request.query} {len(request.body)}".encode())


async def talk(handle, *pieces: bytes) -> FakeTransport:
    return await converse(Connections(handle), *pieces)


async def converse(connections: Connections, *pieces: bytes) -> FakeTransport:
    protocol, transport = HttpProtocol(connections), FakeTransport()
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


async def test_connections_share_the_place_they_read_into_and_none_sees_what_another_sent():
    heard: list[bytes] = []

    async def listen(request: Request) -> Response:
        await asyncio.sleep(0)
        heard.append(request.body)
        return Response(200, b"")

    connections = Connections(listen)
    both = [HttpProtocol(connections) for _ in range(2)]
    for protocol in both:
        protocol.connection_made(FakeTransport())
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n"
    for pieces in ((head + b"aa", head + b"bb"), (b"aa", b"bb"), (b"aa", b"bb")):
        for protocol, piece in zip(both, pieces, strict=True):
            protocol.get_buffer(len(piece) + 256)[: len(piece)] = piece
            protocol.buffer_updated(len(piece))
    for _ in range(10):
        await asyncio.sleep(0)
    assert heard == [b"aaaaaa", b"bbbbbb"]


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


async def test_a_client_that_asks_first_is_told_at_once_that_its_body_is_too_large():
    async def handle(request: Request) -> Response:
        return Response(413 if request.too_large else 200, b"")

    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_BYTES + 1}\r\n".encode()
    asks = await talk(handle, head + b"Expect: 100-continue\r\n\r\n")
    sends = await talk(handle, head + b"\r\n", b"x" * BODY_BYTES)
    assert (asks.sent[:12], sends.sent) == (b"HTTP/1.1 413", b"")


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
    protocol = HttpProtocol(connections)
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
    idle, busy = HttpProtocol(connections), HttpProtocol(connections)
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
    protocol, transport = HttpProtocol(connections), FakeTransport()
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
        protocol, transport = HttpProtocol(connections), FakeTransport()
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
    """Nobody gets more than is still free: one user half, another a third, and there is room for one more."""
    monkeypatch.setattr(limits, "RECEIVED_BYTES", 600_000)
    connections = Connections(echo, users)

    async def send(user: bytes, size: int) -> FakeTransport:
        head = (
            b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: " + user + b"\r\nContent-Length: 1000000\r\n\r\n"
        )
        return await converse(connections, head, b"x" * size)

    first, second, third = [await send(b"jane", 150_000) for _ in range(3)]
    assert (first.closed, second.closed, third.closed) == (False, False, True)
    assert third.sent.startswith(b"HTTP/1.1 429") and b"Retry-After: 1" in third.sent
    joe, ann = await send(b"joe", 150_000), await send(b"ann", 60_000)
    assert (joe.closed, ann.closed) == (False, False)
    for transport in (first, second, joe, ann):
        transport.protocol.connection_lost(None)
    assert connections.received_bytes == 0 and not connections._received_of


async def test_pipelined_requests_wait_until_the_reader_has_taken_the_answer():
    handled = []

    async def handle(request: Request) -> Response:
        handled.append(request.path)
        return Response(200, b"x" * 100_000)

    connections = Connections(handle)
    protocol, transport = HttpProtocol(connections), SlowTransport()
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


async def test_a_list_is_joined_as_its_reader_takes_it():
    items = [b"[" + b"x" * 9_999, *[b"y" * 10_000] * 30, b"z]"]

    async def handle(request: Request) -> Response:
        return ListResponse(200, items)

    connections = Connections(handle)
    protocol, transport = HttpProtocol(connections), SlowTransport()
    protocol.connection_made(transport)
    transport.protocol = protocol
    protocol.data_received(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
    sizes = []
    for _ in range(6):
        for _ in range(10):
            await asyncio.sleep(0)
        sizes.append(len(transport.sent))
        protocol.resume_writing()
    for _ in range(10):
        await asyncio.sleep(0)
    assert sizes == sorted(set(sizes)) and sizes[0] < 80_000 and connections.unsent_bytes == 0
    head, _, body = bytes(transport.sent).partition(b"\r\n\r\n")
    assert body == b",".join(items) and head.endswith(b"Content-Length: %d" % len(body))


async def test_too_many_pipelined_requests_end_the_connection():
    async def never(request: Request) -> Response:
        await asyncio.sleep(3600)
        raise AssertionError

    transport = await talk(never, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n" * (limits.MOST_PIPELINED + 2))
    assert transport.closed


async def asked_by_slow_readers(
    connections: Connections, count: int, after_second: bool = False
) -> list[SlowTransport]:
    """Ask once on each of *count* connections; the first reader takes a slice *after_second* has asked."""
    transports: list[SlowTransport] = []
    for number in range(count):
        protocol, transport = HttpProtocol(connections), SlowTransport()
        protocol.connection_made(transport)
        transport.protocol = protocol
        transports.append(transport)
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(20):
            await asyncio.sleep(0)
        if number == 1 and after_second:
            transports[0].protocol.resume_writing()
            for _ in range(20):
                await asyncio.sleep(0)
    return transports


async def test_the_reader_that_was_slow_for_longest_is_cut_off_when_answers_pile_up(monkeypatch):
    monkeypatch.setattr(limits, "UNSENT_BYTES", 300_000)

    async def large(request: Request) -> Response:
        return Response(200, b"x" * 200_000)

    transports = await asked_by_slow_readers(Connections(large), 3)
    assert [transport.closed for transport in transports] == [True, True, False]


async def test_who_takes_nothing_is_cut_off_before_who_takes_slowly(monkeypatch):
    monkeypatch.setattr(limits, "UNSENT_BYTES", 550_000)

    async def large(request: Request) -> Response:
        return Response(200, b"x" * 200_000)

    transports = await asked_by_slow_readers(Connections(large), 3, after_second=True)
    assert [transport.closed for transport in transports] == [False, True, False]


async def test_lists_that_many_read_at_once_do_not_pile_up(monkeypatch):
    """Their items are the store's: ten readers of a large list hold no more memory than one."""
    monkeypatch.setattr(limits, "UNSENT_BYTES", 12 * limits.SLICE_BYTES)
    items = [b"[" + b"x" * 9_999, *[b"y" * 10_000] * 100, b"z]"]

    async def large(request: Request) -> Response:
        return ListResponse(200, items)

    connections = Connections(large)
    transports = await asked_by_slow_readers(connections, 10)
    assert not any(transport.closed for transport in transports)
    assert connections.unsent_bytes == 10 * limits.SLICE_BYTES


async def test_what_waits_over_tls_counts_as_often_as_it_is_held(monkeypatch):
    without_certificate = SimpleNamespace(getpeercert=lambda binary_form: None)
    told = {"ssl_object": without_certificate}
    monkeypatch.setattr(SlowTransport, "get_extra_info", lambda self, name: told.get(name))

    async def large(request: Request) -> Response:
        return ListResponse(200, [b"[" + b"x" * 9_999, *[b"y" * 10_000] * 100, b"z]"])

    connections = Connections(large)
    await asked_by_slow_readers(connections, 2)
    assert connections.unsent_bytes == 2 * limits.TLS_COPIES * limits.SLICE_BYTES


async def test_an_answer_nobody_takes_is_given_up():
    async def large(request: Request) -> Response:
        return Response(200, b"x" * 200_000)

    connections = Connections(large)
    protocol, transport = HttpProtocol(connections), SlowTransport()
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
    connections = Connections(echo, users)
    known = await converse(connections, b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: jane\r\n\r\n")
    strangers = [await converse(connections, b"GET / HTTP/1.1\r\nHo") for _ in range(5)]
    assert [stranger.closed for stranger in strangers] == [True, True, False, False, False]
    assert not known.closed


async def test_more_connections_may_be_silent_than_speak_without_a_credential(monkeypatch):
    """Many that came at once have a moment to show one, and a stranger's words cut off no silent one."""
    monkeypatch.setattr(limits, "MOST_UNPROVEN", 2)
    monkeypatch.setattr(limits, "MOST_SILENT_PLAIN", 4)
    connections = Connections(echo, users)
    silent = [await converse(connections) for _ in range(6)]
    assert [each.closed for each in silent] == [True, True, False, False, False, False]
    for each in silent[2:5]:
        each.protocol.data_received(b"GET / HT")
    assert [each.closed for each in silent[2:]] == [True, False, False, False]
    silent[5].protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: jane\r\n\r\n")
    assert not any(each.closed for each in silent[3:])


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
    connections = Connections(echo, users)
    polite = await converse(connections, head, *[b"x" * 10_000] * 20)
    rude = await converse(connections, head, *[b"x" * 100_000] * 3)
    assert (polite.reading, rude.reading) == (True, False)
    # The answer and its end are there, and the client has a moment to read them.
    assert (rude.sent[:12], rude.ended, rude.closed) == (b"HTTP/1.1 200", True, False)


async def test_a_refused_client_that_still_writes_is_broken_off_and_another_closed(monkeypatch):
    """To close a connection over TLS takes half a minute when its client sends no end of its own."""
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0)
    monkeypatch.setattr(FakeTransport, "abort", lambda transport: aborted.append(transport))
    aborted: list[FakeTransport] = []
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {10**9}\r\n\r\n".encode()
    polite = await converse(Connections(echo, users), head, *[b"x" * 10_000] * 20)
    rude = await converse(Connections(echo, users), head, *[b"x" * 100_000] * 3)
    await settled()
    assert (polite.closed, aborted) == (True, [rude])


async def test_a_client_that_does_not_take_the_end_of_its_answer_is_cut_off():
    connections = Connections(echo)
    transport = await converse(connections, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    aborted = []
    transport.abort = lambda: aborted.append(True)
    now = asyncio.get_running_loop().time()
    connections.sweep(now + limits.SENDING_SECONDS - 1)
    early = list(aborted)
    connections.sweep(now + limits.SENDING_SECONDS + 1)
    assert (transport.closed, early, aborted) == (True, [], [True])


@pytest.mark.parametrize(
    "head, code",
    [
        (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 3000, b"431"),
        (b"GET / HTTP/1.1\r\n" + b"Impersonate-Group: a\r\n" * 1500, b"431"),
        (b"GET /" + b"%41" * 5000 + b" HTTP/1.1\r\n", b"414"),
        (b"GET /a?" + b"&a" * 1500 + b" HTTP/1.1\r\n", b"400"),
        (b"GET /healthz?" + b"&exclude=a" * 1500 + b" HTTP/1.1\r\n", b"400"),
        (b"GET /a?a=" + b"%41" * 5000 + b" HTTP/1.1\r\n", b"401"),
    ],
)
async def test_a_head_that_is_only_work_is_not_looked_at(head, code):
    """All of them are shorter than a head may be, and none says who asks."""
    asked = []

    async def handle(request: Request) -> Response:
        asked.append(request)
        return Response(200, b"")

    assert len(head) < HEAD_BYTES
    transport = await converse(Connections(handle, users), head + b"Host: x\r\n\r\n")
    assert (bytes(transport.sent[9:12]), asked, transport.ended) == (code, [], True)


async def test_a_known_user_may_ask_with_a_long_query_and_in_many_groups():
    head = b"GET /a?labelSelector=" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: x\r\nAuthorization: jane\r\n"
    head += b"Impersonate-Group: abc\r\n" * 400
    transport = await converse(Connections(echo, users), head + b"\r\n")
    assert transport.sent.startswith(b"HTTP/1.1 200")


async def test_a_stranger_with_a_long_query_is_told_so_as_any_other():
    transport = await converse(
        Connections(echo, users), b"GET /a?" + b"b" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    status = json.loads(transport.sent.partition(b"\r\n\r\n")[2])
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 401, "Unauthorized")


async def test_an_upgrade_is_answered_as_an_ordinary_request_and_closed():
    transport = await talk(
        echo, b"GET /up HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    assert transport.sent.endswith(b"GET /up? 0") and transport.closed


async def test_a_head_as_long_as_allowed_is_read():
    transport = await talk(
        echo, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * (HEAD_BYTES - 150) + b"\r\n\r\n"
    )
    assert transport.sent.startswith(b"HTTP/1.1 200")


# ------------------------------------------------------------------------------------------ large bodies take places

LARGE = limits.LARGE_BODY_BYTES


def large_head(user: str, length: int = LARGE, *more: str) -> bytes:
    lines = ["POST /api HTTP/1.1", "Host: x", f"Authorization: {user}", f"Content-Length: {length}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Held:
    """A server whose answers are given when the test says so."""

    def __init__(self, monkeypatch) -> None:
        monkeypatch.setattr(limits, "MOST_LARGE_OF_ONE_USER", 2)
        self.begun: list[asyncio.Future[None]] = []
        self.connections = Connections(self.handle, self.prove)

    @staticmethod
    def prove(request: Request) -> User | None:
        found = users(request)
        return User("root", groups=(MASTERS,)) if found is not None and found.name == "root" else found

    async def handle(self, request: Request) -> Response:
        done = asyncio.get_running_loop().create_future()
        self.begun.append(done)
        await done
        return Response(200, b"%d" % len(request.body))

    async def send(self, *pieces: bytes) -> FakeTransport:
        return await converse(self.connections, *pieces)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_large_body_is_read_when_its_user_has_a_place(monkeypatch):
    held = Held(monkeypatch)
    for _ in range(2):
        await held.send(large_head("jane"), b"x" * LARGE)
    waits = await held.send(large_head("jane", LARGE, "Expect: 100-continue"))
    assert (len(held.begun), waits.reading, waits.sent) == (2, False, b"")
    others = await held.send(large_head("joe"), b"x" * LARGE)
    small = await held.send(large_head("jane", 9), b"x" * 9)
    assert (len(held.begun), others.reading, small.reading) == (4, True, True)
    held.begun[0].set_result(None)
    await settled()
    assert (waits.reading, bytes(waits.sent)) == (True, b"HTTP/1.1 100 Continue\r\n\r\n")
    waits.protocol.data_received(b"x" * LARGE)
    await settled()
    held.begun[-1].set_result(None)
    await settled()
    assert waits.sent.endswith(b"\r\n%d" % LARGE)


async def test_a_large_body_that_is_here_already_waits_all_the_same(monkeypatch):
    held = Held(monkeypatch)
    sent = [await held.send(large_head("jane") + b"x" * LARGE) for _ in range(3)]
    assert (len(held.begun), sent[2].reading) == (2, False)
    held.begun[1].set_result(None)
    await settled()
    assert (len(held.begun), sent[2].reading) == (3, True)


async def test_a_body_of_unknown_length_counts_as_large(monkeypatch):
    held = Held(monkeypatch)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: jane\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent = [await held.send(head) for _ in range(3)]
    assert [transport.reading for transport in sent] == [True, True, False]


async def test_an_administrator_needs_no_place(monkeypatch):
    held = Held(monkeypatch)
    for _ in range(5):
        await held.send(large_head("root"), b"x" * LARGE)
    assert len(held.begun) == 5


async def test_who_leaves_gives_the_place_away_and_who_left_the_line_gets_none(monkeypatch):
    held = Held(monkeypatch)
    first, _, gone, waits = [await held.send(large_head("jane")) for _ in range(4)]
    gone.protocol.connection_lost(None)
    assert not waits.reading
    first.protocol.connection_lost(None)
    assert waits.reading
    for transport in (_, waits):
        transport.protocol.connection_lost(None)
    large = held.connections.large
    assert (large._whose, large._count, large._waiting) == ({}, {}, {})


async def test_who_waits_too_long_for_a_place_is_refused_and_leaves_the_line(monkeypatch):
    held = Held(monkeypatch)
    _, _, waits = [await held.send(large_head("jane") + b"x" * LARGE) for _ in range(3)]
    now = asyncio.get_running_loop().time()
    held.connections.sweep(now + limits.PLACE_SECONDS - 1)
    early = bytes(waits.sent)
    held.connections.sweep(now + limits.PLACE_SECONDS + 1)
    await settled()
    assert (early, waits.sent[:12], waits.ended) == (b"", b"HTTP/1.1 429", True)
    for done in held.begun:
        done.set_result(None)
    await settled()
    assert len(held.begun) == 2 and held.connections.received_bytes == 0


async def test_more_than_may_wait_for_a_place_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(limits, "MOST_LARGE_WAITING", 1)
    held = Held(monkeypatch)
    _, first, waits, refused = [await held.send(large_head("jane") + b"x" * LARGE) for _ in range(4)]
    assert (waits.sent, refused.sent[:12], refused.ended) == (b"", b"HTTP/1.1 429", True)
    first.protocol.data_received(large_head("jane") + b"y" * LARGE)  # it has its place already
    held.begun[1].set_result(None)
    await settled()
    assert first.sent.startswith(b"HTTP/1.1 200") and len(held.begun) == 3
    held.begun[0].set_result(None)
    await settled()
    assert len(held.begun) == 4  # the one that waited; who was refused left the line
    for done in held.begun[2:]:
        done.set_result(None)
    await settled()
    large = held.connections.large
    assert (large._whose, large._count, large._waiting) == ({}, {}, {})


async def test_a_place_is_kept_for_a_request_behind_another_of_its_connection(monkeypatch):
    held = Held(monkeypatch)
    pair = await held.send(large_head("jane") + b"x" * LARGE + large_head("jane") + b"y" * LARGE)
    await held.send(large_head("jane"))
    waits = await held.send(large_head("jane"))
    held.begun[0].set_result(None)
    await settled()
    assert (len(held.begun), waits.reading) == (2, False)
    held.begun[1].set_result(None)
    await settled()
    assert (pair.sent.count(b"HTTP/1.1 200"), waits.reading) == (2, True)


async def test_a_large_body_of_somebody_who_may_not_is_not_read():
    seen = []

    async def handle(request: Request) -> Response:
        seen.append((request.unread, request.body))
        return Response(403, b"")

    connections = Connections(handle, users, allows=lambda request: request.method == "GET")
    large = await converse(connections, large_head("jane", 3_000_000), *[b"x" * 100_000] * 3)
    small = await converse(connections, large_head("jane", 9), b"x" * 9)
    assert seen == [(True, b""), (False, b"x" * 9)]
    assert (large.reading, large.sent[:12], connections.received_bytes) == (False, b"HTTP/1.1 403", 0)
    assert small.sent.startswith(b"HTTP/1.1 403")
