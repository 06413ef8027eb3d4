"""Kubeconfig files, credentials, and the in-cluster service account.

kubectl's rules: `--kubeconfig`, else every file of $KUBECONFIG (the first to set a value wins), else ~/.kube/config,
else the pod's service account. Relative paths are relative to their file. Inline data wins over a file path. An exec
plugin runs when its credential is needed, has expired, or the server returns 401. In addition, `server: unix:///path`
is a server on a Unix socket of this machine that authenticates by socket.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import msgspec

from weir.clock import Clock, RealClock
from weir.errors import WeirError
from weir.objects.manifest import ManifestError, read_document

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_SECONDS = 180.0  # for an exec plugin, which may wait for a person in a browser
MOST_EXEC_BYTES = 1 << 20  # of its output
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
TOKEN_FILE_SECONDS = 60.0
UNIX = "unix://"  #: before the path of a socket

Document = dict[str, Any]


class KubeconfigError(WeirError):
    """The kubeconfig does not say how to reach a cluster; the message names the place."""


@dataclass(frozen=True)
class Identity:
    """Credentials for one request."""

    headers: Mapping[str, str] = field(default_factory=dict)
    certificate: tuple[bytes, bytes] | None = None  # PEM: certificate, key


class Credentials:
    """A source of credentials."""

    renewable = False

    async def identity(self, *, renew: bool) -> Identity:
        raise NotImplementedError


class FixedCredentials(Credentials):
    """The same for ever."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def identity(self, *, renew: bool) -> Identity:
        return self._identity


class TokenFile(Credentials):
    """A token that another program renews in a file."""

    renewable = True

    def __init__(self, path: Path, certificate: tuple[bytes, bytes] | None, clock: Clock) -> None:
        self._path, self._certificate, self._clock = path, certificate, clock
        self._read_at = float("-inf")
        self._current = Identity()

    async def identity(self, *, renew: bool) -> Identity:
        if renew or self._clock.monotonic() - self._read_at > TOKEN_FILE_SECONDS:
            try:
                token = self._path.read_text().strip()
            except OSError as error:
                raise KubeconfigError(f"cannot read the token file {self._path}: {error.strerror}") from None
            self._read_at = self._clock.monotonic()
            self._current = Identity({"authorization": f"Bearer {token}"}, self._certificate)
        return self._current


