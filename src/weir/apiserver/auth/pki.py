"""Certificates and keys of the API server: creation and renewal.

A server without certificates creates its own CA, a serving certificate for loopback, client certificates for
Kubernetes' components, and the service account signing key. All are PEM files of mode 0600 in one directory, kept
over restarts and renewed near their expiry. A renewed CA keeps its key, so that its leaves stay valid. A lock
serializes servers that share the directory.
"""

from __future__ import annotations

import base64
import fcntl
import os
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509

from weir.apiserver.transport.negotiation import to_yaml
from weir.certificates import (
    KeyKindError,
    KeyPair,
    is_good,
    is_young,
    issue,
    load_certificate,
    make_authority,
    new_key,
    subject_name,
)
from weir.objects.manifest import ManifestError, read_document

AUTHORITY_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)

LOOPBACK_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
)


class PkiError(ValueError):
    """A certificate or key file cannot be used; the text names the file and what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The user of a client certificate: its common name is the user name, its organizations are the groups."""

    user: str
    groups: tuple[str, ...] = ()


ADMIN = Identity("kubernetes-admin", ("system:masters",))
SCHEDULER = Identity("system:kube-scheduler")
CONTROLLER_MANAGER = Identity("system:kube-controller-manager")


def node_identity(node: str) -> Identity:
    """Return the identity of the kubelet of *node*.

    >>> node_identity("n1")
    Identity(user='system:node:n1', groups=('system:nodes',))
    """
    return Identity(f"system:node:{node}", ("system:nodes",))


