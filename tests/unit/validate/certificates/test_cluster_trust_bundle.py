"""Claims about what may be written of a ClusterTrustBundle."""

import pytest

from tests.certificate_documents import AUTHORITY, CA, LEAF, OTHER_CA, bundle, encode_pem
from weir.fields.field import Context
from weir.gates import Gates
from weir.validate.certificates.cluster_trust_bundle import validate_cluster_trust_bundle

OMITTED = 'spec.trustBundle: Invalid value: "<value omitted>": '


def problems(new, old=None):
    return [
        str(error) for error in validate_cluster_trust_bundle(new, old, Context(Gates(), namespaced=False))
    ]


@pytest.mark.parametrize(
    "found", [bundle("a", CA), bundle("a", f"words\n{CA}words\n{OTHER_CA}"), bundle("b.c:s:a", CA, "b.c/s")]
)
def test_authorities_pass(found):
    assert problems(found) == []


@pytest.mark.parametrize(
    "text, detail",
    [
        ("", "at least one trust anchor must be provided"),
        (LEAF, "entry 0 does not have the CA bit set"),
        (CA + AUTHORITY.key.decode(), "entry 1 has bad block type: PRIVATE KEY"),
        (encode_pem("CERTIFICATE", b"x").decode(), "entry 0 does not parse as X.509"),
        (CA.replace("E-----\n", "E-----\na: b\n\n", 1), "entry 0 has PEM block headers"),
        (CA + OTHER_CA + CA, "duplicate trust anchor (indices [0 2])"),
    ],
)
def test_anything_else_is_refused(text, detail):
    assert problems(bundle("a", text)) == [OMITTED + detail]


def test_the_name_says_the_signer():
    (found,) = problems(bundle("a", CA, "b.c/s"))
    assert found.endswith("ClusterTrustBundle for signerName b.c/s must be named with prefix b.c:s:")
    (found,) = problems(bundle("b.c:s:a", CA))
    assert found.endswith('ClusterTrustBundle without signer name must not have ":" in its name')


def test_the_signer_stays_and_an_old_bundle_is_not_looked_at():
    assert problems(bundle("a", "odd"), bundle("a", "odd")) == []
    found = problems(bundle("b.c:s:a", CA, "b.c/s"), bundle("b.c:s:a", CA, "b.c/t"))
    assert found == ['spec.signerName: Invalid value: "b.c/s": field is immutable']
