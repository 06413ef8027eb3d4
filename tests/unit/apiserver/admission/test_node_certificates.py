"""Claims about which certificates a kubelet may ask for."""

import pytest

from tests.certificate_documents import b64, pkcs10, pod_request, request
from tests.unit.apiserver.admission_world import JANE, Objects, create, stored
from weir.apiserver.admission.node_restriction import NodeRestriction
from weir.apiserver.auth.authn import proven
from weir.apiserver.auth.rbac import Decision
from weir.errors import Forbidden, InternalError

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


def refusal(document, objects=None, user=KUBELET, allowed=False):
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
    assert refusal(request("a", SERVING, request=mine)) is None
    assert refusal(request("a", SERVING, request=other)) == "can only create a node CSR with CN=system:node:n"
    assert refusal(request("a", SERVING, request=other), user=JANE) is None
    assert refusal(request("a", "example.com/s", request=other)) is None


def test_a_kubelet_asks_for_its_pods():
    assert refusal(asked()) is None


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
    assert text in refusal(asked(**spec))


def test_a_right_stands_for_the_volume():
    assert refusal(asked(signerName="a.com/t"), allowed=True) is None


def test_pods_elsewhere_get_none():
    text = 'pod "ns/p" is not running on node "n" named in the PodCertificateRequest'
    assert refusal(asked(), world(nodeName="m")) == text
