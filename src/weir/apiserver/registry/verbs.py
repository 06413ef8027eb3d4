"""Get, create and update of one object: options and bodies, decoded.

Spec: apiserver.md 2 "Decoding", 4 "Create and update". What happens to a decoded object is in .write_path.
"""

from __future__ import annotations

import msgspec

from weir import errors
from weir.apiserver.registry import codec
from weir.apiserver.registry.object_write import check_name, check_namespace, parse_version
from weir.apiserver.registry.write_path import WritePath
from weir.apiserver.registry.write_request import WriteRequest, WriteResult
from weir.apiserver.transport.bodies import decode
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.options import WriteOptions
from weir.fields.field import invalid
from weir.objects.kind import Document, Kind

_encode = msgspec.json.Encoder().encode


class Verbs(WritePath):
    """The verbs on one object."""

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


def msgspec_copy(value: Document) -> Document:
    """Return a deep copy of a JSON document."""
    copied: Document = msgspec.json.decode(_encode(value))
    return copied
