"""The network transport: credentials that renew themselves, proxies, and connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from weir.client.api import Client, Unreachable
from weir.client.http import HttpTransport
from weir.client.kubeconfig import Access, Credentials, Identity
from weir.errors import ApiError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler))  # type: ignore[arg-type]
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
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
            await asyncio.sleep(0.01)
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
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(1)
        return response

    async with serving(answer) as url:
        transport = HttpTransport(Access(url))
        with pytest.raises(Unreachable, match="did not answer in time"):
            async with transport.stream("/x", silent_seconds=0.05) as (_, lines):
                async for _line in lines:
                    pass
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
