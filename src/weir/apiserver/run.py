"""Put an API server together and let it listen.

`build` makes the server out of its parts (store, credentials, admission, authorization), `serve` gives it sockets
and TLS, `run` does both until it is stopped. Stopping is graceful: readiness turns off, watches end,
requests under way are answered, then the store is closed.
Not here: the command line (weir.cli.apiserver), HTTP (weir.apiserver.transport.protocol).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import ssl
import stat
import sys
import uuid
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
)
from weir.apiserver.admission.chain import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Chain, Settings
from weir.apiserver.admission.mutating_policies import MutatingPolicies
from weir.apiserver.admission.node_restriction import NodeRestriction
from weir.apiserver.admission.validating_policies import ValidatingPolicies
from weir.apiserver.aggregation.keeper import ApiServiceKeeper
from weir.apiserver.audit.events import EVERYTHING, Audit, parse_policy
from weir.apiserver.audit.log import AuditLog, Keep
from weir.apiserver.auth import kubeconfig, pki
from weir.apiserver.auth.authn import MASTERS, Authenticator, StaticTokens, TokenFile, User, proven
from weir.apiserver.auth.authz import Authorizer
from weir.apiserver.auth.claim_status_authz import ClaimStatusRights
from weir.apiserver.auth.create_authz import CreateRights
from weir.apiserver.auth.escalation import EscalationCheck
from weir.apiserver.auth.param_rights import ParamRights
from weir.apiserver.auth.reviews import Reviews
from weir.apiserver.auth.signers import PodCertificateRights
from weir.apiserver.auth.tokens import Signer, Verifier, key_set, openid_configuration
from weir.apiserver.blocking import Blocking
from weir.apiserver.bootstrap.objects import bootstrap, furnish
from weir.apiserver.customresources.keeper import DefinitionKeeper
from weir.apiserver.customresources.webhook_conversion import WebhookConversion
from weir.apiserver.encryption.at_rest import AtRest
from weir.apiserver.file_changes import FileChanges
from weir.apiserver.flowcontrol import debug
from weir.apiserver.flowcontrol.dispatcher import FlowControl
from weir.apiserver.flowcontrol.keeper import FlowControlKeeper
from weir.apiserver.identity_lease import IdentityLease
from weir.apiserver.metrics import Metrics
from weir.apiserver.older_release import RELEASES, OlderStore
from weir.apiserver.own_endpoints import OwnEndpoints, advertised
from weir.apiserver.patches.json import patch_of_webhook
from weir.apiserver.registry import codec
from weir.apiserver.registry.verbs import Parts
from weir.apiserver.server import ApiServer, Security
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Handler
from weir.apiserver.transport.limits import InFlight
from weir.apiserver.transport.listener import Listener, listen
from weir.apiserver.webhooks.client import WebhookClient
from weir.apiserver.webhooks.dispatch import Webhooks
from weir.certificates import KeyPair
from weir.clock import Clock, RealClock
from weir.gates import ALL_FEATURES, Gates
from weir.objects.kind import Kind
from weir.objects.kinds import find as find_resource
from weir.objects.kinds import groups
from weir.objects.pod_usage import UsageModel
from weir.observe.features import publish_features
from weir.observe.interpreter import calm_collector, return_memory, trim_for_ever
from weir.observe.logs import Log
from weir.observe.metrics import Registry
from weir.store import Store, StoreUnavailable
from weir.store.compact import keep_up
from weir.values.names import name_suffix

__all__ = ["Options", "Running", "build", "open_store", "run", "serve", "sweep"]

log = Log("weir.apiserver")
SWEEP_SECONDS = 5.0
STOP_SECONDS = 10.0
SWITCH_SECONDS = 0.00002
RENEW_SECONDS = 3600.0  # how often the ends of certificates are looked at


@dataclass(frozen=True)
class Options:
    """What an operator can choose."""

    data_dir: Path
    store: str = "sqlite"  #: sqlite, memory, or etcd=host:port,host:port
    bind_address: str = "127.0.0.1"
    secure_port: int = 6443
    insecure: bool = False  #: plain HTTP: loopback only, for benches and tests
    admin_token: str = ""  #: of an insecure server's administrator; made by chance unless given
    gates: Gates = ALL_FEATURES
    authorization_modes: Sequence[str] = ("Node", "RBAC")
    admission: Settings = field(default_factory=Settings)
    anonymous: bool = False
    hostnames: Sequence[str] = ()
    kubeconfig: Path | None = None
    token_file: Path | None = None
    audit_log: Path | None = None
    audit_policy: Path | None = None
    audit_keep: Keep = field(default_factory=Keep)
    compaction_seconds: float = 300.0
    event_ttl_seconds: float = 3600.0  #: how long an Event is kept
    encryption_config: Path | None = None  #: which resources are encrypted on the disk, and how
    encryption_reload: bool = False  #: read it again whenever it changes
    max_reading: int = 400
    max_writing: int = 200
    aggregation: bool = True  #: the server's groups are registered as APIServices
    priority_and_fairness: bool = True  #: flow schemas and priority levels divide the server's time
    sync_delay_seconds: float = 0.0
    etcd_ca: Path | None = None
    etcd_cert: Path | None = None
    etcd_key: Path | None = None
    etcd_user: str = ""  #: name:password
    release: str = ""  #: play a server of this older release (weir.apiserver.older_release)
    usage: UsageModel | None = None  #: answer for metrics.k8s.io, about pods that are simulated
    random_bytes: Callable[[int], bytes] = os.urandom  #: for uids and generated names; a simulation seeds it
    debug_blocking: bool = False  #: measure how long each request holds the event loop


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
    keeper: FlowControlKeeper | None = None
    definitions: DefinitionKeeper | None = None
    api_services: ApiServiceKeeper | None = None
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
        """Make certificates anew whose end is near, and show them from now on. Raises PkiError, OSError."""
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
        """Write the kubeconfig that reaches this server, if one was asked for."""
        options, credentials = self.options, None if self.options.insecure else self.credentials
        if options.kubeconfig is None:
            return
        access = kubeconfig.Access(
            self.url,
            None if credentials is None else credentials.ca_pem,
            None if credentials is None else credentials.admin.certificate,
            None if credentials is None else credentials.admin.key,
            self.admin_token if options.insecure else None,
        )
        kubeconfig.write(options.kubeconfig, kubeconfig.document(access))

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


async def open_store(options: Options, clock: Clock, at_rest: AtRest | None = None) -> Store:
    """Return the store the options name, its values in the form that *at_rest* gives them (by default, what the
    options say); raises StoreUnavailable, ConfigurationError."""
    at_rest = at_rest or AtRest(options.encryption_config)
    keep = options.compaction_seconds
    if options.store == "memory":
        from weir.store.memory import MemoryStore

        return MemoryStore(time=clock.time, keep_seconds=keep)
    if options.store == "sqlite":
        from weir.store.sqlite import SqliteStore

        return await SqliteStore.open(
            options.data_dir / "store.db",
            time=clock.time,
            keep_seconds=keep,
            sync_delay=options.sync_delay_seconds,
            transformer=at_rest,
        )
    if options.store.startswith("etcd="):
        # The library writes lines of its own to stderr about what it also raises; it looks here when it is imported.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        from weir.store.etcd import EtcdStore
        from weir.store.etcd_wire import EtcdOptions

        return await EtcdStore.open(
            EtcdOptions(
                endpoints=options.store.removeprefix("etcd=").split(","),
                ca_file=options.etcd_ca,
                cert_file=options.etcd_cert,
                key_file=options.etcd_key,
                username=options.etcd_user.partition(":")[0],
                password=options.etcd_user.partition(":")[2],
            ),
            time=clock.time,
            keep_seconds=keep,
            transformer=at_rest,
        )
    raise StoreUnavailable(f"unknown store {options.store!r}: write sqlite, memory or etcd=host:port")


def _settled(document: dict[str, Any], kind: Kind, unknown: str = "Ignore") -> dict[str, Any]:
    """Return what a patch left as a good document again: defaults filled in, *unknown* fields dropped or refused."""
    checked, _ = documents.check(document, kind, field_validation=unknown)
    documents.default(checked, kind)
    return checked


def _warn_of_shared_folder(folder: Path) -> None:
    """Say so when anybody on this machine may put other files in place of the server's."""
    with suppress(OSError):
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            log.warning(
                "everybody may write to the data folder, and so replace its keys and objects: chmod o-w it",
                folder=str(folder),
            )


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
    served: Store = store if release is None else OlderStore(store)
    reader = codec.Reader(served)
    registry = Registry()
    metrics = Metrics(registry)
    publish_features(registry, gates)
    authorizer = Authorizer(reader, options.authorization_modes)
    webhook_client = WebhookClient()
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
        ],
        webhooks=Webhooks(
            reader,
            webhook_client,
            patch_of_webhook,
            _settled,
            metrics.webhooks,
            decide=authorizer.decide,
            mutating=MUTATING_WEBHOOKS in enabled,
            validating=VALIDATING_WEBHOOKS in enabled,
        ),
        durations=metrics.admission,
        new_suffix=lambda: name_suffix(options.random_bytes),
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
    audit = None
    if options.audit_log is not None:
        policy = options.audit_policy
        rules = parse_policy(policy.read_text()) if policy is not None else EVERYTHING
        log = AuditLog(options.audit_log, options.audit_keep, clock.now)
        audit = Audit(log, rules, now=clock.now, count=metrics.audit_events.inc)
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
        audit=audit,
        signer=signer,
        flow_control=flow_control,
    )
    address = f"{options.bind_address}:{options.secure_port}"
    public: dict[str, Callable[[], dict[str, Any]]] = {}
    if signer is not None:
        public |= {
            "/openid/v1/jwks": lambda: key_set([signer.public]),
            "/.well-known/openid-configuration": lambda: openid_configuration(
                "https://kubernetes.default.svc", f"https://{address}"
            ),
        }
    blocking = Blocking(registry) if options.debug_blocking else None
    if blocking is not None:
        public["/debug/blocking"] = blocking.document
    server = ApiServer(
        Parts(
            *(served, reader, chain, gates, clock, options.random_bytes, options.event_ttl_seconds),
            conversion=WebhookConversion(reader, webhook_client, metrics.conversions.note),
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
    keeper = FlowControlKeeper(server.verbs) if options.priority_and_fairness else None
    start = [bootstrap(server.verbs, ca=ca, rbac=authorizer.uses_rbac, client_ca=ca)]
    if keeper is not None:
        start.append(keeper.ensure())
    api_services = None
    if options.aggregation:
        shown = {name: found for name, found in groups().items() if name not in server.off}
        api_services = ApiServiceKeeper(server.verbs, server.served, shown)
        start.append(api_services.start())
    await asyncio.gather(*start)

    async def furnish_namespace(kind: Kind, name: str) -> None:
        if kind.kind == "Namespace":
            await furnish(server.verbs, name, ca)

    server.after_create(furnish_namespace)
    mutating.bound.served = validating.bound.served = server.served  # parameters may be of custom kinds
    definitions = DefinitionKeeper(server.verbs, server.lists, server.served, server.definitions)
    return Running(
        *(server, store, options, credentials, admin_token, webhook_client),
        metrics=metrics,
        files=files,
        blocking=blocking,
        keeper=keeper,
        definitions=definitions,
        api_services=api_services,
    )


async def serve(running: Running, clock: Clock) -> None:
    """Listen, and write the kubeconfig that reaches this server."""
    options, credentials = running.options, running.credentials
    loop = asyncio.get_running_loop()
    handle: Handler = running.server.handle
    if running.blocking is not None:
        handle = running.blocking.measured(running.server.handle)
    connections = running.connections = Connections(
        handle,
        running.server.prove,
        running.metrics.refused,
        allows=running.server.allows,
        divides=options.priority_and_fairness,
    )
    running.server.verbs.off_loop.start()
    context: ssl.SSLContext | None = None
    if not options.insecure and credentials is not None:
        context = running.serving = pki.serving_context(credentials)
        shown = [credentials.server_cert_path, credentials.server_key_path, credentials.ca_path]
        running.files.follow(shown, running.load_serving)
    running.listener = await listen(
        connections, options.bind_address or "127.0.0.1", options.secure_port, context
    )
    running.port = running.listener.port
    running.chores.append(loop.create_task(keep_up(running.store, clock)))
    running.chores.append(loop.create_task(sweep(connections)))
    running.chores.append(loop.create_task(trim_for_ever()))
    running.chores.append(loop.create_task(running.files.run(clock)))
    running.chores.append(loop.create_task(_renew(running, clock)))
    if running.keeper is not None:
        running.chores.append(loop.create_task(running.keeper.run(clock)))
    address = f"{options.bind_address or '127.0.0.1'}:{running.port}"
    instance = str(uuid.UUID(bytes=options.random_bytes(16), version=4))
    log.v(1, "Serving", address=address, store=options.store, gates=options.gates)
    known_at = advertised(options.bind_address)
    if known_at and options.bind_address in ("0.0.0.0", "::"):
        address = f"{known_at}:{running.port}"
    lease = IdentityLease(running.server.verbs, clock, socket.gethostname(), address, instance)
    running.chores.append(loop.create_task(lease.run()))
    if known_at:
        endpoints = OwnEndpoints(running.server.verbs, clock, known_at, running.port)
        running.chores.append(loop.create_task(endpoints.run()))
    running.write_kubeconfig()


def tune_interpreter() -> None:
    """Look for cycles rarely, and let the store's writer in soon.

    The writer wants the interpreter for moments, twice per group of writes, and a busy loop would keep it (and the
    disk) waiting for Python's five milliseconds each time. The loop in turn takes the interpreter anew for every socket
    that has something: while large documents are read beside it, it waits this long each time (decision 18).
    """
    calm_collector()
    return_memory()
    sys.setswitchinterval(SWITCH_SECONDS)


async def _renew(running: Running, clock: Clock) -> None:
    """Make certificates anew before they end."""
    while True:
        await clock.sleep(RENEW_SECONDS)
        try:
            running.renew(clock.now())
        except (pki.PkiError, OSError) as error:
            log.error("the certificates cannot be renewed", err=error)


async def sweep(connections: Connections) -> None:
    """Close connections that hold a place without using it."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        connections.sweep(loop.time())


async def run(options: Options, *, ready: Callable[[Running], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    clock = RealClock()
    at_rest = AtRest(options.encryption_config)
    store = await open_store(options, clock, at_rest)
    try:
        running = await build(options, store, clock)
        if options.encryption_config is not None and options.encryption_reload:
            running.files.follow([options.encryption_config], at_rest.reload)
    except BaseException:
        await store.close()
        raise
    await serve(running, clock)
    tune_interpreter()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    if ready is not None:
        ready(running)
    try:
        await stop.wait()
    finally:
        await running.stop()
