"""Validation of the projected volume sources `podCertificate` and `clusterTrustBundle`.

Other sources and path conflicts are in weir.validate.core.volumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weir.validate.certificates.cluster_trust_bundle import check_bundle_name
from weir.validate.certificates.pod_certificate_request import (
    KUBERNETES_MAX_SECONDS,
    MAX_SECONDS,
    MIN_SECONDS,
)
from weir.validate.certificates.signer_names import is_kubernetes_signer, validate_signer_name
from weir.validate.field import Document, Errors, invalid, not_supported, required
from weir.validate.gonames import go_struct
from weir.validate.label_selector import validate_label_selector

__all__ = ["certificate_paths", "validate_pod_certificate", "validate_trust_source"]

_KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_PATHS: Final = ("credentialBundlePath", "keyPath", "certificateChainPath")


def validate_pod_certificate(source: Document, at: str) -> Errors:
    """Yield errors in a podCertificate source, except in its paths."""
    signer = source.get("signerName") or ""
    yield from validate_signer_name(signer, f"{at}.signerName")
    if (key := source.get("keyType") or "") not in _KEY_TYPES:
        yield not_supported(f"{at}.keyType", key, _KEY_TYPES)
    seconds = source.get("maxExpirationSeconds")
    if seconds is not None:
        where, most = f"{at}.maxExpirationSeconds", MAX_SECONDS
        if is_kubernetes_signer(signer):
            most = KUBERNETES_MAX_SECONDS
        if seconds < MIN_SECONDS:
            yield invalid(where, seconds, f"if provided, maxExpirationSeconds must be >= {MIN_SECONDS}")
        if seconds > most:
            yield invalid(where, seconds, f"if provided, maxExpirationSeconds must be <= {most}")
    if not any(source.get(name) for name in _PATHS):
        yield required(at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")


def certificate_paths(source: Document) -> Iterator[tuple[str, str]]:
    """Yield the fields that name a file, with the file."""
    for name in _PATHS:
        if source.get(name):
            yield name, source[name]


def validate_trust_source(source: Document, at: str) -> Errors:
    """Yield errors in a clusterTrustBundle source, except in the form of its path."""
    name, signer, selector = source.get("name"), source.get("signerName"), source.get("labelSelector")
    if name is not None and signer is not None:
        shown = go_struct("ClusterTrustBundleProjection", source)
        yield invalid(at, shown, "only one of name and signerName may be used")
    elif name is not None:
        if not name:
            yield required(f"{at}.name", "must be a valid object name")
        for message in check_bundle_name(_signer_of(name), name):
            yield invalid(f"{at}.name", name, f"not a valid clustertrustbundlename: {message}")
        if selector is not None:
            yield invalid(f"{at}.labelSelector", selector, "labelSelector must be unset if name is specified")
    elif signer is not None:
        if not signer:
            yield required(f"{at}.signerName", "must be a valid signer name")
        yield from validate_signer_name(signer, f"{at}.signerName")
        if selector is not None:
            yield from validate_label_selector(selector, f"{at}.labelSelector")
    else:
        yield required(at, "either name or signerName must be specified")
    if not source.get("path"):
        yield required(f"{at}.path")


def _signer_of(name: str) -> str:
    """Return the signer that the name of a bundle carries.

    >>> _signer_of("example.com:web:one"), _signer_of("one")
    ('example.com/web', '')
    """
    signer, colon, _ = name.rpartition(":")
    return signer.replace(":", "/") if colon else ""
