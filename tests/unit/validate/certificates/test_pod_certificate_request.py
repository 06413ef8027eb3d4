"""Claims about what may be written of a PodCertificateRequest, and about what is issued for it."""

from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.certificate_documents import LEAF, NOW, b64, condition, conditions, issued, pod_request
from weir.fields.field import Context
from weir.gates import Gates
from weir.validate.certificates.pod_certificate_request import (
    validate_issuance,
    validate_pod_certificate_request,
)

STAMP = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
DENIED = condition("Denied", lastTransitionTime=STAMP)


def request(**spec):
    found = pod_request("a", maxExpirationSeconds=86400, **spec)
    found["metadata"]["namespace"] = "default"
    return found


def problems(new, old=None):
    return [str(error) for error in validate_pod_certificate_request(new, old, Context(Gates()))]


def issue_problems(status, before=None):
    old = {**request(), "status": before or {}}
    return [str(error) for error in validate_issuance({**old, **status}, old, NOW)]


def test_a_kubelet_s_request_passes():
    assert problems(request()) == []


@pytest.mark.parametrize(
    "spec, text",
    [
        ({"podUID": ""}, 'spec.podUID: Invalid value: "": must not be empty'),
        ({"nodeUID": "u" * 129}, "spec.nodeUID: Too long: may not be more than 128 bytes"),
        ({"stubPKCS10Request": ""}, "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, "),
        ({"stubPKCS10Request": b64("x")}, "spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"),
        ({"key": ec.generate_private_key(ec.SECP224R1())}, 'spec.stubPKCS10Request: Invalid value: "curve P-224": '),
        ({"unverifiedUserAnnotations": {"a": "b"}}, 'spec.unverifiedUserAnnotations: Invalid value: "a": must be a '),
    ],
)  # fmt: skip
def test_a_bad_request_is_refused(spec, text):
    (found,) = problems(request(**spec))
    assert found.startswith(text)


def test_signers_of_kubernetes_issue_for_a_day_at_most():
    spec = request(signerName="kubernetes.io/x")
    spec["spec"]["maxExpirationSeconds"] = 86401
    assert problems(spec) == [
        "spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]"
    ]


def test_a_request_never_changes():
    (found,) = problems(request(podName="q"), request())
    assert found.startswith('spec: Invalid value: {"SignerName":"example.com/s","PodName":"q",')
    assert found.endswith(": field is immutable")


def test_a_good_certificate_passes_and_ends_it():
    good = issued()
    assert issue_problems(good) == []
    assert issue_problems({"status": {}}, good["status"]) == [
        "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"
    ]


@pytest.mark.parametrize(
    "status, text",
    [
        (conditions(DENIED, certificateChain=LEAF), "status: Invalid value: non-condition status fields must be empty"),
        ({"status": {"certificateChain": LEAF}}, "status: Invalid value: status is immutable unless transitioning"),
        (issued(key=ec.generate_private_key(ec.SECP256R1())), "status.certificateChain: Invalid value: "),
        (issued(notBefore="2020-01-01T00:00:00Z"), 'status.notBefore: Invalid value: "2020-01-01T00:00:00Z": must be'),
        (issued(begin=NOW - timedelta(hours=1)), "status.notBefore: Invalid value: "),
        (issued(0.5), "status.certificateChain: Invalid value: 1800000000000: leaf certificate lifetime must be >= 1"),
        (issued(25), "status.certificateChain: Invalid value: 90000000000000: leaf certificate lifetime must be <="),
        (issued(beginRefreshAt=STAMP), "status.beginRefreshAt: Invalid value: "),
        (issued(notAfter=None), "status.notAfter: Required value: must be present and consistent"),
    ],
)  # fmt: skip
def test_a_bad_certificate_is_refused(status, text):
    (found,) = issue_problems(status)
    assert found.startswith(text)


def test_there_is_one_end():
    found = issue_problems(conditions(DENIED, {**DENIED, "type": "Failed"}, {**DENIED, "type": "Odd"}))
    assert [line.partition(": ")[0] for line in found] == [
        "status.conditions.[1].type",
        "status.conditions.[2].type",
    ]
