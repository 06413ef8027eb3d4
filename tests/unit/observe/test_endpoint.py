"""The pages of a component: who asks without end, and who does not take the answer."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from weir.observe import endpoint
from weir.observe.endpoint import Page, serving


def page(size: int) -> dict:
    return {"/metrics": lambda: Page(200, "text/plain", b"x" * size)}


async def fetch(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return answer


async def test_a_large_page_is_served_whole():
    async with serving(page(3_000_000), 0) as port:
        assert (await fetch(port)).endswith(b"\r\n\r\n" + b"x" * 3_000_000)


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
