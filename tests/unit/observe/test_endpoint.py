"""The pages of a component: who asks without end, and who does not take the answer."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from weir.observe import endpoint
from weir.observe.endpoint import Page, serving


def page(size: int) -> dict:
    return {"/metrics": lambda: Page(200, "text/plain", b"x" * size)}


async def fetch(port: int, request: bytes = b"GET /metrics HTTP/1.1\r\n\r\n") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return answer


async def test_a_large_page_is_served_whole():
    async with serving(page(3_000_000), 0) as port:
        assert (await fetch(port)).endswith(b"\r\n\r\n" + b"x" * 3_000_000)


async def test_the_page_is_not_served_for_anything_but_reading():
    async with serving(page(10), 0) as port:
        assert (await fetch(port, b"POST /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
        assert (await fetch(port, b"GET /other HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
        head = await fetch(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert b"Content-Length: 10\r\n" in head and head.endswith(b"\r\n\r\n")


async def test_a_body_is_refused_before_it_is_read():
    async with serving(page(10), 0) as port:
        answer = await fetch(port, b"GET /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413 ")


async def test_what_is_not_http_is_told_so():
    async with serving(page(10), 0) as port:
        assert (await fetch(port, b"\x16\x03\x01\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


async def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch):
    monkeypatch.setattr(endpoint, "_SLOWEST_SECONDS", 0.2)
    asked = []

    def large() -> Page:
        asked.append(True)
        return Page(200, "text/plain", b"x" * 20_000_000)

    async with serving({"/metrics": large}, 0) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            client.setblocking(False)
            async with asyncio.timeout(60):
                while not asked or len(asyncio.all_tasks()) > 1:  # whoever serves it
                    await asyncio.sleep(0.01)
            taken = 0
            with suppress(ConnectionResetError):
                while piece := await asyncio.get_running_loop().sock_recv(client, 1 << 20):
                    taken += len(piece)
            assert taken < 20_000_000


async def test_too_many_connections_make_room_for_another(monkeypatch):
    monkeypatch.setattr(endpoint, "_MOST_CONNECTIONS", 5)
    monkeypatch.setattr(endpoint, "_SLOWEST_SECONDS", 600)
    async with serving(page(10), 0) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(9)]
        assert (await fetch(port)).endswith(b"x" * 10)
        gone = b""
        async with asyncio.timeout(60):  # it would be dropped by itself much later
            with suppress(ConnectionResetError):
                gone = await silent[0][0].read()
        assert gone == b""
        for _, writer in silent:
            writer.close()
