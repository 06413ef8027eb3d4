"""Transformers between a value in memory and on disk, such as encryption.

A transformer gets the value with its key; one object serves every thread of a store. Ciphers are in
weir.apiserver.encryption.
"""

from __future__ import annotations

from typing import Protocol

from weir.store.backend import StoreUnavailable


class Unreadable(StoreUnavailable):
    """A value on the disk cannot be turned back; the text names its key and why."""


class Transformer(Protocol):
    """What is done with values on their way to the disk and back."""

    @property
    def plain(self) -> bool:
        """Whether values lie on the disk as they are; else nothing that is forgotten may be left there either."""

    def to_storage(self, key: str, value: bytes) -> bytes:
        """Return what is written to the disk for *value*."""

    def from_storage(self, key: str, stored: bytes) -> bytes:
        """Return the value that *stored* was made from. Raises Unreadable."""

    def is_stale(self, key: str, stored: bytes) -> bool:
        """Return whether *stored* is in another form than `to_storage` would give it now."""

    def may_be_stale(self, key: str) -> bool:
        """Return whether it is worth reading the disk to ask `is_stale`."""


class Plain:
    """Values as they are."""

    plain = True

    def to_storage(self, key: str, value: bytes) -> bytes:
        return value

    def from_storage(self, key: str, stored: bytes) -> bytes:
        return stored

    def is_stale(self, key: str, stored: bytes) -> bool:
        return False

    def may_be_stale(self, key: str) -> bool:
        return False


PLAIN: Transformer = Plain()
