"""Parses PKCS#10 requests and certificates, with Go's error messages.

The texts are those of crypto/x509 and encoding/asn1, which the API server passes on. Only damage to the first
structure is described as Go would; deeper damage has one fixed text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from weir.values.pem import pem_blocks

_NOT_A_REQUEST: Final = "PEM block type must be CERTIFICATE REQUEST"
_CLASSES: Final = 6
_SEQUENCE: Final = 0x30


class RequestError(ValueError):
    """The bytes are no request; the text is the API server's."""


@dataclass(frozen=True)
class SigningRequest:
    """A request that was read."""

    parsed: x509.CertificateSigningRequest

    @property
    def common_name(self) -> str:
        """The last common name, as Go has it."""
        return ["", *self._subject(NameOID.COMMON_NAME)][-1]

    @property
    def organizations(self) -> list[str]:
        return self._subject(NameOID.ORGANIZATION_NAME)

    @cached_property
    def _names(self) -> list[x509.GeneralName]:
        try:
            return list(self.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
            return []

    @property
    def dns_names(self) -> list[str]:
        return [one.value for one in self._names if isinstance(one, x509.DNSName)]

    @property
    def ip_addresses(self) -> list[str]:
        return [str(one.value) for one in self._names if isinstance(one, x509.IPAddress)]

    @property
    def email_addresses(self) -> list[str]:
        return [one.value for one in self._names if isinstance(one, x509.RFC822Name)]

    @property
    def uris(self) -> list[str]:
        return [one.value for one in self._names if isinstance(one, x509.UniformResourceIdentifier)]

    @property
    def alternative_names(self) -> list[x509.GeneralName]:
        """The names that Go's library takes over into a certificate."""
        kinds = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)
        return [one for one in self._names if isinstance(one, kinds)]

    def signature_problem(self) -> str:
        """Return why the signature is not the key's own, "" when it is."""
        key = self.parsed.public_key()
        if self.parsed.is_signature_valid:
            return ""
        if isinstance(key, rsa.RSAPublicKey):
            return "crypto/rsa: verification error"
        if isinstance(key, ec.EllipticCurvePublicKey):
            return "x509: ECDSA verification failure"
        if isinstance(key, ed25519.Ed25519PublicKey):
            return "x509: Ed25519 verification failure"
        return "x509: cannot verify signature: algorithm unimplemented"

    def _subject(self, oid: x509.ObjectIdentifier) -> list[str]:
        return [str(one.value) for one in self.parsed.subject.get_attributes_for_oid(oid)]


def read_request(pem: bytes) -> SigningRequest:
    """Return the request in the first block of *pem*. Raises RequestError."""
    block = next(pem_blocks(pem), None)
    if block is None or block.type != "CERTIFICATE REQUEST":
        raise RequestError(_NOT_A_REQUEST)
    return read_der(block.content)


def read_der(content: bytes) -> SigningRequest:
    """Return the request as it stands in its block. Raises RequestError."""
    try:
        found = x509.load_der_x509_csr(content)
        found.public_key()
        list(found.subject)
    except Exception as error:  # cryptography raises unrelated classes for what it cannot read
        raise RequestError(_asn1_problem(content)) from error
    return SigningRequest(found)


def _asn1_problem(content: bytes) -> str:
    """Return what Go says of bytes that are no request."""
    if not content:
        return "asn1: syntax error: sequence truncated"
    first = content[0]
    if first & 0x1F == 0x1F or len(content) < 2:
        return "asn1: syntax error: truncated tag or length"
    length, offset = content[1], 2
    if length & 0x80:
        count = length & 0x7F
        if count == 0:
            return "asn1: syntax error: indefinite length found (not DER)"
        if len(content) < 2 + count:
            return "asn1: syntax error: truncated tag or length"
        if count > 4:
            return "asn1: structure error: length too large"
        length, offset = int.from_bytes(content[2 : 2 + count], "big"), 2 + count
        if content[2] == 0:
            return "asn1: structure error: superfluous leading zeros in length"
        if length < 0x80:
            return "asn1: structure error: non-minimal length"
    if first != _SEQUENCE:
        compound = "true" if first & 0x20 else "false"
        return (
            f"asn1: structure error: tags don't match (16 vs {{class:{first >> _CLASSES} tag:{first & 0x1F} "
            f"length:{length} isCompound:{compound}}}) {{optional:false explicit:false application:false "
            "private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false} "
            f"certificateRequest @{offset}"
        )
    if offset + length > len(content):
        return "asn1: syntax error: data truncated"
    if offset + length < len(content):
        return "asn1: syntax error: trailing data"
    return "asn1: structure error: malformed certificate request"


def read_certificate(der: bytes) -> x509.Certificate | None:
    """Return the certificate, None for what is none."""
    try:
        return x509.load_der_x509_certificate(der)
    except Exception:  # cryptography raises unrelated classes for what it cannot read
        return None
