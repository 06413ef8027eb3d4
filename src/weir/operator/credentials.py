"""Credentials of the webhooks, kept in step with the cluster: certificate, path secrets, webhook configurations.

Authority, serving certificate and path secrets lie in one Secret that the installation creates empty. Every replica
does the same: read the Secret; make or renew what is missing, near its end or for other names; write it back with the
resourceVersion that was read, so that of several one wins and the others read its answer; then see to it that the
webhook configurations trust the authority and name a secret path. No leader is needed, and a replica that only starts
gets a certificate. A change of the Secret or of a configuration is seen by a watch, and looked for besides.

A new certificate is loaded into the TLS context that is already served; connections that are open keep theirs. Emptying
the Secret gives a new key and a new path at once (that is how to replace one that leaked); between the write of the
Secret and that of the configurations the hooks are out of reach, and refuse.
With a certificate from outside (`--tls-cert-file`) only the path secrets are kept here.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypedDict

import msgspec

from weir import errors
from weir.client.api import STRATEGIC_MERGE_PATCH, Client, Unreachable
from weir.client.cache import Informer
from weir.clock import Clock
from weir.errors import WeirError
from weir.lowering.webhooks import addressed, is_addressed
from weir.objects.kind import Kind
from weir.objects.kinds import SECRETS, by_kind
from weir.operator import path_secrets
from weir.operator.certificates import CertificateError, Certificates, renewed
from weir.operator.path_secrets import PathSecrets

#: How often the Secret is looked at besides being watched, and how soon again when that failed or the installation is
#: not whole yet. Well below `path_secrets.SETTLED`.
LOOK_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 1.0
#: A process that starts makes a new path secret unless the newest is younger: replicas that start together share one.
ROTATE_AT_START: Final = timedelta(minutes=10)
_TRIES: Final = 5

CONFIGURATIONS: Final[Mapping[str, Kind]] = {
    kind: by_kind("admissionregistration.k8s.io/v1", kind)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}


class _Meta(TypedDict, total=False):
    name: Any
    namespace: Any
    resourceVersion: Any


class _Changed(TypedDict):
    """What is kept of a watched object: that it changed."""

    metadata: _Meta


def server_context() -> ssl.SSLContext:
    """Return a TLS context for webhooks, without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # a sixth of a handshake, for clients that resume sessions; Kubernetes' do not
    context.set_alpn_protocols(["http/1.1"])
    return context


