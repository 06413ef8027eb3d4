"""Builds an API server on an open store: credentials, admission, authorization, flow control and the rest.

Also creates the bootstrap objects (namespaces, roles, priority levels, APIServices).
"""

from __future__ import annotations

import asyncio
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from weir.apiserver import documents
from weir.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    ClusterTrustBundleAttest,
)
from weir.apiserver.admission.chain import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Chain
from weir.apiserver.admission.mutating_policies import MutatingPolicies
from weir.apiserver.admission.node_restriction import NodeRestriction
from weir.apiserver.admission.validating_policies import ValidatingPolicies
from weir.apiserver.aggregation.controller import ApiServiceController
from weir.apiserver.audit.events import EVERYTHING, Audit, parse_policy
from weir.apiserver.audit.log import AuditLog
from weir.apiserver.auth import pki
from weir.apiserver.auth.authn import MASTERS, Authenticator, StaticTokens, TokenFile, User, proven
from weir.apiserver.auth.authz import Authorizer, CreateRights
from weir.apiserver.auth.claim_status_authz import ClaimStatusRights
from weir.apiserver.auth.escalation import EscalationCheck
from weir.apiserver.auth.param_rights import ParamRights
from weir.apiserver.auth.reviews import Reviews
from weir.apiserver.auth.signers import PodCertificateRights
from weir.apiserver.auth.tokens import Signer, Verifier, key_set, openid_configuration
from weir.apiserver.blocking import Blocking
from weir.apiserver.bootstrap.objects import bootstrap, ensure_namespace_objects
from weir.apiserver.customresources.controller import DefinitionController
from weir.apiserver.customresources.webhook_conversion import WebhookConversion
from weir.apiserver.file_changes import FileChanges
from weir.apiserver.flowcontrol import debug
from weir.apiserver.flowcontrol.bootstrap import FlowControlBootstrap
from weir.apiserver.flowcontrol.dispatcher import FlowControl
from weir.apiserver.metrics import Metrics
from weir.apiserver.older_release import RELEASES, DeviceTaintEffects, OlderStore
from weir.apiserver.options import Options
from weir.apiserver.patches.json import patch_of_webhook
from weir.apiserver.registry import codec
from weir.apiserver.registry.verbs import Parts
from weir.apiserver.running import Running
from weir.apiserver.server import ApiServer, Security
from weir.apiserver.transport.limits import InFlight
from weir.apiserver.webhooks.client import WebhookClient
from weir.apiserver.webhooks.dispatch import Webhooks
from weir.clock import Clock
from weir.customresources.served import CustomResourceKind
from weir.objects.kind import Kind
from weir.objects.kinds import find as find_resource
from weir.objects.kinds import groups
from weir.observe.features import publish_features
from weir.observe.logs import Log
from weir.observe.metrics import Registry
from weir.store import Store
from weir.values.names import name_suffix

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
