"""Validation of PodCertificateRequest and of the certificate issued for it.

A request names its pod, service account and node with their UIDs and is immutable; its status is written once, as
issued, denied or failed. The chain must be for the requested key with the times in the status. The first failing rule
ends the check. `validate_issuance` takes the time, because notBefore is compared with the server's clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors, FieldError
from weir.fields.meta import (
    ANNOTATIONS_MAX_BYTES,
    IMMUTABLE,
    same,
    validate_object_meta,
    validate_object_meta_update,
)
from weir.validate.certificates import is_kubernetes_signer, validate_signer_name
from weir.validate.certificates.pkcs10 import RequestError, read_certificate, read_der
from weir.validate.conditions import validate_conditions
from weir.validate.core.config_map import decoded
from weir.validate.gonames import go_struct
from weir.values.names import byte_length, check_dns1123_subdomain, check_label_key
from weir.values.pem import PemBlock, pem_blocks

ISSUED, DENIED, FAILED = "Issued", "Denied", "Failed"
_ENDS: Final = (ISSUED, DENIED, FAILED)
_CHAIN, _STUB, _STATUS = "status.certificateChain", "spec.stubPKCS10Request", "status"
MIN_SECONDS: Final = 3600
MAX_SECONDS: Final = 91 * 24 * 3600
KUBERNETES_MAX_SECONDS: Final = 24 * 3600
MAX_STUB_BYTES: Final = 10 * 1024
MAX_CHAIN_BYTES: Final = 100 * 1024
_UID_MAX: Final = 128
_CURVES: Final = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521", "secp224r1": "P-224"}
_SKEW: Final = timedelta(minutes=5)
_MARGIN: Final = timedelta(minutes=10)
_ONE_END: Final = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'


def validate_pod_certificate_request(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a request; its status is `validate_issuance`'s."""
    metadata = new.get("metadata") or {}
    if old is None:
        yield from validate_object_meta(metadata, context)
        yield from _validate_spec(new.get("spec") or {})
        return
    yield from validate_object_meta_update(metadata, old.get("metadata") or {})
    spec = new.get("spec") or {}
    if context.subresource != "status" and not same(spec, old.get("spec")):
        yield field.invalid("spec", go_struct("PodCertificateRequestSpec", spec), IMMUTABLE)


def _validate_spec(spec: Document) -> Errors:
    signer = spec.get("signerName") or ""
    yield from validate_signer_name(signer, "spec.signerName")
    if spec.get("unverifiedUserAnnotations") is not None:
        yield from _validate_user_annotations(spec["unverifiedUserAnnotations"])
    for thing in ("pod", "serviceAccount", "node"):
        name, uid = spec.get(f"{thing}Name") or "", spec.get(f"{thing}UID") or ""
        shown = Enum(name) if thing == "node" else name
        yield from field.each_invalid(f"spec.{thing}Name", shown, check_dns1123_subdomain(name))
        if not uid:
            yield field.invalid(f"spec.{thing}UID", Enum(uid), "must not be empty")
        yield from field.short_enough(f"spec.{thing}UID", uid, _UID_MAX)
    seconds = spec.get("maxExpirationSeconds")
    if seconds is None:
        yield field.required("spec.maxExpirationSeconds", "must be set")
        return
    most = KUBERNETES_MAX_SECONDS if is_kubernetes_signer(signer) else MAX_SECONDS
    if not MIN_SECONDS <= seconds <= most:
        yield field.invalid(
            "spec.maxExpirationSeconds", seconds, f"must be in the range [{MIN_SECONDS}, {most}]"
        )
    stub = decoded(spec.get("stubPKCS10Request"))
    if stub:
        yield from _validate_stub(stub)
    else:
        detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        yield field.invalid("spec", field.OMITTED, detail)


def _validate_user_annotations(annotations: dict[str, str]) -> Errors:
    at = "spec.unverifiedUserAnnotations"
    for key in sorted(key.lower() for key in annotations):
        if not key:
            yield field.required(at)
        elif messages := check_label_key(key):
            yield from field.each_invalid(at, key, messages)
        elif key.count("/") != 1:
            yield field.invalid(at, key, 'must be a domain-prefixed key (such as "acme.io/foo")')
    if sum(byte_length(key) + byte_length(text) for key, text in annotations.items()) > ANNOTATIONS_MAX_BYTES:
        yield field.too_long(at, ANNOTATIONS_MAX_BYTES)


