"""Resource handlers: the verb or subresource of an authorized request, and the form of its response.

Spec: apiserver.md 2 and 3.

Routing checks of custom resource requests. Spec: apiserver.md 1.2. Built-in kinds have a route per method and path;
custom resources share one, which has its own errors and order: unknown subresource, verb, missing name. It uses the
body's name on create, and answers HEAD.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import msgspec

from weir import errors
from weir.apiserver import older_release
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.tokens import Signer
from weir.apiserver.compat.customresources.controller import Definitions
from weir.apiserver.compat.resource_metrics import ResourceMetrics
from weir.apiserver.metrics import Metrics
from weir.apiserver.nonresource import not_found_page
from weir.apiserver.older_release import Release
from weir.apiserver.own_endpoints import COMPONENT_STATUS, ComponentStatuses
from weir.apiserver.patches.apply import update_managed_fields
from weir.apiserver.printers import tables
from weir.apiserver.registry.deletion import Deletion, deletion_warnings
from weir.apiserver.registry.lists import Lists, parse_list_version
from weir.apiserver.registry.object_write import check_namespace
from weir.apiserver.registry.patching import APPLY_PATCH, Patching, check_patch_type
from weir.apiserver.registry.pod_subresources import bind
from weir.apiserver.registry.scale import SCALE, Scales
from weir.apiserver.registry.storage import Parts
from weir.apiserver.registry.subresources import STREAMS, Subresources
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.watch import Watches
from weir.apiserver.registry.watch_encoder import Messages
from weir.apiserver.registry.write_request import WriteResult
from weir.apiserver.rendering import Renderer
from weir.apiserver.transport import protobuf
from weir.apiserver.transport.bodies import JSON_TYPES, UNKNOWN_BODY, YAML_TYPES, manager_of, media_type
from weir.apiserver.transport.http import Request, Response, Stream
from weir.apiserver.transport.negotiation import (
    JSON,
    NO_TABLES,
    ONLY,
    SHAPES,
    WITH_STREAMS,
    MediaTypeOptions,
    check_shape,
    negotiate,
)
from weir.apiserver.transport.options import DeleteOptions, ListOptions
from weir.apiserver.transport.paths import RequestInfo
from weir.compat.customresources.served import CustomResourceKind
from weir.objects import document
from weir.objects.kind import ALL_VERBS, Document, Kind
from weir.objects.kinds import KINDS, RESOURCE_METRICS
from weir.objects.pod_usage import UsageModel
from weir.objects.served_kinds import ServedKinds
from weir.values.quoting import quote

Review = Callable[[Kind, Document, User, str, str], Document]
_OBJECT_SUBRESOURCES = frozenset({"status", "approval", "ephemeralcontainers", "resize", "finalize"})
_encode = msgspec.json.Encoder().encode


_OF_SUBRESOURCES = ("get", "patch", "update")


def check_route(request: Request, kind: CustomResourceKind, info: RequestInfo) -> None:
    """Raise what the route says to a request it does not take."""
    if info.subresource and kind.subresource(info.subresource) is None:
        raise errors.NotFound.object(kind, info.name)
    if info.verb not in (_OF_SUBRESOURCES if info.subresource else ALL_VERBS):
        verb = info.verb if info.verb in ALL_VERBS else ""
        raise errors.MethodNotAllowed(
            f'{verb} is not supported on resources of kind "{kind.plural}.{kind.group}"',
            details={"group": kind.group, "kind": kind.plural},
        )
    if not info.name and info.verb in ("update", "patch"):
        if info.verb == "patch":
            check_patch_type(request, kind)
        raise errors.BadRequest("name must be provided")


class Call(NamedTuple):
    """A request for a verb of a resource, and the form its response takes."""

    request: Request
    kind: Kind
    namespace: str
    name: str
    form: MediaTypeOptions
    warnings: list[str]

    @property
    def include(self) -> str:
        """How much of each object a Table has; raises 400."""
        return (
            tables.check_include(self.request.params.get("includeObject", ""))
            if self.form.shape == "Table"
            else ""
        )


class Handlers:
    """The resources of one cluster, each with its verbs."""

    def __init__(
        self,
        parts: Parts,
        *,
        review: Review | None = None,
        signer: Signer | None = None,
        metrics: Metrics | None = None,
        usage: UsageModel | None = None,
        release: Release | None = None,
    ) -> None:
        self._release = release
        self._review = review
        self.verbs = Verbs(parts)
        self.patching = Patching(self.verbs)
        self.lists = Lists(parts.store, parts.clock, parts.conversion)
        messages = Messages()
        self.watches = Watches(parts.store, self.lists, parts.clock, metrics, messages)
        self.deletion = Deletion(self.verbs)
        self.subresources = Subresources(self.verbs, self.deletion, signer)
        self.scales = Scales(self.verbs)
        self.rendered = Renderer(parts.clock, self.verbs.off_loop, messages)
        self._usage = ResourceMetrics(parts.reader, usage) if usage is not None else None
        off = {"resource.k8s.io": not parts.gates.enabled("DynamicResourceAllocation")}
        off[RESOURCE_METRICS] = usage is None
        if release is not None:
            off |= {f"{kind.api_version}/{kind.plural}": not release.serves(kind) for kind in KINDS}
        #: what is not served, as weir.apiserver.discovery.Off
        self.off = frozenset(name for name, is_off in off.items() if is_off)
        #: what is served besides the kinds of the table: those that definitions make
        self.served = ServedKinds()
        self.definitions = Definitions(parts.store, self.served)
        self.definitions.when_gone = self.watches.end
        self._after_create: list[Callable[[Kind, str], Awaitable[None]]] = []
        self._verbs: dict[str, Callable[[Call], Awaitable[Response | Stream]]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def after_create(self, hook: Callable[[Kind, str], Awaitable[None]]) -> None:
        """Call *hook* with the kind and name of every cluster-scoped object once it exists."""
        self._after_create.append(hook)

    async def handle(self, request: Request, info: RequestInfo, warnings: list[str]) -> Response | Stream:
        """Return the answer to a request about a resource, and add to *warnings*; raises ApiError."""
        kind = info.kind
        if kind is None or kind.group in self.off:
            if not info.known_group or info.api_group == RESOURCE_METRICS:
                return not_found_page()
            raise errors.NotFound.resource()
        self._check_kind(request, info, kind, warnings)
        if info.subresource:
            return await self._subresource(request, info, kind, warnings)
        call = self._routed(request, info, kind, warnings)
        if self._usage is not None and kind.group == RESOURCE_METRICS:
            return self._measured(call)
        if kind is COMPONENT_STATUS:
            return await self._components(call)
        check_address(call, info.verb)
        return await self._verbs[info.verb](call)

    def _check_kind(self, request: Request, info: RequestInfo, kind: Kind, warnings: list[str]) -> None:
        """Refuse what the kind's route does not take, and warn about the kind."""
        if self._release is not None:
            self._read_as_release(request, kind, warnings)
        older = self._release is not None and not self._release.warns(kind)
        shown = kind.subresource(info.subresource) if info.subresource else info.verb in kind.verbs
        if kind.deprecated is not None and not older and shown:
            warnings.append(deprecation(kind))
        if isinstance(kind, CustomResourceKind):
            if kind.warning:
                warnings.append(kind.warning)
            check_route(request, kind, info)
        elif not info.subresource and (info.verb not in kind.verbs or request.method == "HEAD"):
            raise errors.MethodNotAllowed()

    def _routed(self, request: Request, info: RequestInfo, kind: Kind, warnings: list[str]) -> Call:
        """Return the request with the negotiated form of its response; raises 406."""
        accept = request.headers.get(b"accept")
        offered = WITH_STREAMS if info.verb in ("list", "watch") else errors.REPRESENTATIONS
        computed = kind is COMPONENT_STATUS or kind.group == RESOURCE_METRICS
        shapes = SHAPES if kind.stored or computed else NO_TABLES
        written = protobuf.is_written(kind.api_version, kind.kind)
        form = JSON if not accept else negotiate(accept.decode("latin-1"), offered, shapes, written)
        return Call(request, kind, info.namespace if kind.namespaced else "", info.name, form, warnings)

    # -------------------------------------------------------------------------------------------- verbs

    async def _get(self, call: Call) -> Response:
        await self._not_older(call.request)
        return await self._shown(call, await self.verbs.get(call.kind, call.namespace, call.name))

    async def _create(self, call: Call) -> Response:
        request, kind, namespace, warnings = call.request, call.kind, call.namespace, call.warnings
        if kind.kind == "Binding" and not kind.stored:
            outcome = await bind(self.verbs, request, namespace, "", warnings)
        elif not kind.stored:
            outcome = await self._review_of(request, kind, namespace, warnings)
        else:
            outcome = await self.verbs.create(request, kind, namespace, warnings)
            if self._after_create and not kind.namespaced and request.params.get("dryRun") is None:
                name = msgspec.json.decode(outcome.body)["metadata"]["name"]
                for hook in self._after_create:
                    await hook(kind, name)
        return await self._shown(call, outcome)

    async def _update(self, call: Call) -> Response:
        update = self.verbs.update(call.request, call.kind, call.namespace, call.name, "", call.warnings)
        return await self._shown(call, await update)

    async def _patch(self, call: Call) -> Response:
        patch = self.patching.patch(call.request, call.kind, call.namespace, call.name, "", call.warnings)
        return await self._shown(call, await patch)

    async def _delete(self, call: Call) -> Response:
        request, kind = call.request, call.kind
        options = await self._delete_options(call)
        outcome = await self.deletion.delete(
            kind, call.namespace, call.name, options, request.user, call.warnings
        )
        return await self._shown(call, outcome)

    async def _delete_collection(self, call: Call) -> Response:
        request, kind = call.request, call.kind
        options = await self._delete_options(call)
        check_shape(call.form, kind.group, kind.kind, listed=True)
        include = call.include
        page = await self.deletion.collection(
            kind, call.namespace, self.lists, request.params, options, request.user, call.warnings
        )
        return await self.rendered.page(request, kind, page, call.form, include)

    async def _list(self, call: Call) -> Response:
        request, kind = call.request, call.kind
        options = ListOptions.parse(request.params, watch=False)
        check_shape(call.form, kind.group, kind.kind, listed=True)
        page = await self.lists.page(kind, call.namespace, options)
        return await self.rendered.page(request, kind, page, call.form, call.include)

    async def _watch(self, call: Call) -> Stream:
        options = ListOptions.parse(call.request.params, watch=True)
        include = call.include
        if call.form.yaml:
            raise errors.NotAcceptable(ONLY + errors.STREAMS, details=None)
        form = call.form
        return await self.watches.start(
            call.kind, call.namespace, call.name, options, form.shape, include, protobuf=form.protobuf
        )

    async def _shown(self, call: Call, outcome: WriteResult) -> Response:
        return await self.rendered.object(call.request, call.kind, outcome, call.form)

    async def _review_of(
        self, request: Request, kind: Kind, namespace: str, warnings: list[str]
    ) -> WriteResult:
        if self._review is None:
            raise errors.NotFound.resource()
        mode = request.params.get("fieldValidation") or "Warn"
        document = await self.verbs.decode(request, kind, mode, warnings)
        check_namespace(kind, document.setdefault("metadata", {}), namespace)
        manager = request.params.get("fieldManager") or manager_of(request)
        now = self.verbs.now
        own = partial(update_managed_fields, document, None, kind, manager=manager, subresource="", now=now)
        await self.verbs.off_loop.run(request.turn, own)
        answer = self._review(kind, document, request.user, namespace, self.verbs.now)
        return WriteResult(201, _encode(answer))

    async def _subresource(
        self, request: Request, info: RequestInfo, kind: Kind, warnings: list[str]
    ) -> Response:
        sub = kind.subresource(info.subresource)
        if sub is None:
            raise errors.NotFound.resource()
        verb = info.verb
        namespace, name = info.namespace if kind.namespaced else "", info.name
        if sub.name == "log" and verb in ("get", "create"):
            return self.subresources.log(request, kind, namespace, name, verb)
        if verb not in sub.verbs:
            raise errors.MethodNotAllowed()
        form = negotiate(request.header(b"accept"), protobuf=not isinstance(kind, CustomResourceKind))
        shown = kind
        if sub.name in STREAMS:
            outcome = self.subresources.stream(kind, namespace, name, sub.name)
        elif sub.name == "scale":
            shown = SCALE
            if verb == "get":
                outcome = await self.scales.get(kind, namespace, name)
            else:
                outcome = await self.scales.set(request, kind, namespace, name, warnings)
        elif sub.name in _OBJECT_SUBRESOURCES:
            if verb == "get":
                outcome = await self.verbs.get(kind, namespace, name)
            elif verb == "update":
                outcome = await self.verbs.update(request, kind, namespace, name, sub.name, warnings)
            else:
                outcome = await self.patching.patch(request, kind, namespace, name, sub.name, warnings)
        else:
            outcome = await self.subresources.create(request, kind, namespace, name, sub.name, warnings)
        return await self.rendered.object(request, shown, outcome, form)

    async def _delete_options(self, call: Call) -> DeleteOptions:
        request = call.request
        options = await self.verbs.off_loop.run(
            request.turn, lambda: DeleteOptions.parse(request.params, _json_body(request))
        )
        call.warnings.extend(deletion_warnings(call.kind, options))
        return options

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
            patching = media if request.method == "PATCH" else ""
            request.body = older_release.read_body(
                request.body, kind, self._release, mode, warnings, patching=patching
            )

    def _measured(self, call: Call) -> Response:
        """Return how much pods or nodes use."""
        assert self._usage is not None
        kind, namespace, now = call.kind, call.namespace, self.verbs.clock.time()
        if call.name:
            usage = self._usage.get(kind, namespace, call.name, now)
        else:
            options = ListOptions.parse(call.request.params, watch=False)
            usage = self._usage.select(kind, namespace, options.label_selector, options.field_selector, now)
        if call.form.shape == "Table":
            usage = self._usage.table(usage, call.form.meta)
        return self.rendered.in_form(call.request, 200, _encode(usage), call.form)

    async def _components(self, call: Call) -> Response:
        """Return how the other components are."""
        statuses = ComponentStatuses()
        if call.name:
            shown = await statuses.get(call.name)
        else:
            options = ListOptions.parse(call.request.params, watch=False)
            shown = await statuses.select(COMPONENT_STATUS, options.label_selector, options.field_selector)
        if call.form.shape == "Table":
            shown = tables.table(
                COMPONENT_STATUS,
                shown.get("items", [shown]),
                {},
                include=call.include,
                now=self.verbs.clock.time(),
                version=call.form.meta,
            )
        return self.rendered.in_form(call.request, 200, _encode(shown), call.form)

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


def check_address(call: Call, verb: str) -> None:
    """Refuse a path whose namespace or name does not suit the verb; raises 400, 405."""
    if call.name:
        if verb != "update":  # there the body is read first, and its name is another one
            check_name(call.name)
        if verb == "create" and not isinstance(call.kind, CustomResourceKind):
            raise errors.MethodNotAllowed()
        return
    outside = call.kind.namespaced and not call.namespace and verb not in ("list", "watch")
    if outside or verb in ("update", "patch", "delete"):
        raise errors.MethodNotAllowed()


def check_name(name: str) -> None:
    """Refuse a name that cannot be part of a key; raises 400."""
    problem = f"may not be '{name}'" if name in (".", "..") else ""
    if "%" in name:
        problem = "may not contain '%'"
    if problem:
        raise errors.BadRequest(f"Name parameter invalid: {quote(name)}: {problem}")


def deprecation(kind: Kind) -> str:
    """Return the warning every request about a deprecated kind or version gets."""
    assert kind.deprecated is not None
    since, ends, *instead = kind.deprecated
    text = f"{kind.api_version} {kind.kind} is deprecated in v{since}+"
    if ends:
        text += f", unavailable in v{ends}+"
    return f"{text}; use {instead[0]}" if instead else text
