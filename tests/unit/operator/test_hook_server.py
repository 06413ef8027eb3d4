"""Webhook calls over TLS: what is answered, what is not, and that the end is the end."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

import msgspec
import pytest

from weir.operator import hook_server
from weir.operator.certificates import renewed
from weir.operator.hook_server import serving


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
    if path == "/broken":
        raise ValueError("a bug")
    return {"path": path, "uid": review["request"]["uid"]}


def talk(contexts, *requests, ready=True, end_first=False):
    """Return what one connection answers to each request; b"" once it is closed."""
    server_tls, client_tls = contexts

    async def main():
        answers = []
        async with serving(echo, lambda: ready, "127.0.0.1", 0, server_tls) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_tls)
            for request in requests:
                writer.write(request)
                await writer.drain()
                answers.append(await one(reader))
        if end_first:
            answers.append(await asyncio.wait_for(reader.read(), 10))
        writer.close()
        return answers

    async def one(reader):
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        except asyncio.IncompleteReadError:
            return b""
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return head.split(b"\r\n")[0] + b" " + await reader.readexactly(length)

    return asyncio.run(main())


def post(path, body, *headers):
    lines = [f"POST {path}?timeout=10s HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join((*lines, "", "")).encode() + body


REVIEW = msgspec.json.encode({"request": {"uid": "u"}})


def test_reviews_are_answered_one_after_the_other_on_one_connection(contexts):
    expected = b'HTTP/1.1 200 OK {"path":"/pods","uid":"u"}'
    assert talk(contexts, post("/pods", REVIEW), post("/pods", REVIEW)) == [expected, expected]


def test_a_body_in_chunks_is_read(contexts):
    head = b"POST /pods HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"5\r\n" + REVIEW[:5] + b"\r\n%x\r\n" % len(REVIEW[5:]) + REVIEW[5:] + b"\r\n0\r\n\r\n"
    assert talk(contexts, head + chunks)[0].startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "request_, start",
    [
        (post("/pods", b"nonsense"), b"HTTP/1.1 400"),
        (post("/pods", b"{}"), b"HTTP/1.1 400"),
        (post("/broken", REVIEW), b"HTTP/1.1 500 Internal Server Error a bug"),
        (b"DELETE /pods HTTP/1.1\r\n\r\n", b"HTTP/1.1 405"),
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"HTTP/1.1 404"),
        (b"GET /readyz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK ok"),
        (b"hello\r\n\r\n", b"HTTP/1.1 400"),
        (b"POST /pods HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"HTTP/1.1 413"),
    ],
)
def test_anything_else_gets_a_clear_code(contexts, request_, start):
    assert talk(contexts, request_)[0].startswith(start)


def test_a_replica_that_does_not_know_the_cluster_yet_says_so(contexts):
    answers = talk(contexts, post("/pods", REVIEW), b"GET /livez HTTP/1.1\r\n\r\n", ready=False)
    assert answers[0].startswith(b"HTTP/1.1 503") and answers[1].startswith(b"HTTP/1.1 200")


def test_open_connections_end_with_the_server(contexts):
    assert talk(contexts, post("/pods", REVIEW), end_first=True)[-1] == b""


# ------------------------------------------------------------------------------------------------ who sends without end


@pytest.mark.parametrize(
    "request_, code",
    [
        (b"POST /pods HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"413"),
        (b"POST /pods HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffff\r\n", b"413"),
        (b"POST /pods HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"9" * 70_000 + b"\r\n", b"400"),
        (b"POST /pods HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 20_000, b"400"),
        (b"POST /pods HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a" * 70_000 + b"\r\n", b"400"),
    ],
)
def test_a_body_that_never_ends_is_refused(contexts, request_, code):
    (answer,) = talk(contexts, request_)
    assert answer[9:12] == code


def test_bodies_of_one_address_leave_room_for_another(contexts, monkeypatch):
    monkeypatch.setattr(hook_server, "_ALL_BODIES", 400_000)
    server_tls, client_tls = contexts

    async def main():
        async with serving(echo, lambda: True, "127.0.0.1", 0, server_tls) as port:

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
            first = await asyncio.wait_for(refused.readline(), 10)
            other = await send(post("/pods", REVIEW), "127.0.0.2")
            second = await asyncio.wait_for(other.readline(), 10)
            for writer in writers:
                writer.transport.abort()
            return first, second

    first, second = asyncio.run(main())
    assert (first[9:12], second[9:12]) == (b"503", b"200")


def test_too_many_connections_make_room_for_another(contexts, monkeypatch):
    monkeypatch.setattr(hook_server, "_MOST_CONNECTIONS", 3)
    server_tls, client_tls = contexts

    async def main():
        async with serving(echo, lambda: True, "127.0.0.1", 0, server_tls) as port:
            opened = [await asyncio.open_connection("127.0.0.1", port, ssl=client_tls) for _ in range(5)]
            gone = await asyncio.wait_for(opened[0][0].read(), 10)
            reader, writer = opened[-1]
            writer.write(post("/pods", REVIEW))
            answer = await asyncio.wait_for(reader.readline(), 10)
            for _, writer in opened:
                writer.transport.abort()
            return gone, answer

    gone, answer = asyncio.run(main())
    assert (gone, answer[9:12]) == (b"", b"200")
