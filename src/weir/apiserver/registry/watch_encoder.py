"""Encodes watch events: objects, PartialObjectMetadata or table rows, in JSON or protobuf.

Spec: apiserver.md 10 "Watch". A stored value and a form in, the bytes of a line, frame or chunk out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from weir.apiserver import documents
from weir.apiserver.printers import tables
from weir.apiserver.registry import codec
from weir.apiserver.transport import protobuf
from weir.apiserver.transport.protobuf import raw_field
from weir.objects.kind import Kind

# ── stored objects as protobuf messages, each encoded once for lists, watches and answers ──
# Spec: apiserver.md 3 "Representations". Only the newest encoded version of an object is kept, the objects together
# within `MOST_BYTES`; the object that was encoded first goes first. Without this, every watcher's list at its start and
# every event would cost an encoding anew (docs/decisions/0160).


#: Some 40,000 pods.
MOST_BYTES = 64 << 20


class Messages:
    """The messages of stored objects, in the form that lists and envelopes share (`protobuf.raw_field`)."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._kept: dict[tuple[str, str], tuple[bytes, bytes]] = {}

    def of(self, kind: Kind, key: str, value: bytes) -> bytes:
        """Return the message of what is stored as *value* at *key*, in the version of *kind*."""
        message = self.find(kind, key, value)
        if message is None:
            message = encoded(kind, value)
            self.keep(kind, key, value, message)
        return message

    def find(self, kind: Kind, key: str, value: bytes) -> bytes | None:
        """Return the message if it is kept."""
        kept = self._kept.get((key, kind.api_version))
        return kept[1] if kept is not None and kept[0] == value else None

    def keep(self, kind: Kind, key: str, value: bytes, message: bytes) -> None:
        """Keep the message in place of an older one of the object."""
        older = self._kept.pop((key, kind.api_version), None)
        self._bytes += len(message) - (len(older[1]) if older is not None else 0)
        self._kept[key, kind.api_version] = value, message
        while self._bytes > self._most_bytes:
            _, dropped = self._kept.pop(next(iter(self._kept)))
            self._bytes -= len(dropped)


def encoded(kind: Kind, value: bytes) -> bytes:
    """Return the message of a stored value, encoded anew."""
    return raw_field(kind.api_version, kind.kind, codec.decode(kind, value))


# ── encodes watch events: objects, PartialObjectMetadata or table rows, in JSON or protobuf ──


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

    __slots__ = ("include", "kind", "messages", "shape")

    def __init__(
        self, kind: Kind, shape: str = "", include: str = "", messages: Messages | None = None
    ) -> None:
        """*messages* makes it a view in protobuf."""
        self.kind, self.shape, self.include, self.messages = kind, shape, include, messages

    def key(self) -> tuple[Kind, str, str, bool]:
        """Return what views with equal frames share."""
        return self.kind, self.shape, self.include, self.messages is not None

    def frame(self, type: str, shown: bytes) -> bytes:
        """Return one event with an object that was encoded for this view."""
        if self.messages is not None:
            return protobuf.event_frame(type, shown)
        return b'{"type":"%b","object":%b}\n' % (type.encode(), shown)

    def encode(self, document: dict[str, Any]) -> bytes:
        """Return an object that is not stored as this view shows it: metadata, a bookmark, an error."""
        message = protobuf.to_bytes(document) if self.messages is not None else None
        return _encode(document) if message is None else message

    def show(self, key: str, value: bytes, now: float, *, with_columns: bool = True) -> bytes:
        """Return what is stored at *key* as the object of an event."""
        if not self.shape and self.messages is not None:
            message = self.messages.of(self.kind, key, value)
            return protobuf.object_bytes(self.kind.api_version, self.kind.kind, message)
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
        return self.encode(tables.partial(document, self.kind))

    def bookmark(self, revision: int, *, initial_end: bool = False, with_columns: bool = True) -> bytes:
        """Return the object of a BOOKMARK event."""
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        if self.shape and self.shape != "Table":
            return self.encode(tables.partial({"metadata": metadata}))
        head = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        empty = {**head, **documents.zero_fields(self.kind)}
        if not self.shape:
            return self.encode(empty)
        # In a table it is the row of an object that has nothing: what the bookmark says is in its metadata.
        version = {"resourceVersion": str(revision)}
        return _encode(
            tables.table(
                self.kind, [empty], version, include=self.include, now=0.0, with_columns=with_columns
            )
        )
