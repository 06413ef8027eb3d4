"""CA and leaf certificates: creation, signing and expiry, PEM in and out.

All keys are P-256: generating five takes milliseconds, where RSA takes a second. A CA recreated from its key keeps
its earlier leaves valid.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_KEY_USAGE_BITS: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
_SUBJECT_ORDER: Final = (
    NameOID.COUNTRY_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.POSTAL_CODE,
    NameOID.COMMON_NAME,
    NameOID.SERIAL_NUMBER,
)
_BACKDATED: Final = timedelta(minutes=5)  # tolerate clients whose clock is slightly behind


class KeyKindError(ValueError):
    """The key is not one of an elliptic curve."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """One certificate and its private key, as PEM text."""

    certificate: bytes
    key: bytes

    def fits(self) -> bool:
        """Return whether the key is the certificate's. Raises ValueError for what is damaged, KeyKindError."""
        certificate = load_certificate(self.certificate)
        return _load_key(self.key).public_key() == certificate.public_key()


def new_key() -> bytes:
    """Return a private key, as PEM text."""
    return _pem(ec.generate_private_key(ec.SECP256R1()))


def make_authority(
    name: str, now: datetime, lifetime: timedelta, *, key: bytes | None = None, path_length: int | None = None
) -> KeyPair:
    """Return an authority that signs itself, with a new key unless *key* is given."""
    own = _load_key(key or new_key())
    subject = subject_name(name)
    certificate = (
        _builder(subject, subject, own.public_key(), own.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(own, hashes.SHA256())
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _pem(own))


def issue(
    authority: KeyPair,
    subject: x509.Name,
    now: datetime,
    lifetime: timedelta,
    *,
    client: bool = False,
    names: Iterable[str] = (),
) -> KeyPair:
    """Return a leaf with a new key: a *client*'s, or a server's that is reached by *names*."""
    signer, issuer = _load_key(authority.key), load_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
    builder = (
        _builder(subject, issuer.subject, key.public_key(), signer.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    if held := [_general_name(name) for name in names]:
        builder = builder.add_extension(x509.SubjectAlternativeName(held), critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


class Usages(NamedTuple):
    """What a certificate may be used for: the bits of KeyUsage that are set, and the extended usages in order."""

    bits: frozenset[str]
    extended: tuple[x509.ObjectIdentifier, ...]


def sign_request(
    authority: KeyPair,
    request: x509.CertificateSigningRequest,
    begin: datetime,
    end: datetime,
    *,
    usages: Usages,
    names: Sequence[x509.GeneralName] = (),
) -> bytes:
    """Return the certificate for a request, as PEM: its subject, key and *names*, and nothing else that it asks for.

    It ends with the authority at the latest. Raises ValueError when the authority has expired.
    """
    signer, issuer = _load_key(authority.key), load_certificate(authority.certificate)
    last = issuer.not_valid_after_utc
    if begin >= last:
        raise ValueError(f"the signer has expired: NotAfter={last:%Y-%m-%d %H:%M:%S} +0000 UTC")
    builder = (
        x509.CertificateBuilder()
        .subject_name(_regrouped(request.subject))
        .issuer_name(issuer.subject)
        .public_key(request.public_key())
        .serial_number(int.from_bytes(os.urandom(16), "big") or 1)
        .not_valid_before(begin)
        .not_valid_after(min(end, last))
    )
    if usages.bits:
        asked = {name: name in usages.bits for name in _KEY_USAGE_BITS}
        if not asked["key_agreement"]:  # the two say how keys are agreed on, and cannot be written without it
            asked["encipher_only"] = asked["decipher_only"] = False
        builder = builder.add_extension(x509.KeyUsage(**asked), critical=True)
    if usages.extended:
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages.extended)), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    key_identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(key_identifier, critical=False)
    if names:
        alternative = x509.SubjectAlternativeName(names)
        builder = builder.add_extension(alternative, critical=not list(request.subject))
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _regrouped(subject: x509.Name) -> x509.Name:
    """Return a subject as Go's library writes it: the attributes it knows in its order, all of one type together."""
    parts = []
    for oid in _SUBJECT_ORDER:
        found = subject.get_attributes_for_oid(oid)
        if oid in (NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER):
            found = found[-1:]
        if found:
            parts.append(x509.RelativeDistinguishedName(dict.fromkeys(found)))
    return x509.Name(parts)


def is_good(
    leaf: x509.Certificate,
    authority: x509.Certificate,
    now: datetime,
    renewal: timedelta,
    names: Iterable[str] = (),
) -> bool:
    """Return whether *leaf* is young, of this authority and good for every one of *names*."""
    wanted = {_general_name(name) for name in names}
    try:
        leaf.verify_directly_issued_by(authority)
        if wanted:
            wanted -= set(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except Exception:  # foreign issuer, bad signature, no names: cryptography raises unrelated classes
        return False
    return not wanted and is_young(leaf, now, renewal)


def is_young(certificate: x509.Certificate, now: datetime, renewal: timedelta) -> bool:
    """Return whether the certificate has begun and is not within *renewal* of its end."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - renewal


def subject_name(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    """Return a certificate's subject.

    >>> subject_name("kubernetes-admin", ["system:masters"]).rfc4514_string()
    'CN=kubernetes-admin,O=system:masters'
    """
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def load_certificate(pem: bytes) -> x509.Certificate:
    """Return the certificate. Raises ValueError for what is none."""
    return x509.load_pem_x509_certificate(pem)


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise KeyKindError("the key is not an elliptic curve key")
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


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


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
