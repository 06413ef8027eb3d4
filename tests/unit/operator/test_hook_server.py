"""Webhook calls over TLS: the API server is answered, anybody else refused by the head, and the end is the end."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from weir.certificates import issue, make_authority, subject_name
from weir.cli.operator import _ask_for_certificates
from weir.observe import http_server
from weir.operator import hook_server
from weir.operator.certificates import renewed
from weir.operator.hook_server import REFUSALS, Callers, serving

SECRET = "0123456789ab" * 4
CALLERS = Callers(lambda secret: secret == SECRET)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    made = renewed(None, ["127.0.0.1"], datetime.now(UTC))
    folder = tmp_path_factory.mktemp("tls")
    (folder / "c").write_bytes(made.leaf)
    (folder / "k").write_bytes(made.leaf_key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "c", folder / "k")
    return server, ssl.create_default_context(cadata=made.authority.decode())


async def echo(path, review):
    if path == "/templates":
        raise ValueError("a bug")
    return {"path": path, "uid": review["request"]["uid"]}


def talk(contexts, *requests, ready=True, end_first=False, callers=CALLERS):
    """Return what one connection answers to each request; b"" once it is closed."""
    server_tls, client_tls = contexts

    async def main():
        answers = []
        async with serving(echo, lambda: ready, "127.0.0.1", 0, server_tls, callers) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_tls)
            for request in requests:
                writer.write(request)
                with suppress(ConnectionError):
                    await writer.drain()
                answers.append(await one(reader))
        if end_first:
            answers.append(await asyncio.wait_for(reader.read(), 60))
        writer.close()
        return answers

    async def one(reader):
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return head.split(b"\r\n")[0] + b" " + await reader.readexactly(length)

    return asyncio.run(main())


def post(path, body, *headers, secret=SECRET):
    lines = [
        f"POST /{secret}{path}?timeout=10s HTTP/1.1",
        "Host: x",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join((*lines, "", "")).encode() + body


AT_PODS = f"POST /{SECRET}/pods HTTP/1.1\r\n".encode()
REVIEW = msgspec.json.encode({"request": {"uid": "u"}})


def test_reviews_are_answered_one_after_the_other_on_one_connection(contexts):
    expected = b'HTTP/1.1 200 OK {"path":"/pods","uid":"u"}'
    assert talk(contexts, post("/pods", REVIEW), post("/pods", REVIEW)) == [expected, expected]


def test_a_body_in_chunks_is_read(contexts):
    head = b"POST /%s/pods HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % SECRET.encode()
    chunks = b"5\r\n" + REVIEW[:5] + b"\r\n%x\r\n" % len(REVIEW[5:]) + REVIEW[5:] + b"\r\n0\r\n\r\n"
    assert talk(contexts, head + chunks)[0].startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "request_, start",
    [
        (post("/pods", b"nonsense"), b"HTTP/1.1 400"),
        (post("/pods", b"{}"), b"HTTP/1.1 400"),
        (post("/templates", REVIEW), b"HTTP/1.1 500 Internal Server Error a bug"),
        (b"DELETE /pods HTTP/1.1\r\n\r\n", b"HTTP/1.1 405"),
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"HTTP/1.1 404"),
        (b"GET /readyz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK ok"),
        (b"hello\r\n\r\n", b"HTTP/1.1 400"),
        (b"GET /readyz HTTP/1.1\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 400"),
        (b"POST /livez HTTP/1.1\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 404"),
        (post("", b"x" * 99, "Content-Length: 99", secret=SECRET), b"HTTP/1.1 400"),
        (post("/pods", b"", "Transfer-Encoding: chunked"), b"HTTP/1.1 400"),
        (post("/pods", b"", "Transfer-Encoding: gzip"), b"HTTP/1.1 400"),
        (b"POST /pods HTTP/1.1\r\nContent-Length : 5\r\n\r\n", b"HTTP/1.1 400"),
        (post("/pods", b"[" * 100_000), b"HTTP/1.1 400"),
        (
            post("/pods", b'{"request":{"object":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_002),
            b"HTTP/1.1 400",
        ),
        (post("/pods", b'{"request":5,"request":{"uid":"u"}}'), b"HTTP/1.1 400"),
        (post("/pods", b'{"request":{"uid":"u"},"request":5}'), b"HTTP/1.1 400"),
        (post("/pods", b'{"request":{"uid":"\\ud800"}}'), b"HTTP/1.1 400"),
        (post("/pods", b'{"request":{"object":{"metadata":[]}}}'), b"HTTP/1.1 400"),
        (f"POST /{SECRET}/pods HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n".encode(), b"HTTP/1.1 413"),
    ],
)
def test_anything_else_gets_a_clear_code(contexts, request_, start):
    assert talk(contexts, request_)[0].startswith(start)


def test_a_replica_that_does_not_know_the_cluster_yet_says_so(contexts):
    (answer,) = talk(contexts, post("/pods", REVIEW), ready=False)
    (alive,) = talk(contexts, b"GET /livez HTTP/1.1\r\n\r\n", ready=False)
    assert answer.startswith(b"HTTP/1.1 503") and alive.startswith(b"HTTP/1.1 200")


def test_open_connections_end_with_the_server(contexts):
    assert talk(contexts, post("/pods", REVIEW), end_first=True)[-1] == b""


# ------------------------------------------------------------------------------------------------ who sends without end


@pytest.mark.parametrize(
    "request_, code",
    [
        (AT_PODS + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", b"413"),
        (AT_PODS + b"Transfer-Encoding: chunked\r\n\r\nfffffffffff\r\n", b"413"),
        (AT_PODS + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\n", b"400"),
        (AT_PODS + b"Transfer-Encoding: chunked\r\n\r\n" + b"9" * 70_000 + b"\r\n", b"400"),
        (AT_PODS + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 20_000, b"400"),
        (AT_PODS + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a" * 70_000 + b"\r\n", b"400"),
    ],
)
def test_a_body_that_never_ends_is_refused(contexts, request_, code):
    (answer,) = talk(contexts, request_)
    assert answer[9:12] == code


CHUNKED = AT_PODS + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = b"%x\r\n%s\r\n0\r\n\r\n" % (len(REVIEW), REVIEW)
LENGTH = b"Content-Length: %d\r\n" % len(REVIEW)


def sized(text: bytes) -> bytes:
    """Return the review in one chunk whose size stands there so."""
    return CHUNKED + WHOLE.replace(b"%x" % len(REVIEW), text, 1)


@pytest.mark.parametrize(
    "request_",
    [
        sized(b"%X" % len(REVIEW)),
        sized(b"00%x" % len(REVIEW)),
        sized(b"%x;name=value" % len(REVIEW)),
        sized(b"%x ;a" % len(REVIEW)),
        CHUNKED + WHOLE[:-2] + b"Trailer: Content-Length: 5\r\n\r\n",
        AT_PODS + b"Host: x\r\nExpect: 100-continue\r\n" + LENGTH + b"\r\n" + REVIEW,
        AT_PODS + b"CONTENT-LENGTH: \t00%d \r\n\r\n" % len(REVIEW) + REVIEW,
    ],
)
def test_a_head_that_every_reader_understands_alike_is_answered(contexts, request_):
    assert talk(contexts, request_)[0].startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "request_",
    [
        sized(b"+%x" % len(REVIEW)),
        sized(b"-0"),
        sized(b"0x%x" % len(REVIEW)),
        sized(b"0_%x" % len(REVIEW)),
        sized(b" %x" % len(REVIEW)),
        sized(b""),
        sized(b"g"),
        CHUNKED + WHOLE.replace(b"\r\n", b"\n"),
        CHUNKED + WHOLE.replace(REVIEW + b"\r\n", REVIEW + b"ab"),
        AT_PODS + b"X: a\n" + LENGTH + b"\r\n" + REVIEW,
        AT_PODS + b"X: a\r" + LENGTH + b"\r\n" + REVIEW,
        AT_PODS + b"X: a\0b\r\n" + LENGTH + b"\r\n" + REVIEW,
        AT_PODS + b"X: a\r\n " + LENGTH + b"\r\n" + REVIEW,
        AT_PODS + b": a\r\n" + LENGTH + b"\r\n" + REVIEW,
        AT_PODS + b"Host: x\r\nHost: y\r\n" + LENGTH + b"\r\n" + REVIEW,
        AT_PODS + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + WHOLE,
        AT_PODS + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + WHOLE,
        AT_PODS.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + WHOLE,
        AT_PODS.replace(b" HTTP", b"\t HTTP") + LENGTH + b"\r\n" + REVIEW,
        AT_PODS.replace(b"1.1", b"2.0") + LENGTH + b"\r\n" + REVIEW,
        AT_PODS + LENGTH.replace(b": ", b": +") + b"\r\n" + REVIEW,
        AT_PODS + LENGTH.replace(b": ", b": 0x") + b"\r\n" + REVIEW,
        AT_PODS + b"Content-Length: \xb2\r\n\r\n" + REVIEW,
        AT_PODS + LENGTH * 2 + b"\r\n" + REVIEW,
    ],
)
def test_what_two_readers_might_understand_differently_is_refused(contexts, request_):
    answer, *more = talk(contexts, request_, end_first=True)
    assert answer.startswith(b"HTTP/1.1 400") and more == [b""]


def test_bodies_of_one_address_leave_room_for_another(contexts, monkeypatch):
    monkeypatch.setattr(hook_server, "_ALL_BODIES", 400_000)
    server_tls, client_tls = contexts

    async def main():
        async with serving(echo, lambda: True, "127.0.0.1", 0, server_tls, CALLERS) as port:

            async def send(request: bytes, source: str) -> asyncio.StreamReader:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=client_tls, local_addr=(source, 0), server_hostname="127.0.0.1"
                )
                writer.write(request)
                await writer.drain()
                writers.append(writer)
                return reader

            writers: list[asyncio.StreamWriter] = []
            large = post("/pods", b"x" * 1_000_000)
            for _ in range(4):  # more than half of the room, none of them whole
                await send(large[:90_000], "127.0.0.1")
            refused = await send(large, "127.0.0.1")
            first = await asyncio.wait_for(refused.readline(), 60)
            other = await send(post("/pods", REVIEW), "127.0.0.2")
            second = await asyncio.wait_for(other.readline(), 60)
            for writer in writers:
                writer.transport.abort()
            return first, second

    first, second = asyncio.run(main())
    assert (first[9:12], second[9:12]) == (b"503", b"200")


def test_too_many_connections_make_room_for_another(contexts, monkeypatch):
    monkeypatch.setattr(hook_server, "_MOST_STRANGERS", 3)
    monkeypatch.setattr(hook_server, "_STRANGER_SECONDS", 600)
    server_tls, client_tls = contexts

    async def main():
        async with serving(echo, lambda: True, "127.0.0.1", 0, server_tls, CALLERS) as port:
            opened = [await asyncio.open_connection("127.0.0.1", port, ssl=client_tls) for _ in range(5)]
            gone = await asyncio.wait_for(opened[0][0].read(), 60)
            reader, writer = opened[-1]
            writer.write(post("/pods", REVIEW))
            answer = await asyncio.wait_for(reader.readline(), 60)
            for _, writer in opened:
                writer.transport.abort()
            return gone, answer

    gone, answer = asyncio.run(main())
    assert (gone, answer[9:12]) == (b"", b"200")


# ── who is not the API server ────────────────────────────────────────────────────────────────────


class Reading:
    """Remembers every piece of a body that the server has read."""

    def __init__(self, monkeypatch) -> None:
        self.bytes = 0
        read = http_server.Body.read

        async def counted(body, size):
            try:
                await read(body, size)
            finally:
                self.bytes += len(body.content)

        monkeypatch.setattr(http_server.Body, "read", counted)


@pytest.mark.parametrize(
    "secret, path",
    [
        ("", "pods"),
        ("0" * 48, "/pods"),
        (SECRET[:-1], "/pods"),
        (SECRET + "0", "/pods"),
        (SECRET.upper(), "/pods"),
        ("%30" + SECRET[1:], "/pods"),
        (SECRET, "/nothing"),
        (SECRET, "//pods"),
        (SECRET, "/pods/"),
        (SECRET, "/" + "z" * 10_000),
        ("\xe9\xff", "/pods"),
    ],
)
def test_a_stranger_is_refused_before_the_body_is_read_and_the_connection_ends(
    contexts, monkeypatch, secret, path
):
    reading, why = Reading(monkeypatch), []
    callers = Callers(CALLERS.admits, refused=why.append)
    request = post(path, REVIEW, secret=secret).decode().encode("latin-1")
    answers = talk(contexts, request, post("/pods", REVIEW), callers=callers)
    assert answers[0][9:12] == b"404" and answers[1] == b"", "and nothing more is heard on it"
    assert (reading.bytes, why) == (0, ["path"])


@pytest.mark.parametrize(
    "before, after, code",
    [
        (b"POST /", b"POST http://x/", b"404"),
        (b"/pods?", b"/x/../pods?", b"404"),
        (SECRET.encode() + b"/pods?", b"pods?secret=" + SECRET.encode() + b"&", b"404"),
        (b"HTTP/1.1", b"HTTP/2.0", b"400"),
        (b"Host: x", b"X-A: b\r\n folded", b"400"),
        (SECRET.encode(), b"0" * 48, b"404"),
    ],
)
@pytest.mark.parametrize("more", ["Expect: 100-continue", "Connection: Upgrade", "Content-Encoding: gzip"])
def test_no_other_form_of_a_head_is_heard(contexts, monkeypatch, before, after, code, more):
    reading = Reading(monkeypatch)
    request = post("/pods", REVIEW, more).replace(before, after, 1)
    answers = talk(contexts, request, post("/pods", REVIEW))
    assert (answers[0][9:12], answers[1], reading.bytes) == (code, b"", 0)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "post", "CONNECT"])
def test_other_methods_are_refused_before_the_body_is_read(contexts, monkeypatch, method):
    reading = Reading(monkeypatch)
    answers = talk(contexts, post("/pods", REVIEW).replace(b"POST", method.encode(), 1))
    assert answers[0][9:12] == b"405" and reading.bytes == 0


def test_reasons_of_refusals_are_a_fixed_set(contexts):
    why: list[str] = []
    callers = Callers(CALLERS.admits, frozenset({"nobody"}), why.append)
    for request in (
        post("/pods", REVIEW),
        b"hello\r\n\r\n",
        post("/x", REVIEW),
        b"PUT /x HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nContent-Length: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * 40_000 + b"\r\n\r\n",
    ):
        talk(contexts, request, callers=callers)
    assert why == ["name", "head", "path", "method", "body", "head"]
    assert set(why) <= set(REFUSALS)


def test_strangers_never_take_the_place_of_the_api_server(contexts, monkeypatch):
    """However many come from its own address, a connection that has proven itself stays, busy or idle."""
    monkeypatch.setattr(hook_server, "_MOST_STRANGERS", 2)
    server_tls, client_tls = contexts
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(path, review):
        asked.set()
        await goes_on.wait()
        return {"uid": review["request"]["uid"]}

    async def main():
        async with serving(slow, lambda: True, "127.0.0.1", 0, server_tls, CALLERS) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_tls)
            writer.write(post("/pods", REVIEW))
            await asyncio.wait_for(asked.wait(), 60)
            flood = [await asyncio.open_connection("127.0.0.1", port, ssl=client_tls) for _ in range(12)]
            goes_on.set()
            first = await asyncio.wait_for(reader.readuntil(b"}"), 60)
            writer.write(post("/pods", REVIEW))
            second = await asyncio.wait_for(reader.readuntil(b"}"), 60)
            for _, each in (*flood, (reader, writer)):
                each.transport.abort()
            return first[9:12], second[9:12]

    assert asyncio.run(main()) == (b"200", b"200")


def test_a_stranger_has_little_time(contexts, monkeypatch):
    monkeypatch.setattr(hook_server, "_STRANGER_SECONDS", 0.05)
    server_tls, client_tls = contexts

    async def main():
        async with serving(echo, lambda: True, "127.0.0.1", 0, server_tls, CALLERS) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_tls)
            writer.write(b"POST /pods HT")
            found = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            return found

    assert asyncio.run(main()) == b""


def test_a_stranger_that_is_gone_leaves_nothing_for_the_collector(contexts):
    """A connection has buffers of a quarter of a megabyte, and components look for cycles rarely."""
    server_tls, client_tls = contexts
    requests = (post("/x", b"x" * 300_000), b"hello\r\n\r\n", b"POST", b"GET /readyz HTTP/1.1\r\n\r\n")

    def connections() -> int:
        return sum(1 for each in gc.get_objects() if type(each) is SSLProtocol)

    def visit(port: int) -> None:
        for request in requests * 5:
            with socket.create_connection(("127.0.0.1", port)) as plain, suppress(OSError):
                secure = client_tls.wrap_socket(plain, server_hostname="127.0.0.1")
                secure.sendall(request)
                secure.close()

    async def main() -> int:
        async with serving(echo, lambda: True, "127.0.0.1", 0, server_tls, CALLERS) as port:
            await asyncio.to_thread(visit, port)
            async with asyncio.timeout(60):
                while connections() > before:
                    await asyncio.sleep(0.01)
        return connections()

    gc.collect()
    before = connections()
    gc.disable()
    try:
        assert asyncio.run(main()) == before
    finally:
        gc.enable()


# ── client certificates ──────────────────────────────────────────────────────────────────────────


def client(folder, trusted, name, *, of=None):
    """Return the files of a client certificate for *name*, of the *trusted* authority or another."""
    now = datetime.now(UTC)
    made = issue(of or trusted, subject_name(name), now, timedelta(days=1), names=[], client=True)
    (folder / f"{name}.crt").write_bytes(made.certificate)
    (folder / f"{name}.key").write_bytes(made.key)
    return folder / f"{name}.crt", folder / f"{name}.key"


def test_only_certificates_of_the_authority_and_for_an_allowed_name_are_heard(tmp_path):
    now = datetime.now(UTC)
    made = renewed(None, ["127.0.0.1"], now)
    trusted, other = (make_authority(name, now, timedelta(days=1)) for name in ("front", "other"))
    (tmp_path / "c").write_bytes(made.leaf)
    (tmp_path / "k").write_bytes(made.leaf_key)
    (tmp_path / "ca").write_bytes(trusted.certificate)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "c", tmp_path / "k")
    _ask_for_certificates(server, tmp_path / "ca")
    callers = Callers(CALLERS.admits, frozenset({"kube-apiserver"}))

    def asked(name, of=None):
        context = ssl.create_default_context(cadata=made.authority.decode())
        if name:
            context.load_cert_chain(*client(tmp_path, trusted, name, of=of))
        try:
            return talk((server, context), post("/pods", REVIEW), callers=callers)[0][9:12]
        except (ssl.SSLError, ConnectionError):
            return b"TLS"

    assert asked("kube-apiserver") == b"200"
    assert asked("somebody") == b"403"
    assert asked("kube-apiserver", of=other) in (b"TLS", b"")
    assert asked("") in (b"TLS", b"")
