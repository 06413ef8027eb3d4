"""The four built-in Kubernetes signers: which requests each accepts, and the certificate it issues.

Spec: upstream's signers of kube-controller-manager. The subject and usages of kubelet certificates are prescribed;
kube-apiserver-client allows client usages only; `legacy-unknown` accepts everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from weir.certificates import KeyPair, Usages, sign_request
from weir.validate.certificates.pkcs10 import SigningRequest

API_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN: Final = "kubernetes.io/legacy-unknown"
SIGNERS: Final = (API_CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN)
BACKDATED: Final = timedelta(minutes=5)
SHORT: Final = timedelta(hours=8)  #: certificates with a shorter lifetime are not shortened by backdating
SHORTEST: Final = timedelta(minutes=10)
DURATION: Final = timedelta(days=365)

_CLIENT: Final = ("client auth", "digital signature", "key encipherment")
_SERVING: Final = ("digital signature", "key encipherment", "server auth")
#: usage → the bit that cryptography calls so
_KEY_USAGES: Final = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
#: in the order in which Go's library writes them
_EXTENDED: Final[Mapping[str, ObjectIdentifier]] = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": ObjectIdentifier("2.16.840.1.113730.4.1"),
}


def problem_with(request: SigningRequest, usages: Iterable[str], signer: str) -> str:
    """Return why *signer* does not take a request, "" when it does."""
    asked = frozenset(usages)
    if signer == KUBELET_SERVING:
        return _serving_problem(request, asked)
    if signer == KUBELET_CLIENT:
        return _client_problem(request, asked)
    return _usage_problem(usages) if signer == API_CLIENT else ""


def _serving_problem(request: SigningRequest, usages: frozenset[str]) -> str:
    if request.organizations != ["system:nodes"]:
        return "subject organization is not system:nodes"
    if not request.dns_names and not request.ip_addresses:
        return "DNS or IP subjectAltName is required"
    if request.email_addresses:
        return "Email subjectAltNames are not allowed"
    if request.uris:
        return "URI subjectAltNames are not allowed"
    if not _are(usages, _SERVING):
        return f"usages did not match [{' '.join(_SERVING)}]"
    return _name_problem(request)


def _client_problem(request: SigningRequest, usages: frozenset[str]) -> str:
    if request.organizations != ["system:nodes"]:
        return "subject organization is not system:nodes"
    for names, called in (
        (request.dns_names, "DNS"),
        (request.email_addresses, "Email"),
        (request.ip_addresses, "IP"),
        (request.uris, "URI"),
    ):
        if names:
            return f"{called} subjectAltNames are not allowed"
    if problem := _name_problem(request):
        return problem
    return "" if _are(usages, _CLIENT) else f"usages did not match [{' '.join(_CLIENT)}]"


def _name_problem(request: SigningRequest) -> str:
    if request.common_name.startswith("system:node:"):
        return ""
    return "subject common name does not begin with system:node:"


def _are(usages: frozenset[str], wanted: tuple[str, ...]) -> bool:
    """Return whether *usages* are those wanted; encipherment of keys is for RSA alone."""
    return usages in (frozenset(wanted), frozenset(wanted) - {"key encipherment"})


def _usage_problem(usages: Iterable[str]) -> str:
    usages = list(usages)
    for usage in usages:
        if usage not in _CLIENT:
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def signed(
    authority: KeyPair, request: SigningRequest, spec: Mapping[str, Any], now: datetime, longest: timedelta
) -> bytes:
    """Return the certificate for a request that was approved, as PEM. Raises ValueError when the signer has expired."""
    lifetime = _lifetime(spec.get("expirationSeconds"), longest)
    end = now + lifetime - (timedelta() if lifetime < SHORT else BACKDATED)
    usages = spec.get("usages") or ()
    bits = frozenset(_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES)
    extended = tuple(dict.fromkeys(oid for usage, oid in _EXTENDED.items() if usage in usages))
    return sign_request(
        authority,
        request.parsed,
        now - BACKDATED,
        end,
        usages=Usages(bits, extended),
        names=request.alternative_names,
    )


def _lifetime(seconds: int | None, longest: timedelta) -> timedelta:
    return longest if seconds is None else max(SHORTEST, min(timedelta(seconds=seconds), longest))


def is_kubelet_client(request: SigningRequest, usages: Iterable[str], signer: str) -> bool:
    """Return whether the request is for a kubelet's client certificate."""
    return signer == KUBELET_CLIENT and not problem_with(request, usages, signer)


def expires(certificate: bytes) -> datetime | None:
    """Return when the first certificate of *certificate* (PEM) ends, None when there is none."""
    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except ValueError:
        return None
