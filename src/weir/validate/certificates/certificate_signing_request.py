"""Validation of CertificateSigningRequest, its approval and its certificate.

The request must be a signed PKCS#10 request with known usages and a signer name. The conditions Approved, Denied and
Failed are never removed; only /approval adds the first two, only /status sets the certificate. An update may keep
what was invalid before.
"""

from __future__ import annotations

from typing import Final

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import same, validate_object_meta, validate_object_meta_update
from weir.validate.certificates import validate_signer_name
from weir.validate.certificates.pkcs10 import RequestError, read_certificate, read_request
from weir.validate.conditions import STATUSES
from weir.validate.core.config_map import decoded
from weir.values.names import check_path_segment
from weir.values.pem import pem_blocks
from weir.values.quoting import quote

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
LEGACY_UNKNOWN: Final = "kubernetes.io/legacy-unknown"
USAGES: Final = frozenset(
    {
        "signing", "digital signature", "content commitment", "key encipherment", "key agreement",
        "data encipherment", "cert sign", "crl sign", "encipher only", "decipher only", "any", "server auth",
        "client auth", "code signing", "email protection", "s/mime", "ipsec end system", "ipsec tunnel",
        "ipsec user", "timestamping", "ocsp signing", "microsoft sgc", "netscape sgc",
    }
)  # fmt: skip
_CONDITIONS: Final = "status.conditions"
_EXCLUSIVE: Final = "Approved and Denied conditions are mutually exclusive"
MIN_EXPIRATION_SECONDS: Final = 600


def validate_certificate_signing_request(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a write of a CertificateSigningRequest."""
    yield from field.settle(_handwritten(new, old, context), _declared(new, old))


def _handwritten(new: Document, old: Document | None, context: Context) -> Errors:
    yield from validate_object_meta(new.get("metadata") or {}, context, check_path_segment)
    yield from _validate_spec(new.get("spec") or {}, (old or {}).get("spec") or {}, is_new=old is None)
    yield from _validate_conditions(_conditions(new), None if old is None else _conditions(old))
    certificate, before = _certificate(new), _certificate(old or {})
    tolerated = old is not None and (certificate == before or certificate_problem(before))
    if not tolerated and (problem := certificate_problem(certificate)):
        yield field.invalid("status.certificate", "<certificate data>", problem)
    if old is None:
        return
    yield from _validate_taken_back(new, old, approving=context.subresource == "approval")
    if certificate != before:
        if context.subresource != "status":
            yield field.forbidden("status.certificate", "updates may not set certificate content")
        elif before:
            yield field.forbidden("status.certificate", "updates may not modify existing certificate content")
    yield from validate_object_meta_update(new.get("metadata") or {}, old.get("metadata") or {})


def _validate_spec(spec: Document, before: Document, *, is_new: bool) -> Errors:
    request = spec.get("request") or ""
    try:
        problem = read_request(decoded(request)).signature_problem()
    except RequestError as error:
        problem = str(error)
    if problem:
        # An absent request is a nil slice to Go, and prints as null.
        yield field.invalid("spec.request", None if spec.get("request") is None else Enum(request), problem)
    usages, known = spec.get("usages") or [], before.get("usages") or []
    yield from field.present("spec.usages", usages)
    if is_new or USAGES.issuperset(known):
        for i, usage in enumerate(usages):
            if usage not in USAGES:
                yield field.not_supported(f"spec.usages[{i}]", usage, sorted(USAGES))
    if is_new or len(set(known)) == len(known):
        for i, usage in enumerate(usages):
            if usage in usages[:i]:
                yield field.duplicate(f"spec.usages[{i}]", Enum(usage))
    signer = spec.get("signerName") or ""
    if signer == LEGACY_UNKNOWN and (is_new or before.get("signerName") != LEGACY_UNKNOWN):
        yield field.invalid(
            "spec.signerName", signer, "the legacy signerName is not allowed via this API version"
        )
    else:
        yield from validate_signer_name(signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    yield from field.at_least(
        "spec.expirationSeconds",
        seconds,
        MIN_EXPIRATION_SECONDS,
        "may not specify a duration less than 600 seconds (10 minutes)",
    )


def _validate_conditions(conditions: list[Document], before: list[Document] | None) -> Errors:
    had = [one.get("type") or "" for one in before or ()]
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        kind, status = condition.get("type") or "", condition.get("status") or ""
        if not kind and "" not in had:
            yield field.required(f"{_CONDITIONS}[{i}].type")
        allowed = ("True",) if kind in (APPROVED, DENIED, FAILED) else STATUSES
        yield from field.required_one_of(f"{_CONDITIONS}[{i}].status", status, allowed)
        other = {APPROVED: DENIED, DENIED: APPROVED}.get(kind)
        if other in seen and not (APPROVED in had and DENIED in had):
            yield from field.covered([field.invalid(_CONDITIONS, Enum(kind), _EXCLUSIVE)])
        if kind in seen and len(set(had)) == len(had):
            yield field.duplicate(f"{_CONDITIONS}[{i}].type", Enum(kind))
        seen.add(kind)


def _declared(new: Document, old: Document | None) -> Errors:
    conditions = _conditions(new)
    if old is not None and same(conditions, _conditions(old)):
        return
    had = {one.get("type") for one in _conditions(old or {})}
    if {APPROVED, DENIED} <= {one.get("type") for one in conditions} and not {APPROVED, DENIED} <= had:
        shown = '{conditions[{"type": "Approved"}], conditions[{"type": "Denied"}]}'
        yield field.invalid(
            _CONDITIONS,
            shown,
            'must specify at most one of: `conditions[{"type": "Approved"}]`, `conditions[{"type": "Denied"}]`',
        )


def _validate_taken_back(new: Document, old: Document, *, approving: bool) -> Errors:
    """Yield that Approved, Denied and Failed stay; only an approval adds or changes the first two."""
    for kind in (APPROVED, DENIED, FAILED):
        if len(_of_type(new, kind)) < len(_of_type(old, kind)):
            yield field.forbidden(_CONDITIONS, f"updates may not remove a condition of type {quote(kind)}")
    if approving:
        return
    for kind in (APPROVED, DENIED):
        found, before = _of_type(new, kind), _of_type(old, kind)
        if len(found) > len(before):
            yield field.forbidden(_CONDITIONS, f"updates may not add a condition of type {quote(kind)}")


def certificate_problem(pem: bytes) -> str:
    """Return what is wrong with the certificates of a status, "" when they are sound or absent."""
    if not pem:
        return ""
    found = 0
    for block in pem_blocks(pem):
        if block.type != "CERTIFICATE":
            return f"only CERTIFICATE PEM blocks are allowed, found {quote(block.type)}"
        if block.has_headers:
            return "no PEM block headers are permitted"
        found += 1
        if not block.content:
            return "found CERTIFICATE PEM block containing 0 certificates"
        if read_certificate(block.content) is None:
            return "x509: malformed certificate"
    return "" if found else "must contain at least one CERTIFICATE PEM block"


def _conditions(document: Document) -> list[Document]:
    return (document.get("status") or {}).get("conditions") or []


def _of_type(document: Document, kind: str) -> list[Document]:
    return [one for one in _conditions(document) if one.get("type") == kind]


def _certificate(document: Document) -> bytes:
    return decoded((document.get("status") or {}).get("certificate") or "")
