"""How is a webhook reached? One HTTPS POST, with the webhook's own certificate authority and a time limit.

A hook names either a URL or a service. A service is looked up among the cluster's endpoints, since there is no
cluster network to route its address; its certificate must be for `<service>.<namespace>.svc`. What goes wrong is
told in the words a Go client has for it, because that is what people search for.
aiohttp is loaded with the first call: a cluster without webhooks never pays for it.
Not here: what is sent and what the answer means (weir.apiserver.webhooks.review).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from weir.apiserver.admission.attributes import Reader
from weir.apiserver.webhooks.review import CallFailed
from weir.objects.kinds import by_kind
from weir.values.quoting import quote

if TYPE_CHECKING:
    import aiohttp

Document = Mapping[str, Any]
MOST_ANSWER_BYTES = 16 * 1024 * 1024
SERVICE = by_kind("v1", "Service")
ENDPOINTS = by_kind("v1", "Endpoints")
ENDPOINT_SLICE = by_kind("discovery.k8s.io/v1", "EndpointSlice")
_UNKNOWN_AUTHORITY = "tls: failed to verify certificate: x509: certificate signed by unknown authority"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a hook is: the URL it is called by, and the address the connection goes to."""

    url: str
    host: str
    port: int
    server_name: str
    authority: bytes = b""


def place_of(client_config: Document, reader: Reader, seconds: float) -> Place:
    """Return where a hook's clientConfig points; raises CallFailed when it points nowhere."""
    authority = _authority(client_config.get("caBundle"))
    url = client_config.get("url")
    if url:
        parts = urlsplit(str(url))
        if parts.scheme != "https" or not parts.hostname:
            raise CallFailed(f"could not get REST client: {quote(str(url))} is not an https URL", 500)
        return Place(str(url), parts.hostname, parts.port or 443, parts.hostname, authority)
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
    return Place(shown, host, target, server_name, authority)


def _with_timeout(url: str, seconds: float) -> str:
    return f"{url}?timeout={seconds:g}s"


def service_address(namespace: str, name: str, port: int, reader: Reader) -> tuple[str, int]:
    """Return an address and port that serve *port* of a service; raises LookupError."""
    service = reader.get_now(SERVICE, namespace, name)
    if service is None:
        raise LookupError(f"service {quote(name)} not found")
    spec = service.get("spec") or {}
    named = next((p.get("name", "") for p in spec.get("ports") or () if p.get("port") == port), None)
    if named is None:
        raise LookupError(f"no service port {port} found for service {quote(name)}")
    if spec.get("type") == "ExternalName":
        return spec.get("externalName", ""), port
    for endpoint_slice in reader.list_now(ENDPOINT_SLICE, namespace):
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
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def post(self, place: Place, body: bytes, seconds: float) -> bytes:
        """Return the answer's body; raises CallFailed with what a Go client would have said."""
        import aiohttp

        shown = _with_timeout(place.url, seconds)
        context = self._context(place.authority)
        try:
            async with asyncio.timeout(seconds):
                async with self._open().post(
                    _connection_url(place, shown),
                    data=body,
                    headers={
                        "Content-Type": "application/json",
                        "Accept": "application/json, */*",
                        **_host(place),
                    },
                    ssl=context,
                    server_hostname=place.server_name,
                    allow_redirects=False,
                ) as response:
                    answer = await _bounded(response)
                    kind = response.headers.get("Content-Type", "")
                    if not 200 <= response.status < 300:
                        text = _status_text(response.status, answer, kind)
                        raise CallFailed(f"failed to call webhook: {text}", response.status)
                    if not answer:
                        raise CallFailed(
                            f"failed to call webhook: 0-length response with status code: {response.status} "
                            f"and content type: {kind}"
                        )
                    return answer
        except CallFailed:
            raise
        except TimeoutError as error:
            raise CallFailed(
                f"failed to call webhook: Post {quote(shown)}: context deadline exceeded"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            text = _in_go_words(error, place)
            raise CallFailed(f"failed to call webhook: Post {quote(shown)}: {text}") from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None or self._session.closed:
            # No proxy from the environment: a webhook's address is the administrator's word.
            self._session = aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _context(self, authority: bytes) -> ssl.SSLContext:
        key = hashlib.sha256(authority).digest()
        context = self._contexts.get(key)
        if context is None:
            try:
                context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
            except (ssl.SSLError, UnicodeDecodeError) as error:
                raise CallFailed(
                    "could not get REST client: unable to load root certificates", 500
                ) from error
            self._contexts[key] = context
        return context


def _connection_url(place: Place, shown: str) -> str:
    """Return the URL with the address the connection goes to; the path stays."""
    parts = urlsplit(shown)
    host = f"[{place.host}]" if ":" in place.host else place.host
    return parts._replace(netloc=f"{host}:{place.port}").geturl()


def _host(place: Place) -> dict[str, str]:
    return {"Host": urlsplit(place.url).netloc}


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    """Return the body, refusing one that never ends."""
    found = bytearray()
    async for chunk in response.content.iter_chunked(65536):
        found += chunk
        if len(found) > MOST_ANSWER_BYTES:
            raise CallFailed(f"failed to call webhook: the answer is larger than {MOST_ANSWER_BYTES} bytes")
    return bytes(found)


def _status_text(code: int, body: bytes, media_type: str) -> str:
    """Return what an HTTP status that is no success means, as clients say it."""
    told = _told_status(body)
    if told is not None:
        return told
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


def _told_status(body: bytes) -> str | None:
    """Return the message of a body that is a Status of failure."""
    try:
        status = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError):
        return None
    if not isinstance(status, dict) or (status.get("kind"), status.get("apiVersion")) != ("Status", "v1"):
        return None
    return str(status.get("message") or "unknown") if status.get("status") != "Success" else None


def _in_go_words(error: Exception, place: Place) -> str:
    """Return a failure to connect as Go's net and tls packages word it."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = str(error.certificate_error)
        if "Hostname mismatch" in reason or "not valid for" in reason:
            return (
                f"tls: failed to verify certificate: x509: certificate is not valid for {place.server_name}"
            )
        if "expired" in reason:
            return "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"
        return _UNKNOWN_AUTHORITY
    where = f"{place.host}:{place.port}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {place.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"dial tcp {where}: connect: connection refused"
        return f"dial tcp {where}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return "EOF"
    return str(error) or type(error).__name__
