"""The filters of the request handler chain: what happens to every request before and after its verb.

As in Kubernetes' handler chain, a filter is called with an `Exchange` and the next handler. It may refuse by raising an
ApiError, note something for later filters in the exchange, or look at the answer on its way back.
`ApiServer.filters` (weir.apiserver.server) is their order.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol, TypeAlias

from weir import errors
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.authz import Authorizer, action_of, forbidden
from weir.apiserver.auth.impersonation import impersonate
from weir.apiserver.compat.audit import COMPLETE, RECEIVED, STARTED, Audit
from weir.apiserver.compat.flowcontrol.dispatcher import FlowControl, Refused
from weir.apiserver.compat.flowcontrol.levels import Flow, QueuedRequest
from weir.apiserver.metrics import Metrics
from weir.apiserver.nonresource import NO_CACHE
from weir.apiserver.off_loop import OffLoop, is_large
from weir.apiserver.older_release import Release
from weir.apiserver.rendering import Renderer, failure, reworded, unavailable
from weir.apiserver.request_log import RequestLog, dry_run_label, is_routed, labels_of
from weir.apiserver.transport.bodies import WarningRecorder, warning_headers
from weir.apiserver.transport.http import Request, Response, Sink, Stream
from weir.apiserver.transport.limits import BODY_BYTES, InFlight, is_long_running, too_large, too_many
from weir.apiserver.transport.options import check_timeout
from weir.apiserver.transport.paths import RequestInfo
from weir.clock import Clock
from weir.objects import document
from weir.observe.logs import Log
from weir.store import StoreUnavailable, TooLarge

log = Log("weir.apiserver")
Answer: TypeAlias = Response | Stream
Handler: TypeAlias = Callable[["Exchange"], Awaitable[Answer]]
Filter: TypeAlias = Callable[["Exchange", Handler], Awaitable[Answer]]
NOBODY = User("")
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Exchange:
    """A request on its way through the filters, and what they found out about it."""

    __slots__ = (
        "audit_id",
        "authorized",
        "flow",
        "info",
        "params",
        "queued",
        "real_user",
        "request",
        "started",
        "user",
        "warnings",
    )

    def __init__(
        self, request: Request, info: RequestInfo, params: Mapping[str, str], audit_id: bytes
    ) -> None:
        self.request, self.info, self.params, self.audit_id = request, info, params, audit_id
        self.started = time.perf_counter()
        self.warnings = WarningRecorder()
        self.real_user = NOBODY  #: who proved to send it
        self.user = NOBODY  #: for whom it counts: the same, or who is impersonated
        self.flow: Flow | None = None  #: the flow schema and priority level it was classified to
        self.queued: QueuedRequest | None = None  #: its seat in that level
        self.authorized = False

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.perf_counter() - self.started

    @property
    def field_selector(self) -> str:
        """The field selector of the query, which authorization looks at."""
        return self.params.get("fieldSelector", "")


def chain(filters: Sequence[Filter], handler: Handler) -> Handler:
    """Return *handler* behind *filters*, the first of which is called first."""
    for each in reversed(filters):
        handler = partial(_call, each, handler)
    return handler


def _call(each: Filter, handler: Handler, exchange: Exchange) -> Awaitable[Answer]:
    return each(exchange, handler)


class Health:
    """The health checks of the server itself that the filters find out about."""

    def __init__(self) -> None:
        self.ready = True
        self.store_failed = False  #: the last write could not be stored
        self.audit_failed = False  #: the last line of the audit log could not be written

    def failed_checks(self) -> list[str]:
        """Return the names of the health checks that fail now."""
        checks = (("shutdown", not self.ready), ("etcd", self.store_failed), ("audit", self.audit_failed))
        return [name for name, fails in checks if fails]


# ------------------------------------------------------------------------------------ around the answer


class Observed:
    """Logs and measures every request with its answer."""

    def __init__(self, requests: RequestLog, metrics: Metrics | None) -> None:
        self._log, self._metrics = requests, metrics

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer:
        answer = await handler(exchange)
        if self._log.shows:
            verb, name = exchange.info.verb, exchange.user.name
            self._log.answered(exchange.request, verb, answer, exchange.seconds, name)
        if self._metrics is not None:
            self._measure(self._metrics, exchange, answer)
        return answer

    @staticmethod
    def _measure(metrics: Metrics, exchange: Exchange, answer: Answer) -> None:
        """Count a request that reached a route, or was refused for the server's own protection."""
        request, seconds = exchange.request, exchange.seconds
        labels = labels_of(request, exchange.info, exchange.params)
        if labels is None:
            return
        dry_run = dry_run_label(request.params.all("dryRun")) if "dryRun" in exchange.params else ""
        code = answer.code
        if exchange.authorized and is_routed(exchange.info, code):
            size = answer.size if isinstance(answer, Response) else 0
            metrics.observe_request(labels, code, seconds, size, dry_run)
            if code == 504:
                metrics.terminated(labels, code)
        elif code == 429:
            metrics.dropped(labels, dry_run)


