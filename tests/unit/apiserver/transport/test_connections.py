"""One user floods: another's request is begun after a turn, not after the flood. Counted in requests, not seconds."""

from __future__ import annotations

import asyncio

import pytest

from tests.fake_transport import FakeTransport
from weir.apiserver.auth.authn import User
from weir.apiserver.transport.connections import REQUESTS_A_TURN, Connections, FairTurns
from weir.apiserver.transport.http import Request, Response
from weir.apiserver.transport.protocol import HttpProtocol

FLOOD = 200


async def play(flood: int, others: list[str]) -> list[str]:
    """Let a flood arrive, then one request of each other user; return in which order requests were begun."""
    order: list[str] = []

    async def handle(request: Request) -> Response:
        order.append(request.headers[b"authorization"].decode())
        return Response(200, b"")

    connections = Connections(handle, lambda request: User(request.headers[b"authorization"].decode()))
    for name in ["flood"] * flood + others:
        protocol = HttpProtocol(connections)
        protocol.connection_made(FakeTransport())
        protocol.data_received(f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: {name}\r\n\r\n".encode())
    for _ in range(10 * (flood + len(others) + 10)):
        await asyncio.sleep(0)
    return order


async def test_a_flood_delays_another_user_by_a_turn():
    order = await play(FLOOD, ["alice"])
    assert len(order) == FLOOD + 1
    assert order.index("alice") <= 2 * REQUESTS_A_TURN


async def test_every_user_of_many_has_a_turn_before_the_flood_goes_on():
    users = [f"user-{number}" for number in range(20)]
    order = await play(FLOOD, users)
    assert max(map(order.index, users)) <= 2 * REQUESTS_A_TURN + 2 * len(users)


async def test_alone_nobody_waits():
    turns = FairTurns()
    assert [turns.wait("a") for _ in range(REQUESTS_A_TURN)] == [None] * REQUESTS_A_TURN
    assert len(turns) == 0
    for _ in range(3):
        await asyncio.sleep(0)
    assert turns.wait("a") is None


async def test_who_is_gone_takes_no_turn():
    turns = FairTurns()
    waits = [turns.wait("a") for _ in range(3 * REQUESTS_A_TURN)]
    gone, left = waits[REQUESTS_A_TURN : 2 * REQUESTS_A_TURN], waits[2 * REQUESTS_A_TURN :]
    for waiting in gone:
        assert waiting is not None
        waiting.cancel()
    await asyncio.sleep(0)
    assert all(waiting is not None and waiting.done() for waiting in left)
    assert len(turns) == 0


@pytest.mark.parametrize("flood", [0, 1, REQUESTS_A_TURN, 3 * REQUESTS_A_TURN])
async def test_every_request_is_begun(flood):
    assert sorted(await play(flood, ["a", "b"])) == sorted(["flood"] * flood + ["a", "b"])
