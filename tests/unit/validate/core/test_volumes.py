"""Certificates and trust anchors that a projected volume asks for, in upstream's words."""

from __future__ import annotations

import pytest

from weir.validate.core.volumes import validate_volumes

AT = "spec.volumes[0].projected.sources[0]"
CERTIFICATE = {"signerName": "example.com/web", "keyType": "ED25519", "credentialBundlePath": "all.pem"}
DAY = 24 * 3600


def problems(*sources):
    volumes = [{"name": "v", "projected": {"sources": list(sources)}}]
    found = validate_volumes(volumes, "spec.volumes")
    errors = found if not isinstance(found, tuple) else found[-1]
    return [str(each) for each in errors]


@pytest.mark.parametrize(
    "change, expected",
    [
        ({}, []),
        ({"maxExpirationSeconds": 3600}, []),
        ({"maxExpirationSeconds": 91 * DAY}, []),
        (
            {"maxExpirationSeconds": 3599},
            [".maxExpirationSeconds: Invalid value: 3599: if provided, maxExpirationSeconds must be >= 3600"],
        ),
        (
            {"maxExpirationSeconds": 91 * DAY + 1},
            [
                ".maxExpirationSeconds: Invalid value: 7862401: if provided, maxExpirationSeconds must be <= 7862400"
            ],
        ),
        (
            {"maxExpirationSeconds": 2 * DAY, "signerName": "kubernetes.io/own"},
            [
                ".maxExpirationSeconds: Invalid value: 172800: if provided, maxExpirationSeconds must be <= 86400"
            ],
        ),
        ({"signerName": ""}, [".signerName: Required value"]),
        (
            {"credentialBundlePath": ""},
            [
                ": Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
            ],
        ),
        ({"keyPath": "/key"}, ['.keyPath: Invalid value: "/key": must be a relative path']),
    ],
)
def test_a_certificate(change, expected):
    found = problems({"podCertificate": {**CERTIFICATE, **change}})
    assert found == [f"{AT}.podCertificate{each}" for each in expected]


def test_the_type_of_a_key_is_one_of_six():
    (found,) = problems({"podCertificate": {**CERTIFICATE, "keyType": "DSA"}})
    assert found.startswith(f'{AT}.podCertificate.keyType: Unsupported value: "DSA": supported values: ')


@pytest.mark.parametrize(
    "source, expected",
    [
        ({"name": "one", "path": "a"}, []),
        ({"name": "example.com:web:one", "path": "a"}, []),
        ({"signerName": "example.com/web", "path": "a"}, []),
        ({"path": "a"}, [": Required value: either name or signerName must be specified"]),
        ({"name": "one"}, [".path: Required value"]),
        (
            {"name": "one", "path": "a", "labelSelector": {"matchLabels": {"a": "b"}}},
            [
                '.labelSelector: Invalid value: {"matchLabels":{"a":"b"}}: '
                "labelSelector must be unset if name is specified"
            ],
        ),
    ],
)
def test_trust_anchors(source, expected):
    assert problems({"clusterTrustBundle": source}) == [f"{AT}.clusterTrustBundle{each}" for each in expected]


def test_two_sources_do_not_write_one_file():
    found = problems(
        {"podCertificate": CERTIFICATE}, {"clusterTrustBundle": {"name": "one", "path": "all.pem"}}
    )
    assert found == ['spec.volumes[0].projected: Invalid value: "all.pem": conflicting duplicate paths']
