"""Service account tokens: signing and verification.

Spec: apiserver.md 12 (token), 5.1 (token volume).
`issue` serves POST serviceaccounts/<name>/token; `Verifier` verifies tokens. A token is a JWT (ES256 or RS256, by the
key's type) with the account, its UID, the audiences and optionally a bound pod, node or secret. It becomes invalid
with its expiry, its account and its bound object; a recreated account has another UID. A token requested for 3607
seconds, as by the token volume, is valid for a year but has `warnafter` set to 3607 seconds; the response's
expirationTimestamp is the short one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from weir.apiserver.auth.authn import CREDENTIAL_ID, User, proven
from weir.errors import BadRequest, Conflict, Invalid, NotFound
from weir.objects.times import format_time

ISSUER = "https://kubernetes.default.svc"
DEFAULT_SECONDS = 3600
SHORTEST_SECONDS = 600
LONGEST_SECONDS = 1 << 32
VOLUME_SECONDS = 3607  # requested by kubelets; such tokens are extended, see the module docstring
EXTENDED = timedelta(days=365)
CACHED_TOKENS = 4096
LONGEST_TOKEN = 16 * 1024
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)

Document = Mapping[str, Any]
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key with the name (`kid`) under which its public half is known."""

    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

    @classmethod
    def load(cls, pem: bytes) -> Signer:
        key = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("the service account key must be an elliptic curve (P-256) or RSA key")
        return cls(key)

    @property
    def public(self) -> PublicKey:
        return self.key.public_key()

    def sign(self, claims: Document) -> str:
        """Return the JWT that carries *claims*."""
        algorithm = "ES256" if isinstance(self.key, ec.EllipticCurvePrivateKey) else "RS256"
        header = {"alg": algorithm, "kid": key_id(self.public)}
        signed = f"{_encode(msgspec.json.encode(header))}.{_encode(msgspec.json.encode(claims))}"
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            r, s = decode_dss_signature(self.key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
            signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
        else:
            signature = self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encode(signature)}"


@dataclass(frozen=True, slots=True)
class Bound:
    """The object a token dies with."""

    kind: str  # Pod, Secret or Node
    name: str
    uid: str


def issue(
    signer: Signer,
    account: Document,
    now: datetime,
    *,
    audiences: Sequence[str] = (),
    seconds: int = DEFAULT_SECONDS,
    bound: Bound | None = None,
    node: Bound | None = None,
    issuer: str = ISSUER,
    extend: bool = True,
) -> tuple[str, datetime]:
    """Return the token for *account* and the time to print in `status.expirationTimestamp`.

    *node* is where the pod in *bound* runs; its name travels in the token so that audit logs can name it.
    """
    metadata = account["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    issued = int(now.timestamp())
    ends = issued + seconds
    private: dict[str, Any] = {
        "namespace": namespace,
        "serviceaccount": {"name": name, "uid": metadata.get("uid", "")},
    }
    for other in (bound, node):
        if other is not None:
            private[other.kind.lower()] = {"name": other.name, "uid": other.uid}
    spoken_for = list(audiences) or [issuer]
    lives_until = ends
    if extend and seconds == VOLUME_SECONDS and bound and bound.kind == "Pod" and issuer in spoken_for:
        private["warnafter"] = ends
        lives_until = issued + int(EXTENDED.total_seconds())
    claims = {
        "aud": spoken_for,
        "exp": lives_until,
        "iat": issued,
        "iss": issuer,
        "jti": str(uuid.uuid4()),
        "kubernetes.io": private,
        "nbf": issued,
        "sub": f"system:serviceaccount:{namespace}:{name}",
    }
    return signer.sign(claims), datetime.fromtimestamp(ends, UTC)


def token_request(
    signer: Signer,
    account: Document,
    request: Document,
    bound: Document | None,
    now: datetime,
    node: Document | None = None,
) -> dict[str, Any]:
    """Return the answer to a TokenRequest for *account*; *bound* is the object its `boundObjectRef` names.

    *node* is where a bound pod runs, when that is known.
    Raises Invalid for a length of life out of bounds, Conflict when the bound object is not the one named,
    BadRequest when the pod runs as another account.
    """
    spec = request.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    seconds = DEFAULT_SECONDS if seconds is None else seconds
    _check_seconds(seconds)
    reference = spec.get("boundObjectRef")
    to = _bound(reference, account, bound) if reference else None
    audiences = spec.get("audiences") or [ISSUER]
    where = None
    if node is not None and to is not None and to.kind == "Pod":
        where = Bound("Node", node["metadata"]["name"], node["metadata"].get("uid", ""))
    token, ends = issue(signer, account, now, audiences=audiences, seconds=seconds, bound=to, node=where)
    metadata = account["metadata"]
    own = request.get("metadata") or {}
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            **own,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata.get("uid", ""),
            "creationTimestamp": format_time(now),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {"token": token, "expirationTimestamp": format_time(ends)},
    }


