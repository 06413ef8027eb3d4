"""Claims about weir.apiserver.auth.authn: which proofs open the door, and for whom."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from ssl import PEM_cert_to_DER_cert

import pytest

from weir.apiserver.auth import pki
from weir.apiserver.auth.authn import ANONYMOUS, Authenticator, StaticTokens, User, proven
from weir.errors import Unauthorized

TOKENS = StaticTokens({"good": proven("jane", ["dev"])})


@dataclass
class AuthenticatedRequest:
    path: str = "/api/v1/pods"
    headers: dict = field(default_factory=dict)
    peer_certificate: bytes | None = None


def bearing(token, **rest):
    return AuthenticatedRequest(headers={b"authorization": b"Bearer " + token}, **rest)


@pytest.fixture
def authenticator():
    return Authenticator([TOKENS.find])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    credentials = pki.ensure(tmp_path_factory.mktemp("pki"), now=datetime(2026, 6, 1, tzinfo=UTC))
    return PEM_cert_to_DER_cert(credentials.admin.certificate.decode())


def test_a_known_token_opens(authenticator):
    assert authenticator.authenticate(bearing(b"good")) == proven("jane", ["dev"])


@pytest.mark.parametrize(
    "asked",
    [
        AuthenticatedRequest(),
        bearing(b"wrong"),
        bearing(b"wrong", path="/healthz"),
        bearing(b"\xff\xfe"),
        AuthenticatedRequest(headers={b"authorization": b"Basic good"}),
        AuthenticatedRequest(peer_certificate=b"no DER"),
        AuthenticatedRequest(path="/healthzz"),
        AuthenticatedRequest(path="/metrics"),
        AuthenticatedRequest(path="/version"),
    ],
    ids=repr,
)
def test_nothing_or_a_wrong_proof_is_refused(authenticator, asked):
    with pytest.raises(Unauthorized, match=r"^Unauthorized$"):
        authenticator.authenticate(asked)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
def test_health_may_be_asked_by_anybody(authenticator, path):
    assert authenticator.authenticate(AuthenticatedRequest(path=path)) is ANONYMOUS


def test_with_anonymous_access_on_a_wrong_token_is_still_refused():
    with pytest.raises(Unauthorized):
        Authenticator([TOKENS.find], anonymous=True).authenticate(bearing(b"wrong"))


def test_a_certificate_comes_before_a_token(authenticator, certificate):
    user = authenticator.authenticate(bearing(b"good", peer_certificate=certificate))
    assert (user.name, user.groups) == ("kubernetes-admin", ("system:masters", "system:authenticated"))


def test_a_certificate_names_itself_as_the_credential(authenticator, certificate):
    extra = authenticator.authenticate(AuthenticatedRequest(peer_certificate=certificate)).extra
    assert extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


def test_a_token_file_line_without_user_is_named():
    with pytest.raises(ValueError, match="line 2"):
        StaticTokens.parse_file("a,b,c\nonly-a-token")


def test_empty_members_of_a_user_are_not_printed():
    assert User("x", extra={"k": ("v",)}).info() == {"username": "x", "extra": {"k": ["v"]}}


@pytest.mark.parametrize("year, refused", [(2025, True), (2026, False), (2040, True)])
def test_a_certificate_is_held_against_the_time_of_every_request(certificate, year, refused):
    now = datetime(2026, 6, 2, tzinfo=UTC)
    authenticator = Authenticator(now=lambda: now)
    assert (
        authenticator.authenticate(AuthenticatedRequest(peer_certificate=certificate)).name
        == "kubernetes-admin"
    )
    now = now.replace(year=year)
    if refused:
        with pytest.raises(Unauthorized):
            authenticator.authenticate(AuthenticatedRequest(peer_certificate=certificate))
    else:
        assert authenticator.authenticate(AuthenticatedRequest(peer_certificate=certificate))


def test_long_credentials_are_not_remembered():
    from weir.caches import REGISTRY

    cache = next(cache for cache in REGISTRY if cache.name.endswith("parse_bearer"))
    cache.clear()
    for number in range(300):
        assert TOKENS.find(str(number)) is None
        with pytest.raises(Unauthorized):
            Authenticator([TOKENS.find]).authenticate(bearing(b"%d" % number + b"x" * 60_000))
    assert cache.size() == 0
