"""Table cells of certificate requests, trust bundles, APIServices and storage migrations.

Spec: apiserver.md 11 "Tables", "Cells".
"""

from __future__ import annotations

from weir.apiserver.printers.values import (
    NONE,
    Cells,
    Document,
    age,
    at,
    condition_of,
    human_duration,
    label_text,
    name_of,
)


def signing_request_cells(found: Document, now: float) -> Cells:
    """Return the cells of one CertificateSigningRequest."""
    seconds = at(found, "spec", "expirationSeconds")
    return [
        name_of(found),
        age(found, now),
        at(found, "spec", "signerName") or NONE,
        at(found, "spec", "username") or "",
        NONE if seconds is None else human_duration(seconds),
        _approval(found),
    ]


def _approval(found: Document) -> str:
    types = {one.get("type") for one in at(found, "status", "conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    failed = ",Failed" if "Failed" in types else ""
    return state + failed + (",Issued" if at(found, "status", "certificate") else "")


def trust_bundle_cells(found: Document, now: float) -> Cells:
    """Return the cells of one ClusterTrustBundle."""
    return [name_of(found), at(found, "spec", "signerName") or NONE]


def pod_certificate_cells(found: Document, now: float) -> Cells:
    """Return the cells of one PodCertificateRequest."""
    ends = [one.get("type") for one in at(found, "status", "conditions") or ()]
    state = next((end for end in reversed(ends) if end in ("Issued", "Denied", "Failed")), "Pending")
    names = ("podName", "serviceAccountName", "nodeName", "signerName")
    return [
        name_of(found),
        *(at(found, "spec", name) or "" for name in names),
        state,
        label_text(at(found, "spec", "unverifiedUserAnnotations")),
    ]


def migration_cells(found: Document, now: float) -> Cells:
    """Return the cells of one StorageVersionMigration."""
    group, resource = (at(found, "spec", "resource", name) or "" for name in ("group", "resource"))
    state = "Unknown"
    for one in at(found, "status", "conditions") or ():
        if one.get("status") == "True" and one.get("type") in ("Running", "Failed", "Succeeded"):
            state = one["type"]
    return [name_of(found), f"{resource}.{group}" if group else resource, state]


def api_service_cells(found: Document, now: float) -> Cells:
    """Return the cells of one APIService."""
    service, available = at(found, "spec", "service"), condition_of(found, "Available")
    status = "Unknown" if available is None else available.get("status") or ""
    if available is not None and status != "True" and available.get("reason"):
        status = f"{status} ({available['reason']})"
    where = "Local" if service is None else f"{service.get('namespace') or ''}/{service.get('name') or ''}"
    return [name_of(found), where, status, age(found, now)]