class ExecPlugin(Credentials):
    """A program that prints a credential."""

    renewable = True

    def __init__(self, settings: Document, cluster: Document, base: Path, clock: Clock) -> None:
        version = settings.get("apiVersion")
        if version not in EXEC_VERSIONS:
            raise KubeconfigError(
                f"exec plugin apiVersion {version!r} is not one of {', '.join(EXEC_VERSIONS)}"
            )
        command = str(settings.get("command") or "")
        if not command:
            raise KubeconfigError("exec plugin without command")
        # as kubectl: a name is looked up in PATH, anything with a slash is relative to the kubeconfig
        self._command = str(base / command) if "/" in command else command
        self._settings, self._cluster, self._clock = settings, cluster, clock
        self._current: Identity | None = None
        self._expires = float("inf")
        self._running = asyncio.Lock()

    async def identity(self, *, renew: bool) -> Identity:
        before = self._current
        async with self._running:
            stale = self._current is None or self._clock.time() >= self._expires
            if stale or (renew and self._current is before):  # else another request has just renewed it
                self._current = await self._run()
            assert self._current is not None
            return self._current

    async def _run(self) -> Identity:
        settings = self._settings
        info: Document = {
            "kind": "ExecCredential",
            "apiVersion": settings["apiVersion"],
            "spec": {"interactive": False},
        }
        if settings.get("provideClusterInfo"):
            info["spec"]["cluster"] = self._cluster
        environment = {str(one["name"]): str(one.get("value") or "") for one in settings.get("env") or ()}
        environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
        arguments = [str(one) for one in settings.get("args") or ()]
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *arguments,
                env={**os.environ, **environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"; {settings['installHint']}" if settings.get("installHint") else ""
            raise KubeconfigError(f"exec plugin {self._command}: {error.strerror}{hint}") from None
        output, complaint = await self._outputs(process)
        if process.returncode:
            lines = complaint.decode(errors="replace").strip().splitlines()
            reason = f": {lines[-1]}" if lines else ""
            raise KubeconfigError(
                f"exec plugin {self._command} failed with exit code {process.returncode}{reason}"
            )
        return self._read(output)

    async def _outputs(self, process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
        """Return what a plugin prints until it ends; one that takes or prints too much is killed."""
        assert process.stdout is not None and process.stderr is not None
        readers = [asyncio.create_task(self._output(stream)) for stream in (process.stdout, process.stderr)]
        try:
            async with asyncio.timeout(EXEC_SECONDS):
                output, complaint = await asyncio.gather(*readers)
                await process.wait()
        except TimeoutError:
            raise KubeconfigError(
                f"exec plugin {self._command} did not end within {EXEC_SECONDS:g} seconds"
            ) from None
        finally:
            for reader in readers:
                reader.cancel()
            # kills it if it runs, and closes the pipes, which its own children may keep open
            cast(Any, process)._transport.close()
        return output, complaint

    async def _output(self, stream: asyncio.StreamReader) -> bytes:
        output = bytearray()
        while part := await stream.read(64 << 10):
            output += part
            if len(output) > MOST_EXEC_BYTES:
                raise KubeconfigError(
                    f"exec plugin {self._command} printed more than {MOST_EXEC_BYTES} bytes"
                )
        return bytes(output)

    def _read(self, output: bytes) -> Identity:
        try:
            credential = msgspec.json.decode(output)
            status = credential["status"]
        except (msgspec.DecodeError, KeyError, TypeError):
            raise KubeconfigError(f"exec plugin {self._command} did not print an ExecCredential") from None
        if credential.get("apiVersion") != self._settings["apiVersion"]:
            raise KubeconfigError(
                f"exec plugin {self._command} is configured for {self._settings['apiVersion']}, "
                f"but printed {credential.get('apiVersion')}"
            )
        certificate = None
        if status.get("clientCertificateData") and status.get("clientKeyData"):
            certificate = (status["clientCertificateData"].encode(), status["clientKeyData"].encode())
        if not status.get("token") and certificate is None:
            raise KubeconfigError(f"exec plugin {self._command} printed neither a token nor a certificate")
        headers = {"authorization": f"Bearer {status['token']}"} if status.get("token") else {}
        expiry = status.get("expirationTimestamp")
        try:
            self._expires = datetime.fromisoformat(expiry).timestamp() if expiry else float("inf")
        except ValueError:
            raise KubeconfigError(
                f"exec plugin {self._command} printed a bad expirationTimestamp {expiry!r}"
            ) from None
        return Identity(headers, certificate)


@dataclass(frozen=True)
class Access:
    """Everything needed to talk to one cluster as one user."""

    server: str
    credentials: Credentials = field(default_factory=lambda: FixedCredentials(Identity()))
    authority: bytes = b""  # PEM; empty: what the machine trusts
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    namespace: str = "default"
    impersonation: tuple[tuple[str, str], ...] = ()  # headers
    context: str = ""
    user: str = ""  #: its name in the kubeconfig

    @property
    def socket(self) -> str:
        """The Unix socket the server listens on; empty where it is reached over the network.

        >>> Access("unix:///run/weir/api.sock").socket, Access("https://127.0.0.1:6443").socket
        ('/run/weir/api.sock', '')
        """
        return self.server.removeprefix(UNIX) if self.server.startswith(UNIX) else ""

    @property
    def renewable(self) -> bool:
        """Whether asking again may give other credentials."""
        return self.credentials.renewable

    async def identity(self, *, renew: bool = False) -> Identity:
        """Return the credentials for the next request. Raises KubeconfigError."""
        return await self.credentials.identity(renew=renew)

    @classmethod
    def with_token(cls, server: str, token: str, authority: bytes = b"") -> Access:
        """Return access by a bearer token."""
        return cls(server, FixedCredentials(Identity({"authorization": f"Bearer {token}"})), authority)


# ------------------------------------------------------------------------------------------------- reading


def _paths(given: str | Path | None, environment: Mapping[str, str]) -> list[Path]:
    if given:
        return [Path(given)]
    if listed := environment.get("KUBECONFIG"):
        return [Path(one) for one in listed.split(os.pathsep) if one]
    return [Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"]


def _read(path: Path) -> Document:
    try:
        document = read_document(path.read_bytes(), str(path))
    except OSError as error:
        raise KubeconfigError(f"cannot read {path}: {error.strerror}") from None
    except ManifestError as error:
        raise KubeconfigError(f"{path} is not YAML at line {error.place.line}: {error.problem}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig")
    return document


_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}


def _merge(files: Iterable[tuple[Path, Document]]) -> tuple[str, dict[str, dict[str, tuple[Document, Path]]]]:
    """Return the current context and every named entry with the directory it came from; the first wins."""
    current = ""
    entries: dict[str, dict[str, tuple[Document, Path]]] = {section: {} for section in _SECTIONS}
    for path, document in files:
        current = current or str(document.get("current-context") or "")
        for section, inner in _SECTIONS.items():
            for entry in document.get(section) or ():
                if not isinstance(entry, dict) or "name" not in entry:
                    raise KubeconfigError(f"{path}: an entry of {section} has no name")
                entries[section].setdefault(str(entry["name"]), (entry.get(inner) or {}, path.parent))
    return current, entries


def _bytes_of(entry: Document, key: str, base: Path, what: str) -> bytes:
    """Return what `<key>-data` holds, or the file that `<key>` names; data wins."""
    if data := entry.get(f"{key}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise KubeconfigError(f"{what}: {key}-data is not base64") from None
    if name := entry.get(key):
        path = base / str(name)
        try:
            return path.read_bytes()
        except OSError as error:
            raise KubeconfigError(f"{what}: cannot read {path}: {error.strerror}") from None
    return b""


def _credentials(user: Document, cluster: Document, base: Path, what: str, clock: Clock) -> Credentials:
    certificate_pem = _bytes_of(user, "client-certificate", base, what)
    key_pem = _bytes_of(user, "client-key", base, what)
    if bool(certificate_pem) != bool(key_pem):
        missing = "client-key" if certificate_pem else "client-certificate"
        raise KubeconfigError(f"{what}: {missing} is missing")
    certificate = (certificate_pem, key_pem) if certificate_pem else None
    if user.get("tokenFile"):
        return TokenFile(base / str(user["tokenFile"]), certificate, clock)
    headers: dict[str, str] = {}
    if user.get("token"):
        headers["authorization"] = f"Bearer {user['token']}"
    elif user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}".encode()
        headers["authorization"] = "Basic " + base64.b64encode(pair).decode()
    elif isinstance(user.get("exec"), dict) and certificate is None:
        return ExecPlugin(user["exec"], cluster, base, clock)
    elif user.get("auth-provider"):
        raise KubeconfigError(f"{what}: auth-provider was removed from Kubernetes; use an exec plugin")
    return FixedCredentials(Identity(headers, certificate))


def _impersonation(user: Document) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    for key, header in (("as", "impersonate-user"), ("as-uid", "impersonate-uid")):
        if user.get(key):
            headers.append((header, str(user[key])))
    headers += [("impersonate-group", str(group)) for group in user.get("as-groups") or ()]
    for name, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"impersonate-extra-{quote(str(name), safe='')}", str(value)) for value in values]
    return tuple(headers)


