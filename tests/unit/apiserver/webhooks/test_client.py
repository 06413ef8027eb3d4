"""Claims about weir.apiserver.webhooks.client, against servers that misbehave on loopback."""

import asyncio
import socket
from datetime import UTC, datetime

import pytest

from weir.apiserver.auth import pki
from weir.apiserver.webhooks import client as module
from weir.apiserver.webhooks.client import Endpoint, WebhookClient
from weir.apiserver.webhooks.review import CallFailed

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
