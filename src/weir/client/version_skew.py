"""Transport of a component that predates a field: drops `expression` from objects.

Spec: core.md 8.4 "Old component that does not know `expression`", D-22.
A component from before KEP-5500 drops `expression` when it decodes a toleration. What remains is an all-empty
toleration: `Equal` with empty key and value, which tolerates every taint with an empty value, the taints of node
conditions among them. This differs from the gate being off, where the field is known and nothing matches. Objects
that the component writes back lack the field as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from weir.client.wire import Reply, Transport

UNKNOWN: Final = "expression"
_MARK: Final = f'"{UNKNOWN}"'.encode()
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def forget(text: bytes) -> bytes:
    """Return a JSON text without `expression` in any toleration; other text comes back as it is.

    >>> forget(b'{"spec":{"tolerations":[{"expression":"true","tolerationSeconds":5}],"expression":"kept"}}')
    b'{"spec":{"tolerations":[{"tolerationSeconds":5}],"expression":"kept"}}'
    """
    if _MARK not in text:
        return text
    try:
        document = _decode(text)
    except msgspec.DecodeError:
        return text
    _strip(document)
    return _encode(document)


def _strip(value: Any) -> None:
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "tolerations" and isinstance(each, list):
                for toleration in each:
                    if isinstance(toleration, dict):
                        toleration.pop(UNKNOWN, None)
            _strip(each)
    elif isinstance(value, list):
        for each in value:
            _strip(each)


class OlderTransport:
    """A `weir.client.api.Transport` through which `expression` does not pass."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        reply = await self._inner.request(method, target, headers, body)
        return Reply(reply.code, forget(reply.body), reply.headers)

    @asynccontextmanager
    async def stream(
        self, target: str, headers: Mapping[str, str] | None = None, *, silent_seconds: float = 0.0
    ) -> AsyncIterator[tuple[Reply, AsyncIterator[bytes]]]:
        async with self._inner.stream(target, headers, silent_seconds=silent_seconds) as (reply, lines):
            yield reply, _forget_lines(lines)

    async def close(self) -> None:
        """Close the connections."""
        await self._inner.close()


async def _forget_lines(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield forget(line)