def load(
    path: str | Path | None = None,
    *,
    context: str = "",
    environment: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """Return how to reach the cluster of *context* (default: the current one). Raises KubeconfigError."""
    environment = os.environ if environment is None else environment
    clock = clock or RealClock()
    paths = _paths(path, environment)
    there = [one for one in paths if one.exists()]
    if path and not there:
        raise KubeconfigError(f"cannot read {path}: no such file")
    if not there:
        if environment.get("KUBERNETES_SERVICE_HOST"):
            return in_cluster(environment=environment, clock=clock, directory=service_account)
        raise KubeconfigError(
            f"no kubeconfig: {', '.join(map(str, paths))} is not there, and this does not run in a pod"
        )
    current, entries = _merge((one, _read(one)) for one in there)
    return _access(context or current, entries, clock, ", ".join(map(str, there)))


def context_names(
    path: str | Path | None = None, *, environment: Mapping[str, str] | None = None
) -> list[str]:
    """Return the contexts there are to choose from; none where there is no kubeconfig. Raises KubeconfigError."""
    paths = _paths(path, os.environ if environment is None else environment)
    _, entries = _merge((one, _read(one)) for one in paths if one.exists())
    return list(entries["contexts"])


def _access(
    context: str, entries: dict[str, dict[str, tuple[Document, Path]]], clock: Clock, where: str
) -> Access:
    if not context:
        raise KubeconfigError(f"{where} has no current-context; name one")

    def find(section: str, name: str, asked_by: str) -> tuple[Document, Path]:
        if name not in entries[section]:
            known = ", ".join(entries[section]) or "none"
            raise KubeconfigError(
                f"{where}: {asked_by} names {section[:-1]} {name!r}, but there are: {known}"
            )
        return entries[section][name]

    chosen, _ = find("contexts", context, "the command line or current-context")
    cluster, cluster_base = find("clusters", str(chosen.get("cluster") or ""), f"context {context}")
    user: Document = {}
    user_base = Path()
    if chosen.get("user"):
        user, user_base = find("users", str(chosen["user"]), f"context {context}")
    server = str(cluster.get("server") or "")
    if not server.startswith(("http://", "https://", f"{UNIX}/")):
        raise KubeconfigError(f"{where}: cluster {chosen['cluster']!r} has no usable server: {server!r}")
    info = {key: value for key, value in cluster.items() if key in ("server", "tls-server-name", "proxy-url")}
    info |= {key: value for key, value in cluster.items() if key.startswith("certificate-authority-data")}
    return Access(
        server=server,
        credentials=_credentials(user, info, user_base, f"{where}: user {chosen.get('user')!r}", clock),
        authority=_bytes_of(
            cluster, "certificate-authority", cluster_base, f"{where}: cluster {chosen['cluster']!r}"
        ),
        insecure_skip_tls_verify=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        proxy_url=str(cluster.get("proxy-url") or ""),
        namespace=str(chosen.get("namespace") or "default"),
        impersonation=_impersonation(user),
        context=context,
        user=str(chosen.get("user") or ""),
    )


def in_cluster(
    *,
    environment: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    directory: Path = SERVICE_ACCOUNT,
) -> Access:
    """Return how a pod reaches its own cluster. Raises KubeconfigError outside of one."""
    environment = os.environ if environment is None else environment
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise KubeconfigError("not inside a cluster: KUBERNETES_SERVICE_HOST is not set")
    try:
        authority = (directory / "ca.crt").read_bytes()
        namespace = (directory / "namespace").read_text().strip() or "default"
    except OSError as error:
        raise KubeconfigError(
            f"not inside a cluster: cannot read {error.filename}: {error.strerror}"
        ) from None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    credentials = TokenFile(directory / "token", None, clock or RealClock())
    return Access(server, credentials, authority, namespace=namespace, context="in-cluster")