async def with_headers(exchange: Exchange, handler: Handler) -> Answer:
    """Add the headers that every answer has."""
    answer = await handler(exchange)
    headers = answer.headers
    if headers is None:
        headers = answer.headers = [(b"Audit-Id", exchange.audit_id), (b"Cache-Control", NO_CACHE)]
    else:
        headers.append((b"Audit-Id", exchange.audit_id))
        if not any(name == b"Cache-Control" for name, _ in headers):
            headers.append((b"Cache-Control", NO_CACHE))
    if exchange.flow is not None:
        headers += exchange.flow.headers
    if exchange.warnings:
        headers += [(b"Warning", header) for header in warning_headers(exchange.warnings)]
    return answer


class Compressed:
    """Compresses large answers for clients that can read them so."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer:
        answer = await handler(exchange)
        pending = self._renderer.compress(exchange.request, answer)
        if pending is not None:
            await pending
        return answer


class Audited:
    """Writes the stages of every request to the audit log; a log that is full is counted, not an error."""

    def __init__(self, audit: Audit, clock: Clock, health: Health, metrics: Metrics | None) -> None:
        self._audit, self._clock, self._health, self._metrics = audit, clock, health, metrics

    async def received(self, exchange: Exchange, handler: Handler) -> Answer:
        """Record that the request was received, once its user is authenticated."""
        if self._audit.wants_received:
            self._record(exchange, RECEIVED)
        return await handler(exchange)

    async def answered(self, exchange: Exchange, handler: Handler) -> Answer:
        """Record the answer; of a stream its start and its end."""
        answer = await handler(exchange)
        if isinstance(answer, Stream):
            self._record(exchange, STARTED, answer)
            answer.run = _then(answer.run, lambda: self._record(exchange, COMPLETE, answer))
        else:
            self._record(exchange, STARTED if exchange.real_user is NOBODY else COMPLETE, answer)
        return answer

    def _record(self, exchange: Exchange, stage: str, answer: Answer | None = None) -> None:
        request, now = exchange.request, datetime.fromtimestamp(self._clock.time(), UTC)
        elapsed = 0.0 if answer is None else exchange.seconds
        try:
            self._audit.record(
                exchange.real_user,
                exchange.info,
                0 if answer is None else answer.code,
                uri=f"{request.path}?{request.query}" if request.query else request.path,
                received=now - timedelta(seconds=elapsed),
                finished=now,
                source=request.peer.rpartition(":")[0],
                user_agent=request.header(b"user-agent"),
                request_object=request.body if answer is not None else b"",
                response_object=answer.body if isinstance(answer, Response) else b"",
                impersonated=exchange.user if exchange.user is not exchange.real_user else None,
                audit_id=exchange.audit_id.decode(errors="replace"),
                annotations=None if answer is None else exchange.warnings.annotations,
                stage=stage,
            )
            self._health.audit_failed = False
        except OSError as error:
            if not self._health.audit_failed:
                log.error("the audit log cannot be written", err=error)
            self._health.audit_failed = True
            if self._metrics is not None:
                self._metrics.audit_errors.inc()


class Recovered:
    """Turns every failure into a Status; what is not the client's or the store's fault is logged, and answers 500."""

    def __init__(self, health: Health, requests: RequestLog, clock: Clock, release: Release | None) -> None:
        """With *release* failures are told in the words of that older release."""
        self._health, self._log, self._clock, self._release = health, requests, clock, release

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer:
        request, info = exchange.request, exchange.info
        try:
            answer = await handler(exchange)
            if self._health.store_failed and info.verb in _WRITES and answer.code < 300:
                self._health.store_failed = "dryRun" in exchange.params
            return answer
        except Refused as refused:
            exchange.flow = refused.flow
            return refused.answer()
        except errors.ApiError as error:
            if self._release is not None:
                error = reworded(error, self._release)
            now, name = self._clock.monotonic(), exchange.user.name
            self._log.refused(error, info.verb, info.resource, info.namespace, name, now)
            return failure(request, error)
        except StoreUnavailable as error:
            log.error("the store cannot take a request", path=request.path, err=error)
            self._health.store_failed = True
            return failure(request, unavailable(error))
        except TooLarge as error:
            return failure(request, errors.InternalError(str(error)))
        except RecursionError:  # only what a client nests makes the server go so deep
            return failure(request, errors.BadRequest("the request is nested too deeply"))
        except Exception:
            log.exception("the server failed", verb=info.verb, path=request.path)
            return failure(request, errors.InternalError("Internal Server Error", reason="InternalError"))


# ------------------------------------------------------------------------------------ before the verb


async def with_timeout(exchange: Exchange, handler: Handler) -> Answer:
    """Check the timeout that the query asks for."""
    timeout, info = exchange.params.get("timeout"), exchange.info
    if timeout and not is_long_running(info.verb, info.subresource):
        check_timeout(timeout)
    return await handler(exchange)


class Authenticator(Protocol):
    """Finds out who sends a request."""

    def authenticate(self, request: Request) -> User:
        """Return the user; raises Unauthorized."""


class Authenticated:
    """Finds out who sends the request; raises 401."""

    def __init__(self, authenticator: Authenticator, metrics: Metrics | None) -> None:
        self._authenticator, self._metrics = authenticator, metrics

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer:
        request, metrics = exchange.request, self._metrics
        try:
            user = request.proven or self._authenticator.authenticate(request)
        except errors.Unauthorized:
            if metrics is not None:
                metrics.authentication_failure.value += 1
            raise
        if metrics is not None:
            metrics.authentication_success.value += 1
        exchange.real_user = exchange.user = request.user = user
        return await handler(exchange)


class Impersonated:
    """Replaces the user by the one the headers name; raises 403 and 400."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer:
        request = exchange.request
        request.user = exchange.user = self.user_of(
            request, exchange.info, exchange.real_user, exchange.field_selector
        )
        return await handler(exchange)

    def user_of(self, request: Request, info: RequestInfo, user: User, field_selector: str) -> User:
        """Return for whom *request* of *user* is made."""
        return impersonate(request.headers, user, self._authorizer, partial(action_of, info, field_selector))