def _check_seconds(seconds: int) -> None:
    if seconds < SHORTEST_SECONDS:
        text = "may not specify a duration less than 10 minutes"
    elif seconds > LONGEST_SECONDS:
        text = "may not specify a duration larger than 2^32 seconds"
    else:
        return
    body = f"Invalid value: {seconds}: {text}"
    causes = [{"reason": "FieldValueInvalid", "message": body, "field": "spec.expirationSeconds"}]
    details = {"group": "authentication.k8s.io", "kind": "TokenRequest", "causes": causes}
    raise Invalid(
        f'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: {body}', details=details
    )


def _bound(reference: Document, account: Document, found: Document | None) -> Bound:
    kind, name, uid = reference.get("kind", ""), reference.get("name", ""), reference.get("uid", "")
    plural = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}.get(kind)
    if plural is None:
        group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
        raise BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    if found is None:
        raise NotFound(f'{plural} "{name}" not found', details={"name": name, "kind": plural})
    stored = found.get("metadata", {}).get("uid", "")
    if uid and uid != stored:
        raise Conflict(
            f'Operation cannot be fulfilled on {kind} "{name}": '
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
            details={"name": name, "kind": kind},
        )
    account_name = account["metadata"]["name"]
    if kind == "Pod" and found.get("spec", {}).get("serviceAccountName", "") != account_name:
        raise BadRequest(
            f'cannot bind token for serviceaccount "{account_name}" '
            "to pod running with different serviceaccount name."
        )
    return Bound(kind, name, stored)


FindObject = Callable[[str, str | None, str], "Document | None"]
"""(plural, namespace, name) → the stored object; asked for serviceaccounts, pods, secrets and nodes."""


