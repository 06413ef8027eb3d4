"""Authority and serving certificate of the webhooks, made and renewed as values.

A renewed authority keeps its key, so that leaves signed before stay good under the new one and the other way round: the
bundle of the webhook configurations may be ahead of the certificate or behind it, and nothing has to change in step.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from weir.certificates import (
    KeyPair,
    is_good,
    is_young,
    issue,
    load_certificate,
    make_authority,
    subject_name,
)
from weir.errors import WeirError

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
LEAF_LIFETIME: Final = timedelta(days=90)
#: So long before its end something is renewed: a third of its life, so that a renewal may fail for weeks.
AUTHORITY_RENEWAL: Final = timedelta(days=365)
LEAF_RENEWAL: Final = timedelta(days=30)
AUTHORITY, AUTHORITY_KEY, LEAF, LEAF_KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"


class CertificateError(WeirError):
    """The hooks cannot have a certificate; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the Secret holds, as PEM."""

    authority: bytes
    authority_key: bytes
    leaf: bytes
    leaf_key: bytes

    @classmethod
    def read(cls, data: Any) -> Certificates | None:
        """Return what the data of a Secret says; None when a part is missing, damaged or does not fit the others."""
        if not isinstance(data, Mapping):
            return None
        try:
            found = cls(
                *(
                    base64.b64decode(data[key], validate=True)
                    for key in (AUTHORITY, AUTHORITY_KEY, LEAF, LEAF_KEY)
                )
            )
            fits = (
                KeyPair(found.authority, found.authority_key).fits()
                and KeyPair(found.leaf, found.leaf_key).fits()
            )
        except (KeyError, TypeError, ValueError, binascii.Error):
            return None
        return found if fits else None

    def data(self) -> dict[str, str]:
        """Return the data of the Secret that holds these."""
        parts = (self.authority, self.authority_key, self.leaf, self.leaf_key)
        keys = (AUTHORITY, AUTHORITY_KEY, LEAF, LEAF_KEY)
        return {key: base64.b64encode(part).decode() for key, part in zip(keys, parts, strict=True)}

    @property
    def expires(self) -> datetime:
        """When the certificate that is served ends."""
        return load_certificate(self.leaf).not_valid_after_utc


def renewed(found: Certificates | None, names: Iterable[str], now: datetime) -> Certificates:
    """Return certificates that are good now and for *names* (host names or addresses): *found* itself where it is.

    >>> from datetime import UTC
    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> first = renewed(None, ["weir.weir-system.svc"], now)
    >>> renewed(first, ["weir.weir-system.svc"], now + timedelta(days=59)) is first
    True
    >>> later = renewed(first, ["weir.weir-system.svc"], now + timedelta(days=61))
    >>> later.authority == first.authority, later.leaf == first.leaf
    (True, False)
    """
    wanted = tuple(dict.fromkeys(names))
    if not wanted:
        raise CertificateError("a certificate needs a name: that of the Service, or the host of the URL")
    authority = _authority(found, now)
    if found is not None and is_good(
        load_certificate(found.leaf), load_certificate(authority.certificate), now, LEAF_RENEWAL, wanted
    ):
        if found.authority == authority.certificate:
            return found
        leaf = KeyPair(found.leaf, found.leaf_key)
    else:
        leaf = issue(authority, subject_name("weir-operator"), now, LEAF_LIFETIME, names=wanted)
    return Certificates(authority.certificate, authority.key, leaf.certificate, leaf.key)


def _authority(found: Certificates | None, now: datetime) -> KeyPair:
    if found is not None and is_young(load_certificate(found.authority), now, AUTHORITY_RENEWAL):
        return KeyPair(found.authority, found.authority_key)
    key = found.authority_key if found is not None else None
    return make_authority("weir-operator-ca", now, AUTHORITY_LIFETIME, key=key, path_length=0)
