"""Servers that may remember what they have done, asked without a network, under one clock and one randomness."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from weir.apiserver.admission.chain import Chain
from weir.apiserver.auth.authn import MASTERS, User, proven
from weir.apiserver.build import build
from weir.apiserver.options import Options, open_store
from weir.apiserver.registry.codec import Reader
from weir.apiserver.server import ApiServer
from weir.apiserver.transport.http import Request
from weir.clock import VirtualClock
from weir.gates import Gates
from weir.objects.kind import Kind

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


@contextmanager
def read_by_admission() -> Iterator[tuple[set[Kind], list[frozenset[Kind] | None]]]:
    """Collect the kinds that admission reads, and what it says it follows each time it is asked."""
    read: set[Kind] = set()
    followed: list[frozenset[Kind] | None] = []
    plain = {name: getattr(Reader, name) for name in ("get_now", "list_now", "version", "follow")}
    follows = Chain.follows

    def noting(name: str) -> Callable[..., Any]:
        def call(self: Reader, kind: Kind, *arguments: Any) -> Any:
            read.add(kind)
            return plain[name](self, kind, *arguments)

        return call

    def noted(self: Chain, a: Any) -> frozenset[Kind] | None:
        followed.append(follows(self, a))
        return followed[-1]

    with pytest.MonkeyPatch.context() as patch:
        for step in ("mutate", "validate"):
            inner = getattr(Chain, step)

            def during(self: Chain, a: Any, inner: Any = inner) -> Any:
                with pytest.MonkeyPatch.context() as inside:
                    for name in plain:
                        inside.setattr(Reader, name, noting(name))
                    return inner(self, a)

            patch.setattr(Chain, step, during)
        patch.setattr(Chain, "follows", noted)
        yield read, followed
