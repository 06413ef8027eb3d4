"""Claims about who approves, signs and attests, and which subjects nobody gets."""

import pytest

from tests.certificate_documents import CA, CLIENT, LEAF, b64, bundle, condition, conditions, pkcs10, request
from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.admission.certificates import (
    BUNDLE,
    REQUEST,
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
)
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.rbac import Decision
from weir.errors import Forbidden

JANE = User("jane")


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
        operation, kind, name=new["metadata"]["name"], object=new, old=old, user=JANE, subresource=subresource
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