class Verifier:
    """Reads tokens. A signature is checked once per token; whether account and bound object exist, always."""

    def __init__(
        self,
        keys: Sequence[PublicKey],
        find: FindObject,
        clock: Callable[[], datetime],
        *,
        issuer: str = ISSUER,
        audiences: Sequence[str] = (),
    ) -> None:
        self._keys = {key_id(key): key for key in keys}
        self._find = find
        self._clock = clock
        self._issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._read: dict[str, dict[str, Any]] = {}

    def user(self, token: str) -> User | None:
        """Return the token's user, None when the token is invalid."""
        found = self.review(token, self.audiences)
        return found[0] if found else None

    def review(self, token: str, audiences: Sequence[str]) -> tuple[User, list[str]] | None:
        """Return the user and those of *audiences* the token is meant for; None when there are none."""
        claims = self._read.get(token)
        if claims is None:
            claims = self._signed_claims(token)
            if claims is None:
                return None
            if len(self._read) >= CACHED_TOKENS:
                self._read.clear()
            self._read[token] = claims
        now = self._clock().timestamp()
        if not claims["nbf"] <= now < claims["exp"]:
            return None
        meant = [audience for audience in claims["aud"] if audience in audiences]
        if not meant:
            return None
        user = self._living_user(claims)
        return (user, meant) if user else None

    def _signed_claims(self, token: str) -> dict[str, Any] | None:
        """Return the claims when the token is well formed, ours and unaltered."""
        if len(token) > LONGEST_TOKEN:
            return None
        signed, _, signature = token.rpartition(".")
        head, _, body = signed.partition(".")
        if not head or not body or "." in body:
            return None
        try:
            header = msgspec.json.decode(_decode(head), type=_Header)
            key = self._keys.get(header.kid)
            if key is None or not _signature_is_good(key, header.alg, signed.encode(), _decode(signature)):
                return None
            claims = msgspec.json.decode(_decode(body), type=_Claims)  # what is not signed is not read
        except (ValueError, binascii.Error, msgspec.DecodeError, RecursionError):
            return None
        if claims.iss != self._issuer:
            return None
        return {
            "aud": claims.aud,
            "exp": claims.exp,
            "nbf": claims.nbf,
            "jti": claims.jti,
            "private": claims.private,
            "sub": claims.sub,
        }

    def _living_user(self, claims: Mapping[str, Any]) -> User | None:
        private = claims["private"]
        namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
        name, uid = account.get("name", ""), account.get("uid", "")
        if claims["sub"] != f"system:serviceaccount:{namespace}:{name}":
            return None
        if not _same(self._find("serviceaccounts", namespace, name), uid):
            return None
        extra: dict[str, tuple[str, ...]] = {}
        if claims["jti"]:
            extra[CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
        for kind, plural, scope in (("pod", "pods", namespace), ("secret", "secrets", namespace)):
            reference = private.get(kind)
            if reference and not _same(
                self._find(plural, scope, reference.get("name", "")), reference.get("uid")
            ):
                return None
        pod, node = private.get("pod"), private.get("node")
        if pod:
            extra["authentication.kubernetes.io/pod-name"] = (pod["name"],)
            extra["authentication.kubernetes.io/pod-uid"] = (pod.get("uid", ""),)
        if node:
            if not pod and not _same(self._find("nodes", None, node.get("name", "")), node.get("uid")):
                return (
                    None  # beside a pod the node is information only; alone it is what the token is bound to
                )
            extra["authentication.kubernetes.io/node-name"] = (node["name"],)
            extra["authentication.kubernetes.io/node-uid"] = (node.get("uid", ""),)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return proven(claims["sub"], groups, uid=uid, extra=extra)


class _Header(msgspec.Struct):
    alg: str = ""
    kid: str = ""


class _Claims(msgspec.Struct):
    aud: list[str]
    exp: int
    iss: str
    sub: str
    private: dict[str, Any] = msgspec.field(name="kubernetes.io")
    nbf: int = 0
    jti: str = ""


def key_id(key: PublicKey) -> str:
    """Return the name of a public key: the digest of its DER form."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _encode(hashlib.sha256(der).digest())


def key_set(keys: Sequence[PublicKey]) -> dict[str, Any]:
    """Return the JSON Web Key Set served at /openid/v1/jwks."""
    return {"keys": [_web_key(key) for key in keys]}


def openid_configuration(issuer: str, server: str) -> dict[str, Any]:
    """Return the discovery document served at /.well-known/openid-configuration."""
    return {
        "issuer": issuer,
        "jwks_uri": f"{server}/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256", "RS256"],
    }


def _web_key(key: PublicKey) -> dict[str, Any]:
    if isinstance(key, ec.EllipticCurvePublicKey):
        point = key.public_numbers()
        x, y = (_encode(number.to_bytes(32, "big")) for number in (point.x, point.y))
        return {"use": "sig", "kty": "EC", "kid": key_id(key), "crv": "P-256", "alg": "ES256", "x": x, "y": y}
    numbers = key.public_numbers()
    n, e = (
        _encode(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (numbers.n, numbers.e)
    )
    return {"use": "sig", "kty": "RSA", "kid": key_id(key), "alg": "RS256", "n": n, "e": e}


def _signature_is_good(key: PublicKey, algorithm: object, signed: bytes, signature: bytes) -> bool:
    """Check with the algorithm of *our key*; the header may only agree with it (never choose it)."""
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            if algorithm != "ES256" or len(signature) != 64:
                return False
            r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
            key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
        else:
            if algorithm != "RS256":
                return False
            key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def _same(found: Document | None, uid: object) -> bool:
    return found is not None and found.get("metadata", {}).get("uid") == uid


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    """Return what unpadded base64url text holds; no other spelling of the same bytes is a token."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
