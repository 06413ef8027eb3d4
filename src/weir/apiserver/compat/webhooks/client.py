"""HTTPS client of webhooks.

A webhook names a URL or a service. A service is resolved through the cluster's endpoints, since there is no cluster
network; its certificate must be for `<service>.<namespace>.svc`. Errors have the messages of a Go client. Redirects
are not followed, and no proxy of the environment is used.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote as percent_encoded
from urllib.parse import urlsplit

import msgspec

from weir.apiserver.admission.attributes import Reader
from weir.apiserver.compat.webhooks.review import CallFailed
from weir.client.connection import Address, BodyTooLarge, Broken, Pool
from weir.client.http import trusting
from weir.objects.kinds import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from weir.values.quoting import quote

Document = Mapping[str, Any]
MOST_ANSWER_BYTES = 16 * 1024 * 1024
MOST_POOLS = 100
_UNKNOWN_AUTHORITY = "tls: failed to verify certificate: x509: certificate signed by unknown authority"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a hook is: the URL it is called by, and the address the connection goes to."""

    url: str
    host: str
    port: int
    server_name: str
    authority: bytes = b""


def endpoint_of(client_config: Document, reader: Reader, seconds: float) -> Endpoint:
    """Return where a hook's clientConfig points; raises CallFailed when it points nowhere."""
    authority = _authority(client_config.get("caBundle"))
    url = client_config.get("url")
    if url:
        parts = urlsplit(str(url))
        try:
            port = parts.port or 443
        except ValueError:  # a configuration may be stored with a port that there is not
            number = parts.netloc.rpartition(":")[2]
            raise CallFailed(
                f"failed to call webhook: Post {quote(_with_timeout(str(url), seconds))}: "
                f"dial tcp: address {number}: invalid port"
            ) from None
        if parts.scheme != "https" or not parts.hostname:
            raise CallFailed(f"could not get REST client: {quote(str(url))} is not an https URL", 500)
        return Endpoint(str(url), parts.hostname, port, parts.hostname, authority)
    service = client_config.get("service")
    if not service:
        raise CallFailed(
            "could not get REST client: webhook configuration must have either service or URL", 500
        )
    namespace, name = service.get("namespace", ""), service.get("name", "")
    port, path = service.get("port") or 443, service.get("path") or "/"
    server_name = f"{name}.{namespace}.svc"
    shown = f"https://{server_name}:{port}{path if path.startswith('/') else '/' + path}"
    try:
        host, target = service_address(namespace, name, port, reader)
    except LookupError as error:
        asked = _with_timeout(shown, seconds)
        raise CallFailed(f"failed to call webhook: Post {quote(asked)}: {error.args[0]}") from error
    return Endpoint(shown, host, target, server_name, authority)


def _with_timeout(url: str, seconds: float) -> str:
    return f"{url}?timeout={seconds:g}s"


def service_address(namespace: str, name: str, port: int, reader: Reader) -> tuple[str, int]:
    """Return an address and port that serve *port* of a service; raises LookupError."""
    service = reader.get_now(SERVICES, namespace, name)
    if service is None:
        raise LookupError(f"service {quote(name)} not found")
    spec = service.get("spec") or {}
    named = next((p.get("name", "") for p in spec.get("ports") or () if p.get("port") == port), None)
    if named is None:
        raise LookupError(f"no service port {port} found for service {quote(name)}")
    if spec.get("type") == "ExternalName":
        return spec.get("externalName", ""), port
    for endpoint_slice in reader.list_now(ENDPOINT_SLICES, namespace):
        labels = endpoint_slice["metadata"].get("labels") or {}
        if labels.get("kubernetes.io/service-name") == name:
            target = _port(endpoint_slice.get("ports"), named)
            for endpoint in endpoint_slice.get("endpoints") or ():
                if (
                    (endpoint.get("conditions") or {}).get("ready", True)
                    and target
                    and endpoint.get("addresses")
                ):
                    return endpoint["addresses"][0], target
    for subset in (reader.get_now(ENDPOINTS, namespace, name) or {}).get("subsets") or ():
        target = _port(subset.get("ports"), named)
        if target and subset.get("addresses"):
            return subset["addresses"][0].get("ip", ""), target
    raise LookupError(f"no endpoints available for service {quote(name)}")


def _port(ports: Any, name: str) -> int | None:
    return next((p.get("port") for p in ports or () if (p.get("name") or "") == name), None)


