"""Certificate requests of kubelets: their own, and those of pods on their node.

Spec: upstream's NodeRestriction. What may be informer delay (UIDs that differ) is a retriable error instead of a
rejection.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from weir.apiserver.admission.attributes import CREATE, NODE, POD, SERVICE_ACCOUNT, Attributes, Reader
from weir.apiserver.auth.cel_authorizer import Decide
from weir.apiserver.auth.rbac import Action
from weir.errors import InternalError
from weir.validate.certificates.pkcs10 import RequestError, read_request
from weir.values.quoting import quote

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
    own = _there(reader.get_now(NODE, "", node), "node", quote(node))
    _same_uid(
        own, spec.get("nodeUID"), f"PodCertificateRequest for pod {pod} names node UID {named}, inconsistent with the "
        "running node (%s)",
    )  # fmt: skip
    found = _there(reader.get_now(POD, a.namespace, spec.get("podName") or ""), "pod", pod)
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
        reader.get_now(SERVICE_ACCOUNT, a.namespace, name), "service account", quote(f"{a.namespace}/{name}")
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
