"""Admission plugins for certificates: approval, signing, attestation and forbidden subjects.

Spec: upstream's plugins CertificateApproval, CertificateSigning, ClusterTrustBundleAttest and
CertificateSubjectRestriction. Permissions are checked for the signer of the stored request: an update cannot choose
another.
"""

from __future__ import annotations

import base64
from typing import Any

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.auth.cel_authorizer import Decide
from weir.apiserver.auth.signers import may_act_for
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.validate.certificates.pkcs10 import RequestError, read_request
from weir.values.quoting import quote

REQUEST = by_kind("certificates.k8s.io/v1", "CertificateSigningRequest")
BUNDLE = by_kind("certificates.k8s.io/v1", "ClusterTrustBundle")
API_CLIENT = "kubernetes.io/kube-apiserver-client"
_COLLECTED = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


def _signer_of(document: dict[str, Any] | None) -> str:
    return ((document or {}).get("spec") or {}).get("signerName") or ""


class CertificateApproval:
    name = "CertificateApproval"

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == UPDATE and kind is REQUEST and subresource == "approval"

    def validate(self, a: Attributes) -> None:
        signer = _signer_of(a.old)
        if not may_act_for(self._decide, a.user, "approve", signer):
            raise a.forbidden(f"user not permitted to approve requests with signerName {quote(signer)}")


class CertificateSigning:
    name = "CertificateSigning"

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == UPDATE and kind is REQUEST and subresource == "status"

    def validate(self, a: Attributes) -> None:
        new, old = ((one or {}).get("status") or {} for one in (a.object, a.old))
        if all((new.get(name) or None) == (old.get(name) or None) for name in ("certificate", "conditions")):
            return
        signer = _signer_of(a.old)
        if not may_act_for(self._decide, a.user, "sign", signer):
            raise a.forbidden(f"user not permitted to sign requests with signerName {quote(signer)}")


class ClusterTrustBundleAttest:
    name = "ClusterTrustBundleAttest"

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation in (CREATE, UPDATE) and kind is BUNDLE

    def validate(self, a: Attributes) -> None:
        signer = _signer_of(a.object)
        if not signer or (a.operation == UPDATE and _only_collected(a.object or {}, a.old or {})):
            return
        if not may_act_for(self._decide, a.user, "attest", signer):
            raise a.forbidden(f"user not permitted to attest for signerName {quote(signer)}")


def _only_collected(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Return whether nothing changed but what garbage collection writes."""

    def rest(document: dict[str, Any]) -> dict[str, Any]:
        metadata = {name: value for name, value in document["metadata"].items() if name not in _COLLECTED}
        return {**document, "metadata": metadata}

    return rest(new) == rest(old)


class CertificateSubjectRestriction:
    name = "CertificateSubjectRestriction"

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == CREATE and kind is REQUEST and not subresource

    def validate(self, a: Attributes) -> None:
        """Reject a client certificate with group system:masters."""
        if _signer_of(a.object) != API_CLIENT:
            return
        try:
            request = read_request(base64.b64decode((a.object or {})["spec"].get("request") or ""))
        except RequestError as error:
            raise a.forbidden(f"failed to parse CSR: {error}") from error
        if "system:masters" in request.organizations:
            raise a.forbidden(f"use of {API_CLIENT} signer with system:masters group is not allowed")
