"""HTTPS server of the webhooks: one AdmissionReview in, one out, on connections that stay open.

Only the cluster's API server is served. A request is judged by its head alone: POST to the path of a webhook behind a
path secret, from a client certificate with an allowed name where such are asked for (the TLS handshake asks for the
certificate itself). Anything else gets a short answer and the end of its connection, and no byte of its body is read.
GET of the health pages needs no credential. Every pod of a cluster may connect; who is a stranger, and what strangers
may take, is in weir.observe.http_server. Open connections end on shutdown: an API server keeps using one as long as it
is answered, and would otherwise never turn to the other replica.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir.lowering.webhooks import SERVED_PATHS
from weir.observe import http_server
from weir.observe.http_server import TEXT, Answer, Head, Limits, Refused
from weir.observe.logs import Log
from weir.operator.review_types import decode_review

_LONGEST_BODY: Final = 8 * 1024 * 1024  # an API server takes objects of 3 MiB, and a review may hold two
_ALL_BODIES: Final = 32 * 1024 * 1024  # of what has arrived and is not answered
_STRANGER_SECONDS: Final = 5.0  # for a connection to prove itself
_REQUEST_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 180.0
_MOST_STRANGERS: Final = 128
_MOST_CONNECTIONS: Final = 256  # that have proven to be an API server's
_LONGEST_TEXT: Final = 1024  # of an error that is answered

Document = dict[str, Any]
Review = Callable[[str, Mapping[str, Any]], Awaitable[Document]]
_encode: Final = msgspec.json.Encoder().encode
_LOG: Final = Log("weir.operator")

#: Why a request is refused, as a metric's label: these and no others.
REFUSALS: Final = ("head", "method", "path", "name", "body", "room", "unready")


def _ignore(why: str) -> None:
    """Take no notice of a refusal."""


@dataclass(frozen=True)
class Callers:
    """Who is heard: callers that name a secret, with a certificate for one of *names* where there are any."""

    admits: Callable[[str], bool]
    names: frozenset[str] = frozenset()
    refused: Callable[[str], None] = _ignore  #: is told why, in one of `REFUSALS`


def serving(
    review: Review, ready: Callable[[], bool], host: str, port: int, tls: ssl.SSLContext, callers: Callers
) -> AbstractAsyncContextManager[int]:
    """Serve webhooks while the block runs; gives the port, which is chosen when *port* is 0."""
    limits = Limits(
        _LONGEST_BODY,
        _ALL_BODIES,
        _MOST_STRANGERS,
        _MOST_CONNECTIONS,
        _STRANGER_SECONDS,
        _REQUEST_SECONDS,
        _IDLE_SECONDS,
    )
    return http_server.serving(_Hooks(review, ready, callers), limits, host, port, tls)


class _Hooks:
    """The webhooks and the health pages."""

    def __init__(self, review: Review, ready: Callable[[], bool], callers: Callers) -> None:
        self._review, self._ready, self._callers = review, ready, callers

    def admit(self, head: Head) -> bool:
        """Return whether *head* is the API server's; raises Refused for what is neither that nor a health page."""
        if head.method == "GET":
            if head.has_body:
                raise Refused(400, "body")
            return False
        if head.method != "POST":
            raise Refused(405, "method", b"only GET and POST")
        secret, _, path = head.path.removeprefix("/").partition("/")
        if not self._callers.admits(secret) or f"/{path}" not in SERVED_PATHS:
            raise Refused(404, "path", b"404 page not found")
        if self._callers.names and not self._callers.names & _names(head.certificate):
            raise Refused(403, "name", b"the client certificate has none of the allowed names")
        if not self._ready():
            raise Refused(503, "unready", b"weir does not know the cluster yet")
        return True

    async def answer(self, head: Head, body: bytes) -> Answer:
        """Return the review of *body*, or a health page."""
        if head.method == "GET":
            return self._page(head.path)
        path = "/" + head.path.removeprefix("/").partition("/")[2]
        try:
            document = decode_review(body)
        except (ValueError, RecursionError):
            return Answer(400, TEXT, b"not an AdmissionReview")
        try:
            return Answer(200, "application/json", _encode(await self._review(path, document)))
        except Exception as error:  # anything: the API server must get an answer, and the log the reason
            _LOG.exception("A webhook call failed", path=path)
            return Answer(500, TEXT, str(error).encode("utf-8", "replace")[:_LONGEST_TEXT])

    def _page(self, path: str) -> Answer:
        if path == "/livez":
            return Answer(200, TEXT, b"ok")
        if path in ("/healthz", "/readyz"):
            return Answer(200, TEXT, b"ok") if self._ready() else Answer(503, TEXT, b"not ready")
        raise Refused(404, "path", b"404 page not found")

    def refuse(self, refused: Refused, head: Head | None) -> Answer:
        """Return the short answer of a refusal, and count it."""
        self._callers.refused(refused.why)
        return Answer(refused.code, TEXT, refused.text)


def _names(certificate: Mapping[str, Any]) -> set[str]:
    """Return the names that a client's certificate is for."""
    common = {
        value for part in certificate.get("subject") or () for key, value in part if key == "commonName"
    }
    return common | {value for _, value in certificate.get("subjectAltName") or ()}
