"""Claims about kubelets' certificates, in a whole cluster whose authority signs them."""

import asyncio

import pytest

from tests.certificate_documents import b64, pkcs10, request
from weir.controllers.compat.certificate_signers import KUBELET_CLIENT
from weir.controllers.compat.certificates import NODE, SELF, ApproveAfterReview, CertificateApprover
from weir.controllers.runtime.controller import Retry
from weir.controllers.runtime.listers import Listers
from weir.gates import Gates

USAGES = ["digital signature", "client auth"]


def asked(username, name="system:node:n0", signer=KUBELET_CLIENT):
    found = request("a", signer, request=b64(pkcs10(name, "system:nodes")), usages=USAGES, username=username)
    found["metadata"]["resourceVersion"] = "7"
    return found


def reviews(document):
    approver = CertificateApprover(Gates())
    return [
        action
        for key in approver.changed(None, None, document)
        for action in approver.reconcile(key, Listers.of([document]), None)
    ]


@pytest.mark.parametrize(
    "username, permissions", [("system:node:n0", (SELF, NODE)), ("system:bootstrap:abc", (NODE,))]
)
def test_a_kubelet_is_asked_for_by_its_own_name_or_by_another(username, permissions):
    (found,) = reviews(asked(username))
    assert found.permissions == permissions


def test_other_requests_are_left_to_people():
    assert reviews(asked("jane", "jane")) == []
    assert reviews(asked("system:node:n0", signer="kubernetes.io/kube-apiserver-client")) == []


class Server:
    """Answers reviews, and notes what is written."""

    def __init__(self, *allowed):
        self.allowed, self.patches = allowed, []

    async def create(self, kind, document):
        return {"status": {"allowed": document["spec"]["resourceAttributes"]["subresource"] in self.allowed}}

    async def patch(self, kind, name, patch, subresource):
        self.patches.append((name, subresource, patch["status"]["conditions"][-1]["message"]))


class Context:
    def __init__(self, client):
        self.client = client


@pytest.mark.parametrize("allowed, message", [("selfnodeclient", SELF[1]), ("nodeclient", NODE[1])])
def test_who_may_is_approved(allowed, message):
    (action,) = reviews(asked("system:node:n0"))
    server = Server(allowed)
    assert asyncio.run(action.carry_out(Context(server))) is True
    assert server.patches == [("a", "approval", message)]


def test_who_may_not_is_asked_about_again():
    (action,) = reviews(asked("system:node:n0"))
    server = Server()
    assert asyncio.run(action.carry_out(Context(server))) is False and server.patches == []
    assert isinstance(action, ApproveAfterReview)
    assert list(CertificateApprover(Gates()).carried_out(action, False, None)) == [
        Retry('recognized csr "a" as [selfnodeclient nodeclient] but subject access review was not approved')
    ]
