"""Builds an API server on an open store: credentials, admission, authorization, flow control and the rest.

Also creates the bootstrap objects (namespaces, roles, priority levels, APIServices).
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from weir.apiserver import documents
from weir.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    ClusterTrustBundleAttest,
    PodCertificateRights,
)
from weir.apiserver.admission.chain import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Chain
from weir.apiserver.admission.node_restriction import NodeRestriction
from weir.apiserver.auth import pki
from weir.apiserver.auth.authn import MASTERS, Authenticator, StaticTokens, TokenFile, User, proven
from weir.apiserver.auth.authz import Authorizer, CreateRights
from weir.apiserver.auth.reviews import Reviews
from weir.apiserver.auth.tokens import Signer, Verifier, key_set, openid_configuration
from weir.apiserver.auth.written_rights import ClaimStatusRights, EscalationCheck, ParamRights
from weir.apiserver.bootstrap.objects import bootstrap, ensure_namespace_objects
from weir.apiserver.compat.aggregation import ApiServiceController
from weir.apiserver.compat.audit import EVERYTHING, Audit, AuditLog, parse_policy
from weir.apiserver.compat.customresources.controller import DefinitionController
from weir.apiserver.compat.customresources.webhook_conversion import WebhookConversion
from weir.apiserver.compat.flowcontrol import debug
from weir.apiserver.compat.flowcontrol.bootstrap import FlowControlBootstrap
from weir.apiserver.compat.flowcontrol.dispatcher import FlowControl
from weir.apiserver.compat.policies import MutatingPolicies, ValidatingPolicies
from weir.apiserver.compat.webhooks.client import WebhookClient
from weir.apiserver.compat.webhooks.dispatch import Webhooks
from weir.apiserver.file_changes import FileChanges
from weir.apiserver.metrics import Metrics
from weir.apiserver.off_loop import Blocking
from weir.apiserver.older_release import RELEASES, DeviceTaintEffects, OlderStore
from weir.apiserver.options import Options
from weir.apiserver.patches.json import patch_of_webhook
from weir.apiserver.registry import codec
from weir.apiserver.registry.storage import Parts
from weir.apiserver.server import ApiServer, Security
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.limits import InFlight
from weir.certificates import KeyPair
from weir.clock import Clock
from weir.compat.customresources.served import CustomResourceKind
from weir.objects.kind import Kind
from weir.objects.kinds import find as find_resource
from weir.objects.kinds import groups
from weir.observe.listener import Listener
from weir.observe.logs import Log
from weir.observe.metrics import Registry
from weir.observe.process_metrics import publish_features
from weir.store import Store
from weir.values.names import name_suffix

# ── A running API server: its parts, certificate renewal and shutdown order ──
# Graceful shutdown: readiness turns off, watches end, requests in progress complete, then the store closes.


STOP_SECONDS = 10.0


@dataclass
class Running:
    """A server with what has to be stopped with it."""

    server: ApiServer
    store: Store
    options: Options
    credentials: pki.Credentials | None
    admin_token: str
    webhook_client: WebhookClient
    connections: Connections | None = None
    listener: Listener | None = None
    chores: list[asyncio.Task[Any]] = field(default_factory=list)
    port: int = 0
    metrics: Metrics = field(default_factory=Metrics)
    files: FileChanges = field(default_factory=FileChanges)
    blocking: Blocking | None = None
    keeper: FlowControlBootstrap | None = None
    definitions: DefinitionController | None = None
    api_services: ApiServiceController | None = None
    serving: ssl.SSLContext | None = None
    _admin: tuple[KeyPair, bytes] | None = None

    @property
    def admin_certificate(self) -> bytes | None:
        """The administrator's certificate as it is now (DER), for clients in this process."""
        if self.options.insecure or self.credentials is None:
            return None
        admin = self.credentials.admin
        if self._admin is None or self._admin[0] is not admin:
            self._admin = admin, ssl.PEM_cert_to_DER_cert(admin.certificate.decode())
        return self._admin[1]

    def renew(self, now: datetime) -> None:
        """Renew certificates near their expiry and serve the new ones. Raises PkiError, OSError."""
        if self.credentials is None:
            return
        before = self.credentials
        self.credentials = pki.ensure(before.directory, self.options.hostnames, now=now)
        self.load_serving()
        if self.credentials.admin != before.admin or self.credentials.authority != before.authority:
            self.write_kubeconfig()

    def load_serving(self) -> None:
        """Show the certificate that lies in the files. Raises OSError."""
        if self.serving is not None and self.credentials is not None:
            pki.load_serving(self.serving, self.credentials)

    def write_kubeconfig(self) -> None:
        """Write the kubeconfig of this server, if configured."""
        options, credentials = self.options, None if self.options.insecure else self.credentials
        if options.kubeconfig is None:
            return
        access = pki.Access(
            self.url,
            None if credentials is None else credentials.ca_pem,
            None if credentials is None else credentials.admin.certificate,
            None if credentials is None else credentials.admin.key,
            self.admin_token if options.insecure else None,
        )
        pki.write_kubeconfig(options.kubeconfig, pki.kubeconfig_document(access))

    @property
    def url(self) -> str:
        """Where clients find the server."""
        scheme = "http" if self.options.insecure else "https"
        host = self.options.bind_address
        if host in ("0.0.0.0", "::", ""):
            host = "127.0.0.1"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def stop(self) -> None:
        """Stop serving, in the order that loses nothing."""
        self.server.ready = False
        if self.listener is not None:
            self.listener.close()
        self.server.watches.stop()
        if self.connections is not None:
            self.connections.close_idle()
            loop = asyncio.get_running_loop()
            until = loop.time() + STOP_SECONDS
            while self.connections.open and loop.time() < until:
                await asyncio.sleep(0.01)
                self.connections.close_idle()
        for keeper in (self.definitions, self.api_services):
            if keeper is not None:
                keeper.stop()
        for chore in self.chores:
            chore.cancel()
        await asyncio.gather(*self.chores, return_exceptions=True)
        self.server.verbs.off_loop.stop()
        await self.webhook_client.close()
        await self.store.close()


