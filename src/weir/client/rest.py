"""One HTTP request to the API: headers, rate limit, retries, errors, logging.

An error status is raised as the class of weir.errors that the server raised; an unreachable server is `Unreachable`.
429 and 503 with Retry-After are waited for and retried, as in client-go.

client-go's token bucket rate limiter. A bucket holds *burst* tokens and refills at *qps* per second; a request takes
one or waits for it, in order of arrival.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from time import perf_counter
from typing import Self

import msgspec

from weir import errors
from weir.client.wire import (
    Document,
    IdentifiedTransport,
    InProcessTransport,
    Reply,
    Transport,
    failure,
    seconds_of,
    target_of,
)
from weir.clock import Clock, RealClock
from weir.observe.logs import CONFIDENTIAL, Log

_MAX_TRIES = 10
_log = Log("weir.client")
_encode = msgspec.json.Encoder().encode


class RateLimiter:
    """One bucket; a *qps* of 0 or less is no limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps, self._burst, self._clock = qps, float(burst), clock
        self._tokens = float(burst)
        self._at = clock.monotonic()

    async def wait(self) -> None:
        """Take a token; return when it is there."""
        if self._qps <= 0:
            return
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._qps)


class RestClient:
    """Requests of any sort over one transport."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        user_agent: str = "weir",
        event_reasons: frozenset[str] | None = None,
    ) -> None:
        """*event_reasons* are those that recorders write events of; all unless given."""
        self._transport = transport
        self.event_reasons = event_reasons
        in_process = transport if isinstance(transport, InProcessTransport) else None
        self.steady = in_process is not None and in_process.steady
        self._events = in_process.events if in_process is not None else None
        self._clock = clock or RealClock()
        self._headers = {"user-agent": user_agent, "accept": "application/json"}
        self._with_body: dict[str, dict[str, str]] = {}
        self._limiter: RateLimiter | None = None

    def limited(self, qps: float, burst: int) -> Self:
        """Return a client over the same transport that writes *qps* times a second and *burst* times at once.

        What only reads, watches included, is not counted; a *qps* of 0 is no limit.
        """
        other = copy.copy(self)
        other._limiter = RateLimiter(qps, burst, self._clock) if qps > 0 else None
        return other

    def reading_metadata(self) -> Self:
        """Return a client over the same transport that gets objects with nothing but their metadata."""
        other = copy.copy(self)
        other._headers = {
            **self._headers,
            "accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        }
        other._with_body = {}
        return other

    def _headers_with(self, content_type: str) -> dict[str, str]:
        """Return the headers of a request with a body; always the same object, so transports can keep its bytes."""
        found = self._with_body.get(content_type)
        if found is None:
            found = self._with_body[content_type] = {**self._headers, "content-type": content_type}
        return found

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Document | bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Make any request and return the answer's body. Raises ApiError, Unreachable."""
        reply = await self.exchange(method, path, query, body, content_type)
        if reply.code == 401 and isinstance(self._transport, IdentifiedTransport):
            raise errors.Unauthorized(f"{failure(reply)}: {self._transport.who}")
        if reply.code >= 400:
            raise failure(reply)
        return reply.body

    async def exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Document | bytes | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        """Make any request and return the response, also an error; honours Retry-After."""
        target = target_of(path, query)
        data = b"" if body is None else body if isinstance(body, bytes) else _encode(body)
        headers = self._headers if body is None else self._headers_with(content_type)
        tries = 1
        if self._limiter is not None and method != "GET":
            await self._limiter.wait()
        while True:
            if not _log.shows(6):
                reply = await self._transport.request(method, target, headers, data)
            else:
                reply = await self._logged(method, target, headers, data)
            if reply.code not in (429, 503) or tries == _MAX_TRIES or "retry-after" not in reply.headers:
                return reply
            tries += 1
            await self._clock.sleep(seconds_of(reply.headers["retry-after"]) or 1)

    async def _logged(self, method: str, target: str, headers: Mapping[str, str], data: bytes) -> Reply:
        """Make one request, and say so with as much of it as client-go says at each level."""
        began = perf_counter()
        reply = await self._transport.request(method, target, headers, data)
        took = round((perf_counter() - began) * 1000, 3)
        more: dict[str, object] = {}
        if _log.shows(7):
            more["requestHeaders"] = " ".join(f"{name}={value}" for name, value in headers.items())
        if _log.shows(8):
            most = None if _log.shows(10) else 10_240 if _log.shows(9) else 1024
            hidden = any(part in target for part in CONFIDENTIAL)
            for name, text in (("requestBody", data), ("responseBody", reply.body)):
                more[name] = "hidden" if hidden and text else text[:most].decode(errors="replace")
        agent = self._headers["user-agent"]
        _log.v(
            6,
            "Request",
            verb=method,
            url=target,
            status=reply.code,
            milliseconds=took,
            userAgent=agent,
            **more,
        )
        return reply
