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
Not here: the Secret and the configurations themselves (weir.install.manifests), what the hooks say (weir.lowering).
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import ssl
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from weir import errors
from weir.client.api import STRATEGIC_MERGE_PATCH, Client, Unreachable
from weir.clock import Clock
from weir.errors import WeirError
from weir.objects.kinds import Kind, by_kind

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
LEAF_LIFETIME: Final = timedelta(days=90)
#: So long before its end something is renewed: a third of its life, so that a renewal may fail for weeks.
AUTHORITY_RENEWAL: Final = timedelta(days=365)
LEAF_RENEWAL: Final = timedelta(days=30)
_BACKDATED: Final = timedelta(minutes=5)  # an API server whose clock is a little behind must not refuse it
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
                _key(found.authority_key).public_key() == _certificate(found.authority).public_key()
                and _key(found.leaf_key).public_key() == _certificate(found.leaf).public_key()
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
        return _certificate(self.leaf).not_valid_after_utc


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
    authority, authority_key = _authority(found, now)
    if (
        found is not None
        and found.authority == authority
        and _is_good(_certificate(found.leaf), _certificate(authority), wanted, now)
    ):
        return found
    if found is not None and _is_good(_certificate(found.leaf), _certificate(authority), wanted, now):
        return Certificates(authority, authority_key, found.leaf, found.leaf_key)
    leaf, leaf_key = _issue(authority, authority_key, wanted, now)
    return Certificates(authority, authority_key, leaf, leaf_key)


def _authority(found: Certificates | None, now: datetime) -> tuple[bytes, bytes]:
    if found is not None and _is_young(_certificate(found.authority), AUTHORITY_RENEWAL, now):
        return found.authority, found.authority_key
    key = _key(found.authority_key) if found is not None else ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "weir-operator-ca")])
    certificate = (
        _builder(name, name, key.public_key(), key.public_key(), now, AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def _issue(
    authority: bytes, authority_key: bytes, names: Sequence[str], now: datetime
) -> tuple[bytes, bytes]:
    signer, issuer = _key(authority_key), _certificate(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "weir-operator")])
    certificate = (
        _builder(subject, issuer.subject, key.public_key(), signer.public_key(), now, LEAF_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(each) for each in names]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def _is_good(
    leaf: x509.Certificate, authority: x509.Certificate, names: Iterable[str], now: datetime
) -> bool:
    """Return whether *leaf* is young, of this authority and good for every one of *names*."""
    try:
        leaf.verify_directly_issued_by(authority)
        held = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # foreign issuer, bad signature, no names: cryptography raises unrelated classes
        return False
    return _is_young(leaf, LEAF_RENEWAL, now) and set(held) >= {_general_name(each) for each in names}


def _is_young(certificate: x509.Certificate, renewal: timedelta, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - renewal


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _certificate(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not an elliptic curve key")
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


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
