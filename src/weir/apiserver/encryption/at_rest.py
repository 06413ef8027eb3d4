"""Encryption transformer of the store: finds a resource's providers by storage path.

A resource without a rule is stored in plain text, and encrypted data under it is an error at startup. `reload` takes
a new configuration; an invalid one changes nothing. Spec: the file's format is Kubernetes'
(weir.apiserver.encryption.configuration).
"""

from __future__ import annotations

import logging
from pathlib import Path

from weir.apiserver.encryption.configuration import EVERYTHING, ConfigurationError, Resource, Rules, read
from weir.apiserver.encryption.providers import IDENTITY, Providers, Undecipherable
from weir.objects.kinds import KINDS
from weir.store.transformer import Unreadable

__all__ = ["AtRest"]

logger = logging.getLogger("weir.apiserver.encryption")
_PLAIN = Providers([IDENTITY])


class AtRest:
    """The store's transformer (`weir.store.transformer.Transformer`); safe for use from several threads."""

    def __init__(self, path: Path | None = None) -> None:
        """Read the configuration at *path*, if one is given. Raises ConfigurationError."""
        self._path = path
        self._by_prefix: dict[str, Providers] = {} if path is None else _by_prefix(read(path))

    @property
    def plain(self) -> bool:
        return self._path is None

    def reload(self) -> bool:
        """Read the configuration again; return whether it is in use now. A bad one is logged, and the old one stays."""
        if self._path is None:
            return True
        try:
            self._by_prefix = _by_prefix(read(self._path))
        except ConfigurationError as error:
            logger.error("the encryption configuration stays as it was: %s", error)
            return False
        logger.info("the encryption configuration was read again file=%s", self._path)
        return True

    def _of(self, key: str) -> Providers:
        """Return the providers of the resource whose object lies at *key*."""
        if not self._by_prefix:
            return _PLAIN
        _, _, first, second, *_ = (*key.split("/", 4), "", "")
        found = self._by_prefix.get(f"/registry/{first}/")
        return found or self._by_prefix.get(f"/registry/{first}/{second}/") or _PLAIN

    def to_storage(self, key: str, value: bytes) -> bytes:
        return self._of(key).seal(value, key)

    def from_storage(self, key: str, stored: bytes) -> bytes:
        try:
            return self._of(key).open(stored, key)
        except Undecipherable as error:
            hint = "give the server the key that wrote it with --encryption-provider-config"
            raise Unreadable(f"{key} cannot be decrypted: {error}; {hint}") from None

    def is_stale(self, key: str, stored: bytes) -> bool:
        return self._of(key).is_stale(stored)

    def may_be_stale(self, key: str) -> bool:
        return self._of(key) is not _PLAIN


def _by_prefix(rules: Rules) -> dict[str, Providers]:
    """Return the providers of every stored kind that a rule names, by its storage path."""
    found = {}
    for kind in KINDS:
        if kind.stored:
            group = kind.group if kind.storage_group is None else kind.storage_group
            for resource in (Resource(group, kind.plural), Resource(group, "*"), EVERYTHING):
                if resource in rules:
                    found[kind.prefix] = rules[resource]
                    break
    return found
