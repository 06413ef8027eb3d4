"""Controllers of certificates.k8s.io; here the conditions and the state of a CertificateSigningRequest."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from weir.validate.certificates.pkcs10 import RequestError, SigningRequest, read_request

Document = Mapping[str, Any]


class RequestKey(msgspec.Struct, frozen=True):
    """One request."""

    name: str


def conditions_of(request: Document) -> list[Document]:
    """Return the conditions of a request."""
    return list((request.get("status") or {}).get("conditions") or ())


def has(request: Document, type: str) -> bool:
    """Return whether a request has a condition of *type*."""
    return any(one.get("type") == type for one in conditions_of(request))


def is_issued(request: Document) -> bool:
    """Return whether the certificate is there."""
    return bool((request.get("status") or {}).get("certificate"))


def is_approved(request: Document) -> bool:
    """Return whether a request is approved, and not denied."""
    return has(request, "Approved") and not has(request, "Denied")


def parsed(request: Document) -> SigningRequest | None:
    """Return the parsed certificate request; None when it cannot be parsed."""
    try:
        return read_request(base64.b64decode((request.get("spec") or {}).get("request") or ""))
    except (RequestError, ValueError):
        return None


def with_condition(request: Document, condition: Document) -> dict[str, Any]:
    """Return the patch that adds *condition* to the request as it was read."""
    return {
        "metadata": {"resourceVersion": request["metadata"]["resourceVersion"]},
        "status": {"conditions": [*conditions_of(request), condition]},
    }
