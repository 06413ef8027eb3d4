"""Get, create and update of one object: decoding, and retries of a change.

Spec: apiserver.md 2 "Decoding", 4 "Create and update". A write that loses a race is retried on the newer object
unless the client sent a resourceVersion. The stages of a write are in .write_path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from weir import errors
from weir.apiserver.registry import codec
from weir.apiserver.registry.identity import check_name, check_namespace, parse_version
from weir.apiserver.registry.storage import ATTEMPTS, Parts, Storage
from weir.apiserver.registry.write_path import WritePath
from weir.apiserver.registry.write_request import ObjectWrite, WriteRequest, WriteResult
from weir.apiserver.transport.bodies import decode
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.options import WriteOptions
from weir.objects.kind import Kind
from weir.validate.field import invalid

__all__ = ["Parts", "Verbs", "WriteResult"]

Document = dict[str, Any]
_encode = msgspec.json.Encoder().encode


class Verbs(Storage):
    """The verbs on one object."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._path = WritePath(self)
        self.admit = self._path.admit

    async def get(self, kind: Kind, namespace: str, name: str) -> WriteResult:
        """Return one object."""
        stored = (
            await self.read(kind, namespace, name) if kind.converted else self.find(kind, namespace, name)
        )
        return WriteResult(200, codec.served(kind, stored.value), stored)

    async def decode(
        self, request: Request, kind: Kind, field_validation: str, warnings: list[str]
    ) -> Document:
        """Return the body of *request* as a checked document, and add to *warnings*."""
        document, notes = await self.off_loop.run(request.turn, decode, request, kind, field_validation)
        warnings.extend(notes)
        return document

    async def create(self, request: Request, kind: Kind, namespace: str, warnings: list[str]) -> WriteResult:
        """Create the object the body describes."""
        options = WriteOptions.parse(request.params, "CreateOptions")
        write = WriteRequest.of(request, kind, namespace, "", "", options, warnings)
        document = await self.decode(request, kind, options.field_validation, warnings)
        return await self.create_document(write, document)

    async def create_document(self, request: WriteRequest, document: Document) -> WriteResult:
        """Create a decoded object."""
        result = await self._path.run(ObjectWrite(request, document))
        assert result is not None  # only a change can lose a race
        return result

    async def update(
        self, request: Request, kind: Kind, namespace: str, name: str, subresource: str, warnings: list[str]
    ) -> WriteResult:
        """Replace the object with the one in the body."""
        options = WriteOptions.parse(request.params, "UpdateOptions")
        write = WriteRequest.of(request, kind, namespace, name, subresource, options, warnings)
        document = await self.decode(request, kind, options.field_validation, warnings)
        metadata = document.setdefault("metadata", {})
        check_namespace(kind, metadata, namespace)
        check_name(metadata, name)
        version = metadata.get("resourceVersion") or ""
        if version == "0":  # any version
            version = ""
            metadata.pop("resourceVersion")
        expected = parse_version(version) if version else 0
        if self.store.get(kind.key(namespace, name)) is None:
            if not (kind.create_on_update and subresource == ""):
                raise errors.NotFound.object(kind, name)
            metadata.pop("resourceVersion", None)
            write.options = {"kind": "UpdateOptions", **options.document}
            return await self.create_document(write, document)
        if not expected and not kind.unconditional_update:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            # upstream names the resource here
            raise errors.Invalid.of(kind.group, kind.plural, name, [problem])
        return await self.change(write, lambda old: msgspec_copy(document), expected=expected)

    async def change(
        self, request: WriteRequest, compute: Callable[[Document], Document], *, expected: int = 0
    ) -> WriteResult:
        """Replace the object by what *compute* makes of it; *expected* is the version the client read.

        When another write is faster, *compute* is called again with the newer object.
        """
        kind, namespace, name = request.kind, request.namespace, request.name

        def computed(value: bytes) -> tuple[Document, Document]:
            old = codec.decode(kind, value)
            return old, compute(old)

        for _ in range(ATTEMPTS):
            stored = await self.in_version(kind, self.find(kind, namespace, name))
            if expected and stored.mod_revision != expected:
                await self.store.fresh()  # another server may have written what the client read
                stored = await self.in_version(kind, self.find(kind, namespace, name))
                if stored.mod_revision != expected:
                    raise errors.Conflict.object(kind, name)
            before = len(request.warnings)
            request.turn = request.turn or self.turn_for(stored.value, request.user.name)
            old, new = await self.off_loop.run(request.turn, computed, stored.value)
            result = await self._path.run(ObjectWrite(request, new, old, stored))
            if result is not None:
                return result
            del request.warnings[before:]
        raise errors.Conflict.object(kind, name)


def msgspec_copy(value: Document) -> Document:
    """Return a deep copy of a JSON document."""
    copied: Document = msgspec.json.decode(_encode(value))
    return copied