@dataclass(frozen=True, slots=True)
class Credentials:
    """What `ensure` found or made; paths for the TLS library, PEM for kubeconfigs."""

    directory: Path
    authority: KeyPair
    admin: KeyPair
    token_key: bytes

    @property
    def ca_pem(self) -> bytes:
        return self.authority.certificate

    @property
    def ca_path(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def server_cert_path(self) -> Path:
        return self.directory / "apiserver.crt"

    @property
    def server_key_path(self) -> Path:
        return self.directory / "apiserver.key"

    def issue_client(self, identity: Identity, now: datetime) -> KeyPair:
        """Return a fresh client certificate that is written nowhere."""
        return _issue(self.authority, now, identity=identity)


def ensure(directory: Path, hostnames: Iterable[str] = (), *, now: datetime) -> Credentials:
    """Return the server's credentials in *directory*, making or renewing those that need it.

    The serving certificate is good for loopback and for *hostnames* (names or addresses).
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(directory):
        authority = _authority(directory, now)
        _leaf(
            directory, "apiserver", authority, now, names=tuple(dict.fromkeys((*LOOPBACK_NAMES, *hostnames)))
        )
        admin = _leaf(directory, "admin", authority, now, identity=ADMIN)
        token_key_file = directory / "sa.key"
        if not token_key_file.exists():
            _write(token_key_file, new_key())
        return Credentials(directory, authority, admin, token_key_file.read_bytes())


def serving_context(credentials: Credentials, client_ca: Path | None = None) -> ssl.SSLContext:
    """Return the server's TLS context: client certificates are requested, not required; no HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # a sixth of a handshake, for clients that resume sessions; Kubernetes' do not
    load_serving(context, credentials)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context


def load_serving(context: ssl.SSLContext, credentials: Credentials) -> None:
    """Load the current certificate files into *context*, for new connections.

    Raises OSError when certificate and key do not match, and then changes nothing: OpenSSL would keep half of
    them, so they are first loaded into a scratch context.
    """
    trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trial.load_cert_chain(credentials.server_cert_path, credentials.server_key_path)
    trial.load_verify_locations(credentials.ca_path)
    context.load_cert_chain(credentials.server_cert_path, credentials.server_key_path)
    context.load_verify_locations(credentials.ca_path)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the directory's lock: two servers starting together must not make two authorities."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _authority(directory: Path, now: datetime) -> KeyPair:
    found = _read_pair(directory, "ca")
    if found is not None and is_young(load_certificate(found.certificate), now, RENEW_BEFORE):
        return found
    pair = make_authority("weir-ca", now, AUTHORITY_LIFETIME, key=found.key if found else None)
    _write_pair(directory, "ca", pair)
    return pair


def _leaf(
    directory: Path,
    stem: str,
    authority: KeyPair,
    now: datetime,
    *,
    identity: Identity | None = None,
    names: tuple[str, ...] = (),
) -> KeyPair:
    """Return the leaf kept under *stem*; a new one when it is absent, old, foreign or says something else."""
    found = _read_pair(directory, stem)
    if found is not None and _still_good(found, authority, now, identity, names):
        return found
    pair = _issue(authority, now, identity=identity, names=names)
    _write_pair(directory, stem, pair)
    return pair


def _issue(
    authority: KeyPair, now: datetime, *, identity: Identity | None = None, names: tuple[str, ...] = ()
) -> KeyPair:
    subject = _subject(identity or Identity("kube-apiserver"))
    return issue(authority, subject, now, LEAF_LIFETIME, client=identity is not None, names=names)


def _still_good(
    pair: KeyPair, authority: KeyPair, now: datetime, identity: Identity | None, names: tuple[str, ...]
) -> bool:
    leaf = load_certificate(pair.certificate)
    if identity is not None and leaf.subject != _subject(identity):
        return False
    return is_good(leaf, load_certificate(authority.certificate), now, RENEW_BEFORE, names)


def _subject(identity: Identity) -> x509.Name:
    return subject_name(identity.user, identity.groups)


def _read_pair(directory: Path, stem: str) -> KeyPair | None:
    """Return the pair of files, None when either is absent; a pair that does not fit together is an error."""
    certificate_file, key_file = directory / f"{stem}.crt", directory / f"{stem}.key"
    try:
        pair = KeyPair(certificate_file.read_bytes(), key_file.read_bytes())
    except FileNotFoundError:
        return None
    try:
        fits = pair.fits()
    except KeyKindError:
        raise PkiError(
            "the certificate authority's key is not an elliptic curve key; use a P-256 key"
        ) from None
    except (ValueError, TypeError) as error:
        raise PkiError(
            f"{certificate_file} or {key_file.name} is damaged ({error}); remove both to have them made anew"
        ) from error
    if not fits:
        raise PkiError(f"{key_file} is not the key of {certificate_file}; remove both to have them made anew")
    return pair


def _write_pair(directory: Path, stem: str, pair: KeyPair) -> None:
    _write(directory / f"{stem}.key", pair.key)
    _write(directory / f"{stem}.crt", pair.certificate)


def _write(path: Path, content: bytes) -> None:
    """Put *content* at *path*, mode 0600 from its first byte, never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


# ── writes kubeconfig files for clients of this server ──
# Everything is embedded, mode 0600. An existing file is merged: the named cluster, user and context are replaced, all
# others stay, and `current-context` is set only if there was none or on request. Reading is in weir.client.kubeconfig.


class KubeconfigError(ValueError):
    """The existing file cannot be merged into."""


@dataclass(frozen=True, slots=True)
class Access:
    """Address, CA and client credentials of one server."""

    server: str
    authority: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    token: str | None = None


def kubeconfig_document(access: Access, name: str = "weir", user: str = "weir-admin") -> dict[str, Any]:
    """Return a whole kubeconfig for *access*.

    >>> kubeconfig_document(Access("https://127.0.0.1:6443", token="t"))["contexts"]
    [{'name': 'weir', 'context': {'cluster': 'weir', 'user': 'weir-admin'}}]
    """
    cluster: dict[str, Any] = {"server": access.server}
    if access.authority:
        cluster["certificate-authority-data"] = _base64(access.authority)
    bearer: dict[str, Any] = {}
    if access.certificate and access.key:
        bearer["client-certificate-data"] = _base64(access.certificate)
        bearer["client-key-data"] = _base64(access.key)
    if access.token:
        bearer["token"] = access.token
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": bearer}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }


def merge_kubeconfig(
    existing: dict[str, Any], new: dict[str, Any], *, take_current: bool = True
) -> dict[str, Any]:
    """Return *existing* with *new*'s entries in place of those of the same name.

    >>> merged = merge_kubeconfig({"users": [{"name": "a"}], "current-context": "a"}, {"users": [{"name": "b"}]})
    >>> merged["users"], merged["current-context"]
    ([{'name': 'a'}, {'name': 'b'}], 'a')
    """
    merged = {**new, **existing}
    for part in ("clusters", "users", "contexts"):
        fresh = list(new.get(part) or ())
        replaced = {entry.get("name") for entry in fresh}
        merged[part] = [entry for entry in existing.get(part) or () if entry.get("name") not in replaced]
        merged[part] += fresh
    if new.get("current-context") and (take_current or not existing.get("current-context")):
        merged["current-context"] = new["current-context"]
    return merged


def write_kubeconfig(path: Path, config: dict[str, Any], *, take_current: bool = True) -> None:
    """Put *config* at *path*, merged into what is there, mode 0600 from its first byte."""
    try:
        existing = read_document(path.read_bytes(), str(path))
    except FileNotFoundError:
        existing = None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KubeconfigError(f"{path} cannot be a kubeconfig: {reason}") from None
    except ManifestError as error:
        where = f"{error.problem} at line {error.place.line}"
        raise KubeconfigError(f"{path} is not a kubeconfig ({where}); not overwritten") from None
    if existing is not None:
        if not isinstance(existing, dict) or existing.get("kind", "Config") != "Config":
            raise KubeconfigError(f"{path} is not a kubeconfig; not overwritten")
        config = merge_kubeconfig(existing, config, take_current=take_current)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(to_yaml(config))
    temporary.replace(path)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
