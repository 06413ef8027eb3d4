"""Claims about kubelets' certificates, in a whole cluster whose authority signs them."""

import asyncio
import base64
from datetime import timedelta

import pytest
from cryptography import x509

from tests.certificate_documents import (
    AUTHORITY,
    LEAF,
    NOW,
    b64,
    condition,
    conditions,
    pkcs10,
    pod_request,
    request,
)
from weir.client.cache import ObjectKey
from weir.controllers.compat.certificate_signers import API_CLIENT, KUBELET_CLIENT, LEGACY_UNKNOWN
from weir.controllers.compat.certificates import (
    NODE,
    SELF,
    ApproveAfterReview,
    CertificateApprover,
    CertificateCleaner,
    CertificateSigner,
    PodCertificateCleaner,
)
from weir.controllers.runtime.controller import Delete, Patch, Retry, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.gates import Gates
from weir.objects.kinds import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from weir.objects.kinds import POD_CERTIFICATE_REQUESTS as POD_REQUESTS
from weir.objects.times import format_time

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


HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def decided(*types, certificate=""):
    found = {
        **request("a"),
        **conditions(*(condition(type, lastUpdateTime=format_time(NOW)) for type in types)),
    }
    found["metadata"] |= {"uid": "u", "creationTimestamp": format_time(NOW)}
    if certificate:
        found["status"]["certificate"] = b64(certificate)
    return found


def after(controller, document, passed):
    (key,) = controller.changed(REQUESTS, None, document)
    return list(controller.reconcile(key, Listers.of([document]), NOW + passed))


@pytest.mark.parametrize(
    "document, lives",
    [
        (decided(), 24 * HOUR),
        (decided("Denied"), HOUR),
        (decided("Approved", "Failed"), HOUR),
        (decided("Approved"), 24 * HOUR),
        (decided("Approved", certificate=LEAF), HOUR),
    ],
)
def test_a_request_goes_when_nobody_needs_it(document, lives):
    (waits,) = after(CertificateCleaner(Gates()), document, lives)
    assert isinstance(waits, WakeAt) and waits.at == NOW + lives + SECOND
    assert after(CertificateCleaner(Gates()), document, lives + SECOND) == [Delete(REQUESTS, "a", uid="u")]


def test_other_conditions_keep_it():
    assert after(CertificateCleaner(Gates()), decided("Odd"), 1000 * HOUR) == []


def test_a_pod_s_request_goes_after_a_quarter_of_an_hour():
    document = pod_request("a")
    document["metadata"] |= {"namespace": "default", "uid": "u", "creationTimestamp": format_time(NOW)}
    cleaner = PodCertificateCleaner(Gates())
    (waits,) = after(cleaner, document, timedelta(minutes=14))
    assert waits.at == NOW + timedelta(minutes=15)
    gone = [Delete(POD_REQUESTS, "a", "default", "u")]
    assert after(cleaner, document, timedelta(minutes=15)) == gone


def stored(signer=API_CLIENT, *found, **spec):
    document = {**request("a", signer, **spec), **conditions(*found)}
    document["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    return document


def actions(document, authority=lambda: AUTHORITY):
    controller = CertificateSigner(Gates(), authority)
    keys = list(controller.changed(None, None, document))
    return [action for key in keys for action in controller.reconcile(key, Listers.of([document]), NOW)], keys


def test_what_is_approved_is_signed_as_it_was_read():
    (found,), keys = actions(stored(API_CLIENT, condition("Approved")))
    assert keys == [ObjectKey("", "a")]
    assert isinstance(found, Patch) and found.subresource == "status"
    assert found.patch["metadata"] == {"resourceVersion": "7"}
    pem = base64.b64decode(found.patch["status"]["certificate"])
    assert x509.load_pem_x509_certificate(pem).subject.rfc4514_string() == "CN=jane"


def test_what_the_signer_does_not_take_fails():
    (found,), _ = actions(stored(API_CLIENT, condition("Approved"), usages=["server auth"]))
    approved, failed = found.patch["status"]["conditions"]
    assert approved["type"] == "Approved"
    assert (failed["type"], failed["status"], failed["reason"], failed["message"]) == (
        "Failed",
        "True",
        "SignerValidationFailure",
        "invalid usage for client certificate: server auth",
    )


def test_what_is_undecided_denied_failed_or_another_s_is_left_alone():
    approved = condition("Approved")
    issued = stored(API_CLIENT, approved)
    issued["status"]["certificate"] = b64("x")
    for document in (
        stored(API_CLIENT),
        stored(API_CLIENT, approved, condition("Denied")),
        stored(API_CLIENT, approved, condition("Failed")),
        stored("example.com/s", approved),
        issued,
    ):
        assert actions(document) == ([], [])


def test_without_an_authority_nothing_is_signed_and_a_lost_one_is_tried_again():
    document = stored(LEGACY_UNKNOWN, condition("Approved"), request=b64(pkcs10()))
    assert actions(document, None) == ([], [])

    def lost():
        raise FileNotFoundError("ca.key")

    (found,), _ = actions(document, lost)
    assert found == Retry("error auto signing csr: ca.key")