# ── builds an API server on an open store: credentials, admission, authorization, flow control and the rest ──


log = Log("weir.apiserver")


def _settled(document: dict[str, Any], kind: Kind, unknown: str = "Ignore") -> dict[str, Any]:
    """Return what a patch left as a good document again: defaults filled in, *unknown* fields dropped or refused.

    Those of custom resources are always dropped.
    """
    unknown = "Ignore" if isinstance(kind, CustomResourceKind) else unknown
    checked, _ = documents.check(document, kind, field_validation=unknown)
    documents.default(checked, kind)
    return checked


def _warn_of_shared_folder(folder: Path) -> None:
    """Warn when other users of this machine may replace the server's files."""
    with suppress(OSError):
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            log.warning(
                "everybody may write to the data folder, and so replace its keys and objects: chmod o-w it",
                folder=str(folder),
            )


def _admission(
    options: Options,
    reader: codec.Reader,
    authorizer: Authorizer,
    webhook_client: WebhookClient,
    conversion: WebhookConversion,
    metrics: Metrics,
    of_release: Sequence[DeviceTaintEffects],
) -> tuple[Chain, MutatingPolicies, ValidatingPolicies]:
    """Return the admission chain, and the two of its plugins that have to know the custom kinds."""
    enabled = options.admission.enabled()
    mutating = MutatingPolicies(reader, partial(_settled, unknown="Strict"), authorizer.decide)
    validating = ValidatingPolicies(reader, authorizer.decide)
    chain = Chain.build(
        reader,
        options.admission,
        more=[
            NodeRestriction(reader, authorizer.decide),
            CertificateApproval(authorizer.decide),
            CertificateSigning(authorizer.decide),
            ClusterTrustBundleAttest(authorizer.decide),
            mutating,
            validating,
        ],
        guards=[
            CreateRights(authorizer),
            EscalationCheck(authorizer),
            ClaimStatusRights(authorizer),
            ParamRights(reader, authorizer.decide, validating.bound),
            PodCertificateRights(authorizer.decide),
            *of_release,
        ],
        webhooks=Webhooks(
            reader,
            webhook_client,
            patch_of_webhook,
            _settled,
            metrics.webhooks,
            conversion=conversion,
            decide=authorizer.decide,
            mutating=MUTATING_WEBHOOKS in enabled,
            validating=VALIDATING_WEBHOOKS in enabled,
        ),
        durations=metrics.admission,
        new_suffix=lambda: name_suffix(options.random_bytes),
        conversion=conversion,
    )
    return chain, mutating, validating


def _audit(options: Options, clock: Clock, metrics: Metrics) -> Audit | None:
    if options.audit_log is None:
        return None
    policy = options.audit_policy
    rules = parse_policy(policy.read_text()) if policy is not None else EVERYTHING
    log = AuditLog(options.audit_log, options.audit_keep, clock.now)
    return Audit(log, rules, now=clock.now, count=metrics.audit_events.inc)