def _validate_stub(stub: bytes) -> Errors:
    if len(stub) > MAX_STUB_BYTES:
        yield field.too_long(_STUB, MAX_STUB_BYTES)
        return
    try:
        request = read_der(stub)
    except RequestError:
        yield field.invalid(_STUB, field.OMITTED, "must be a valid PKCS#10 CSR")
        return
    key = request.parsed.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        name = _CURVES.get(key.curve.name, key.curve.name)
        if name not in ("P-256", "P-384", "P-521"):
            yield field.invalid(
                _STUB, f"curve {name}", "elliptic public keys must use curve P256, P384, or P521"
            )
            return
    elif isinstance(key, rsa.RSAPublicKey):
        if key.key_size not in (3072, 4096):
            shown = f"{(key.key_size + 7) // 8 * 8}-bit modulus"
            yield field.invalid(_STUB, shown, "RSA keys must have modulus size 3072 or 4096")
            return
    elif not isinstance(key, ed25519.Ed25519PublicKey):
        yield field.invalid(
            _STUB, field.OMITTED, "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
        )
        return
    if request.signature_problem():
        yield field.invalid(_STUB, field.OMITTED, "invalid signature")


# ── status ───────────────────────────────────────────────────────────────────────────────────────


def validate_issuance(new: Document, old: Document, now: datetime) -> Errors:
    """Yield what is wrong with a new status."""
    status, before = new.get("status") or {}, old.get("status") or {}
    conditions = status.get("conditions") or []
    problems = [*_validate_ends(conditions), *validate_conditions(conditions, "status.conditions")]
    if problems:
        yield from problems
    elif _ended(before, *_ENDS):
        if not same(status, before):
            detail = "immutable after PodCertificateRequest is issued, denied, or failed"
            yield field.invalid(_STATUS, field.OMITTED, detail)
    elif _ended(status, DENIED, FAILED):
        if any(value for name, value in status.items() if name != "conditions"):
            detail = (
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
            )
            yield field.invalid(_STATUS, field.OMITTED, detail)
    elif _ended(status, ISSUED):
        yield from _validate_issued(status, old.get("spec") or {}, now)
    elif not same(status, before):
        detail = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
        yield field.invalid(_STATUS, field.OMITTED, detail)


def _validate_ends(conditions: list[Document]) -> Errors:
    ends = 0
    for i, condition in enumerate(conditions):
        kind, status = condition.get("type") or "", condition.get("status") or ""
        at = f"status.conditions.[{i}]"
        if kind not in _ENDS:
            yield FieldError(*_unsupported(f"{at}.type", kind, _ENDS))
            continue
        ends += 1
        if ends > 1:
            yield field.invalid(f"{at}.type", kind, _ONE_END)
        if status != "True":
            yield field.not_supported(f"{at}.status", status, ("True",))


def _unsupported(at: str, value: str, supported: tuple[str, ...]) -> tuple[str, str, Any, str]:
    error = field.not_supported(at, value, supported)
    return error.type, error.field, value, error.detail  # a plain text, not an enum


def _ended(status: Document, *how: str) -> bool:
    return any(
        one.get("type") in how and one.get("status") == "True" for one in status.get("conditions") or ()
    )


def _validate_issued(status: Document, spec: Document, now: datetime) -> Errors:
    chain = status.get("certificateChain") or ""
    if byte_length(chain) > MAX_CHAIN_BYTES:
        yield field.too_long(_CHAIN, MAX_CHAIN_BYTES)
        return
    blocks = list(pem_blocks(chain.encode()))
    leaf, problem = _leaf(blocks)
    if leaf is None:
        yield field.invalid(_CHAIN, chain, problem)
        return
    problems = list(_validate_names(leaf))
    yield from problems
    try:
        wanted = read_der(decoded(spec.get("stubPKCS10Request"))).parsed.public_key()
    except RequestError:
        yield field.invalid(_STUB, field.OMITTED, "must be a valid PKCS#10 CSR")
        return
    if _key_bytes(wanted) != _key_bytes(leaf.public_key()):
        yield field.invalid(_CHAIN, chain, "leaf certificate was not issued to the requested public key")
        return
    for name, detail in (
        ("notBefore", "must be present and consistent with the issued certificate"),
        ("notAfter", "must be present and consistent with the issued certificate"),
        ("beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"),
    ):
        if not status.get(name):
            problems.append(field.required(f"status.{name}", detail))
            yield problems[-1]
    if problems:
        return
    yield from _first(_time_problem(status, spec, leaf, now), _later_problem(blocks, chain))