def _authority(bundle: object) -> bytes:
    if not bundle:
        return b""
    try:
        return base64.b64decode(str(bundle), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CallFailed(
            "could not get REST client: unable to load root certificates: invalid base64", 500
        ) from error


class WebhookClient:
    """Calls webhooks; keeps connections open between calls. `close` it when the server ends."""

    def __init__(self) -> None:
        self._pools: dict[Endpoint, Pool] = {}

    async def post(self, endpoint: Endpoint, body: bytes, seconds: float) -> bytes:
        """Return the answer's body; raises CallFailed with what a Go client would have said."""
        shown = _with_timeout(endpoint.url, seconds)
        pool = self._pool(endpoint)
        try:
            async with asyncio.timeout(seconds):
                answer = await pool.request(
                    _request(shown, body), timeout_seconds=seconds, repeatable=False
                )  # a webhook may have side effects
        except TimeoutError as error:
            raise CallFailed(
                f"failed to call webhook: Post {quote(shown)}: context deadline exceeded"
            ) from error
        except BodyTooLarge as error:
            raise CallFailed(
                f"failed to call webhook: the answer is larger than {MOST_ANSWER_BYTES} bytes"
            ) from error
        except (Broken, OSError, ValueError) as error:
            text = _in_go_words(error, endpoint)
            raise CallFailed(f"failed to call webhook: Post {quote(shown)}: {text}") from error
        media_type = answer.headers.get("content-type", "")
        if not 200 <= answer.code < 300:
            text = _status_text(answer.code, answer.body, media_type)
            raise CallFailed(f"failed to call webhook: {text}", answer.code)
        if not answer.body:
            raise CallFailed(
                f"failed to call webhook: 0-length response with status code: {answer.code} "
                f"and content type: {media_type}"
            )
        return answer.body

    async def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _pool(self, endpoint: Endpoint) -> Pool:
        """Return the connections to *endpoint*; those to the endpoint used first make room."""
        pool = self._pools.get(endpoint)
        if pool is None:
            tls = _context(endpoint.authority)
            address = Address(endpoint.host, endpoint.port, tls, endpoint.server_name)
            if len(self._pools) >= MOST_POOLS:
                self._pools.pop(next(iter(self._pools))).close()
            pool = self._pools[endpoint] = Pool(address, most_body_bytes=MOST_ANSWER_BYTES)
        return pool


def _context(authority: bytes) -> ssl.SSLContext:
    try:
        return trusting(authority)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise CallFailed("could not get REST client: unable to load root certificates", 500) from error


def _request(url: str, body: bytes) -> bytes:
    """Return the POST of *body* to *url*."""
    parts = urlsplit(url)
    target = percent_encoded(f"{parts.path or '/'}?{parts.query}", safe="/?%:@!$&'()*+,;=~")
    head = (
        f"POST {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, */*\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def _status_text(code: int, body: bytes, media_type: str) -> str:
    """Return what an HTTP status that is no success means, as clients say it."""
    message = _status_message(body)
    if message is not None:
        return message
    known = {
        400: "the server rejected our request for an unknown reason",
        401: "the server has asked for the client to provide credentials",
        404: "the server could not find the requested resource",
        405: "the server does not allow this method on the requested resource",
        409: "the server reported a conflict",
        422: "the server rejected our request due to an error in our request",
        429: "the server has received too many requests and has asked us to try again later",
        503: "the server is currently unable to handle the request",
        504: "the server was unable to return a response in the time allotted, but may still be processing "
        "the request",
    }
    if code in known:
        return known[code]
    is_text = not media_type or media_type.startswith("text/")
    text = body.decode("utf-8", "replace").strip()[:2048] if is_text else "unknown"
    if code == 406 and text in ("", "unknown"):
        return "the server was unable to respond with a content type that the client supports"
    if code in (403, 406, 415):
        return text
    if code >= 500:
        return f"an error on the server ({quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def _status_message(body: bytes) -> str | None:
    """Return the message of a body that is a Status of failure."""
    try:
        status = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if not isinstance(status, dict) or (status.get("kind"), status.get("apiVersion")) != ("Status", "v1"):
        return None
    return str(status.get("message") or "unknown") if status.get("status") != "Success" else None


def _in_go_words(error: Exception, endpoint: Endpoint) -> str:
    """Return a failure to connect as Go's net and tls packages word it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message
        if "mismatch" in reason or "not valid for" in reason:
            return f"tls: failed to verify certificate: x509: certificate is not valid for {endpoint.server_name}"
        if "expired" in reason or "not yet valid" in reason:
            return "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"
        return _UNKNOWN_AUTHORITY
    where = f"{endpoint.host}:{endpoint.port}"
    if isinstance(error, ssl.SSLError):
        if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "tls: first record does not look like a TLS handshake"
        return f"tls: {error.reason}"
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {endpoint.host}: no such host"
    if isinstance(error, ConnectionResetError) or (isinstance(error, Broken) and error.before_answer):
        return "EOF"
    if isinstance(error, OSError):
        # A name with several addresses fails with the failures of all of them in one error without a number.
        refused = error.errno == errno.ECONNREFUSED or f"Errno {errno.ECONNREFUSED}]" in str(error)
        number = errno.ECONNREFUSED if refused else error.errno
        return f"dial tcp {where}: connect: {os.strerror(number).lower() if number else error}"
    return str(error) or type(error).__name__
