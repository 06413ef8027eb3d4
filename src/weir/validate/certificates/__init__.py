"""Validation of signer names, `example.com/name`: a domain of at least two labels and a path of subdomains."""

from __future__ import annotations

from typing import Final

from weir.fields.field import Errors, invalid, required, short_enough
from weir.values.names import check_dns1123_label, check_dns1123_subdomain
from weir.values.quoting import quote

_DOMAIN_MAX: Final = 253
_MAX: Final = _DOMAIN_MAX + (253 + 63 + 1) + 1


def validate_signer_name(name: str, at: str) -> Errors:
    """Yield what is wrong with the name of a signer."""
    if not name:
        yield required(at)
        return
    segments = name.split("/")
    if len(segments) != 2:
        yield invalid(
            at, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        )
        return
    domain, path = segments
    yield from short_enough(at, domain, _DOMAIN_MAX)
    labels = domain.split(".")
    for label in labels:
        if messages := check_dns1123_label(label):
            for message in messages:
                yield invalid(at, domain, f"validating label {quote(label)}: {message}")
            break
    if len(labels) < 2:
        yield invalid(at, domain, "should be a domain with at least two segments separated by dots")
    for label in path.split("."):
        if messages := check_dns1123_subdomain(label):
            for message in messages:
                yield invalid(at, path, f"validating label {quote(label)}: {message}")
            break
    yield from short_enough(at, name, _MAX)


def is_kubernetes_signer(name: str) -> bool:
    """Return whether Kubernetes itself owns the name.

    >>> is_kubernetes_signer("kubernetes.io/legacy-unknown"), is_kubernetes_signer("example.com/x")
    (True, False)
    """
    host = name.partition("/")[0]
    return host == "kubernetes.io" or host.endswith(".kubernetes.io")