def _public(signer: Signer | None, address: str) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the public pages for verifying service account tokens."""
    if signer is None:
        return {}
    return {
        "/openid/v1/jwks": lambda: key_set([signer.public]),
        "/.well-known/openid-configuration": lambda: openid_configuration(
            "https://kubernetes.default.svc", f"https://{address}"
        ),
    }


async def build(options: Options, store: Store, clock: Clock) -> Running:
    """Put the server together on an open store and create what a cluster starts with."""
    _warn_of_shared_folder(options.data_dir)
    credentials = None
    if not options.insecure or options.store != "memory":
        credentials = await asyncio.to_thread(
            pki.ensure, options.data_dir / "pki", options.hostnames, now=clock.now()
        )
    release = RELEASES[options.release] if options.release else None
    gates = options.gates if release is None else release.gates(options.gates)
    served: Store = store if release is None else OlderStore(store, release)
    reader = codec.Reader(served)
    registry = Registry()
    metrics = Metrics(registry)
    publish_features(registry, gates)
    authorizer = Authorizer(reader, options.authorization_modes)
    webhook_client = WebhookClient()
    conversion = WebhookConversion(reader, webhook_client, metrics.conversions.note)
    of_release = [] if release is None else [DeviceTaintEffects(release)]
    chain, mutating, validating = _admission(
        options, reader, authorizer, webhook_client, conversion, metrics, of_release
    )
    admin_token = options.admin_token or secrets.token_urlsafe(32)
    readers: list[Callable[[str], User | None]] = []
    if options.insecure:
        readers.append(StaticTokens({admin_token: proven("weir-admin", (MASTERS,))}).find)
    files = FileChanges()
    if options.token_file is not None:
        tokens = TokenFile(options.token_file)
        readers.append(tokens.find)
        files.follow([tokens.path], tokens.reload)
    signer, verifier = None, None
    if credentials is not None:
        signer = Signer.load(credentials.token_key)

        def find(plural: str, namespace: str | None, name: str) -> Mapping[str, Any] | None:
            row = find_resource("", "v1", plural)
            return reader.get_now(row, namespace or "", name) if row is not None else None

        verifier = Verifier([signer.public], find, clock.now)
        readers.append(verifier.user)
    authenticator = Authenticator(readers, anonymous=options.anonymous, now=clock.now)
    flow_control, in_flight = None, InFlight(options.max_reading, options.max_writing)
    seats = options.max_reading + options.max_writing
    if options.priority_and_fairness and seats:
        flow_control, in_flight = FlowControl(reader, seats, served.count, registry), InFlight(0, 0)
    for lane in (in_flight.reading, in_flight.writing):
        metrics.inflight(lane.name).look = partial(getattr, lane, "now")
    security = Security(
        authenticator,
        authorizer,
        review=Reviews(authorizer, authenticator, verifier).review,
        in_flight=in_flight,
        audit=_audit(options, clock, metrics),
        signer=signer,
        flow_control=flow_control,
    )
    address = f"{options.bind_address}:{options.secure_port}"
    public = _public(signer, address)
    blocking = Blocking(registry) if options.debug_blocking else None
    if blocking is not None:
        public["/debug/blocking"] = blocking.document
    server = ApiServer(
        Parts(
            *(served, reader, chain, gates, clock, options.random_bytes, options.event_ttl_seconds),
            conversion=conversion,
        ),
        security,
        metrics=metrics,
        address=address,
        public=public,
        usage=options.usage,
        release=release,
        texts=None if flow_control is None else debug.pages(flow_control, clock.time),
    )
    ca = credentials.ca_pem.decode() if credentials is not None else ""
    keeper = FlowControlBootstrap(server.verbs) if options.priority_and_fairness else None
    start = [bootstrap(server.verbs, ca=ca, rbac=authorizer.uses_rbac, client_ca=ca)]
    if keeper is not None:
        start.append(keeper.ensure())
    api_services = None
    if options.aggregation:
        shown = {name: found for name, found in groups().items() if name not in server.off}
        api_services = ApiServiceController(server.verbs, server.served, shown)
        start.append(api_services.start())
    await asyncio.gather(*start)

    async def namespace_created(kind: Kind, name: str) -> None:
        if kind.kind == "Namespace":
            await ensure_namespace_objects(server.verbs, name, ca)

    server.after_create(namespace_created)
    mutating.bound.served = validating.bound.served = server.served  # parameters may be of custom kinds
    definitions = DefinitionController(server.verbs, server.lists, server.served, server.definitions)
    return Running(
        *(server, store, options, credentials, admin_token, webhook_client),
        metrics=metrics,
        files=files,
        blocking=blocking,
        keeper=keeper,
        definitions=definitions,
        api_services=api_services,
    )
