"""Servers that may remember what they have done, asked without a network, under one clock and one randomness."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weir.apiserver.auth.authn import MASTERS, User, proven
from weir.apiserver.build import build
from weir.apiserver.options import Options, open_store
from weir.apiserver.server import ApiServer
from weir.apiserver.transport.http import Request
from weir.clock import VirtualClock
from weir.gates import Gates

USERS = {
    b"admin": proven("admin", (MASTERS,)),
    b"dev": proven("dev", ("a",)),
    b"kubelet": proven("system:node:n", ("system:nodes",)),
}
MORE_GROUPS = proven("dev", ("a", "b"))


class Sent(NamedTuple):
    """One request."""

    path: str
    body: bytes
    method: str = "POST"
    user: bytes = b"admin"
    agent: bytes = b"controller/v1"
    query: str = ""
    media: bytes = b"application/json"


class Authenticator:
    """Believes whoever says who it is; a second word stands for more groups."""

    def authenticate(self, request: Request) -> User:
        name = request.headers[b"authorization"]
        return USERS.get(name) or MORE_GROUPS


async def started(
    gates: Gates, clock: VirtualClock, authorization_modes: Sequence[str] = ("AlwaysAllow",)
) -> ApiServer:
    options = Options(
        Path(),
        store="memory",
        insecure=True,
        gates=gates,
        authorization_modes=tuple(authorization_modes),
        random_bytes=random.Random(1).randbytes,
    )
    server = (await build(options, await open_store(options, clock), clock)).server
    server._security = server._security._replace(authenticator=Authenticator())
    return server


async def ask(server: ApiServer, sent: Sent) -> Any:
    headers = {
        b"content-type": sent.media,
        b"user-agent": sent.agent,
        b"authorization": sent.user,
    }
    return await server.handle(Request(sent.method, sent.path, sent.query, headers, sent.body))


def shown(answer: Any) -> tuple[int, bytes, list[bytes]]:
    """Return what a client sees of an answer."""
    return answer.code, answer.body, [value for name, value in answer.headers or () if name == b"Warning"]


async def counted_by_admission(server: ApiServer) -> str:
    """Return how often each admission plugin was asked, as the server's metrics have it."""
    page = await ask(server, Sent("/metrics", b"", "GET"))
    counts = "apiserver_admission_controller_admission_duration_seconds_count"
    return "\n".join(line for line in page.body.decode().splitlines() if line.startswith(counts))
