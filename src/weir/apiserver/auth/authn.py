"""Authentication: client certificates, static bearer tokens, service account tokens.

Tried in this order; a verified certificate's common name is the user, its organizations are the groups. Without valid
credentials the request gets 401. Anonymous access is limited to health paths unless enabled; then requests without
credentials are `system:anonymous`, but *invalid* credentials are still rejected. Authenticated users are in group
`system:authenticated`. Parsed certificates are cached by their bytes.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from cryptography import x509
from cryptography.x509.oid import NameOID

from weir.caches import bounded
from weir.errors import Unauthorized

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
HEALTH = frozenset({"healthz", "livez", "readyz"})
CACHED_CERTIFICATES = 1024

Extra = Mapping[str, tuple[str, ...]]
_NO_EXTRA: Extra = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class User:
    """A proven identity. `groups` keeps the order in which they were given."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Extra = field(default_factory=dict, hash=False)

    def info(self) -> dict[str, Any]:
        """Return the wire form (authentication.k8s.io/v1 UserInfo); empty members are left out.

        >>> User("jane", groups=("dev",)).info()
        {'username': 'jane', 'groups': ['dev']}
        """
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


#: The API server itself, when it reads and writes through its own registry.
SYSTEM = User("system:apiserver", groups=(MASTERS, AUTHENTICATED))


ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))


def proven(name: str, groups: Iterable[str] = (), uid: str = "", extra: Extra = _NO_EXTRA) -> User:
    """Return the user with `system:authenticated` added, which every authenticated user has.

    >>> proven("jane", ["dev"]).groups
    ('dev', 'system:authenticated')
    """
    return User(name, uid, tuple(dict.fromkeys((*groups, AUTHENTICATED))), extra)


class Certified(NamedTuple):
    """The user of a client certificate, and its validity period."""

    user: User
    since: datetime
    until: datetime


def read_certificate(certificate: bytes) -> Certified | None:
    """Return the user and validity of a client certificate (DER, verified by TLS).

    None without a common name, and for a certificate authority, which TLS takes as its own leaf.
    """
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        if _is_authority(parsed):
            return None
        names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        organizations = parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    except (ValueError, x509.DuplicateExtension):
        return None
    if not names or not names[-1].value:
        return None
    groups = [str(organization.value) for organization in organizations]
    credential = f"X509SHA256={hashlib.sha256(certificate).hexdigest()}"
    user = proven(str(names[-1].value), groups, extra={CREDENTIAL_ID: (credential,)})
    return Certified(user, parsed.not_valid_before_utc, parsed.not_valid_after_utc)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


class TokenFileError(ValueError):
    """A token file that cannot be used."""


class StaticTokens:
    """Bearer tokens of a file.

    Kept by their digest: looking one up takes the same time however much of it was guessed right. A token
    that was right once is remembered whole, under the interpreter's keyed hash.
    """

    def __init__(self, users: Mapping[str, User]) -> None:
        self._users = {_digest(token): user for token, user in users.items()}
        self._proven: dict[str, User] = {}

    def find(self, token: str) -> User | None:
        user = self._proven.get(token)
        if user is None:
            user = self._users.get(_digest(token))
            if user is not None:
                self._proven[token] = user
        return user

    @classmethod
    def parse_file(cls, text: str) -> StaticTokens:
        """Return the tokens of a Kubernetes token file: token,user,uid[,"group,group"] per line.

        >>> StaticTokens.parse_file('s3cret,jane,7,"dev,ops"').find("s3cret").groups
        ('dev', 'ops', 'system:authenticated')
        """
        users: dict[str, User] = {}
        for number, row in enumerate(csv.reader(text.splitlines(), skipinitialspace=True), start=1):
            if not row or row[0].startswith("#"):
                continue
            if len(row) < 3 or not row[0] or not row[1]:
                raise TokenFileError(f"token file line {number}: needs at least token,user,uid")
            groups = [group for group in (row[3] if len(row) > 3 else "").split(",") if group]
            users[row[0]] = proven(row[1], groups, uid=row[2])
        return cls(users)


class TokenFile:
    """The tokens of a file, which is read again when it changes; a file that cannot be read changes nothing."""

    def __init__(self, path: Path) -> None:
        """Read *path*. Raises OSError, TokenFileError."""
        self.path = path
        self._tokens = StaticTokens.parse_file(path.read_text())

    def find(self, token: str) -> User | None:
        return self._tokens.find(token)

    def reload(self) -> None:
        """Read the file again; removed tokens become invalid. Raises OSError, TokenFileError."""
        self._tokens = StaticTokens.parse_file(self.path.read_text())


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


TokenReader = Callable[[str], "User | None"]


class AuthenticatedRequest(Protocol):
    """What authentication reads of a request."""

    @property
    def path(self) -> str: ...

    @property
    def headers(self) -> Mapping[bytes, bytes]: ...

    @property
    def peer_certificate(self) -> bytes | None: ...


class Authenticator:
    """Authenticates requests. `token_readers` are tried in order; the first user wins."""

    def __init__(
        self,
        token_readers: Iterable[TokenReader] = (),
        *,
        anonymous: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._readers = tuple(token_readers)
        self._anonymous = anonymous
        self._now = now
        self._by_certificate: dict[bytes, Certified | None] = {}

    def authenticate(self, request: AuthenticatedRequest) -> User:
        """Return the user; raises Unauthorized when there is no proof or a wrong one."""
        certificate = request.peer_certificate
        if certificate is not None:
            user = self._user_of_certificate(certificate)
            if user is not None:
                return user
        authorization = request.headers.get(b"authorization")
        token = parse_bearer(authorization.decode("latin-1")) if authorization else None
        if token is not None:
            user = self.user_of_token(token)
            if user is not None:
                return user
        elif self._anonymous or is_health(request.path):
            return ANONYMOUS
        raise Unauthorized("Unauthorized")

    def user_of_token(self, token: str) -> User | None:
        for read in self._readers:
            user = read(token)
            if user is not None:
                return user
        return None

    def _user_of_certificate(self, certificate: bytes) -> User | None:
        """Return a certificate's user if it is valid now: TLS verified it when the connection began."""
        try:
            found = self._by_certificate[certificate]
        except KeyError:
            if len(self._by_certificate) >= CACHED_CERTIFICATES:
                self._by_certificate.clear()
            found = self._by_certificate[certificate] = read_certificate(certificate)
        return found.user if found is not None and found.since <= self._now() <= found.until else None


def is_health(path: str) -> bool:
    """Return whether *path* is a health path, open to anonymous requests.

    >>> is_health("/readyz"), is_health("/livez/ping"), is_health("/metrics")
    (True, True, False)
    """
    return path.startswith(("/healthz", "/livez", "/readyz")) and path.split("/")[1] in HEALTH


@bounded(256, longest=4096)  # the same few clients ask again and again
def parse_bearer(authorization: str) -> str | None:
    """Return the token of an Authorization header, None when it is of another scheme or empty.

    >>> parse_bearer("Bearer abc"), parse_bearer("Basic abc"), parse_bearer("bearer ")
    ('abc', None, None)
    """
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer":
        return None
    return token.strip().split(" ")[0] or None