class LimitedInFlight:
    """Bounds how many requests are served at a time; raises 429."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer:
        lane = self._in_flight.enter(exchange.info, exchange.user.groups)
        try:
            return await handler(exchange)
        finally:
            InFlight.leave(lane)


class FlowControlled:
    """Waits for a seat in the request's priority level (API Priority and Fairness); raises 429."""

    def __init__(self, flow_control: FlowControl) -> None:
        self._flow_control = flow_control

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer:
        info = exchange.info
        if info.verb != "watch" and is_long_running("", info.subresource):
            return await handler(exchange)
        queued = self._flow_control.admit(exchange.user, info, exchange.params, exchange.request.line)
        exchange.queued, exchange.flow = queued, queued.flow
        try:
            if queued.waiting is not None:
                await queued.waiting
            return await handler(exchange)
        finally:
            self._flow_control.finish(queued)


class Authorized:
    """Asks whether the user may do this; raises 403."""

    def __init__(self, authorizer: Authorizer, metrics: Metrics | None) -> None:
        self._authorizer, self._metrics = authorizer, metrics

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer:
        user, info, selector = exchange.user, exchange.info, exchange.field_selector
        decision = self._authorizer.authorize(user, info, selector)
        metrics = self._metrics
        if not decision.allowed:
            if metrics is not None:
                metrics.authorization_denied.value += 1
            raise forbidden(user, info, decision, selector)
        if metrics is not None:
            metrics.authorization_allowed.value += 1
        return await handler(exchange)


class BodyChecked:
    """Refuses a body that is too large, and gives a large one its turn beside the loop."""

    def __init__(self, off_loop: OffLoop, flow_control: FlowControl | None) -> None:
        self._off_loop, self._flow_control = off_loop, flow_control

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer:
        request = exchange.request
        if request.unread:  # it might do this a moment ago no more, and may again
            raise too_many()
        exchange.authorized = True
        if request.too_large or len(request.body) > BODY_BYTES:
            raise too_large()
        if is_large(request.body):
            if exchange.queued is not None and self._flow_control is not None:
                self._flow_control.release_seats(exchange.queued)
            request.turn = self._off_loop.turn(exchange.user.name)
            await self._off_loop.run(request.turn, document.check_values, request.body)
        return await handler(exchange)


class AuditIds:
    """Makes the ids of requests that bring none."""

    def __init__(self) -> None:
        first, second, third, fourth = (secrets.token_hex(size) for size in (4, 2, 2, 2))
        self._prefix = f"{first}-{second}-4{third[1:]}-8{fourth[1:]}-".encode()
        self._count = itertools.count(secrets.randbits(40))

    def of(self, request: Request) -> bytes:
        """Return the id that *request* brings, or a new one."""
        return request.headers.get(b"audit-id") or b"%b%012x" % (
            self._prefix,
            next(self._count) & 0xFFFFFFFFFFFF,
        )


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
