"""Claims about who approves, signs and attests, and which subjects nobody gets."""

import pytest

from tests.certificate_documents import (
    CA,
    CLIENT,
    LEAF,
    b64,
    bundle,
    condition,
    conditions,
    pkcs10,
    pod_request,
    request,
)
from tests.unit.apiserver.admission_world import JANE, Objects, create, stored
from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
)
from weir.apiserver.admission.node_restriction import NodeRestriction
from weir.apiserver.auth.authn import User, proven
from weir.apiserver.auth.rbac import Decision
from weir.errors import Forbidden, InternalError
from weir.objects.kinds import CERTIFICATE_SIGNING_REQUESTS as REQUEST
from weir.objects.kinds import CLUSTER_TRUST_BUNDLES as BUNDLE

PLAIN_JANE = User("jane")


def allowing(verb, name):
    """Answer as an authorizer that allows one verb on one name of signers."""

    def decide(user, action):
        asked = (action.verb, action.group, action.resource, action.name)
        return Decision(asked == (verb, "certificates.k8s.io", "signers", name))

    return decide


def refusal(plugin, kind, new, old=None, subresource=""):
    operation = CREATE if old is None else UPDATE
    assert plugin.handles(operation, kind, subresource)
    a = Attributes(
        operation,
        kind,
        name=new["metadata"]["name"],
        object=new,
        old=old,
        user=PLAIN_JANE,
        subresource=subresource,
    )
    try:
        plugin.validate(a)
    except Forbidden as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["example.com/s", "example.com/*"])
def test_rights_are_by_name_or_by_domain(name):
    new = {**request("a"), **conditions(condition("Approved"))}
    assert (
        refusal(CertificateApproval(allowing("approve", name)), REQUEST, new, request("a"), "approval") == ""
    )
    found = refusal(CertificateApproval(allowing("sign", name)), REQUEST, new, request("a"), "approval")
    assert found.endswith('user not permitted to approve requests with signerName "example.com/s"')


def test_a_signature_needs_the_right_to_sign():
    signed = {**request("a"), "status": {"certificate": b64(LEAF)}}
    plugin = CertificateSigning(allowing("approve", "example.com/s"))
    found = refusal(plugin, REQUEST, signed, request("a"), "status")
    assert found.endswith('user not permitted to sign requests with signerName "example.com/s"')
    assert refusal(plugin, REQUEST, signed, signed, "status") == ""


def test_a_bundle_of_a_signer_needs_the_right_to_attest():
    found, plugin = (
        bundle("example.com:s:a", CA, "example.com/s"),
        ClusterTrustBundleAttest(allowing("x", "y")),
    )
    assert "user not permitted to attest" in refusal(plugin, BUNDLE, found)
    assert refusal(plugin, BUNDLE, bundle("a", CA)) == ""
    collected = {**found, "metadata": {**found["metadata"], "finalizers": ["a.com/b"]}}
    assert refusal(plugin, BUNDLE, collected, found) == ""


def test_nobody_becomes_an_administrator_by_certificate():
    masters = b64(pkcs10("jane", "dev", "system:masters"))
    found = refusal(CertificateSubjectRestriction(), REQUEST, request("a", CLIENT, request=masters))
    assert found.endswith(f"use of {CLIENT} signer with system:masters group is not allowed")
    assert refusal(CertificateSubjectRestriction(), REQUEST, request("a", request=masters)) == ""


# ── claims about which certificates a kubelet may ask for ──


KUBELET = proven("system:node:n", ["system:nodes"])
SERVING = "kubernetes.io/kubelet-serving"
SOURCES = [{"podCertificate": {"signerName": "example.com/s", "keyType": "ED25519"}}]
SPEC = {
    "nodeName": "n",
    "serviceAccountName": "s",
    "volumes": [{"name": "c", "projected": {"sources": SOURCES}}],
}
NODE = stored("v1", "Node", "n", metadata={"uid": "nu"})
ACCOUNT = stored("v1", "ServiceAccount", "s", metadata={"namespace": "ns", "uid": "su"})


def world(**spec):
    pod = stored("v1", "Pod", "p", metadata={"namespace": "ns", "uid": "pu"}, spec={**SPEC, **spec})
    return Objects(NODE, ACCOUNT, pod)


def node_refusal(document, objects=None, user=KUBELET, allowed=False):
    plugin = NodeRestriction(objects or world(), lambda user, action: Decision(allowed))
    try:
        plugin.admit(create(document, user=user))
    except (Forbidden, InternalError) as refused:
        return refused.message.split(" is forbidden: ", 1)[-1]
    return None


def asked(**spec):
    found = pod_request("a", **spec)
    found["metadata"]["namespace"] = "ns"
    return found


def test_a_kubelet_asks_for_a_certificate_of_its_own_name():
    mine, other = (b64(pkcs10(f"system:node:{name}", "system:nodes")) for name in ("n", "m"))
    assert node_refusal(request("a", SERVING, request=mine)) is None
    assert (
        node_refusal(request("a", SERVING, request=other))
        == "can only create a node CSR with CN=system:node:n"
    )
    assert node_refusal(request("a", SERVING, request=other), user=JANE) is None
    assert node_refusal(request("a", "example.com/s", request=other)) is None


def test_a_kubelet_asks_for_its_pods():
    assert node_refusal(asked()) is None


@pytest.mark.parametrize(
    "spec, text",
    [
        ({"nodeName": "m"}, 'PodCertificateRequest.Spec.NodeName="m", which is not the requesting node "n"'),
        ({"nodeUID": "x"}, 'names node UID "x", inconsistent with the running node ("nu")'),
        ({"podName": "q"}, 'while retrieving pod "ns/q" named in the PodCertificateRequest: pods "q" not found'),
        ({"podUID": "x"}, 'contains pod UID ("x") which differs from running pod "pu"'),
        ({"serviceAccountName": "t"}, 'contains serviceAccountName ("t") that differs from running pod ("s")'),
        ({"serviceAccountUID": "x"}, 'service account UID "x", which differs from the running service account ("su")'),
        ({"signerName": "a.com/t"}, 'does not mount a podCertificate projected volume for signer "a.com/t"'),
    ],
)  # fmt: skip
def test_anything_else_is_refused(spec, text):
    assert text in node_refusal(asked(**spec))


def test_a_right_stands_for_the_volume():
    assert node_refusal(asked(signerName="a.com/t"), allowed=True) is None


def test_pods_elsewhere_get_none():
    text = 'pod "ns/p" is not running on node "n" named in the PodCertificateRequest'
    assert node_refusal(asked(), world(nodeName="m")) == text
