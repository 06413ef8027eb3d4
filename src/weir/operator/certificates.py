"""Which certificate do the hooks show, who signs it, and how is it renewed before anybody notices?

Authority and serving certificate lie in one Secret that the installation creates empty. Every replica does the same:
read the Secret; make or renew what is missing, near its end or for other names; write it back with the
resourceVersion that was read, so that of several one wins and the others read its answer; then see to it that the
webhook configurations trust the authority. No leader is needed, and a replica that only starts gets a certificate.

Nothing has to be in step. A renewed authority keeps its key, so that leaves signed before stay good under the new
one and the other way round: the bundle may be ahead of the certificate or behind it. A new certificate is loaded
into the TLS context that is already served; connections that are open keep theirs.
What surprises: emptying the Secret gives a new key, too (that is how to replace one that leaked). Between the write
of the Secret and that of the configurations the hooks are out of reach, which they answer by refusing.
Not here: how a certificate is made (weir.certificates), the Secret and the configurations themselves
(weir.install.manifests), what the hooks say (weir.lowering).
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from weir import errors
from weir.certificates import (
    KeyPair,
    is_good,
    is_young,
    issue,
    load_certificate,
    make_authority,
    subject_name,
)
from weir.client.api import STRATEGIC_MERGE_PATCH, Client, Unreachable
from weir.clock import Clock
from weir.errors import WeirError
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
LEAF_LIFETIME: Final = timedelta(days=90)
#: So long before its end something is renewed: a third of its life, so that a renewal may fail for weeks.
AUTHORITY_RENEWAL: Final = timedelta(days=365)
LEAF_RENEWAL: Final = timedelta(days=30)
#: How often the Secret is looked at, and how soon again when that failed or the installation is not whole yet.
LOOK_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 1.0
_TRIES: Final = 5

_SECRETS: Final = by_kind("v1", "Secret")
CONFIGURATIONS: Final[Mapping[str, Kind]] = {
    kind: by_kind("admissionregistration.k8s.io/v1", kind)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
AUTHORITY, AUTHORITY_KEY, LEAF, LEAF_KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"


class CertificateError(WeirError):
    """The hooks cannot have a certificate; the text says why and what to do."""


# ── making ───────────────────────────────────────────────────────────────────────────────────────


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


# ── keeping ──────────────────────────────────────────────────────────────────────────────────────


class ServingCertificate:
    """The TLS context of the hooks, kept good: `await ensure()` before serving, `run()` beside it."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        namespace: str,
        secret: str,
        names: Iterable[str],
        configurations: Iterable[tuple[str, str]],
    ) -> None:
        """*configurations* are kind and name of the webhook configurations that must trust the authority."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._secret = secret
        self._names = tuple(names)
        self._configurations = tuple((CONFIGURATIONS[kind], name) for kind, name in configurations)
        self._served: Certificates | None = None
        self.installed = False  #: every configuration was there when last looked at
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])

    @property
    def served(self) -> Certificates | None:
        """What is served now; None before `ensure`."""
        return self._served

    async def ensure(self) -> Certificates:
        """Read, make or renew the certificates, serve them and let the configurations trust them.

        Raises CertificateError when there is no Secret or it may not be written, ApiError and Unreachable.
        """
        certificates = await self._settled()
        if certificates != self._served:
            self._load(certificates)
        self.installed = True
        for kind, name in self._configurations:
            if not await self._trust(kind, name, certificates.authority):
                self.installed = False
        return certificates

    async def run(self, failed: Any = None) -> None:
        """Keep them good until cancelled; what goes wrong is given to *failed* and tried again."""
        pause = RETRY_SECONDS
        while True:
            await self._clock.sleep(pause)
            try:
                await self.ensure()
                pause = LOOK_SECONDS if self.installed else RETRY_SECONDS
            except (WeirError, errors.ApiError, Unreachable) as error:
                pause = RETRY_SECONDS
                if failed is not None:
                    failed(error)

    async def _settled(self) -> Certificates:
        for _ in range(_TRIES):
            secret = await self._client.find(_SECRETS, self._secret, self._namespace)
            if secret is None:
                raise CertificateError(
                    f"secret {self._namespace}/{self._secret} is not there: run weir install again, which makes it"
                )
            found = Certificates.read(secret.get("data"))
            wanted = renewed(found, self._names, self._clock.now())
            if wanted is found:
                return wanted
            try:
                await self._client.update(
                    _SECRETS, {**secret, "data": {**(secret.get("data") or {}), **wanted.data()}}
                )
            except errors.Conflict:  # another replica was faster: its answer counts
                continue
            return wanted
        raise CertificateError(
            f"secret {self._namespace}/{self._secret} is rewritten all the time: see who does"
        )

    def _load(self, certificates: Certificates) -> None:
        # ssl reads certificates from files only
        with tempfile.TemporaryDirectory(prefix="weir-") as directory:  # mode 0700
            certificate, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
            certificate.write_bytes(certificates.leaf)
            key.write_bytes(certificates.leaf_key)
            self.context.load_cert_chain(certificate, key)
        self._served = certificates

    async def _trust(self, kind: Kind, name: str, authority: bytes) -> bool:
        """Put *authority* into every webhook of a configuration that does not have it; False when there is none."""
        found = await self._client.find(kind, name)
        bundle = base64.b64encode(authority).decode()
        hooks = (found or {}).get("webhooks") or []
        behind = [hook["name"] for hook in hooks if hook["clientConfig"].get("caBundle") != bundle]
        if behind:
            patch = {"webhooks": [{"name": each, "clientConfig": {"caBundle": bundle}} for each in behind]}
            await self._client.patch(kind, name, patch, patch_type=STRATEGIC_MERGE_PATCH)
        return found is not None


async def wait_until_served(certificate: ServingCertificate, clock: Clock, failed: Any = None) -> None:
    """Return when `ensure` succeeded; what goes wrong until then is given to *failed* and tried again."""
    while True:
        try:
            await certificate.ensure()
            return
        except (WeirError, errors.ApiError, Unreachable) as error:
            if failed is not None:
                failed(error)
            await clock.sleep(RETRY_SECONDS)
