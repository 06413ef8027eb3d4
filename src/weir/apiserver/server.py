"""The API server without sockets: one request in, one response out.

`ApiServer.handle` is called by the HTTP front, the in-process client and tests. In the real server's order:
authenticate, parse the path, limit, authorize, act, render, count. API errors are `ApiError`s and become a Status;
anything else is a bug, is logged with its traceback and answers 500.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Protocol

from weir import errors
from weir.apiserver.aggregation.answers import of_another_server
from weir.apiserver.audit.events import COMPLETE, RECEIVED, STARTED, Audit
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.authz import Authorizer, action_of, forbidden
from weir.apiserver.auth.impersonation import impersonate
from weir.apiserver.auth.tokens import Signer
from weir.apiserver.failures import failure, reworded, unavailable
from weir.apiserver.flowcontrol.dispatcher import FlowControl, Refused
from weir.apiserver.flowcontrol.levels import Flow, QueuedRequest
from weir.apiserver.handlers import Handlers, Review
from weir.apiserver.metrics import Metrics
from weir.apiserver.nonresource import NO_CACHE, Pages
from weir.apiserver.off_loop import is_large
from weir.apiserver.older_release import Release
from weir.apiserver.registry.verbs import Parts
from weir.apiserver.request_labels import dry_run_label, is_routed, labels_of
from weir.apiserver.request_log import RequestLog
from weir.apiserver.transport import paths
from weir.apiserver.transport.http import Request, Response, Sink, Stream
from weir.apiserver.transport.limits import BODY_BYTES, InFlight, Lane, is_long_running, too_large, too_many
from weir.apiserver.transport.options import check_timeout, parse_bool
from weir.apiserver.transport.paths import RequestInfo
from weir.apiserver.transport.warnings import WarningRecorder, warning_headers
from weir.objects import document
from weir.objects.kinds import KINDS
from weir.objects.pod_usage import UsageModel
from weir.objects.served_kinds import ServedKinds
from weir.observe.logs import Log
from weir.store import Store, StoreUnavailable, TooLarge

__all__ = ["ApiServer", "Security"]

log = Log("weir.apiserver")
Document = dict[str, Any]
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Authenticates(Protocol):
    """Finds out who asks."""

    def authenticate(self, request: Request) -> User:
        """Return the user; raises Unauthorized."""


class Security(NamedTuple):
    """Who may come in."""

    authenticator: Authenticates
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
        self._release = release
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
        self.ready = True
        self._log, self._clock = RequestLog(), parts.clock
        if metrics is not None:
            metrics.stored = partial(_stored, parts.store, self._handlers.served)
        self._security, self._metrics = security, metrics
        number = release.number if release is not None else ""
        self.pages = Pages(
            self._handlers.off,
            address,
            metrics,
            public or {},
            self._failed_checks,
            number,
            texts,
            self._handlers.served,
        )
        a, b, c, d = (secrets.token_hex(size) for size in (4, 2, 2, 2))
        self._audit_prefix = f"{a}-{b}-4{c[1:]}-8{d[1:]}-".encode()
        self._count = itertools.count(secrets.randbits(40))
        #: whether the last write, and the last line of the audit log, could not be written
        self._store_failed = self._audit_failed = False

    def _failed_checks(self) -> list[str]:
        """Return the names of the health checks that fail now."""
        failed = [] if self.ready else ["shutdown"]
        if self._store_failed:
            failed.append("etcd")
        if self._audit_failed:
            failed.append("audit")
        return failed

    # -------------------------------------------------------------------------------------------- handle

    async def handle(self, request: Request) -> Response | Stream:
        """Return the answer to *request*; never raises for a failure of the client."""
        started = time.perf_counter()
        params = request.params if request.query else _NO_PARAMS
        info = paths.parse_served(
            request.method, request.path, parse_bool(params.get("watch")), self._handlers.served
        )
        request.info = info
        warnings = WarningRecorder()
        user: User | None = None
        real: User | None = None
        lane: Lane | None = None
        ticket: QueuedRequest | None = None
        flow: Flow | None = None
        authorized = False
        answer: Response | Stream
        limiter, flow_control = self._security.in_flight, self._security.flow_control
        audit, audit_id = self._security.audit, request.headers.get(b"audit-id") or self._new_audit_id()
        try:
            if params.get("timeout") and not is_long_running(info.verb, info.subresource):
                check_timeout(params["timeout"])
            user = real = self._authenticated(request)
            if audit is not None and audit.wants_received:
                self._record(audit, request, RECEIVED, audit_id, real, real, 0.0)
            user = request.user = self._impersonated(request, user)
            if limiter is not None:
                lane = limiter.enter(info, user.groups)
            if flow_control is not None and (
                info.verb == "watch" or not is_long_running("", info.subresource)
            ):
                ticket = flow_control.admit(user, info, params, request.line)
                flow = ticket.flow
                if ticket.waiting is not None:
                    await ticket.waiting
            decision = self._security.authorizer.authorize(user, info, params.get("fieldSelector", ""))
            if not decision.allowed:
                if self._metrics is not None:
                    self._metrics.authorization_denied.value += 1
                raise forbidden(user, info, decision, params.get("fieldSelector", ""))
            if self._metrics is not None:
                self._metrics.authorization_allowed.value += 1
            if request.unread:  # it might do this a moment ago no more, and may again
                raise too_many()
            authorized = True
            if request.too_large or len(request.body) > BODY_BYTES:
                raise too_large()
            if is_large(request.body):
                if ticket is not None and flow_control is not None:
                    flow_control.release_seats(ticket)
                request.turn = self.verbs.off_loop.turn(user.name)
                await self.verbs.off_loop.run(request.turn, document.check_values, request.body)
            elsewhere = of_another_server(info.path, self.served) if self.served.registered else None
            if elsewhere is not None:
                answer = elsewhere
            elif info.is_resource:
                answer = await self._handlers.handle(request, info, warnings)
            else:
                answer = await self._page(request, info)
            if self._store_failed and info.verb in _WRITES and answer.code < 300:
                self._store_failed = "dryRun" in params
        except Refused as refused:
            answer, flow = refused.answer(), refused.flow
        except errors.ApiError as error:
            if self._release is not None:
                error = reworded(error, self._release)
            answer = failure(request, error)
            name = user.name if user else ""
            self._log.refused(error, info.verb, info.resource, info.namespace, name, self._clock.monotonic())
        except StoreUnavailable as error:
            log.error("the store cannot take a request", path=request.path, err=error)
            self._store_failed = True
            answer = failure(request, unavailable(error))
        except TooLarge as error:
            answer = failure(request, errors.InternalError(str(error)))
        except RecursionError:  # only what a client nests makes the server go so deep
            answer = failure(request, errors.BadRequest("the request is nested too deeply"))
        except Exception:
            log.exception("the server failed", verb=info.verb, path=request.path)
            answer = failure(request, errors.InternalError("Internal Server Error", reason="InternalError"))
        finally:
            if lane is not None:
                InFlight.leave(lane)
            if ticket is not None and flow_control is not None:
                flow_control.finish(ticket)
        pending = self._handlers.rendered.compress(request, answer)
        if pending is not None:
            await pending
        self._finish(answer, audit_id, warnings, flow)
        if self._log.shows:
            name = user.name if user else ""
            self._log.answered(request, info.verb, answer, time.perf_counter() - started, name)
        if self._metrics is not None:
            seconds = time.perf_counter() - started
            self._measure(self._metrics, request, params, answer, seconds, authorized=authorized)
        if audit is not None:
            who = real or _NOBODY, user or _NOBODY
            note = partial(
                self._record,
                audit,
                request,
                audit_id=audit_id,
                real=who[0],
                user=who[1],
                answer=answer,
                annotations=warnings.annotations,
            )
            if isinstance(answer, Stream):
                note(STARTED, elapsed=time.perf_counter() - started)
                answer.run = _then(answer.run, lambda: note(COMPLETE, elapsed=time.perf_counter() - started))
            else:
                note(STARTED if real is None else COMPLETE, elapsed=time.perf_counter() - started)
        return answer

    @staticmethod
    def _measure(
        metrics: Metrics,
        request: Request,
        params: Mapping[str, str],
        answer: Response | Stream,
        seconds: float,
        *,
        authorized: bool,
    ) -> None:
        """Count a request that reached a route, or was refused for the server's own protection."""
        labels = labels_of(request, request.info, params)
        if labels is None:
            return
        dry_run = dry_run_label(request.params.all("dryRun")) if "dryRun" in params else ""
        code = answer.code
        if authorized and is_routed(request.info, code):
            size = answer.size if isinstance(answer, Response) else 0
            metrics.observe_request(labels, code, seconds, size, dry_run)
            if code == 504:
                metrics.terminated(labels, code)
        elif code == 429:
            metrics.dropped(labels, dry_run)

    def _new_audit_id(self) -> bytes:
        return b"%b%012x" % (self._audit_prefix, next(self._count) & 0xFFFFFFFFFFFF)

    def _authenticated(self, request: Request) -> User:
        """Return who asks, and count it."""
        metrics = self._metrics
        try:
            user = request.proven or self._security.authenticator.authenticate(request)
        except errors.Unauthorized:
            if metrics is not None:
                metrics.authentication_failure.value += 1
            raise
        if metrics is not None:
            metrics.authentication_success.value += 1
        return user

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
        request.info = paths.parse(request.method, request.path, parse_bool(params.get("watch")))
        try:
            user = self._impersonated(request, request.proven)
        except errors.ApiError:
            return False
        selector = params.get("fieldSelector", "")
        return self._security.authorizer.authorize(user, request.info, selector).allowed

    def _impersonated(self, request: Request, user: User) -> User:
        """Return for whom *request* of *user* is made; raises Forbidden, BadRequest."""
        selector = request.params.get("fieldSelector", "") if request.query else ""
        action = partial(action_of, request.info, selector)
        return impersonate(request.headers, user, self._security.authorizer, action)

    def _record(
        self,
        audit: Audit,
        request: Request,
        stage: str,
        audit_id: bytes,
        real: User,
        user: User,
        elapsed: float,
        answer: Response | Stream | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Write one stage of the request to the audit log. What was done is done: a log that is full is counted."""
        now = datetime.fromtimestamp(self.verbs.clock.time(), UTC)
        try:
            audit.record(
                real,
                request.info,
                0 if answer is None else answer.code,
                uri=f"{request.path}?{request.query}" if request.query else request.path,
                received=now - timedelta(seconds=elapsed),
                finished=now,
                source=request.peer.rpartition(":")[0],
                user_agent=request.header(b"user-agent"),
                request_object=request.body if answer is not None else b"",
                response_object=answer.body if isinstance(answer, Response) else b"",
                impersonated=user if user is not real else None,
                audit_id=audit_id.decode(errors="replace"),
                annotations=annotations,
                stage=stage,
            )
            self._audit_failed = False
        except OSError as error:
            if not self._audit_failed:
                log.error("the audit log cannot be written", err=error)
            self._audit_failed = True
            if self._metrics is not None:
                self._metrics.audit_errors.inc()

    def _finish(
        self, answer: Response | Stream, audit_id: bytes, warnings: list[str], flow: Flow | None
    ) -> None:
        """Add the headers every answer has."""
        headers = answer.headers
        if headers is None:
            headers = answer.headers = [(b"Audit-Id", audit_id), (b"Cache-Control", NO_CACHE)]
        else:
            headers.append((b"Audit-Id", audit_id))
            if not any(name == b"Cache-Control" for name, _ in headers):
                headers.append((b"Cache-Control", NO_CACHE))
        if flow is not None:
            headers += flow.headers
        if warnings:
            headers += [(b"Warning", header) for header in warning_headers(warnings)]

    async def _page(self, request: Request, info: RequestInfo) -> Response | Stream:
        if info.path.startswith("/openapi") or b"yaml" in request.headers.get(b"accept", b""):
            # documents of megabytes, made when first asked for
            turn = self.verbs.off_loop.turn(request.user.name)
            return await self.verbs.off_loop.run(turn, self.pages.answer, request, info)
        return self.pages.answer(request, info)


def _stored(store: Store, served: ServedKinds) -> list[tuple[str, str, int]]:
    """Return the group and resource of every kind that is stored, and how many objects of it there are."""
    rows = [kind for kind in KINDS if kind.stored and not kind.converted]
    custom = {(kind.group, kind.plural): kind for kind in served.joined()}
    return [(kind.group, kind.plural, store.count(kind.prefix)) for kind in [*rows, *custom.values()]]


_NO_PARAMS: dict[str, str] = {}
_NOBODY = User("")


def _then(
    run: Callable[[Sink], Awaitable[None]], after: Callable[[], None]
) -> Callable[[Sink], Awaitable[None]]:
    """Return *run* with *after* behind it, however it ends."""

    async def both(sink: Sink) -> None:
        try:
            await run(sink)
        finally:
            after()

    return both
