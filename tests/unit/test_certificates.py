"""Certificates: what an authority signs is good for its names and its time, and for nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID

from weir.certificates import (
    KeyKindError,
    KeyPair,
    is_good,
    is_young,
    issue,
    load_certificate,
    make_authority,
    subject_name,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
YEAR, MONTH, SECOND = timedelta(days=365), timedelta(days=30), timedelta(seconds=1)
AUTHORITY = make_authority("ca", NOW, 10 * YEAR, path_length=0)
LEAF = issue(AUTHORITY, subject_name("server"), NOW, YEAR, names=["a.example", "192.0.2.1"])


def good(leaf: KeyPair = LEAF, authority: KeyPair = AUTHORITY, now: datetime = NOW, *names: str) -> bool:
    loaded = load_certificate(leaf.certificate), load_certificate(authority.certificate)
    return is_good(*loaded, now, MONTH, names)


@pytest.mark.parametrize(
    ("names", "expected"),
    [((), True), (("a.example",), True), (("192.0.2.1", "a.example"), True), (("a.example", "b"), False)],
)
def test_a_leaf_is_good_for_its_names(names, expected):
    assert good(LEAF, AUTHORITY, NOW, *names) is expected


def test_a_leaf_without_names_is_good_for_none():
    client = issue(AUTHORITY, subject_name("me"), NOW, YEAR, client=True)
    assert good(client) and not good(client, AUTHORITY, NOW, "a.example")


def test_a_leaf_is_good_under_its_authority_and_under_that_made_again_from_its_key():
    assert good(LEAF, make_authority("ca", NOW + YEAR, YEAR, key=AUTHORITY.key))
    assert not good(LEAF, make_authority("ca", NOW, YEAR))
    assert not good(LEAF, make_authority("other", NOW, YEAR, key=AUTHORITY.key))


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (NOW - timedelta(minutes=5) - SECOND, False),
        (NOW - timedelta(minutes=5), True),
        (NOW + YEAR - MONTH - SECOND, True),
        (NOW + YEAR - MONTH, False),
    ],
)
def test_it_is_young_from_a_little_before_it_was_made_until_its_renewal(moment, expected):
    assert is_young(load_certificate(LEAF.certificate), moment, MONTH) is expected
    assert good(LEAF, AUTHORITY, moment) is expected


@pytest.mark.parametrize(
    ("client", "usage"), [(True, ExtendedKeyUsageOID.CLIENT_AUTH), (False, ExtendedKeyUsageOID.SERVER_AUTH)]
)
def test_a_leaf_says_what_it_is_for_and_signs_nothing(client, usage):
    made = load_certificate(issue(AUTHORITY, subject_name("me"), NOW, YEAR, client=client).certificate)
    extensions = made.extensions
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [usage]
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_an_authority_signs_and_says_how_deep():
    extensions = load_certificate(AUTHORITY.certificate).extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    assert extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_a_key_fits_its_certificate_only():
    assert LEAF.fits() and not KeyPair(LEAF.certificate, AUTHORITY.key).fits()
    foreign = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(KeyKindError):
        KeyPair(LEAF.certificate, foreign).fits()
    with pytest.raises(ValueError):
        KeyPair(b"damaged", LEAF.key).fits()
