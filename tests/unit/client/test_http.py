"""The network transport: credentials that renew themselves, proxies, and connections that break."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509

from tests.contract.certificates import certificates
from weir.client.api import Client, Unreachable
from weir.client.http import HttpTransport, trusting
from weir.client.kubeconfig import Access, Credentials, Identity, KubeconfigError
from weir.errors import ApiError, WeirError

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler))  # type: ignore[arg-type]
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


class Renewing(Credentials):
    """Tokens t1, t2, … each until refused."""

    renewable = True

    def __init__(self) -> None:
        self.number = 1

    async def identity(self, *, renew: bool) -> Identity:
        self.number += renew
        return Identity({"authorization": f"Bearer t{self.number}"})


async def test_a_refused_credential_is_renewed_once_and_the_request_repeated() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        good = request.headers["authorization"] == "Bearer t2"
        return web.json_response({"ok": good}, status=200 if good else 401)

    async with serving(answer) as url:
        transport = HttpTransport(Access(url, Renewing()))
        assert (await transport.request("GET", "/x")).code == 200
        async with transport.stream("/x") as (reply, _):
            assert reply.code == 200
        await transport.close()


async def test_a_credential_that_stays_refused_is_reported() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=401, text="go away")

    async with serving(answer) as url:
        credentials = Renewing()
        client = Client(HttpTransport(Access(url, credentials)))
        with pytest.raises(ApiError, match="go away"):
            await client.call("GET", "/x")
        assert credentials.number == 2
        await client.close()


async def test_lines_are_put_together_however_they_were_cut() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b"a", b"b\nc", b"d\ne\n", b"f\n"):
            await response.write(part)
            await asyncio.sleep(0)
        return response

    async with serving(answer) as url:
        transport = HttpTransport(Access(url))
        async with transport.stream("/x") as (_, lines):
            assert [line async for line in lines] == [b"ab", b"cd", b"e", b"f"]
        await transport.close()


async def test_a_connection_that_breaks_within_a_watch_is_unreachable() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"a\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(answer) as url:
        transport = HttpTransport(Access(url))
        with pytest.raises(Unreachable):
            async with transport.stream("/x") as (_, lines):
                async for _line in lines:
                    pass
        await transport.close()


async def test_a_watch_that_falls_silent_is_unreachable() -> None:
    over = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await over.wait()
        return response

    async with serving(answer) as url:
        transport = HttpTransport(Access(url))
        with pytest.raises(Unreachable, match="did not answer in time"):
            async with transport.stream("/x", silent_seconds=0.05) as (_, lines):
                async for _line in lines:
                    pass
        over.set()
        await transport.close()


async def test_requests_go_through_the_proxy_named() -> None:
    seen: list[str] = []

    async def proxy(request: web.Request) -> web.StreamResponse:
        seen.append(str(request.url))
        return web.json_response({})

    async with serving(proxy) as url:
        transport = HttpTransport(Access("http://cluster.invalid", proxy_url=url))
        await transport.request("GET", "/api")
        assert seen == ["http://cluster.invalid/api"]
        await transport.close()


async def test_tls_goes_through_the_proxy_too(tmp_path: Path) -> None:
    asked: list[str] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.split(" ")[1])
        host, port = asked[-1].rsplit(":", 1)
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"secure": request.secure})

    pem = certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem["both"], pem["both-key"])
    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    proxy_url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    async with serving(answer, context) as url:
        access = Access(url.replace("http:", "https:"), authority=pem["ca"].read_bytes(), proxy_url=proxy_url)
        transport = HttpTransport(access)
        replies = [await transport.request("GET", "/api") for _ in range(2)]
        assert [reply.body for reply in replies] == [b'{"secure": true}'] * 2
        assert asked == [url.removeprefix("http://")]
        await transport.close()
    proxy.close()


@pytest.mark.parametrize("proxy_url", ["socks5://127.0.0.1:1", "https://127.0.0.1:1"])
async def test_a_proxy_of_another_kind_is_refused_in_words(proxy_url: str) -> None:
    with pytest.raises(KubeconfigError, match="only http:// proxies are supported"):
        await HttpTransport(Access("http://x", proxy_url=proxy_url)).request("GET", "/")


async def test_impersonated_groups_are_all_sent() -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.extend(request.headers.getall("impersonate-group"))
        return web.json_response({})

    groups = (("impersonate-group", "a"), ("impersonate-group", "b"))
    async with serving(answer) as url:
        transport = HttpTransport(Access(url, impersonation=groups))
        await transport.request("GET", "/api")
        assert seen == ["a", "b"]
        await transport.close()


async def test_an_answer_that_is_no_status_is_still_an_error_with_its_text() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="bad gateway")

    async with serving(answer) as url:
        client = Client(HttpTransport(Access(url)))
        with pytest.raises(ApiError, match="bad gateway") as caught:
            await client.call("GET", "/x")
        assert caught.value.code == 502
        await client.close()


# ---------------------------------------------------------------------------------------------- connections


@asynccontextmanager
async def talking(
    script: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server that says on each connection exactly what *script* says."""
    server = await asyncio.start_server(script, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_connections_are_used_again_and_never_more_than_allowed() -> None:
    connections = 0
    at_once: set[int] = set()
    most = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections, most
        connections += 1
        while await reader.readuntil(b"\r\n\r\n"):
            at_once.add(id(writer))
            most = max(most, len(at_once))
            await asyncio.sleep(0.001)
            at_once.discard(id(writer))
            writer.write(OK)

    async with talking(answer) as url:
        transport = HttpTransport(Access(url), connections=4)
        replies = await asyncio.gather(*(transport.request("GET", f"/{n}") for n in range(50)))
        assert {reply.body for reply in replies} == {b"ok"} and (connections, most) == (4, 4)
        await transport.close()


@pytest.mark.parametrize("method, repeated", [("GET", True), ("POST", False)])
async def test_a_read_on_a_connection_closed_meanwhile_is_repeated_a_write_is_not(
    method: str, repeated: bool
) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await reader.readuntil(b"\r\n\r\n")  # takes the second request, and goes without a word
        writer.transport.abort()

    async with talking(once) as url:
        transport = HttpTransport(Access(url))
        await transport.request("GET", "/")
        if repeated:
            assert (await transport.request(method, "/")).body == b"ok"
        else:
            with pytest.raises(Unreachable):
                await transport.request(method, "/")
        await transport.close()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"",
    ],
)
async def test_half_an_answer_is_none(said: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    async with talking(answer) as url:
        transport = HttpTransport(Access(url))
        with pytest.raises(Unreachable):
            await transport.request("GET", "/")
        await transport.close()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
    ],
)
async def test_answers_end_as_http_says(said: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for at in range(0, len(said), 7):  # in small pieces
            writer.write(said[at : at + 7])
            await writer.drain()
        writer.close()

    async with talking(answer) as url:
        transport = HttpTransport(Access(url))
        for _ in range(2):
            reply = await transport.request("GET", "/")
            assert (reply.code, reply.body) == (200, b"ok")
        await transport.close()


async def test_a_server_that_never_answers_is_given_up_and_its_place_is_free_again() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with talking(silent) as url:
        transport = HttpTransport(Access(url), connections=1, timeout_seconds=0.05)
        for _ in range(2):
            with pytest.raises(Unreachable, match="did not answer in time"):
                await transport.request("GET", "/")
        await transport.close()


async def test_a_cancelled_request_gives_its_place_back() -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            asked.set()
            await may_answer.wait()
            writer.write(OK)

    async with talking(slow) as url:
        transport = HttpTransport(Access(url), connections=1)
        first, second = (asyncio.create_task(transport.request("GET", "/")) for _ in range(2))
        await asked.wait()
        first.cancel()
        may_answer.set()
        assert (await asyncio.wait_for(second, 60)).body == b"ok"
        await transport.close()


async def test_a_slow_reader_makes_the_server_wait_and_loses_nothing() -> None:
    written = 0

    async def many(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for n in range(300):
            line = b"%d" % n + b"x" * 100_000 + b"\n"
            writer.write(b"%x\r\n%b\r\n" % (len(line), line))
            await writer.drain()
            written += 1
        writer.write(b"0\r\n\r\n")

    async def until_the_server_waits() -> None:
        before = -1
        while before != written:
            before = written
            for _ in range(100):
                await asyncio.sleep(0)

    async with talking(many) as url:
        transport = HttpTransport(Access(url))
        async with transport.stream("/") as (_, lines):
            await until_the_server_waits()
            assert 0 < written < 300
            numbers = [int(line.rstrip(b"x")) async for line in lines]
        assert numbers == list(range(300))
        await transport.close()


async def test_headers_and_targets_cannot_smuggle_lines() -> None:
    transport = HttpTransport(Access.with_token("http://127.0.0.1:1", "a\r\nx: y"))
    with pytest.raises(WeirError, match="the header authorization contains a line break"):
        await transport.request("GET", "/")
    with pytest.raises(ValueError, match="not a request target"):
        await HttpTransport(Access("http://127.0.0.1:1")).request("GET", "/ HTTP/1.1\r\nx: y")


@pytest.mark.parametrize(
    ("server", "said"),
    [("https://127.0.0.1:1", "connection refused"), ("https://cluster.invalid:6443", "no such host")],
)
async def test_why_a_server_is_out_of_reach_is_said_in_words(server: str, said: str) -> None:
    transport = HttpTransport(Access(server))
    with pytest.raises(Unreachable) as caught:
        await transport.request("GET", "/api")
    assert str(caught.value) == f"{server} cannot be reached: {said}"
    await transport.close()


STRICT = ssl.VERIFY_X509_STRICT
default_context = ssl.create_default_context


def as_python_3_13(*args, **kwargs):
    context = default_context(*args, **kwargs)
    context.verify_flags |= STRICT
    return context


@pytest.fixture(autouse=True)
def strict_defaults(monkeypatch):
    """Whatever Python runs the tests, the defaults are those of 3.13 and later."""
    monkeypatch.setattr(ssl, "create_default_context", as_python_3_13)


async def answer(request: web.Request) -> web.StreamResponse:
    return web.json_response({})


def server_side(pem):
    context = default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem["both"], pem["both-key"])
    return context


async def test_a_certificate_without_authority_key_identifier_is_good_enough(tmp_path: Path):
    pem = certificates(tmp_path)
    shown = x509.load_pem_x509_certificate(pem["both"].read_bytes())
    with pytest.raises(x509.ExtensionNotFound):
        shown.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
    async with serving(answer, server_side(pem)) as url:
        transport = HttpTransport(Access(url.replace("http:", "https:"), authority=pem["ca"].read_bytes()))
        assert (await transport.request("GET", "/api")).code == 200
        await transport.close()


async def test_a_foreign_authority_is_still_refused(tmp_path: Path):
    (tmp_path / "other").mkdir()
    pem, other = certificates(tmp_path), certificates(tmp_path / "other")
    async with serving(answer, server_side(pem)) as url:
        transport = HttpTransport(Access(url.replace("http:", "https:"), authority=other["ca"].read_bytes()))
        with pytest.raises(Unreachable, match="certificate"):
            await transport.request("GET", "/api")
        await transport.close()


def test_chain_and_name_are_verified():
    context = trusting(b"")
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not context.verify_flags & STRICT