def _first(*found: FieldError | None) -> Errors:
    """Yield the first of the errors that there is."""
    yield from [one for one in found if one is not None][:1]


def _leaf(blocks: list[PemBlock]) -> tuple[x509.Certificate | None, str]:
    if not blocks:
        return None, "issued certificate chain must contain at least one certificate"
    if blocks[0].type != "CERTIFICATE":
        return None, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
    return read_certificate(blocks[0].content), "leaf certificate does not parse as valid X.509"


def _validate_names(leaf: x509.Certificate) -> Errors:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return
    for name in names.get_values_for_type(x509.DNSName):
        if not name:
            yield field.invalid(_CHAIN, name, "leaf certificate should not contain empty DNSName")
        if ".." in name:
            yield field.invalid(_CHAIN, name, "leaf certificate's DNSName should not contain '..'")
        if name.startswith(".") or name.endswith("."):
            yield field.invalid(_CHAIN, name, "leaf certificate's DNSName should not start or end with '.'")
    for address in names.get_values_for_type(x509.RFC822Name):
        if "@" not in address.strip("@"):
            yield field.invalid(_CHAIN, address, "leaf certificate should not contain invalid EmailAddress")


def _time_problem(
    status: Document, spec: Document, leaf: x509.Certificate, now: datetime
) -> FieldError | None:
    begin, end, refresh = (
        datetime.fromisoformat(status[name]) for name in ("notBefore", "notAfter", "beginRefreshAt")
    )
    lifetime = leaf.not_valid_after_utc - leaf.not_valid_before_utc
    most = spec.get("maxExpirationSeconds") or 0
    if begin != leaf.not_valid_before_utc:
        detail = "must be set to the NotBefore time encoded in the leaf certificate"
        return field.invalid("status.notBefore", Enum(status["notBefore"]), detail)
    if not now - _SKEW < begin < now + _SKEW:
        detail = "must be set to within 5 minutes of kube-apiserver's current time"
        return field.invalid("status.notBefore", Enum(status["notBefore"]), detail)
    if end != leaf.not_valid_after_utc:
        detail = "must be set to the NotAfter time encoded in the leaf certificate"
        return field.invalid("status.notAfter", Enum(status["notAfter"]), detail)
    nanoseconds = int(lifetime.total_seconds()) * 10**9
    if lifetime < timedelta(seconds=MIN_SECONDS):
        return field.invalid(_CHAIN, nanoseconds, "leaf certificate lifetime must be >= 1 hour")
    if lifetime > timedelta(seconds=most):
        detail = f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})"
        return field.invalid(_CHAIN, nanoseconds, detail)
    shown = Enum(status["beginRefreshAt"])
    if refresh < begin + _MARGIN:
        return field.invalid(
            "status.beginRefreshAt", shown, "must be at least 10 minutes after status.notBefore"
        )
    if refresh > end - _MARGIN:
        return field.invalid(
            "status.beginRefreshAt", shown, "must be at least 10 minutes before status.notAfter"
        )
    return None


def _later_problem(blocks: list[PemBlock], chain: str) -> FieldError | None:
    for block in blocks[1:]:
        if block.type != "CERTIFICATE":
            # upstream's spelling
            detail = "issued certificate chain must consist entirely of CERTFICATE PEM blocks"
            return field.invalid(_CHAIN, chain, detail)
        if read_certificate(block.content) is None:
            return field.invalid(_CHAIN, chain, "intermediate certificate does not parse as valid X.509")
    return None


def _key_bytes(key: CertificatePublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
