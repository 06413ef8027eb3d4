"""Renders objects and lists: JSON, YAML, Table, PartialObjectMetadata.

Spec: apiserver.md 3 "Representations". Stored values are JSON already, so that an ordinary response is joined bytes;
other forms are built from documents, large ones off the loop (weir.apiserver.off_loop).
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable
from typing import Any

import msgspec

from weir.apiserver.off_loop import LARGE_BYTES, OffLoop
from weir.apiserver.printers import tables
from weir.apiserver.registry import codec
from weir.apiserver.registry.lists import Page, list_body
from weir.apiserver.registry.scale_objects import SCALE
from weir.apiserver.registry.verbs import WriteResult
from weir.apiserver.transport.http import YAML, ListResponse, Request, Response, Stream
from weir.apiserver.transport.negotiation import (
    JSON,
    MediaTypeOptions,
    check_shape,
    pretty,
    to_yaml,
    wants_pretty,
)
from weir.clock import Clock
from weir.objects.kind import Kind

__all__ = ["Renderer"]

GZIP_FROM_BYTES = 128 * 1024
_encode = msgspec.json.Encoder().encode


class Renderer:
    """Turns what the verbs return into answers."""

    def __init__(self, clock: Clock, off_loop: OffLoop) -> None:
        self._clock, self._off_loop = clock, off_loop

    async def page(
        self, request: Request, kind: Kind, page: Page, form: MediaTypeOptions, include: str = ""
    ) -> Response:
        """Return a list in the negotiated form."""
        plain = form == JSON and not kind.converted and not wants_pretty(request.params.get("pretty"))
        if plain:
            return ListResponse(200, list_body(kind, page))
        if sum(len(item.value) for item in page.items) < LARGE_BYTES:
            return self._page(request, kind, page, form, include)
        turn = request.turn or self._off_loop.turn(request.user.name)
        return await self._off_loop.run(turn, self._page, request, kind, page, form, include)

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
            return Response(*outcome)
        if len(outcome.body) < LARGE_BYTES:
            return self._object(request, kind, outcome, form)
        turn = request.turn or self._off_loop.turn(request.user.name)
        return await self._off_loop.run(turn, self._object, request, kind, outcome, form)

    def _object(self, request: Request, kind: Kind, outcome: WriteResult, form: MediaTypeOptions) -> Response:
        code, body = outcome
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
        """Return JSON as it is, indented or as YAML."""
        if form.yaml:
            return Response(code, to_yaml(msgspec.json.decode(body)), YAML)
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
