"""HTTP transport configured by a kubeconfig, over TCP or a Unix socket.

Credentials are read for every request, because tokens and exec plugins renew themselves; a 401 refreshes them once.

TLS client contexts: trusted CAs and the client certificate. Spec: RFC 5280; verification follows Go's crypto/tls,
because clusters are built for it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from weir.client.api import Client, Reply, Unreachable
from weir.client.connection import Address, Answer, Broken, Connection, Pool
from weir.client.kubeconfig import UNIX, Access, Identity, KubeconfigError, load
from weir.clock import Clock, RealClock
from weir.errors import WeirError

_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADS = 256  # distinct sets of headers whose bytes are kept


def trusting(authority: bytes) -> ssl.SSLContext:
    """Return a client's side of TLS that trusts *authority* (PEM; empty: what the machine trusts), as Go's does.

    Chain, dates and name are verified. From 3.13 on Python also demands what RFC 5280 asks of those who issue
    certificates, such as an authority key identifier: kubeadm and many others leave it out and Go never asks for it,
    so with that flag existing clusters could not be reached. Raises ssl.SSLError and ValueError.
    """
    context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def tls_context(access: Access, identity: Identity) -> ssl.SSLContext:
    """Return the TLS client context with trusted CAs and the client certificate."""
    try:
        context = trusting(access.authority)
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


class HttpTransport:
    """A `weir.client.api.Transport` over HTTP(S)."""

    def __init__(self, access: Access, *, connections: int = 100, timeout_seconds: float = 60.0) -> None:
        """*connections* bounds requests under way, *timeout_seconds* each of them; watches have neither bound."""
        self._access = access
        self._url = access.server.rstrip("/")
        self._base = urlsplit("http://localhost" if access.socket else self._url)
        self._limit, self._timeout = connections, timeout_seconds
        self._pool: Pool | None = None
        self._identity: Identity | None = None
        self._heads: dict[tuple[tuple[str, str], ...], bytes] = {}

    @property
    def who(self) -> str:
        """Which credentials the server received, for a message that it does not accept them."""
        access = self._access
        user = f"user {access.user!r}" if access.user else "no user"
        context = f" of context {access.context!r}" if access.context else ""
        return f"{self._url} does not accept the credentials of {user}{context}{self._expired()}"

    def _expired(self) -> str:
        if self._identity is None or self._identity.certificate is None:
            return ""
        from cryptography.x509 import load_pem_x509_certificate

        ends = load_pem_x509_certificate(self._identity.certificate[0]).not_valid_after_utc
        return f", whose certificate expired on {ends:%Y-%m-%d}" if ends < datetime.now(UTC) else ""

    async def _ready(self, *, renew: bool) -> Pool:
        """Return the pool with connections for the current identity."""
        identity = await self._access.identity(renew=renew)
        if identity is not self._identity:
            before, self._identity = self._identity, identity
            self._heads.clear()
            if self._pool is None or before is None or before.certificate != identity.certificate:
                await self.close()
        if self._pool is None:
            self._pool = Pool(self._address(identity), limit=self._limit, connect_seconds=self._timeout)
        return self._pool

    def _address(self, identity: Identity) -> Address:
        secure = self._base.scheme == "https"
        proxy = None
        if self._access.proxy_url:
            parts = urlsplit(self._access.proxy_url)
            if parts.scheme != "http" or not parts.hostname:
                raise KubeconfigError(
                    f"proxy-url {self._access.proxy_url!r}: only http:// proxies are supported"
                )
            proxy = (parts.hostname, parts.port or 80)
        return Address(
            self._base.hostname or "",
            self._base.port or (443 if secure else 80),
            tls_context(self._access, identity) if secure else None,
            self._access.tls_server_name,
            proxy,
            self._access.socket,
        )

    def _encode(self, method: str, target: str, headers: Mapping[str, str] | None, body: bytes) -> bytes:
        if " " in target or "\n" in target or "\r" in target:
            raise ValueError(f"not a request target: {target!r}")
        path = self._base.path + target
        if self._access.proxy_url and self._base.scheme == "http":
            path = f"http://{self._base.netloc}{path}"
        key = tuple((headers or {}).items())
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            head = self._heads[key] = self._head(key)
        if body or method in ("POST", "PUT", "PATCH"):
            return b"%b %b%bcontent-length: %d\r\n\r\n%b" % (
                method.encode(),
                path.encode(),
                head,
                len(body),
                body,
            )
        return b"%b %b%b\r\n" % (method.encode(), path.encode(), head)

    def _head(self, headers: tuple[tuple[str, str], ...]) -> bytes:
        assert self._identity is not None
        host = self._base.netloc.rpartition("@")[2]
        lines = [f"host: {host}"]
        for name, value in (*headers, *self._access.impersonation, *self._identity.headers.items()):
            if "\r" in value or "\n" in value:
                raise WeirError(f"the header {name} contains a line break")
            lines.append(f"{name}: {value}")
        return (" HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n").encode("latin-1")

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        answer = await self._request_once(method, target, headers, body, renew=False)
        if answer.code == 401 and self._access.renewable:
            answer = await self._request_once(method, target, headers, body, renew=True)
        return Reply(answer.code, answer.body, answer.headers)

    async def _request_once(
        self, method: str, target: str, headers: Mapping[str, str] | None, body: bytes, *, renew: bool
    ) -> Answer:
        pool = await self._ready(renew=renew)
        data = self._encode(method, target, headers, body)
        try:
            return await pool.request(data, timeout_seconds=self._timeout, repeatable=method in _REPEATABLE)
        except (Broken, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Unreachable:
        if isinstance(error, TimeoutError):
            return Unreachable(f"{self._url} did not answer in time")
        hint = (
            f" ({self.who})" if self._expired() else ""
        )  # a TLS server may close the connection without a word
        return Unreachable(f"{self._url} cannot be reached: {_reason(error)}{hint}")

    @asynccontextmanager
    async def stream(
        self, target: str, headers: Mapping[str, str] | None = None, *, silent_seconds: float = 0.0
    ) -> AsyncIterator[tuple[Reply, AsyncIterator[bytes]]]:
        pool, answer, connection = await self._open_stream(target, headers, renew=False)
        if answer.code == 401 and self._access.renewable:
            pool.end_stream(connection)
            pool, answer, connection = await self._open_stream(target, headers, renew=True)
        try:
            if answer.code == 200:
                yield Reply(200, b"", answer.headers), self._lines(connection, silent_seconds)
                return
            try:
                async with asyncio.timeout(self._timeout):
                    body = await connection.read_body()
            except (Broken, TimeoutError) as error:
                raise self._unreachable(error) from error
            yield Reply(answer.code, body, answer.headers), _no_lines()
        finally:
            pool.end_stream(connection)

    async def _open_stream(
        self, target: str, headers: Mapping[str, str] | None, *, renew: bool
    ) -> tuple[Pool, Answer, Connection]:
        pool = await self._ready(renew=renew)
        try:
            answer, connection = await pool.stream(
                self._encode("GET", target, headers, b""), timeout_seconds=self._timeout
            )
        except (Broken, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error
        return pool, answer, connection

    async def _lines(self, connection: Connection, silent_seconds: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        received_at = loop.time()
        timer: asyncio.TimerHandle | None = None

        def check() -> None:
            """End the stream when nothing came for too long; one timer, not one per line."""
            nonlocal timer
            quiet = loop.time() - received_at
            if quiet >= silent_seconds:
                connection.fail(TimeoutError("nothing came"))
            else:
                timer = loop.call_later(silent_seconds - quiet, check)

        if silent_seconds:
            timer = loop.call_later(silent_seconds, check)
        try:
            async for line in connection.lines():
                received_at = loop.time()
                yield line
        except (Broken, TimeoutError) as error:
            raise self._unreachable(error) from error
        finally:
            if timer is not None:
                timer.cancel()

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def _reason(error: BaseException) -> str:
    """Return why a connection failed, in words: without the numbers that the system's calls carry."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, socket.gaierror):
            return "no such host"
        if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.errno:
            return os.strerror(cause.errno).lower()
        cause = cause.__cause__ or cause.__context__
    return str(error)


async def _no_lines() -> AsyncIterator[bytes]:
    return
    yield b""


def local_transport(path: Path) -> HttpTransport:
    """Return the transport to a server on the Unix socket *path*, which authenticates by socket."""
    return HttpTransport(Access(f"{UNIX}{path}"))


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
