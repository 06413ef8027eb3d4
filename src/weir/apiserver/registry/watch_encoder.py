"""Encodes watch events: objects, PartialObjectMetadata or table rows.

Spec: apiserver.md 10 "Watch". Pure: a stored value and a form in, the bytes of a line or chunk out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from weir.apiserver import documents
from weir.apiserver.printers import tables
from weir.apiserver.registry import codec
from weir.objects.kind import Kind

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_encode = msgspec.json.Encoder().encode


def chunk(frame: bytes) -> bytes:
    """Return bytes as one HTTP/1.1 chunk.

    >>> chunk(b"hello")
    b'5\\r\\nhello\\r\\n'
    """
    return b"%x\r\n%b\r\n" % (len(frame), frame)


class View:
    """How a watcher wants its objects: as they are, as metadata, or as table rows."""

    __slots__ = ("include", "kind", "shape")

    def __init__(self, kind: Kind, shape: str = "", include: str = "") -> None:
        self.kind, self.shape, self.include = kind, shape, include

    def key(self) -> tuple[Kind, str, str]:
        """Return what views with equal frames share."""
        return self.kind, self.shape, self.include

    def show(self, value: bytes, now: float, *, with_columns: bool = True) -> bytes:
        """Return a stored value as the object of an event."""
        if not self.shape:
            return codec.served(self.kind, value)
        document = codec.decode(self.kind, value)
        if self.shape == "Table":
            metadata = {"resourceVersion": document["metadata"]["resourceVersion"]}
            return _encode(
                tables.table(
                    self.kind,
                    [document],
                    metadata,
                    include=self.include,
                    now=now,
                    with_columns=with_columns,
                )
            )
        return _encode(tables.partial(document, self.kind))

    def bookmark(self, revision: int, *, initial_end: bool = False, with_columns: bool = True) -> bytes:
        """Return the object of a BOOKMARK event."""
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        if self.shape and self.shape != "Table":
            return _encode(tables.partial({"metadata": metadata}))
        head = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        empty = {**head, **documents.zero_fields(self.kind)}
        if not self.shape:
            return _encode(empty)
        # In a table it is the row of an object that has nothing: what the bookmark says is in its metadata.
        version = {"resourceVersion": str(revision)}
        return _encode(
            tables.table(
                self.kind, [empty], version, include=self.include, now=0.0, with_columns=with_columns
            )
        )


def frame(type: str, shown: bytes) -> bytes:
    """Return one event as a line."""
    return b'{"type":"%b","object":%b}\n' % (type.encode(), shown)
