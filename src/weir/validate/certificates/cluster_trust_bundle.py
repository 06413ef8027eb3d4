"""Validation of ClusterTrustBundle.

CA certificates in PEM and nothing else, each once; a signer's bundle has the signer's name as prefix of its own. The
content is validated only when it changes.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from cryptography import x509

from weir.fields.field import Context, Document, Errors, invalid, too_long
from weir.fields.meta import IMMUTABLE, validate_object_meta, validate_object_meta_update
from weir.validate.certificates import validate_signer_name
from weir.validate.certificates.pkcs10 import read_certificate
from weir.values.names import Messages, byte_length, check_dns1123_subdomain
from weir.values.pem import pem_blocks

_BUNDLE: Final = "spec.trustBundle"
_OMITTED: Final = "<value omitted>"
MAX_BUNDLE_BYTES: Final = 1 << 20


def validate_cluster_trust_bundle(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ClusterTrustBundle."""
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    signer = spec.get("signerName") or ""
    yield from validate_object_meta(new.get("metadata") or {}, context, partial(check_bundle_name, signer))
    if signer:
        yield from validate_signer_name(signer, "spec.signerName")
    bundle = spec.get("trustBundle") or ""
    if old is None or bundle != (before.get("trustBundle") or ""):
        yield from _validate_anchors(bundle)
    if old is not None:
        yield from validate_object_meta_update(new.get("metadata") or {}, old.get("metadata") or {})
        if signer != (before.get("signerName") or ""):
            yield invalid("spec.signerName", signer, IMMUTABLE)


def check_bundle_name(signer: str, name: str) -> Messages:
    """Return what is wrong with the name of a bundle of *signer*; empty: of none."""
    if not signer:
        if ":" in name:
            return ('ClusterTrustBundle without signer name must not have ":" in its name',)
        return check_dns1123_subdomain(name)
    prefix = signer.replace("/", ":") + ":"
    if not name.startswith(prefix):
        return (f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}",)
    return check_dns1123_subdomain(name.removeprefix(prefix))


def _validate_anchors(bundle: str) -> Errors:
    if byte_length(bundle) > MAX_BUNDLE_BYTES:
        yield too_long(_BUNDLE, MAX_BUNDLE_BYTES)
        return
    places: dict[bytes, list[int]] = {}
    wrong = False
    for i, block in enumerate(pem_blocks(bundle.encode())):
        problem = _anchor_problem(block.type, block.has_headers, block.content, i)
        if problem:
            wrong = True
            yield invalid(_BUNDLE, _OMITTED, problem)
        else:
            places.setdefault(block.content, []).append(i)
    if wrong:
        return
    if not places:
        yield invalid(_BUNDLE, _OMITTED, "at least one trust anchor must be provided")
    for found in places.values():
        if len(found) > 1:
            shown = " ".join(map(str, found))
            yield invalid(_BUNDLE, _OMITTED, f"duplicate trust anchor (indices [{shown}])")


def _anchor_problem(type: str, has_headers: bool, content: bytes, i: int) -> str:
    if type != "CERTIFICATE":
        return f"entry {i} has bad block type: {type}"
    if has_headers:
        return f"entry {i} has PEM block headers"
    certificate = read_certificate(content)
    if certificate is None:
        return f"entry {i} does not parse as X.509"
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        is_authority = False
    return "" if is_authority else f"entry {i} does not have the CA bit set"
