"""Claims about what may be written of a CertificateSigningRequest."""

import copy

import pytest

from tests.certificate_documents import (
    AUTHORITY,
    CA,
    LEAF,
    b64,
    condition,
    conditions,
    der,
    encode_pem,
    pkcs10,
    request,
    unsigned,
)
from weir.fields.field import Context
from weir.gates import Gates
from weir.validate.certificates.certificate_signing_request import validate_certificate_signing_request


def problems(new, old=None, subresource=""):
    context = Context(Gates(), subresource, namespaced=False)
    return [str(error) for error in validate_certificate_signing_request(new, old, context)]


def test_a_signed_request_passes():
    assert problems(request("a")) == []


@pytest.mark.parametrize(
    "pem, text",
    [
        (b"nothing", "PEM block type must be CERTIFICATE REQUEST"),
        (CA.encode(), "PEM block type must be CERTIFICATE REQUEST"),
        (encode_pem("CERTIFICATE REQUEST", b""), "asn1: syntax error: sequence truncated"),
        (encode_pem("CERTIFICATE REQUEST", der(pkcs10())[:-3]), "asn1: syntax error: data truncated"),
        (encode_pem("CERTIFICATE REQUEST", der(pkcs10()) + b"x"), "asn1: syntax error: trailing data"),
        (unsigned(pkcs10()), "x509: ECDSA verification failure"),
    ],
)
def test_a_bad_request_is_refused_in_the_words_of_go(pem, text):
    assert problems(request("a", request=b64(pem))) == [f'spec.request: Invalid value: "{b64(pem)}": {text}']


@pytest.mark.parametrize(
    "spec, text",
    [
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["any", "any"]}, 'spec.usages[1]: Duplicate value: "any"'),
        ({"expirationSeconds": 599}, "spec.expirationSeconds: Invalid value: 599: may not specify a duration less"),
        ({"signerName": ""}, "spec.signerName: Required value"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "spec.signerName: Invalid value: "
         '"kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version'),
        ({"signerName": "a/b"}, 'spec.signerName: Invalid value: "a": should be a domain with at least two segments'),
    ],
)  # fmt: skip
def test_a_bad_spec_is_refused(spec, text):
    (found,) = problems(request("a", **spec))
    assert found.startswith(text)


def test_an_unknown_usage_is_told_with_the_known_ones():
    (found,) = problems(request("a", usages=["fun"]))
    assert found.startswith(
        'spec.usages[0]: Unsupported value: "fun": supported values: "any", "cert sign", '
    )


@pytest.mark.parametrize("usages", [["fun"], ["any", "any"]])
def test_what_was_stored_broken_may_stay_broken(usages):
    old = request("a", usages=usages)
    assert problems(copy.deepcopy(old), old) == []


def test_only_approval_adds_approved():
    old, new = request("a"), {**request("a"), **conditions(condition("Approved"))}
    assert problems(new, old, "approval") == []
    assert problems(new, old, "status") == [
        'status.conditions: Forbidden: updates may not add a condition of type "Approved"'
    ]


def test_what_was_decided_stays_decided():
    old = {**request("a"), **conditions(condition("Denied"), condition("Failed"))}
    assert problems(request("a"), old, "approval") == [
        'status.conditions: Forbidden: updates may not remove a condition of type "Denied"',
        'status.conditions: Forbidden: updates may not remove a condition of type "Failed"',
    ]


def test_nobody_approves_and_denies():
    new = {**request("a"), **conditions(condition("Denied"), condition("Approved"))}
    (found,) = problems(new, request("a"), "approval")
    assert "must specify at most one of" in found


def test_a_decision_is_never_false():
    new = {**request("a"), **conditions(condition("Approved", "False"))}
    assert problems(new, request("a"), "approval") == [
        'status.conditions[0].status: Unsupported value: "False": supported values: "True"'
    ]


@pytest.mark.parametrize(
    "pem, text",
    [
        ("x", "must contain at least one CERTIFICATE PEM block"),
        (AUTHORITY.key.decode(), 'only CERTIFICATE PEM blocks are allowed, found "PRIVATE KEY"'),
        (LEAF.replace("CERTIFICATE-----\n", "CERTIFICATE-----\na: b\n\n", 1), "no PEM block headers are permitted"),
    ],
)  # fmt: skip
def test_a_certificate_is_one(pem, text):
    new = {**request("a"), "status": {"certificate": b64(pem)}}
    assert problems(new, request("a"), "status") == [
        f'status.certificate: Invalid value: "<certificate data>": {text}'
    ]


def test_a_certificate_is_set_once_and_by_status_alone():
    signed = {**request("a"), "status": {"certificate": b64(LEAF)}}
    other = {**request("a"), "status": {"certificate": b64(CA)}}
    assert problems(signed, request("a"), "status") == []
    assert problems(signed, request("a"), "approval") == [
        "status.certificate: Forbidden: updates may not set certificate content"
    ]
    assert problems(other, signed, "status") == [
        "status.certificate: Forbidden: updates may not modify existing certificate content"
    ]
