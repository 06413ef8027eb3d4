"""Table cells of certificates.k8s.io."""

from __future__ import annotations

from weir.apiserver.printers.cells import NONE, Document, at, human_duration


def wanted_duration(request: Document, now: float) -> str:
    """Return for how long a CertificateSigningRequest wants its certificate."""
    seconds = at(request, "spec", "expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def approval(request: Document, now: float) -> str:
    """Return whether a CertificateSigningRequest is approved, failed, issued."""
    types = {condition.get("type") for condition in at(request, "status", "conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    failed = ",Failed" if "Failed" in types else ""
    return state + failed + (",Issued" if at(request, "status", "certificate") else "")


def outcome(request: Document, now: float) -> str:
    """Return the last outcome of a PodCertificateRequest."""
    types = [condition.get("type") for condition in at(request, "status", "conditions") or ()]
    return next((end for end in reversed(types) if end in ("Issued", "Denied", "Failed")), "Pending")
