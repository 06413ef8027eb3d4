"""Claims about the controllers that sign and clean up, decision by decision."""

import base64

from cryptography import x509

from tests.certificate_documents import AUTHORITY, NOW, b64, condition, conditions, pkcs10, request
from weir.client.cache import ObjectKey
from weir.controllers.compat.certificate_signers import API_CLIENT, LEGACY_UNKNOWN
from weir.controllers.compat.certificates import CertificateSigner
from weir.controllers.runtime.controller import Patch, Retry
from weir.controllers.runtime.listers import Listers
from weir.gates import Gates


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
