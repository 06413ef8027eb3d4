"""Admission plugins for certificates: approval, signing, attestation and forbidden subjects.

Spec: upstream's plugins CertificateApproval, CertificateSigning, ClusterTrustBundleAttest and
CertificateSubjectRestriction. Permissions are checked for the signer of the stored request: an update cannot choose
another.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes, Reader
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.cel_authorizer import Decide
from weir.apiserver.auth.rbac import Action
from weir.errors import InternalError, Invalid
from weir.fields.field import forbidden
from weir.objects.kind import Kind
from weir.objects.kinds import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_TRUST_BUNDLES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
)
from weir.validate.certificates.pkcs10 import RequestError, read_request
from weir.values.quoting import quote

# ── permissions on certificate signers ──
# The verbs `approve`, `sign` and `attest` on `signers.certificates.k8s.io` with the signer's name, or its domain with a
# star (`kubernetes.io/*`).


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


# ── admission plugins for certificates: approval, signing, attestation and forbidden subjects ──


API_CLIENT = "kubernetes.io/kube-apiserver-client"
_COLLECTED = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


def _signer_of(document: dict[str, Any] | None) -> str:
    return ((document or {}).get("spec") or {}).get("signerName") or ""


class CertificateApproval:
    name = "CertificateApproval"

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == UPDATE and kind is CERTIFICATE_SIGNING_REQUESTS and subresource == "approval"

    def validate(self, a: Attributes) -> None:
        signer = _signer_of(a.old)
        if not may_act_for(self._decide, a.user, "approve", signer):
            raise a.forbidden(f"user not permitted to approve requests with signerName {quote(signer)}")


class CertificateSigning:
    name = "CertificateSigning"

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == UPDATE and kind is CERTIFICATE_SIGNING_REQUESTS and subresource == "status"

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
        return operation in (CREATE, UPDATE) and kind is CLUSTER_TRUST_BUNDLES

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
        return operation == CREATE and kind is CERTIFICATE_SIGNING_REQUESTS and not subresource

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


# ── certificate requests of kubelets: their own, and those of pods on their node ──
# Spec: upstream's NodeRestriction. What may be informer delay (UIDs that differ) is a retriable error instead of a
# rejection.


MIRROR = "kubernetes.io/config.mirror"
OF_KUBELETS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")

Document = Mapping[str, Any]


def request_problem(node: str, a: Attributes) -> str:
    """Return why a kubelet may not make a CertificateSigningRequest, "" when it may."""
    spec = (a.object or {}).get("spec") or {}
    if a.operation != CREATE or a.subresource or spec.get("signerName") not in OF_KUBELETS:
        return ""
    try:
        request = read_request(base64.b64decode(spec.get("request") or ""))
    except RequestError as error:
        return f"unable to parse csr: {error}"
    wanted = f"system:node:{node}"
    return "" if request.common_name == wanted else f"can only create a node CSR with CN={wanted}"


def pod_request_problem(node: str, a: Attributes, reader: Reader, decide: Decide) -> str:
    """Return why a kubelet may not make a PodCertificateRequest, "" when it may."""
    if a.operation != CREATE:
        return f"unexpected operation {a.operation}"
    if a.subresource:
        return f"unexpected subresource {a.subresource}"
    spec = (a.object or {}).get("spec") or {}
    if spec.get("nodeName") != node:
        named = quote(spec.get("nodeName") or "")
        return f"PodCertificateRequest.Spec.NodeName={named}, which is not the requesting node {quote(node)}"
    pod = quote(f"{a.namespace}/{spec.get('podName') or ''}")
    named = quote(spec.get("nodeUID") or "")
    own = _there(reader.get_now(NODES, "", node), "node", quote(node))
    _same_uid(
        own, spec.get("nodeUID"), f"PodCertificateRequest for pod {pod} names node UID {named}, inconsistent with the "
        "running node (%s)",
    )  # fmt: skip
    found = _there(reader.get_now(PODS, a.namespace, spec.get("podName") or ""), "pod", pod)
    named = quote(spec.get("podUID") or "")
    _same_uid(
        found, spec.get("podUID"), f"PodCertificateRequest for pod {pod} contains pod UID ({named}) which differs from "
        "running pod %s",
    )  # fmt: skip
    if (found.get("spec") or {}).get("nodeName") != node:
        return f"pod {pod} is not running on node {quote(node)} named in the PodCertificateRequest"
    if MIRROR in (found["metadata"].get("annotations") or {}):
        return f"pod {pod} is a mirror pod"
    return _account_problem(a, spec, found, pod, reader) or _signer_problem(a, spec, found, pod, decide)


def _account_problem(a: Attributes, spec: Document, found: Document, pod: str, reader: Reader) -> str:
    name, used = spec.get("serviceAccountName") or "", found["spec"].get("serviceAccountName") or ""
    if name != used:
        return (
            f"PodCertificateRequest for pod {pod} contains serviceAccountName ({quote(name)}) that differs from "
            f"running pod ({quote(used)})"
        )
    account = _there(
        reader.get_now(SERVICE_ACCOUNTS, a.namespace, name), "service account", quote(f"{a.namespace}/{name}")
    )
    named = quote(spec.get("serviceAccountUID") or "")
    text = f"PodCertificateRequest for pod {pod} names service account UID {named}, which differs from the running "
    _same_uid(account, spec.get("serviceAccountUID"), f"{text}service account (%s)")
    return ""


def _signer_problem(a: Attributes, spec: Document, found: Document, pod: str, decide: Decide) -> str:
    """Return an error if neither a volume of the pod nor a permission of the node names the signer, else ""."""
    signer = spec.get("signerName") or ""
    for volume in found["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if (source.get("podCertificate") or {}).get("signerName") == signer:
                return ""
    verb, resource = "request-serviceaccounts-podcertificate-signer", signer.replace("/", ":")
    action = Action(verb, a.kind.group, resource, "", a.namespace, spec.get("serviceAccountName") or "")
    if decide(a.user, action).allowed:
        return ""
    return f"pod {pod} does not mount a podCertificate projected volume for signer {quote(signer)}"


def _there(found: Document | None, what: str, name: str) -> Document:
    if found is None:
        plural = {"node": "nodes", "pod": "pods"}.get(what, "serviceaccounts")
        text = f"{plural} {quote(name.strip(chr(34)).rpartition('/')[2])} not found"
        raise InternalError(f"while retrieving {what} {name} named in the PodCertificateRequest: {text}")
    return found


def _same_uid(found: Document, uid: str | None, text: str) -> None:
    if found["metadata"].get("uid") != uid:
        raise InternalError(text % quote(found["metadata"].get("uid") or ""))
