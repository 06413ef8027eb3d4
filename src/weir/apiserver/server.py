"""The API server without sockets: the request handler chain.

`ApiServer.handle` takes a request through the filters of `ApiServer.filters`, in their order, to the verb it names; the
HTTP front, the in-process client and the tests call the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from weir import errors
from weir.apiserver import filters
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.authz import Authorizer
from weir.apiserver.auth.tokens import Signer
from weir.apiserver.compat.aggregation import of_another_server
from weir.apiserver.compat.audit import Audit
from weir.apiserver.compat.flowcontrol.dispatcher import FlowControl
from weir.apiserver.filters import Answer, Exchange
from weir.apiserver.handlers import Handlers, Review
from weir.apiserver.metrics import Metrics
from weir.apiserver.nonresource import Pages
from weir.apiserver.older_release import Release
from weir.apiserver.registry.storage import Parts
from weir.apiserver.request_log import RequestLog
from weir.apiserver.transport import paths
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.limits import InFlight
from weir.apiserver.transport.options import parse_bool
from weir.objects.kinds import KINDS
from weir.objects.pod_usage import UsageModel
from weir.objects.served_kinds import ServedKinds
from weir.store import Store

Document = dict[str, Any]
_NO_PARAMS: dict[str, str] = {}


class Security(NamedTuple):
    """Who may come in."""

    authenticator: filters.Authenticator
    authorizer: Authorizer
    review: Review | None = None
    in_flight: InFlight | None = None
    audit: Audit | None = None
    signer: Signer | None = None
    flow_control: FlowControl | None = None


class ApiServer:
    """The API of one cluster."""

    def __init__(
        self,
        parts: Parts,
        security: Security,
        *,
        metrics: Metrics | None = None,
        address: str = "127.0.0.1:6443",
        public: dict[str, Callable[[], Document]] | None = None,
        usage: UsageModel | None = None,
        release: Release | None = None,
        texts: Mapping[str, Callable[[], str]] | None = None,
    ) -> None:
        """With *usage* it answers for metrics.k8s.io as well, about pods that are simulated.

        With *release* it plays a server of that older release, on a store that is read so.
        """
        self._handlers = Handlers(
            parts,
            review=security.review,
            signer=security.signer,
            metrics=metrics,
            usage=usage,
            release=release,
        )
        self.verbs, self.lists, self.watches = (
            self._handlers.verbs,
            self._handlers.lists,
            self._handlers.watches,
        )
        self.after_create = self._handlers.after_create
        self.served, self.definitions = self._handlers.served, self._handlers.definitions
        self.off = self._handlers.off
        self._security, self._metrics, self._release = security, metrics, release
        if metrics is not None:
            metrics.stored = partial(_stored, parts.store, self._handlers.served)
        self._health, self._audit_ids = filters.Health(), filters.AuditIds()
        self._impersonated = filters.Impersonated(security.authorizer)
        self.pages = Pages(
            self._handlers.off,
            address,
            metrics,
            public or {},
            self._health.failed_checks,
            release.number if release is not None else "",
            texts,
            self._handlers.served,
        )
        self._handle = filters.chain(self.filters(), self._dispatch)

    def filters(self) -> list[filters.Filter]:
        """Return the filters of every request, the first of which sees it first and its answer last."""
        security, metrics, health, clock = self._security, self._metrics, self._health, self.verbs.clock
        requests = RequestLog()
        in_flight, flow_control = security.in_flight, security.flow_control
        audit = filters.Audited(security.audit, clock, health, metrics) if security.audit else None
        every: list[filters.Filter | None] = [
            filters.Observed(requests, metrics),
            filters.with_headers,
            filters.Compressed(self._handlers.rendered),
            audit.answered if audit else None,
            filters.Recovered(health, requests, clock, self._release),
            filters.with_timeout,
            filters.Authenticated(security.authenticator, metrics),
            audit.received if audit else None,
            self._impersonated,
            filters.LimitedInFlight(in_flight) if in_flight else None,
            filters.FlowControlled(flow_control) if flow_control else None,
            filters.Authorized(security.authorizer, metrics),
            filters.BodyChecked(self.verbs.off_loop, flow_control),
        ]
        return [each for each in every if each is not None]

    @property
    def ready(self) -> bool:
        """Whether requests are welcome; a server that shuts down is not ready."""
        return self._health.ready

    @ready.setter
    def ready(self, ready: bool) -> None:
        self._health.ready = ready

    async def handle(self, request: Request) -> Answer:
        """Return the answer to *request*; never raises for a failure of the client."""
        params = request.params if request.query else _NO_PARAMS
        watch = parse_bool(params.get("watch"))
        request.info = paths.parse_served(request.method, request.path, watch, self.served)
        return await self._handle(Exchange(request, request.info, params, self._audit_ids.of(request)))

    async def _dispatch(self, exchange: Exchange) -> Answer:
        """Return the answer of whoever serves the path: another server, a resource, or a page."""
        request, info = exchange.request, exchange.info
        elsewhere = of_another_server(info.path, self.served) if self.served.registered else None
        if elsewhere is not None:
            return elsewhere
        if info.is_resource:
            return await self._handlers.handle(request, info, exchange.warnings)
        if info.path.startswith("/openapi") or b"yaml" in request.headers.get(b"accept", b""):
            # documents of megabytes, made when first asked for
            turn = self.verbs.off_loop.turn(request.user.name)
            return await self.verbs.off_loop.run(turn, self.pages.answer, request, info)
        return self.pages.answer(request, info)

    # ------------------------------------------------------------------- before the body of a request is read

    def prove(self, request: Request) -> User | None:
        """Return who sends *request*, by its head alone; None when it shows no credential or a wrong one."""
        try:
            return self._security.authenticator.authenticate(request)
        except errors.Unauthorized:
            return None

    def allows(self, request: Request) -> bool:
        """Return whether the user whom *request* proves may do what its head says; `handle` says why not."""
        if request.proven is None:
            return True
        params = request.params if request.query else _NO_PARAMS
        selector = params.get("fieldSelector", "")
        info = request.info = paths.parse(request.method, request.path, parse_bool(params.get("watch")))
        try:
            user = self._impersonated.user_of(request, info, request.proven, selector)
        except errors.ApiError:
            return False
        return self._security.authorizer.authorize(user, info, selector).allowed


def _stored(store: Store, served: ServedKinds) -> list[tuple[str, str, int]]:
    """Return the group and resource of every kind that is stored, and how many objects of it there are."""
    rows = [kind for kind in KINDS if kind.stored and not kind.converted]
    custom = {(kind.group, kind.plural): kind for kind in served.joined()}
    return [(kind.group, kind.plural, store.count(kind.prefix)) for kind in [*rows, *custom.values()]]
