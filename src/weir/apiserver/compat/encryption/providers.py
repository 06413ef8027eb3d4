"""Encryption providers: aescbc, aesgcm and identity.

Stored values begin with `k8s:enc:<provider>:v1:<key name>:`, followed by Kubernetes' format: `aescbc` the
initialization vector and the PKCS#7-padded text, `aesgcm` the nonce and the text with its tag, bound to the storage
path, so that secrets cannot be swapped. The first key encrypts, every key decrypts. Ciphers are the `cryptography`
package's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.padding import PKCS7

ENCRYPTED: Final = b"k8s:enc:"  #: begins everything encrypted, and nothing else
AES_KEY_BYTES: Final = (16, 24, 32)
_BLOCK: Final = 16
_NONCE: Final = 12
_SHORT: Final = "the stored data was shorter than the required size"


class Undecipherable(ValueError):
    """A stored value that a provider cannot read; the text says why, in upstream's words."""


class Sealing(Protocol):
    """One key of one provider."""

    def seal(self, value: bytes, path: str) -> bytes:
        """Return what is stored for *value* at *path*, behind the prefix."""

    def open(self, stored: bytes, path: str) -> bytes:
        """Return the value that *stored* was made from. Raises Undecipherable."""


class Aescbc:
    """AES in CBC mode with a random vector: confidential, but not authenticated."""

    def __init__(self, key: bytes, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._algorithm, self._random_bytes = algorithms.AES(key), random_bytes

    def seal(self, value: bytes, path: str) -> bytes:
        vector = self._random_bytes(_BLOCK)
        padder = PKCS7(_BLOCK * 8).padder()
        encryptor = Cipher(self._algorithm, modes.CBC(vector)).encryptor()
        return vector + encryptor.update(padder.update(value) + padder.finalize()) + encryptor.finalize()

    def open(self, stored: bytes, path: str) -> bytes:
        if len(stored) < _BLOCK:
            raise Undecipherable(_SHORT)
        if len(stored) % _BLOCK:
            raise Undecipherable("the stored data is not a multiple of the block size")
        decryptor = Cipher(self._algorithm, modes.CBC(stored[:_BLOCK])).decryptor()
        unpadder = PKCS7(_BLOCK * 8).unpadder()
        try:
            padded = decryptor.update(stored[_BLOCK:]) + decryptor.finalize()
            return unpadder.update(padded) + unpadder.finalize()
        except ValueError:
            raise Undecipherable("invalid padding on input") from None


class Aesgcm:
    """AES in Galois/counter mode: what was changed, or moved to another path, is not read."""

    def __init__(self, key: bytes, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._cipher, self._random_bytes = AESGCM(key), random_bytes

    def seal(self, value: bytes, path: str) -> bytes:
        nonce = self._random_bytes(_NONCE)
        return nonce + self._cipher.encrypt(nonce, value, path.encode())

    def open(self, stored: bytes, path: str) -> bytes:
        if len(stored) < _NONCE:
            raise Undecipherable(_SHORT)
        try:
            return self._cipher.decrypt(stored[:_NONCE], stored[_NONCE:], path.encode())
        except (InvalidTag, ValueError):
            raise Undecipherable("cipher: message authentication failed") from None


class _Identity:
    """No encryption; what is encrypted is not its to read."""

    def seal(self, value: bytes, path: str) -> bytes:
        return value

    def open(self, stored: bytes, path: str) -> bytes:
        if stored.startswith(ENCRYPTED):
            raise Undecipherable("identity transformer tried to read encrypted data")
        return stored


@dataclass(frozen=True)
class Provider:
    """One key of one provider, and how what it wrote begins."""

    prefix: bytes
    sealing: Sealing


IDENTITY: Final = Provider(b"", _Identity())


class Providers:
    """The providers of one resource, in order: the first writes, each reads what begins with its prefix.

    >>> first, second = (Provider(f"k8s:enc:aesgcm:v1:{n}:".encode(), Aesgcm(bytes(16))) for n in "ab")
    >>> stored = Providers([second]).seal(b"secret", "/registry/secrets/default/s")
    >>> both = Providers([first, second])
    >>> both.open(stored, "/registry/secrets/default/s"), both.is_stale(stored)
    (b'secret', True)
    """

    def __init__(self, providers: Sequence[Provider]) -> None:
        self._providers = tuple(providers)

    def seal(self, value: bytes, path: str) -> bytes:
        """Return what is stored for *value*."""
        first = self._providers[0]
        return first.prefix + first.sealing.seal(value, path)

    def open(self, stored: bytes, path: str) -> bytes:
        """Return the value that *stored* was made from. Raises Undecipherable.

        Two keys may have one name (rotated under the same name): a failure of the first does not end it.
        """
        reason = "no matching prefix found"
        for provider in self._providers:
            if not stored.startswith(provider.prefix):
                continue
            try:
                return provider.sealing.open(stored[len(provider.prefix) :], path)
            except Undecipherable as error:
                if provider.prefix:
                    reason = str(error)
        raise Undecipherable(reason)

    def is_stale(self, stored: bytes) -> bool:
        """Return whether another than the first provider wrote *stored*."""
        first = self._providers[0].prefix
        return not stored.startswith(first) if first else stored.startswith(ENCRYPTED)
