"""Claims about weir.apiserver.auth.tokens: what is signed is read back, and nothing else is."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from weir.apiserver.auth.tokens import (
    ISSUER,
    Bound,
    Signer,
    Verifier,
    issue,
    key_set,
    token_request,
)
from weir.errors import BadRequest, Conflict, Invalid, NotFound

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ACCOUNT = {"metadata": {"name": "robot", "namespace": "ns", "uid": "u1"}}
POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "p1"}, "spec": {"serviceAccountName": "robot"}}
STORED = {("serviceaccounts", "ns", "robot"): ACCOUNT, ("pods", "ns", "p"): POD}
EC = Signer(ec.generate_private_key(ec.SECP256R1()))
RSA = Signer(rsa.generate_private_key(public_exponent=65537, key_size=2048))


class World:
    def __init__(self, signer=EC):
        self.now, self.objects = NOW, dict(STORED)
        self.verifier = Verifier([signer.public], lambda *key: self.objects.get(key), lambda: self.now)


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize("signer", [EC, RSA], ids=["ES256", "RS256"])
def test_a_signed_token_is_read_back(signer):
    token, _ = issue(signer, ACCOUNT, NOW)
    user = World(signer).verifier.user(token)
    assert (user.name, user.uid, user.groups) == (
        "system:serviceaccount:ns:robot",
        "u1",
        ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
    )


def test_a_token_ends(world):
    token, ends = issue(EC, ACCOUNT, NOW, seconds=600)
    world.now = ends
    assert world.verifier.user(token) is None


def test_a_token_dies_with_its_account_even_after_it_was_read_once(world):
    token, _ = issue(EC, ACCOUNT, NOW)
    assert world.verifier.user(token)
    world.objects["serviceaccounts", "ns", "robot"] = {"metadata": {**ACCOUNT["metadata"], "uid": "u2"}}
    assert world.verifier.user(token) is None


def test_a_bound_token_dies_with_its_pod(world):
    token, _ = issue(EC, ACCOUNT, NOW, bound=Bound("Pod", "p", "p1"))
    alive = world.verifier.user(token)
    del world.objects["pods", "ns", "p"]
    assert (alive.extra["authentication.kubernetes.io/pod-name"], world.verifier.user(token)) == (
        ("p",),
        None,
    )


def test_a_token_for_somebody_else_does_not_open_this_server(world):
    token, _ = issue(EC, ACCOUNT, NOW, audiences=["vault"])
    assert world.verifier.user(token) is None
    assert world.verifier.review(token, ["vault", "x"])[1] == ["vault"]


def test_every_changed_character_of_a_token_spoils_it(world):
    token, _ = issue(EC, ACCOUNT, NOW)
    for position in range(0, len(token) - 1, 7):  # the last character carries unused bits
        changed = token[:position] + ("A" if token[position] != "A" else "B") + token[position + 1 :]
        assert world.verifier.user(changed) is None


def forged(header, claims):
    parts = [base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode() for p in (header, claims)]
    return ".".join([*parts, ""])


def test_a_token_may_not_choose_to_be_unsigned(world):
    good, _ = issue(EC, ACCOUNT, NOW)
    claims = json.loads(base64.urlsafe_b64decode(good.split(".")[1] + "=="))
    kid = key_set([EC.public])["keys"][0]["kid"]
    assert world.verifier.user(forged({"alg": "none", "kid": kid}, claims)) is None


def test_a_token_of_another_key_is_not_read(world):
    token, _ = issue(Signer(ec.generate_private_key(ec.SECP256R1())), ACCOUNT, NOW)
    assert world.verifier.user(token) is None


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a.b.c", "a.b", "....", "é.é.é", "e30.e30.e30", "W10.W10.W10"]
)
def test_text_that_is_no_token_is_no_error(world, text):
    assert world.verifier.user(text) is None


def test_a_volume_token_lives_a_year_and_says_an_hour(world):
    token, said = issue(EC, ACCOUNT, NOW, seconds=3607, bound=Bound("Pod", "p", "p1"))
    world.now = NOW + timedelta(days=300)
    assert said == NOW + timedelta(seconds=3607) and world.verifier.user(token)


def test_a_token_request_is_answered_for_this_server_by_default():
    answer = token_request(EC, ACCOUNT, {"spec": {"expirationSeconds": 600}}, None, NOW)
    assert answer["spec"] == {"audiences": [ISSUER], "expirationSeconds": 600, "boundObjectRef": None}
    assert answer["status"]["expirationTimestamp"] == "2026-06-01T00:10:00Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(599, "may not specify a duration less than 10 minutes"), (2**32 + 1, "larger than 2^32 seconds")],
)
def test_a_life_out_of_bounds_is_invalid(seconds, text):
    with pytest.raises(Invalid) as refused:
        token_request(EC, ACCOUNT, {"spec": {"expirationSeconds": seconds}}, None, NOW)
    assert text in refused.value.message


REFERENCE = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "p1"}


@pytest.mark.parametrize(
    ("reference", "found", "error"),
    [
        (REFERENCE, None, NotFound),
        ({**REFERENCE, "uid": "other"}, POD, Conflict),
        (REFERENCE, {**POD, "spec": {"serviceAccountName": "someone"}}, BadRequest),
        ({**REFERENCE, "kind": "Service"}, POD, BadRequest),
    ],
)
def test_a_token_is_bound_only_to_the_object_that_was_meant(reference, found, error):
    with pytest.raises(error):
        token_request(EC, ACCOUNT, {"spec": {"boundObjectRef": reference}}, found, NOW)


def spoilt(header: bytes, claims: bytes, signature: bytes = b"x" * 64) -> str:
    return ".".join(
        base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (header, claims, signature)
    )


@pytest.mark.parametrize(
    "token",
    [
        spoilt(b'{"alg":"ES256","kid":[]}', b"{}"),
        spoilt(b'{"alg":[],"kid":{}}', b"{}"),
        spoilt(b"[" * 20_000, b"{}"),
        spoilt(b'{"alg":"ES256","kid":"k"}', b"[" * 20_000),
        spoilt(b'{"alg":"ES256","kid":"%s"}' % b"k" * 100_000, b"{}"),
        spoilt(b"null", b"null"),
        spoilt(b'{"alg":1e999999,"kid":"k"}', b"{}"),
        "..",
        ".é.",
    ],
    ids=lambda token: token[:20],
)
def test_a_token_that_cannot_be_read_is_no_token(world, token):
    assert world.verifier.user(token) is None


@pytest.mark.parametrize("claims", [b"[" * 9000, b"null", b'{"aud":1}', b'{"exp":"x"}', b"{}"])
def test_claims_of_the_right_key_id_are_not_read_before_the_signature(world, claims):
    kid = key_set([EC.public])["keys"][0]["kid"]
    assert world.verifier.user(spoilt(b'{"alg":"ES256","kid":"%s"}' % kid.encode(), claims)) is None


@pytest.mark.parametrize("signer", [EC, RSA], ids=["ES256", "RS256"])
@pytest.mark.parametrize(
    "respell",
    [
        lambda signature: f"{signature}==",
        lambda signature: f"{signature}=",
        lambda signature: signature.replace("-", "+").replace("_", "/"),
        lambda signature: f"{signature[:5]}\n{signature[5:]}",
        lambda signature: f"{signature}\n",
    ],
    ids=["padding", "one-padding", "standard-alphabet", "newline", "newline-at-end"],
)
def test_another_spelling_of_the_same_signature_is_no_token(signer, respell):
    token = next(
        token
        for token in (issue(signer, ACCOUNT, NOW)[0] for _ in range(50))
        if set("-_") & set(token.rpartition(".")[2])
    )
    signed, _, signature = token.rpartition(".")
    world = World(signer)
    assert world.verifier.user(token) and world.verifier.user(f"{signed}.{respell(signature)}") is None
