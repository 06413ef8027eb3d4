"""Claims about which requests Kubernetes' signers take, and about the certificates they give."""

from datetime import timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.certificate_documents import AUTHORITY, NOW, pkcs10
from weir.certificates import KeyPair, make_authority
from weir.controllers.compat.certificate_signers import (
    API_CLIENT,
    DURATION,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    problem_with,
    signed,
)
from weir.validate.certificates.pkcs10 import read_request

DNS, IP = x509.DNSName("n0"), x509.IPAddress(ip_address("10.0.0.1"))
MAIL, URI = x509.RFC822Name("a@b.c"), x509.UniformResourceIdentifier("spiffe://a")
CLIENT = ["digital signature", "key encipherment", "client auth"]
SERVING = ["digital signature", "server auth"]


def asked(name="system:node:n0", *groups, names=()):
    return read_request(pkcs10(name, *(groups or ("system:nodes",)), names=names))


@pytest.mark.parametrize(
    "signer, request_, usages, problem",
    [
        (KUBELET_CLIENT, asked(), CLIENT, ""),
        (KUBELET_CLIENT, asked(), ["digital signature", "client auth"], ""),
        (KUBELET_CLIENT, asked("n0"), CLIENT, "subject common name does not begin with system:node:"),
        (KUBELET_CLIENT, asked("system:node:n0", "dev"), CLIENT, "subject organization is not system:nodes"),
        (KUBELET_CLIENT, asked(names=[DNS]), CLIENT, "DNS subjectAltNames are not allowed"),
        (KUBELET_CLIENT, asked(names=[IP]), CLIENT, "IP subjectAltNames are not allowed"),
        (KUBELET_CLIENT, asked(names=[MAIL]), CLIENT, "Email subjectAltNames are not allowed"),
        (KUBELET_CLIENT, asked(names=[URI]), CLIENT, "URI subjectAltNames are not allowed"),
        (KUBELET_CLIENT, asked(), SERVING, "usages did not match [client auth digital signature key encipherment]"),
        (KUBELET_SERVING, asked(names=[DNS, IP]), SERVING, ""),
        (KUBELET_SERVING, asked(), SERVING, "DNS or IP subjectAltName is required"),
        (KUBELET_SERVING, asked(names=[DNS, URI]), SERVING, "URI subjectAltNames are not allowed"),
        (KUBELET_SERVING, asked(names=[DNS]), CLIENT,
         "usages did not match [digital signature key encipherment server auth]"),
        (API_CLIENT, asked("jane", "dev"), ["client auth"], ""),
        (API_CLIENT, asked("jane", "dev"), ["client auth", "server auth"],
         "invalid usage for client certificate: server auth"),
        (API_CLIENT, asked("jane"), ["digital signature"],
         "missing required usage for client certificate: client auth"),
        (LEGACY_UNKNOWN, asked("anything", names=[MAIL]), ["any"], ""),
    ],
)  # fmt: skip
def test_each_signer_takes_its_own(signer, request_, usages, problem):
    assert problem_with(request_, usages, signer) == problem


def certificate(spec, authority=AUTHORITY, request_=None, longest=DURATION):
    return x509.load_pem_x509_certificate(signed(authority, request_ or asked(), spec, NOW, longest))


def test_a_certificate_has_the_subject_the_names_and_the_usages():
    found = certificate({"usages": SERVING}, request_=asked(names=[DNS, IP]))
    found.verify_directly_issued_by(x509.load_pem_x509_certificate(AUTHORITY.certificate))
    assert found.subject == asked().parsed.subject
    several = certificate({"usages": SERVING}, request_=asked("jane", "dev", "ops")).subject
    assert several.rfc4514_string() == "CN=jane,O=dev+O=ops"
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [DNS, IP]
    usages = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH]
    bits = found.extensions.get_extension_for_class(x509.KeyUsage).value
    assert bits.digital_signature and not bits.key_encipherment
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize(
    "seconds, lives",
    [(None, timedelta(hours=12) - timedelta(minutes=5)), (3600, timedelta(hours=1)), (60, timedelta(minutes=10)),
     (36000, timedelta(hours=10) - timedelta(minutes=5)), (10**8, timedelta(hours=12) - timedelta(minutes=5))],
)  # fmt: skip
def test_it_lives_as_long_as_it_is_asked_to_within_bounds(seconds, lives):
    spec = {"usages": CLIENT, **({} if seconds is None else {"expirationSeconds": seconds})}
    found = certificate(spec, longest=timedelta(hours=12))
    assert found.not_valid_before_utc == NOW - timedelta(minutes=5)
    assert found.not_valid_after_utc == NOW + lives


def test_it_ends_with_its_authority():
    young = make_authority("young", NOW, timedelta(hours=1))
    assert certificate({"usages": CLIENT}, young).not_valid_after_utc == NOW + timedelta(hours=1)
    old = make_authority("old", NOW - timedelta(days=2), timedelta(days=1))
    with pytest.raises(ValueError, match="the signer has expired"):
        certificate({"usages": CLIENT}, KeyPair(old.certificate, old.key))
