"""How does a component reach an API server over the network? aiohttp, and what a kubeconfig says.

Credentials are asked for at every request, because tokens and exec plugins renew themselves; an answer 401
makes them be fetched anew, once. Not here: reading kubeconfig files (weir.client.kubeconfig).
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from weir.client.api import Client, Reply, Unreachable
from weir.client.kubeconfig import Access, Identity, load
from weir.clock import Clock, RealClock
from weir.errors import WeirError

__all__ = ["HttpTransport", "connect"]

_LINE_LIMIT = 64 << 20


class HttpTransport:
    """A `weir.client.api.Transport` over HTTP(S)."""

    def __init__(self, access: Access, *, connections: int = 100, timeout_seconds: float = 60.0) -> None:
        """*timeout_seconds* limits a request; watches have no limit but their silence."""
        self._access = access
        self._base = access.server.rstrip("/")
        self._connections = connections
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None
        self._certificate: tuple[bytes, bytes] | None = None

    async def _identity(self, *, renew: bool = False) -> Identity:
        return await self._access.identity(renew=renew)

    async def _ready(self, identity: Identity) -> aiohttp.ClientSession:
        """Return a session that shows *identity*'s certificate."""
        if self._session is None or self._certificate != identity.certificate:
            await self.close()
            self._certificate = identity.certificate
            connector = aiohttp.TCPConnector(
                limit=self._connections, ssl=tls_context(self._access, identity), keepalive_timeout=60
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                auto_decompress=True,
                read_bufsize=1 << 20,
                skip_auto_headers=("Content-Type",),
            )
        return self._session

    def _headers(self, headers: Mapping[str, str] | None, identity: Identity) -> CIMultiDict[str]:
        return CIMultiDict([*(headers or {}).items(), *self._access.impersonation, *identity.headers.items()])

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        reply = await self._request_once(method, target, headers, body, renew=False)
        if reply.code == 401 and self._access.renewable:
            reply = await self._request_once(method, target, headers, body, renew=True)
        return reply

    async def _request_once(
        self, method: str, target: str, headers: Mapping[str, str] | None, body: bytes, *, renew: bool
    ) -> Reply:
        identity = await self._identity(renew=renew)
        session = await self._ready(identity)
        try:
            async with session.request(
                method,
                URL(self._base + target, encoded=True),
                data=body or None,
                headers=self._headers(headers, identity),
                proxy=self._access.proxy_url or None,
                server_hostname=self._access.tls_server_name or None,
                allow_redirects=False,
            ) as answer:
                content = await answer.read()
                return Reply(answer.status, content, _lower(answer.headers))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Unreachable:
        if isinstance(error, TimeoutError):
            return Unreachable(f"{self._base} did not answer in time")
        return Unreachable(f"{self._base} cannot be reached: {error}")

    @asynccontextmanager
    async def stream(
        self, target: str, headers: Mapping[str, str] | None = None, *, silent_seconds: float = 0.0
    ) -> AsyncIterator[tuple[Reply, AsyncIterator[bytes]]]:
        renew = False
        while True:
            identity = await self._identity(renew=renew)
            session = await self._ready(identity)
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=self._timeout.total, sock_read=silent_seconds or None
            )
            try:
                answer = await session.get(
                    URL(self._base + target, encoded=True),
                    headers=self._headers(headers, identity),
                    proxy=self._access.proxy_url or None,
                    server_hostname=self._access.tls_server_name or None,
                    timeout=timeout,
                )
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise self._unreachable(error) from error
            try:
                if answer.status == 401 and self._access.renewable and not renew:
                    renew = True
                    continue
                if answer.status != 200:
                    yield Reply(answer.status, await answer.read(), _lower(answer.headers)), _no_lines()
                    return
                yield Reply(200, b"", _lower(answer.headers)), self._lines(answer)
                return
            finally:
                answer.close()  # the rest of a watch is not read, so the connection cannot be used again

    async def _lines(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        size = 0
        try:
            async for data in answer.content.iter_any():
                if b"\n" not in data:
                    parts.append(data)
                    size += len(data)
                    if size > _LINE_LIMIT:
                        raise Unreachable(f"{self._base} sent a watch event without end")
                    continue
                first, *rest = data.split(b"\n")
                yield b"".join((*parts, first))
                for line in rest[:-1]:
                    yield line
                parts, size = ([rest[-1]], len(rest[-1])) if rest[-1] else ([], 0)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


async def _no_lines() -> AsyncIterator[bytes]:
    return
    yield b""


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def tls_context(access: Access, identity: Identity) -> ssl.SSLContext | bool:
    """Return how TLS is spoken to the server: whom we trust and which certificate we show."""
    if not access.server.startswith("https"):
        return True
    try:
        context = ssl.create_default_context(cadata=access.authority.decode() if access.authority else None)
        if access.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if identity.certificate is not None:
            # ssl reads certificates from files only
            with tempfile.TemporaryDirectory(prefix="weir-") as directory:  # mode 0700
                certificate, key = Path(directory) / "cert.pem", Path(directory) / "key.pem"
                certificate.write_bytes(identity.certificate[0])
                key.write_bytes(identity.certificate[1])
                context.load_cert_chain(certificate, key)
    except (ssl.SSLError, ValueError) as error:
        raise WeirError(f"the kubeconfig's certificates cannot be used: {error}") from None
    return context


def connect(
    kubeconfig: str | Path | None = None,
    *,
    context: str = "",
    clock: Clock | None = None,
    user_agent: str = "weir",
) -> Client:
    """Return a client for the cluster that a kubeconfig names; see `load`. Raises KubeconfigError."""
    clock = clock or RealClock()
    return Client(
        HttpTransport(load(kubeconfig, context=context, clock=clock)), clock=clock, user_agent=user_agent
    )
