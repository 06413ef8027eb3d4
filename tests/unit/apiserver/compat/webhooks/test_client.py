"""Claims about weir.apiserver.compat.webhooks.client, against servers that misbehave on loopback."""

import asyncio
import gzip
import socket
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest

from weir.apiserver.auth import pki
from weir.apiserver.compat.webhooks import client as module
from weir.apiserver.compat.webhooks.client import Endpoint, WebhookClient
from weir.apiserver.compat.webhooks.review import CallFailed
from weir.client import connection

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    return pki.ensure(tmp_path_factory.mktemp("hook"), ["hook.ns.svc"], now=datetime.now(UTC))


@pytest.fixture
async def client():
    opened = WebhookClient()
    yield opened
    await opened.close()


class Server:
    """Sends the bytes it was given to whoever asks, and keeps the heads of the requests."""

    def __init__(self, answer, context):
        self.answer, self.context, self.heads, self.connections = answer, context, [], 0

    async def _serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode())
                await reader.readexactly(2)
                writer.write(self.answer)
                if b"Content-Length" not in self.answer:
                    break
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()


def endpoint(port, credentials, *, path="/", host="127.0.0.1", server_name="hook.ns.svc"):
    return Endpoint(f"https://{server_name}:443{path}", host, port, server_name, credentials.ca_pem)


async def failure(client, where, seconds=5.0):
    with pytest.raises(CallFailed) as raised:
        await client.post(where, b"{}", seconds)
    return str(raised.value)


async def test_two_calls_share_a_connection_and_name_the_host_of_the_url(client, credentials):
    async with Server(OK, pki.serving_context(credentials)) as server:
        where = endpoint(server.port, credentials, path="/a b/ü")
        assert [await client.post(where, b"{}", 5) for _ in range(2)] == [b"{}", b"{}"]
        assert server.connections == 1
        assert server.heads[0].startswith(
            "POST /a%20b/%C3%BC?timeout=5s HTTP/1.1\r\nHost: hook.ns.svc:443\r\n"
        )


async def test_a_redirect_is_a_failure_and_not_followed(client, credentials):
    moved = b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
    async with Server(moved, pki.serving_context(credentials)) as server:
        text = await failure(client, endpoint(server.port, credentials))
        assert text.endswith(
            "the server responded with the status code 302 but did not return more information"
        )
        assert len(server.heads) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "?timeout=5s\": EOF"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "0-length response with status code: 200"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + b"x" * 200, "the answer is larger than 100 bytes"),
        (b"hello\r\n\r\n", "not an HTTP answer"),
    ],
)  # fmt: skip
async def test_an_answer_that_is_none(client, credentials, monkeypatch, answer, text):
    monkeypatch.setattr(module, "MOST_ANSWER_BYTES", 100)
    async with Server(answer, pki.serving_context(credentials)) as server:
        assert text in await failure(client, endpoint(server.port, credentials))


HANGING = {"nothing": b"", "half a head": b"HTTP/1.1 200 OK\r\nContent-", "one byte of its body": b" "}


@pytest.mark.parametrize("how", HANGING)
async def test_a_hook_that_hangs_holds_up_only_its_own_calls(client, credentials, how):
    async def hang(reader, writer):
        await reader.readline()
        if HANGING[how] == b" ":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        writer.write(HANGING[how])
        await reader.read()  # until the caller gives up
        writer.close()

    context = pki.serving_context(credentials)
    hanging = await asyncio.start_server(hang, "127.0.0.1", 0, ssl=context)
    slow = endpoint(hanging.sockets[0].getsockname()[1], credentials)
    async with Server(OK, pki.serving_context(credentials)) as server:
        calls = [asyncio.create_task(failure(client, slow, 1.0)) for _ in range(150)]
        assert await client.post(endpoint(server.port, credentials), b"{}", 5) == b"{}"
        pool = client._pools[slow]
        assert pool._open <= 100, "connections to one endpoint, the other calls wait for one of them"
        assert all(text.endswith("context deadline exceeded") for text in await asyncio.gather(*calls))
    assert (pool._open, len(pool._idle)) == (0, 0)
    hanging.close()


def repeating(*parts: bytes):
    """Return a server that sends the first part, then the others again and again until nobody takes them."""

    async def serve(reader, writer):
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(parts[0])
            for number in range(100_000):  # far more than anybody takes
                writer.write(parts[1 + number % (len(parts) - 1)])
                await writer.drain()
        writer.transport.abort()

    return serve