class Credentials:
    """TLS context and path secrets of the hooks, kept good: `await ensure()` before serving, `run()` beside it."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        namespace: str,
        secret: str,
        names: Iterable[str],
        configurations: Iterable[tuple[str, str]],
        static: ssl.SSLContext | None = None,
    ) -> None:
        """*configurations* are kind and name of those to keep; *static* is a context with another's certificate."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._secret = secret
        self._names = tuple(names)
        self._configurations = tuple((CONFIGURATIONS[kind], name) for kind, name in configurations)
        self._served: Certificates | None = None
        self._paths: PathSecrets | None = None
        self._seen: dict[str, datetime] = {}  #: path secrets, and when each was first seen here
        self._static = static is not None
        self.installed = False  #: every configuration was there when last looked at
        self.context = static if static is not None else server_context()

    @property
    def served(self) -> Certificates | None:
        """The certificates that are served now; None before `ensure`, and with another's certificate."""
        return self._served

    def admits(self, secret: str) -> bool:
        """Return whether a caller that names *secret* in its path is heard."""
        return self._paths is not None and self._paths.accepts(secret)

    async def ensure(self) -> None:
        """Read, make or renew the credentials, serve them and bring the configurations up to them.

        Raises CertificateError when there is no Secret or it may not be written, ApiError and Unreachable.
        """
        certificates, paths = await self._settled()
        if certificates is not None and certificates != self._served:
            self._load(certificates)
        self._paths = paths
        self.installed = True
        for kind, name in self._configurations:
            if not await self._point(kind, name, certificates, paths):
                self.installed = False

    async def run(self, failed: Callable[[Exception], None] | None = None) -> None:
        """Keep them good until cancelled; what goes wrong is given to *failed* and tried again."""
        changed = asyncio.Event()
        watching = [asyncio.ensure_future(each.run()) for each in self._watched(changed)]
        pause = RETRY_SECONDS
        try:
            while True:
                await self._pause(changed, pause)
                try:
                    await self.ensure()
                    pause = LOOK_SECONDS if self.installed else RETRY_SECONDS
                except (WeirError, errors.ApiError, Unreachable) as error:
                    pause = RETRY_SECONDS
                    if failed is not None:
                        failed(error)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    def _watched(self, changed: asyncio.Event) -> list[Informer[_Changed]]:
        decode = msgspec.json.Decoder(_Changed).decode
        named = [(SECRETS, self._secret, self._namespace)]
        named += [(kind, name, "") for kind, name in self._configurations]
        informers = [
            Informer(
                self._client,
                kind,
                self._clock,
                decode,
                namespace=namespace,
                field_selector=f"metadata.name={name}",
            )
            for kind, name, namespace in named
        ]
        for informer in informers:
            informer.cache.listen(lambda old, new: changed.set())
        return informers

    async def _pause(self, changed: asyncio.Event, seconds: float) -> None:
        """Return after *seconds*, or when something *changed*."""
        waits = [asyncio.ensure_future(self._clock.sleep(seconds)), asyncio.ensure_future(changed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            changed.clear()
        finally:
            for each in waits:
                each.cancel()
                with suppress(asyncio.CancelledError):
                    await each

    async def _settled(self) -> tuple[Certificates | None, PathSecrets]:
        for _ in range(_TRIES):
            secret = await self._client.find(SECRETS, self._secret, self._namespace)
            if secret is None:
                raise CertificateError(
                    f"secret {self._namespace}/{self._secret} is not there: run weir install again, which makes it"
                )
            data, now = secret.get("data"), self._clock.now()
            found, known = None if self._static else Certificates.read(data), PathSecrets.read(data)
            certificates = None if self._static else renewed(found, self._names, now)
            if known is not None:
                self._seen = {secret: self._seen.get(secret, now) for secret, _ in known.made}
            rotation = ROTATE_AT_START if self._paths is None else path_secrets.ROTATION
            paths = path_secrets.renewed(known, now, rotate_after=rotation, seen=self._seen)
            if certificates is found and paths is known:
                return certificates, paths
            made = {**(certificates.data() if certificates is not None else {}), **paths.data()}
            try:
                await self._client.update(SECRETS, {**secret, "data": {**(data or {}), **made}})
            except errors.Conflict:  # another replica was faster: its answer counts
                continue
            return certificates, paths
        raise CertificateError(
            f"secret {self._namespace}/{self._secret} is rewritten all the time: see who does"
        )

    def _load(self, certificates: Certificates) -> None:
        # ssl reads certificates from files only
        with tempfile.TemporaryDirectory(prefix="weir-") as directory:  # mode 0700
            certificate, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
            certificate.write_bytes(certificates.leaf)
            key.write_bytes(certificates.leaf_key)
            self.context.load_cert_chain(certificate, key)
        self._served = certificates

    async def _point(
        self, kind: Kind, name: str, certificates: Certificates | None, paths: PathSecrets
    ) -> bool:
        """Bring every webhook of a configuration up to the credentials; False when there is no configuration."""
        found = await self._client.find(kind, name)
        bundle = None if certificates is None else base64.b64encode(certificates.authority).decode()
        usable = paths.in_use(self._clock.now(), self._seen)
        behind = []
        for hook in (found or {}).get("webhooks") or []:
            config, change = hook["clientConfig"], {}
            if bundle is not None and config.get("caBundle") != bundle:
                change["caBundle"] = bundle
            # another replica's clock may be ahead: a newer secret than this one's choice stays
            if not any(is_addressed(config, hook["name"], secret) for secret in usable):
                change |= addressed(config, hook["name"], usable[0])
            if change:
                behind.append({"name": hook["name"], "clientConfig": change})
        if behind:
            await self._client.patch(kind, name, {"webhooks": behind}, patch_type=STRATEGIC_MERGE_PATCH)
        return found is not None


async def wait_until_served(
    credentials: Credentials, clock: Clock, failed: Callable[[Exception], None] | None = None
) -> None:
    """Return when `ensure` succeeded; what goes wrong until then is given to *failed* and tried again."""
    while True:
        try:
            await credentials.ensure()
            return
        except (WeirError, errors.ApiError, Unreachable) as error:
            if failed is not None:
                failed(error)
            await clock.sleep(RETRY_SECONDS)
