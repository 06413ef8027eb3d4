"""In what form does a value lie on the disk? What stands between the store and it, for example encryption.

A transformer sees a value on its way to the disk and back, with the key it belongs to; memory holds values as they are.
One object serves every thread of a store.
Not here: ciphers (weir.apiserver.encryption).
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
