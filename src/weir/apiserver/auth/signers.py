"""Permissions on certificate signers.

The verbs `approve`, `sign` and `attest` on `signers.certificates.k8s.io` with the signer's name, or its domain with a
star (`kubernetes.io/*`).
"""

from __future__ import annotations

from weir.apiserver.admission.attributes import UPDATE, Attributes
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.cel_authorizer import Decide
from weir.apiserver.auth.rbac import Action
from weir.errors import Invalid
from weir.objects.kind import Kind
from weir.validate.field import forbidden
from weir.values.quoting import quote

GROUP = "certificates.k8s.io"


def may_act_for(decide: Decide, user: User, verb: str, signer: str) -> bool:
    """Return whether *user* has *verb* on the signer, by its name or by its domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    return any(decide(user, Action(verb, GROUP, "signers", "", "", name)).allowed for name in names)


class PodCertificateRights:
    """Looks at every status of a PodCertificateRequest; part of the chain, cannot be switched off."""

    name = "PodCertificateRequestSigner"

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        signed = operation == UPDATE and subresource == "status"
        return signed and (kind.group, kind.kind) == (GROUP, "PodCertificateRequest")

    def validate(self, a: Attributes) -> None:
        """Raise the 422 when the user may not sign."""
        old = a.old or {}
        if (a.object or {}).get("status") == old.get("status"):
            return
        signer = (old.get("spec") or {}).get("signerName") or ""
        if not may_act_for(self._decide, a.user, "sign", signer):
            text = f'User {quote(a.user.name)} is not permitted to "sign" for signer {quote(signer)}'
            raise Invalid.from_field_errors(a.kind, a.name, [forbidden("spec.signerName", text)])