@asynccontextmanager
async def serving(serve, credentials):
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=pki.serving_context(credentials))
    yield endpoint(server.sockets[0].getsockname()[1], credentials)
    server.close()


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LARGE = b"x" * 1000


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((HEAD, b"X-A: " + LARGE + b"\r\n"), "the head of the answer is larger than 20000 bytes"),
        ((HEAD + b"X-A: ", LARGE), "the head of the answer is larger than 20000 bytes"),
        ((b"", b"HTTP/1.1 103 Early\r\nLink: " + LARGE + b"\r\n\r\n"), "the head of the answer is larger than 20000"),
        ((CHUNKED + b"0\r\n", b"X-A: " + LARGE + b"\r\n"), "the head of the answer is larger than 20000 bytes"),
        ((CHUNKED + b"1\r\nx\r\n0\r\nX-A: ", LARGE), "the head of the answer is larger than 20000 bytes"),
        ((CHUNKED, b"5;" + LARGE + b"\r\nhello\r\n"), "the head of the answer is larger than 20000 bytes"),
        ((CHUNKED, b"3e8\r\n" + LARGE + b"\r\n"), "the answer is larger than 50000 bytes"),
        ((HEAD + b"\r\n", LARGE), "the answer is larger than 50000 bytes"),
        ((HEAD + b"Content-Length: 100000000\r\n\r\n", LARGE), "the answer is larger than 50000 bytes"),
    ],
)  # fmt: skip
async def test_an_answer_without_end_is_refused_in_every_part(client, credentials, monkeypatch, parts, text):
    monkeypatch.setattr(module, "MOST_ANSWER_BYTES", 50_000)
    monkeypatch.setattr(connection, "MOST_HEAD_BYTES", 20_000)
    async with serving(repeating(*parts), credentials) as where:
        assert text in await failure(client, where, 30.0)


async def test_chunks_of_one_byte_are_an_answer(client, credentials, monkeypatch):
    monkeypatch.setattr(connection, "MOST_HEAD_BYTES", 1000)
    answer = CHUNKED + b"1\r\nx\r\n" * 5000 + b"0\r\n\r\n"
    async with Server(answer, pki.serving_context(credentials)) as server:
        assert await client.post(endpoint(server.port, credentials), b"{}", 30) == b"x" * 5000


@pytest.mark.parametrize(
    "start", [HEAD + b"X-A: ", HEAD + b"Content-Length: 100000\r\n\r\n", CHUNKED + b"ffff\r\n"]
)
async def test_the_timeout_is_one_of_the_whole_exchange(client, credentials, start):
    """Each byte comes well within it."""

    async def drip(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(start)
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.transport.abort()

    async with serving(drip, credentials) as where:
        text = await failure(client, where, 0.5)
    assert text.endswith("context deadline exceeded")
    assert client._pools[where]._open == 0


async def test_a_compressed_answer_is_not_unpacked(client, credentials):
    bomb = gzip.compress(bytes(10_000_000))
    answer = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb
    async with Server(answer, pki.serving_context(credentials)) as server:
        assert await client.post(endpoint(server.port, credentials), b"{}", 5) == bomb
        assert "accept-encoding" not in server.heads[0].lower()


async def test_an_answer_that_ends_midway_is_a_failure(client, credentials):
    async def half(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"Content-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.close()

    async with serving(half, credentials) as where:
        assert "the server closed the connection" in await failure(client, where)


async def test_another_server_name_is_not_accepted(client, credentials):
    async with Server(OK, pki.serving_context(credentials)) as server:
        where = endpoint(server.port, credentials, server_name="other.ns.svc")
        assert (await failure(client, where)).endswith("x509: certificate is not valid for other.ns.svc")


async def test_a_server_that_speaks_no_tls(client, credentials):
    async def shout(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    text = await failure(client, endpoint(port, credentials))
    server.close()
    assert text.endswith("tls: first record does not look like a TLS handshake")


async def test_a_name_with_two_addresses_and_no_listener_is_connection_refused(
    client, credentials, monkeypatch
):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = await failure(client, endpoint(port, credentials, host="localhost"))
    assert text.endswith(f"dial tcp localhost:{port}: connect: connection refused")


async def test_a_name_without_an_address(client, credentials):
    text = await failure(client, endpoint(443, credentials, host="hook.invalid"))
    assert text.endswith("dial tcp: lookup hook.invalid: no such host")


async def test_the_endpoint_used_first_makes_room(client, credentials, monkeypatch):
    monkeypatch.setattr(module, "MOST_POOLS", 1)
    async with Server(OK, pki.serving_context(credentials)) as server:
        for path in ("/1", "/2", "/1"):
            await client.post(endpoint(server.port, credentials, path=path), b"{}", 5)
        assert server.connections == 3
