"""Webhook calls over TLS: what is answered, what is not, and that the end is the end."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

import msgspec
import pytest

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
