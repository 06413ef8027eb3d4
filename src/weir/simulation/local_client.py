"""In-process clients of components that share the server's process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weir.apiserver.running import Running
from weir.apiserver.transport.http import Request
from weir.client.api import Client, Transport
from weir.client.local import LocalTransport
from weir.client.version_skew import OlderTransport
from weir.clock import Clock


def local_client(
    running: Running,
    clock: Clock,
    agent: str,
    *,
    older: bool = False,
    event_reasons: frozenset[str] | None = None,
) -> Client:
    """Return a client of the server's own process, with the administrator's rights.

    *older* makes it one of a component that does not know the field `expression`; *event_reasons* are those that its
    component writes events of, all unless given.
    """
    make: Callable[..., Request] = Request
    headers: dict[str, str] = {}
    if running.options.insecure or running.credentials is None:
        headers["authorization"] = f"Bearer {running.admin_token}"
    else:

        def certified(*given: Any) -> Request:  # with the certificate as it is then: it may have been renewed
            return Request(*given, peer_certificate=running.admin_certificate)

        make = certified
    transport: Transport = LocalTransport(running.server.handle, make, headers)
    if older:
        transport = OlderTransport(transport)
    return Client(transport, clock=clock, user_agent=agent, event_reasons=event_reasons)
