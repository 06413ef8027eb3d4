"""One request, one answer: who asks, may they, what do they want, in which form.

`ApiServer.handle` is the whole server without sockets: the HTTP front, the in-process client and the tests call
the same function. The order is the real server's: authenticate, read the path, limit, authorize, act, render,
count. Every failure of the API is an `ApiError` and becomes its Status; anything else is a bug, is
logged with its traceback and answers 500.
Not here: sockets and TLS (weir.apiserver.run), what the verbs do (.verbs, .lists, .watch, .deletion).
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from weir import errors
from weir.apiserver import older_release
from weir.apiserver.audit.events import COMPLETE, RECEIVED, STARTED, Audit
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.authz import Authorizer, action_of, forbidden
from weir.apiserver.auth.impersonation import impersonate
from weir.apiserver.auth.tokens import Signer
from weir.apiserver.metrics import VERBS, Metrics
from weir.apiserver.nonresource import NO_CACHE, Pages, not_found_page
from weir.apiserver.off_loop import LARGE_BYTES
from weir.apiserver.older_release import Release
from weir.apiserver.patches.apply import update_managed_fields
from weir.apiserver.printers import tables
from weir.apiserver.registry.deletion import Deletion, deletion_warnings
from weir.apiserver.registry.identity import check_namespace
from weir.apiserver.registry.lists import Lists, parse_list_version
from weir.apiserver.registry.patching import APPLY_PATCH, Patching
from weir.apiserver.registry.scale import SCALE, Scales
from weir.apiserver.registry.subresources import STREAMS, Subresources
from weir.apiserver.registry.verbs import Parts, Verbs, WriteResult
from weir.apiserver.registry.watch import Watches
from weir.apiserver.rendering import Renderer
from weir.apiserver.request_log import RequestLog
from weir.apiserver.resource_metrics import ResourceMetrics
from weir.apiserver.transport import paths, protobuf
from weir.apiserver.transport.bodies import (
    JSON_TYPES,
    UNKNOWN_BODY,
    YAML_TYPES,
    manager_of,
    media_type,
)
from weir.apiserver.transport.http import YAML, Request, Response, Sink, Stream
from weir.apiserver.transport.limits import BODY_BYTES, InFlight, Lane, too_large
from weir.apiserver.transport.negotiation import (
    JSON,
    ONLY,
    WITH_STREAMS,
    MediaTypeOptions,
    check_shape,
    negotiate,
    to_yaml,
)
from weir.apiserver.transport.options import DeleteOptions, ListOptions, parse_bool
from weir.apiserver.transport.paths import RequestInfo
from weir.apiserver.transport.warnings import warning_headers
from weir.objects import document
from weir.objects.kinds import KINDS, RESOURCE_METRICS, Kind
from weir.objects.pod_usage import UsageModel
from weir.observe.logs import Log
from weir.store import Store, StoreUnavailable, TooLarge
from weir.values.quoting import quote

__all__ = ["ApiServer", "Security"]

log = Log("weir.apiserver")
Document = dict[str, Any]
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_OBJECT_SUBRESOURCES = frozenset({"status", "ephemeralcontainers", "resize", "finalize"})
_encode = msgspec.json.Encoder().encode


class Authenticates(Protocol):
    """Finds out who asks."""

    def authenticate(self, request: Request) -> User:
        """Return the user; raises Unauthorized."""


Review = Callable[[Kind, Document, User, str, str], Document]


class Security(NamedTuple):
    """Who may come in."""

    authenticator: Authenticates
    authorizer: Authorizer
    review: Review | None = None
    in_flight: InFlight | None = None
    audit: Audit | None = None
    signer: Signer | None = None


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
    ) -> None:
        """With *usage* it answers for metrics.k8s.io as well, about pods that are simulated.

        With *release* it plays a server of that older release, on a store that is read so.
        """
        self._release = release
        self.verbs = Verbs(parts)
        self.patching = Patching(self.verbs)
        self.lists = Lists(parts.store, parts.clock)
        self.watches = Watches(parts.store, self.lists, parts.clock, metrics)
        self.deletion = Deletion(self.verbs)
        self.subresources = Subresources(self.verbs, self.deletion, security.signer)
        self.scales = Scales(self.verbs)
        self.rendered = Renderer(parts.clock, self.verbs.off_loop)
        self.ready = True
        self._log, self._clock = RequestLog(), parts.clock
        if metrics is not None:
            metrics.stored = partial(_stored, parts.store)
        self._security, self._metrics = security, metrics
        self._usage = ResourceMetrics(parts.reader, usage) if usage is not None else None
        off = {"resource.k8s.io": not parts.gates.enabled("DynamicResourceAllocation")}
        off[RESOURCE_METRICS] = usage is None
        self._off = frozenset(group for group, is_off in off.items() if is_off)
        number = release.number if release is not None else ""
        self.pages = Pages(self._off, address, metrics, public or {}, self._failed_checks, number)
        a, b, c, d = (secrets.token_hex(size) for size in (4, 2, 2, 2))
        self._audit_prefix = f"{a}-{b}-4{c[1:]}-8{d[1:]}-".encode()
        self._count = itertools.count(secrets.randbits(40))
        #: whether the last write, and the last line of the audit log, could not be written
        self._store_failed = self._audit_failed = False
        self._after_create: list[Callable[[Kind, str], Awaitable[None]]] = []

    def _failed_checks(self) -> list[str]:
        """Return the names of the health checks that fail now."""
        failed = [] if self.ready else ["shutdown"]
        if self._store_failed:
            failed.append("etcd")
        if self._audit_failed:
            failed.append("audit")
        return failed

    def after_create(self, hook: Callable[[Kind, str], Awaitable[None]]) -> None:
        """Call *hook* with the kind and name of every cluster-scoped object once it exists."""
        self._after_create.append(hook)

    # -------------------------------------------------------------------------------------------- handle

    async def handle(self, request: Request) -> Response | Stream:
        """Return the answer to *request*; never raises for a failure of the client."""
        started = time.perf_counter()
        params = request.params if request.query else _NO_PARAMS
        info = paths.parse(request.method, request.path, parse_bool(params.get("watch")))
        request.info = info
        warnings: list[str] = []
        user: User | None = None
        real: User | None = None
        lane: Lane | None = None
        limiter = self._security.in_flight
        audit, audit_id = self._security.audit, self._new_audit_id()
        try:
            user = real = self._authenticated(request)
            if audit is not None and audit.wants_received:
                self._record(audit, request, RECEIVED, audit_id, real, real, 0.0)
            user = request.user = impersonate(
                request.headers,
                user,
                self._security.authorizer,
                partial(action_of, info, params.get("fieldSelector", "")),
            )
            if limiter is not None:
                lane = limiter.enter(info, user.groups)
            decision = self._security.authorizer.authorize(user, info, params.get("fieldSelector", ""))
            if not decision.allowed:
                if self._metrics is not None:
                    self._metrics.authorization_denied.value += 1
                raise forbidden(user, info, decision, params.get("fieldSelector", ""))
            if self._metrics is not None:
                self._metrics.authorization_allowed.value += 1
            if request.too_large or len(request.body) > BODY_BYTES:
                raise too_large()
            if len(request.body) >= LARGE_BYTES:
                request.turn = self.verbs.off_loop.turn(user.name)
                await self.verbs.off_loop.run(request.turn, document.check_values, request.body)
            answer = await self._act(request, info, warnings)
            if self._store_failed and info.verb in _WRITES and answer.code < 300:
                self._store_failed = "dryRun" in params
        except errors.ApiError as error:
            if self._release is not None:
                error = _reworded(error, self._release)
            answer = _failure(request, error)
            name = user.name if user else ""
            self._log.refused(error, info.verb, info.resource, info.namespace, name, self._clock.monotonic())
        except StoreUnavailable as error:
            log.error("the store cannot take a request", path=request.path, err=error)
            self._store_failed = True
            answer = _failure(request, _unavailable(error))
        except TooLarge as error:
            answer = _failure(request, errors.InternalError(str(error)))
        except RecursionError:  # only what a client nests makes the server go so deep
            answer = _failure(request, errors.BadRequest("the request is nested too deeply"))
        except Exception:
            log.exception("the server failed", verb=info.verb, path=request.path)
            answer = _failure(request, errors.InternalError("Internal Server Error", reason="InternalError"))
        finally:
            if lane is not None:
                InFlight.leave(lane)
        await self.rendered.compress(request, answer)
        self._finish(answer, audit_id, warnings)
        if self._log.shows:
            name = user.name if user else ""
            self._log.answered(request, info.verb, answer, time.perf_counter() - started, name)
        if self._metrics is not None:
            what = _labels(info)
            self._metrics.observe_request(
                *what,
                _scope(info),
                answer.code,
                time.perf_counter() - started,
                len(answer.body) if isinstance(answer, Response) else 0,
                dry_run="dryRun" in params,
            )
            if answer.code in _SELF_PROTECTION:
                self._metrics.terminated(*what, _scope(info), answer.code)
        if audit is not None:
            who = real or _NOBODY, user or _NOBODY
            note = partial(
                self._record, audit, request, audit_id=audit_id, real=who[0], user=who[1], answer=answer
            )
            if isinstance(answer, Stream):
                note(STARTED, elapsed=time.perf_counter() - started)
                answer.run = _then(answer.run, lambda: note(COMPLETE, elapsed=time.perf_counter() - started))
            else:
                note(STARTED if real is None else COMPLETE, elapsed=time.perf_counter() - started)
        return answer

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
                audit_id=audit_id.decode(),
                stage=stage,
            )
            self._audit_failed = False
        except OSError as error:
            if not self._audit_failed:
                log.error("the audit log cannot be written", err=error)
            self._audit_failed = True
            if self._metrics is not None:
                self._metrics.audit_errors.inc()

    def _finish(self, answer: Response | Stream, audit_id: bytes, warnings: list[str]) -> None:
        """Add the headers every answer has."""
        headers = answer.headers
        if headers is None:
            headers = answer.headers = [(b"Audit-Id", audit_id), (b"Cache-Control", NO_CACHE)]
        else:
            headers.append((b"Audit-Id", audit_id))
            if not any(name == b"Cache-Control" for name, _ in headers):
                headers.append((b"Cache-Control", NO_CACHE))
        if warnings:
            headers += [(b"Warning", header) for header in warning_headers(warnings)]

    async def _act(self, request: Request, info: RequestInfo, warnings: list[str]) -> Response | Stream:
        if not info.is_resource:
            if info.path.startswith("/openapi") or b"yaml" in request.headers.get(b"accept", b""):
                turn = self.verbs.off_loop.turn(
                    request.user.name
                )  # documents of megabytes, made when first asked for
                return await self.verbs.off_loop.run(turn, self.pages.answer, request, info)
            return self.pages.answer(request, info)
        kind = info.kind
        if kind is None or kind.group in self._off:
            if not info.known_group or info.api_group == RESOURCE_METRICS:
                return not_found_page()
            raise errors.NotFound.resource()
        if self._release is not None:
            self._read_as_release(request, kind, warnings)
        if kind.deprecated is not None and (not info.subresource or kind.subresource(info.subresource)):
            warnings.append(deprecation(kind))
        if info.subresource:
            return await self._subresource(request, info, kind, warnings)
        verb = info.verb
        if verb not in kind.verbs or request.method == "HEAD":
            raise errors.MethodNotAllowed()
        accept = request.headers.get(b"accept")
        offered = WITH_STREAMS if verb in ("list", "watch") else errors.REPRESENTATIONS
        form = JSON if not accept else negotiate(accept.decode("latin-1"), offered)
        namespace, name = info.namespace if kind.namespaced else "", info.name
        if self._usage is not None and kind.group == RESOURCE_METRICS:
            return self._measured(request, kind, namespace, name, form)
        if name:
            if verb != "update":  # there the body is read first, and its name is another one
                check_name(name)
        elif kind.namespaced and not namespace and verb not in ("list", "watch"):
            raise errors.MethodNotAllowed()
        if verb == "create":
            if name:
                raise errors.MethodNotAllowed()
            outcome = await self._create(request, info, kind, namespace, warnings)
        elif verb == "get":
            await self._not_older(request)
            outcome = self.verbs.get(kind, namespace, name)
        elif verb == "list":
            return await self._list(request, kind, namespace, form)
        elif verb == "watch":
            return await self._watch(request, kind, namespace, name, form)
        elif not name and verb != "deletecollection":
            raise errors.MethodNotAllowed()
        elif verb == "update":
            outcome = await self.verbs.update(request, kind, namespace, name, "", warnings)
        elif verb == "patch":
            outcome = await self.patching.patch(request, kind, namespace, name, "", warnings)
        elif verb == "delete":
            options = await self._delete_options(request)
            warnings.extend(deletion_warnings(kind, options))
            outcome = await self.deletion.delete(kind, namespace, name, options, request.user, warnings)
        else:
            options = await self._delete_options(request)
            warnings.extend(deletion_warnings(kind, options))
            check_shape(form, kind.group, kind.kind, listed=True)
            include = (
                tables.check_include(request.params.get("includeObject", "")) if form.shape == "Table" else ""
            )
            page = await self.deletion.collection(
                kind, namespace, self.lists, request.params, options, request.user, warnings
            )
            return await self.rendered.page(request, kind, page, form, include)
        return await self.rendered.object(request, kind, outcome, form)

    async def _create(
        self, request: Request, info: RequestInfo, kind: Kind, namespace: str, warnings: list[str]
    ) -> WriteResult:
        if kind.stored:
            outcome = await self.verbs.create(request, kind, namespace, warnings)
            if self._after_create and not kind.namespaced and request.params.get("dryRun") is None:
                name = msgspec.json.decode(outcome.body)["metadata"]["name"]
                for hook in self._after_create:
                    await hook(kind, name)
            return outcome
        if kind.kind == "Binding":
            return await self.subresources.bind(request, namespace, "", warnings)
        if self._security.review is None:
            raise errors.NotFound.resource()
        document, found = await self.verbs.decode(
            request, kind, request.params.get("fieldValidation") or "Warn"
        )
        warnings.extend(found)
        check_namespace(kind, document.setdefault("metadata", {}), namespace)
        manager = request.params.get("fieldManager") or manager_of(request)
        now = self.verbs.now
        own = partial(update_managed_fields, document, None, kind, manager=manager, subresource="", now=now)
        await self.verbs.off_loop.run(request.turn, own) if request.turn else own()
        answer = self._security.review(kind, document, request.user, namespace, self.verbs.now)
        return WriteResult(201, _encode(answer))

    async def _subresource(
        self, request: Request, info: RequestInfo, kind: Kind, warnings: list[str]
    ) -> Response:
        sub = kind.subresource(info.subresource)
        if sub is None:
            raise errors.NotFound.resource()
        verb = info.verb
        if verb not in sub.verbs:
            raise errors.MethodNotAllowed()
        form = negotiate(request.header(b"accept"))
        namespace, name = info.namespace if kind.namespaced else "", info.name
        shown = kind
        if sub.name in STREAMS:
            outcome = self.subresources.stream(kind, namespace, name, sub.name)
        elif sub.name == "scale":
            shown = SCALE
            if verb == "get":
                outcome = self.scales.get(kind, namespace, name)
            else:
                outcome = await self.scales.set(request, kind, namespace, name, warnings)
        elif sub.name in _OBJECT_SUBRESOURCES:
            if verb == "get":
                outcome = self.verbs.get(kind, namespace, name)
            elif verb == "update":
                outcome = await self.verbs.update(request, kind, namespace, name, sub.name, warnings)
            else:
                outcome = await self.patching.patch(request, kind, namespace, name, sub.name, warnings)
        else:
            outcome = await self.subresources.create(request, kind, namespace, name, sub.name, warnings)
        return await self.rendered.object(request, shown, outcome, form)

    async def _delete_options(self, request: Request) -> DeleteOptions:
        if request.turn is None:
            return DeleteOptions.parse(request.params, _json_body(request))
        return await self.verbs.off_loop.run(
            request.turn, lambda: DeleteOptions.parse(request.params, _json_body(request))
        )

    def _read_as_release(self, request: Request, kind: Kind, warnings: list[str]) -> None:
        """Take out of a request what the older release has never heard of; raises 404, 400."""
        assert self._release is not None
        if not self._release.serves(kind):
            raise errors.NotFound.resource()
        if request.body and request.method in ("POST", "PUT", "PATCH"):
            media, mode = media_type(request), request.params.get("fieldValidation") or "Warn"
            applying = media == APPLY_PATCH
            if media in YAML_TYPES or applying:
                request.body = document.yaml_to_json(request.body)
            request.body = older_release.read_body(request.body, mode, warnings, applying=applying)

    def _measured(
        self, request: Request, kind: Kind, namespace: str, name: str, form: MediaTypeOptions
    ) -> Response:
        """Return how much pods or nodes use."""
        assert self._usage is not None
        now = self.verbs.clock.time()
        if name:
            found = self._usage.get(kind, namespace, name, now)
        else:
            options = ListOptions.parse(request.params, watch=False)
            found = self._usage.select(kind, namespace, options.label_selector, options.field_selector, now)
        if form.shape == "Table":
            found = self._usage.table(found, form.meta)
        return self.rendered.in_form(request, 200, _encode(found), form)

    # -------------------------------------------------------------------------------------- collections

    async def _not_older(self, request: Request) -> None:
        wanted = request.params.get("resourceVersion") if request.query else None
        if not wanted:
            await self.verbs.store.fresh()
        elif wanted != "0":
            try:
                number = parse_list_version(wanted)
            except errors.BadRequest as error:
                raise errors.InternalError(error.message.partition(": ")[2]) from None
            if number > self.verbs.store.revision:
                await self.lists.wait_for(number)

    async def _list(self, request: Request, kind: Kind, namespace: str, form: MediaTypeOptions) -> Response:
        options = ListOptions.parse(request.params, watch=False)
        check_shape(form, kind.group, kind.kind, listed=True)
        page = await self.lists.page(kind, namespace, options)
        include = (
            tables.check_include(request.params.get("includeObject", "")) if form.shape == "Table" else ""
        )
        return await self.rendered.page(request, kind, page, form, include)

    async def _watch(
        self, request: Request, kind: Kind, namespace: str, name: str, form: MediaTypeOptions
    ) -> Stream:
        options = ListOptions.parse(request.params, watch=True)
        include = ""
        if form.shape == "Table":
            include = tables.check_include(request.params.get("includeObject", ""))
        if form.yaml:
            raise errors.NotAcceptable(ONLY + errors.STREAMS, details=None)
        return await self.watches.start(kind, namespace, name, options, form.shape, include)


def _stored(store: Store) -> list[tuple[str, str, int]]:
    """Return the group and resource of every kind that is stored, and how many objects of it there are."""
    return [
        (kind.group, kind.plural, store.count(kind.prefix))
        for kind in KINDS
        if kind.stored and not kind.converted
    ]


_NO_PARAMS: dict[str, str] = {}
_NOBODY = User("")
_SELF_PROTECTION = frozenset({413, 429, 504})


def _unavailable(error: StoreUnavailable) -> errors.ApiError:
    """Return the error of a request when the store is away; a write that may have happened is a timeout."""
    if error.unknown:
        return errors.Timeout(str(error))
    return errors.ServiceUnavailable(str(error), retry_after_seconds=1)


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


def _json_body(request: Request) -> bytes:
    """Return the body of a delete as JSON, whatever it was written in."""
    media = media_type(request)
    if not request.body:
        return b""
    if media == protobuf.MEDIA_TYPE:
        return _encode(protobuf.to_document(request.body))
    if media in YAML_TYPES:
        return document.yaml_to_json(request.body)
    if media not in JSON_TYPES:
        raise errors.UnsupportedMediaType(UNKNOWN_BODY)
    return request.body


def check_name(name: str) -> None:
    """Refuse a name that cannot be part of a key; raises 400."""
    problem = f"may not be '{name}'" if name in (".", "..") else ""
    if "%" in name:
        problem = "may not contain '%'"
    if problem:
        raise errors.BadRequest(f"Name parameter invalid: {quote(name)}: {problem}")


def _reworded(error: errors.ApiError, release: Release) -> errors.ApiError:
    """Return an error in the words of an older release."""
    error.message = release.words(error.message)
    for cause in (error.details or {}).get("causes") or ():
        cause["message"] = release.words(cause.get("message", ""))
    return error


def _failure(request: Request, error: errors.ApiError) -> Response:
    """Return a failure in the form the client asked for, JSON when that is unknown."""
    headers = None
    if error.retry_after_seconds is not None:
        headers = [(b"Retry-After", str(error.retry_after_seconds).encode())]
    accept = request.headers.get(b"accept", b"")
    if b"yaml" in accept:
        try:
            form = negotiate(accept.decode("latin-1"), "")
            if form.yaml and not form.shape:
                return Response(error.code, to_yaml(error.status()), YAML, headers)
        except errors.NotAcceptable:
            pass
    return Response(error.code, _encode(error.status()), headers=headers)


def _labels(info: RequestInfo) -> tuple[str, str, str, str, str]:
    """Return verb, group, version, resource and subresource as metrics may show them: only what is served."""
    kind = info.kind
    if kind is None:
        return (info.verb if info.verb in VERBS else "other", "", "", "", "")
    known = kind.subresource(info.subresource) is not None or info.subresource in STREAMS
    return (info.verb, info.api_group, info.api_version, info.resource, info.subresource if known else "")


def _scope(info: RequestInfo) -> str:
    if not info.is_resource:
        return ""
    if info.name:
        return "resource"
    return "namespace" if info.namespace else "cluster"


def deprecation(kind: Kind) -> str:
    """Return the warning every request about a deprecated kind or version gets."""
    assert kind.deprecated is not None
    since, ends, *instead = kind.deprecated
    text = f"{kind.api_version} {kind.kind} is deprecated in v{since}+"
    if ends:
        text += f", unavailable in v{ends}+"
    return f"{text}; use {instead[0]}" if instead else text
