"""Stored objects as protobuf messages, each encoded once for lists, watches and answers.

Spec: apiserver.md 3 "Representations". Only the newest encoded version of an object is kept, the objects together
within `MOST_BYTES`; the object that was encoded first goes first. Without this, every watcher's list at its start and
every event would cost an encoding anew (docs/decisions/0160).
"""

from __future__ import annotations

from weir.apiserver.registry import codec
from weir.apiserver.transport.protobuf import raw_field
from weir.objects.kind import Kind

__all__ = ["Messages"]

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
