"""Renders objects and lists: JSON, protobuf, YAML, Table, PartialObjectMetadata.

Spec: apiserver.md 3 "Representations". Stored values are JSON already, so that an ordinary response is joined bytes;
messages are encoded once (weir.apiserver.registry.watch_encoder), so that a list of them is, too. Other forms are built
from documents, large ones off the loop (weir.apiserver.off_loop).
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable
from typing import Any

import msgspec

from weir import errors
from weir.apiserver.off_loop import LARGE_BYTES, OffLoop
from weir.apiserver.older_release import Release
from weir.apiserver.printers import tables
from weir.apiserver.registry import codec
from weir.apiserver.registry.lists import Page, list_body, list_kind
from weir.apiserver.registry.scale import SCALE
from weir.apiserver.registry.watch_encoder import Messages, encoded
from weir.apiserver.registry.write_request import WriteResult
from weir.apiserver.transport import protobuf
from weir.apiserver.transport.http import YAML, ListResponse, Request, Response, Stream
from weir.apiserver.transport.negotiation import (
    JSON,
    MediaTypeOptions,
    check_shape,
    negotiate,
    pretty,
    to_yaml,
    wants_pretty,
)
from weir.clock import Clock
from weir.objects.kind import Kind
from weir.store import StoreUnavailable

GZIP_FROM_BYTES = 128 * 1024
PROTOBUF = protobuf.MEDIA_TYPE.encode()
_encode = msgspec.json.Encoder().encode


class Renderer:
    """Turns what the verbs return into answers."""

    def __init__(self, clock: Clock, off_loop: OffLoop, messages: Messages) -> None:
        self._clock, self._off_loop, self._messages = clock, off_loop, messages

    async def page(
        self, request: Request, kind: Kind, page: Page, form: MediaTypeOptions, include: str = ""
    ) -> Response:
        """Return a list in the negotiated form."""
        plain = form == JSON and not kind.converted and not wants_pretty(request.params.get("pretty"))
        if plain:
            return ListResponse(200, list_body(kind, page))
        if form.protobuf and not form.shape:
            return await self._messages_page(request, kind, page)
        if sum(len(item.value) for item in page.items) < LARGE_BYTES:
            return self._page(request, kind, page, form, include)
        turn = request.turn or self._off_loop.turn(request.user.name)
        return await self._off_loop.run(turn, self._page, request, kind, page, form, include)

    async def _messages_page(self, request: Request, kind: Kind, page: Page) -> Response:
        """Return a list in protobuf: the head, what is kept of each object or is encoded now, the end."""
        messages = [self._messages.find(kind, item.key, item.value) for item in page.items]
        missing = [at for at, message in enumerate(messages) if message is None]

        def encode() -> list[bytes]:
            return [encoded(kind, page.items[at].value) for at in missing]

        if sum(len(page.items[at].value) for at in missing) < LARGE_BYTES:
            made = encode()
        else:
            turn = request.turn or self._off_loop.turn(request.user.name)
            made = await self._off_loop.run(turn, encode)
        for at, message in zip(missing, made, strict=True):
            messages[at] = message
            self._messages.keep(kind, page.items[at].key, page.items[at].value, message)
        parts = protobuf.list_parts(
            kind.api_version, list_kind(kind), page.metadata(), [message for message in messages if message]
        )
        return ListResponse(200, parts, b"", PROTOBUF)

    def _page(
        self, request: Request, kind: Kind, page: Page, form: MediaTypeOptions, include: str
    ) -> Response:
        if not form.shape:
            return self.in_form(request, 200, b",".join(list_body(kind, page)), form)
        documents = [codec.decode(kind, item.value) for item in page.items]
        if form.shape == "Table":
            now = self._clock.time()
            shown = tables.table(
                kind, documents, page.metadata(), include=include, now=now, version=form.meta
            )
        else:
            shown = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": form.meta,
                "metadata": page.metadata(),
                "items": [tables.partial(document, kind, form.meta) for document in documents] or None,
            }
        return self.in_form(request, 200, _encode(shown), form)

    async def object(
        self, request: Request, kind: Kind, outcome: WriteResult, form: MediaTypeOptions
    ) -> Response:
        """Return one object in the negotiated form."""
        if form is JSON and not request.query:
            return Response(outcome.code, outcome.body)
        if form.protobuf and not form.shape and outcome.stored is not None:
            stored = outcome.stored
            message = self._messages.of(kind, stored.key, stored.value)
            return Response(
                outcome.code, protobuf.object_bytes(kind.api_version, kind.kind, message), PROTOBUF
            )
        if len(outcome.body) < LARGE_BYTES:
            return self._object(request, kind, outcome, form)
        turn = request.turn or self._off_loop.turn(request.user.name)
        return await self._off_loop.run(turn, self._object, request, kind, outcome, form)

    def _object(self, request: Request, kind: Kind, outcome: WriteResult, form: MediaTypeOptions) -> Response:
        code, body, _ = outcome
        if form.shape and (kind.stored or form.shape != "Table" or kind is SCALE):
            document = msgspec.json.decode(body)
            if document.get("kind") == kind.kind:
                check_shape(form, kind.group, kind.kind, listed=False)
                metadata = {"resourceVersion": document["metadata"].get("resourceVersion", "")}
                if form.shape == "Table":
                    include = tables.check_include(request.params.get("includeObject", ""))
                    now = self._clock.time()
                    shown = tables.table(
                        kind, [document], metadata, include=include, now=now, version=form.meta
                    )
                    body = _encode(shown)
                else:
                    body = _encode(tables.partial(document, kind, form.meta))
        return self.in_form(request, code, body, form)

    @staticmethod
    def in_form(request: Request, code: int, body: bytes, form: MediaTypeOptions) -> Response:
        """Return JSON as it is, indented, as YAML or, if it has a message, as protobuf."""
        if form.yaml:
            return Response(code, to_yaml(msgspec.json.decode(body)), YAML)
        if form.protobuf and (message := protobuf.to_bytes(msgspec.json.decode(body))) is not None:
            return Response(code, message, PROTOBUF)
        if request.query and wants_pretty(request.params.get("pretty")):
            body = pretty(body)
        return Response(code, body)

    def compress(self, request: Request, answer: Response | Stream) -> Awaitable[None] | None:
        """Return what compresses a large answer for a client that can read it so; None: it goes as it is."""
        if (
            isinstance(answer, Response)
            and answer.size >= GZIP_FROM_BYTES
            and b"gzip" in request.headers.get(b"accept-encoding", b"")
        ):
            return self._compress(answer)
        return None

    async def _compress(self, answer: Response) -> None:
        answer.body = await self._off_loop.run_aside(gzip.compress, answer.body, 1)
        headers: list[Any] = answer.headers or []
        answer.headers = [*headers, (b"Content-Encoding", b"gzip"), (b"Vary", b"Accept-Encoding")]


# ── renders errors as Status responses in the negotiated media type ──


def unavailable(error: StoreUnavailable) -> errors.ApiError:
    """Return the error of a request when the store is away; a write that may have happened is a timeout."""
    if error.unknown:
        return errors.Timeout(str(error))
    return errors.ServiceUnavailable(str(error), retry_after_seconds=1)


def reworded(error: errors.ApiError, release: Release) -> errors.ApiError:
    """Return an error in the words of an older release."""
    error.message = release.words(error.message)
    for cause in (error.details or {}).get("causes") or ():
        cause["message"] = release.words(cause.get("message", ""))
    return error


def failure(request: Request, error: errors.ApiError) -> Response:
    """Return an error in the negotiated media type, JSON when that is unknown."""
    headers = None
    if error.retry_after_seconds is not None:
        headers = [(b"Retry-After", str(error.retry_after_seconds).encode())]
    accept = request.headers.get(b"accept", b"")
    if b"yaml" in accept or b"protobuf" in accept:
        try:
            form = negotiate(accept.decode("latin-1"), "", protobuf=True)
            if form.yaml and not form.shape:
                return Response(error.code, to_yaml(error.status()), YAML, headers)
            if form.protobuf and (message := protobuf.to_bytes(error.status())) is not None:
                return Response(error.code, message, protobuf.MEDIA_TYPE.encode(), headers)
        except errors.NotAcceptable:
            pass
    return Response(error.code, _encode(error.status()), headers=headers)
