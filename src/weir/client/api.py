"""What can a component ask of the API? The verbs, the same over every transport.

Objects go in as documents (dict) or as bytes ready to send and come out decoded, as documents unless another
type is asked for. A refusal is raised as the class of weir.errors that the server raised; a server that
cannot be reached is `Unreachable`. Answers that say "later" (429 or 503 with Retry-After) are waited
for and asked again, as Kubernetes' own clients do.

Not here: how bytes travel (weir.client.http, weir.client.local), staying up to date (weir.client.watch).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar, overload
from urllib.parse import quote, urlencode

import msgspec

from weir import errors
from weir.clock import Clock, RealClock
from weir.errors import ApiError, WeirError

__all__ = ["Client", "Listed", "Reply", "ResourceType", "Transport", "Unreachable", "WatchEvent"]

Document = dict[str, Any]
T = TypeVar("T")

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_MAX_TRIES = 10
_encode = msgspec.json.Encoder().encode
_decode_document = msgspec.json.Decoder(Document).decode


class Unreachable(WeirError):
    """The API server did not answer. Whether a write happened is not known."""


class ResourceType(Protocol):
    """What names a resource; every row of weir.objects.kinds is one."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def namespaced(self) -> bool: ...


class Reply(msgspec.Struct, frozen=True):
    """An answer of the server, whole. Header names are in lower case."""

    code: int
    body: bytes
    headers: Mapping[str, str]


class Transport(Protocol):
    """How requests reach a server."""

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        """Send and return the answer, whatever its code. *target* is path and query. Raises Unreachable."""

    def stream(
        self, target: str, headers: Mapping[str, str] | None = None, *, silent_seconds: float = 0.0
    ) -> AbstractAsyncContextManager[tuple[Reply, AsyncIterator[bytes]]]:
        """Open an answer that goes on: the answer's head (with the body if its code is not 200) and its lines.
        Raises Unreachable when it breaks, or when nothing came for *silent_seconds* (0: wait for ever).

        A transport may also have `events`, the same for watches: changes as they are, which nobody has to put into
        lines and read out of them again."""

    async def close(self) -> None:
        """Let go of connections."""


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One line of a watch; the object is not decoded yet."""

    type: str
    object: msgspec.Raw


#: target and headers → the answer's head, and the changes of a watch
Events = Callable[
    [str, Mapping[str, str] | None],
    AbstractAsyncContextManager[tuple[Reply, AsyncIterator[WatchEvent]]],
]


class _ListMeta(msgspec.Struct, gc=False, rename={"continue_": "continue"}):
    resourceVersion: str = ""  # noqa: N815  (the wire's spelling)
    continue_: str = ""
    remainingItemCount: int = 0  # noqa: N815


class _RawList(msgspec.Struct, gc=False):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class Listed(msgspec.Struct, frozen=True):
    """Part or all of a collection, objects not decoded."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str = ""
    remaining: int = 0

    def documents(self) -> list[Document]:
        """Return the objects decoded; note that items of a list carry neither kind nor apiVersion."""
        return [_decode_document(item) for item in self.items]


_decode_list = msgspec.json.Decoder(_RawList).decode
_decode_event = msgspec.json.Decoder(WatchEvent).decode


def path_of(kind: ResourceType, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of a collection, an object or a subresource.

    >>> class Pods: group, version, plural, namespaced = "", "v1", "pods", True
    >>> path_of(Pods, "default", "web", "binding")
    '/api/v1/namespaces/default/pods/web/binding'
    >>> class Leases: group, version, plural, namespaced = "coordination.k8s.io", "v1", "leases", True
    >>> path_of(Leases)
    '/apis/coordination.k8s.io/v1/leases'
    """
    path = f"/api/{kind.version}" if not kind.group else f"/apis/{kind.group}/{kind.version}"
    if namespace and kind.namespaced:
        path = f"{path}/namespaces/{_quoted(namespace)}"
    path = f"{path}/{kind.plural}"
    if name:
        path = f"{path}/{_quoted(name)}"
    return f"{path}/{subresource}" if subresource else path


def _quoted(name: str) -> str:
    """Return a name as part of a path; names of Kubernetes hardly ever hold what must be quoted.

    >>> _quoted("web-7f.example"), _quoted("a/b"), _quoted("é")
    ('web-7f.example', 'a%2Fb', '%C3%A9')
    """
    plain = name.replace("-", "").replace(".", "")
    return name if plain.isascii() and plain.isalnum() else quote(name, safe="")


def failure(reply: Reply) -> ApiError:
    """Return the error that *reply* stands for, as the class the server raised."""
    try:
        status = _decode_document(reply.body)
    except msgspec.DecodeError:
        status = {}
    if status.get("kind") != "Status":
        text = reply.body[:1000].decode(errors="replace").strip()
        status = {"code": reply.code, "message": text or f"the server answered {reply.code}"}
    status.setdefault("code", reply.code)
    error = errors.from_status(status)
    if "retry-after" in reply.headers:
        error.retry_after_seconds = _seconds(reply.headers["retry-after"])
    return error


def _seconds(text: str) -> int | None:
    return int(text) if text.isdigit() else None


class Client:
    """The verbs. Give it a transport; components get it ready made."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        user_agent: str = "weir",
    ) -> None:
        self._transport = transport
        #: Whether nothing lies between here and the server that could break, so that watches need no end.
        self.steady = bool(getattr(transport, "steady", False))
        self._events: Events | None = getattr(transport, "events", None)
        self._clock = clock or RealClock()
        self._headers = {"user-agent": user_agent, "accept": "application/json"}
        self._with_body: dict[str, dict[str, str]] = {}

    def _headers_with(self, content_type: str) -> dict[str, str]:
        """Return the headers of a request with a body; always the same object, so transports can keep its bytes."""
        found = self._with_body.get(content_type)
        if found is None:
            found = self._with_body[content_type] = {**self._headers, "content-type": content_type}
        return found

    async def close(self) -> None:
        """Let go of connections."""
        await self._transport.close()

    # ---------------------------------------------------------------------------------------------- calling

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Document | bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Make any request and return the answer's body. Raises ApiError, Unreachable."""
        reply = await self.exchange(method, path, query, body, content_type)
        if reply.code >= 400:
            raise failure(reply)
        return reply.body

    async def exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Document | bytes | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        """Make any request and return the answer, an error too; waits when told to come back later."""
        target = _target(path, query)
        data = b"" if body is None else body if isinstance(body, bytes) else _encode(body)
        headers = self._headers if body is None else self._headers_with(content_type)
        tries = 1
        while True:
            reply = await self._transport.request(method, target, headers, data)
            if reply.code not in (429, 503) or tries == _MAX_TRIES or "retry-after" not in reply.headers:
                return reply
            tries += 1
            await self._clock.sleep(_seconds(reply.headers["retry-after"]) or 1)

    # ---------------------------------------------------------------------------------------------- reading

    @overload
    async def get(
        self,
        kind: ResourceType,
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        resource_version: str = "",
    ) -> Document: ...

    @overload
    async def get(
        self,
        kind: ResourceType,
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        resource_version: str = "",
        into: type[T],
    ) -> T: ...

    async def get(
        self,
        kind: ResourceType,
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        resource_version: str = "",
        into: Any = Document,
    ) -> Any:
        """Return one object, decoded as *into*. Raises NotFound."""
        query = {"resourceVersion": resource_version}
        body = await self.call("GET", path_of(kind, namespace, name, subresource), query)
        return msgspec.json.decode(body, type=into)

    async def find(self, kind: ResourceType, name: str, namespace: str = "") -> Document | None:
        """Return one object, or None when there is none."""
        try:
            return await self.get(kind, name, namespace)
        except errors.NotFound:
            return None

    async def list(
        self,
        kind: ResourceType,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Listed:
        """Return a collection, or a page of it when *limit* is given. Raises Gone for a token too old."""
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": limit or "",
            "continue": continue_token,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
        }
        found = _decode_list(await self.call("GET", path_of(kind, namespace), query))
        meta = found.metadata
        return Listed(found.items or [], meta.resourceVersion, meta.continue_, meta.remainingItemCount)

    async def pages(
        self,
        kind: ResourceType,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> AsyncIterator[Listed]:
        """Yield a collection page by page, all at the first page's revision. Raises Gone when that is too old."""
        token = ""
        while True:
            page = await self.list(
                kind,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=token,
            )
            yield page
            token = page.continue_token
            if not token:
                return

    @asynccontextmanager
    async def watch(
        self,
        kind: ResourceType,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        timeout_seconds: int = 0,
        send_initial_events: bool = False,
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        """Open a watch: `async with client.watch(PODS) as events: async for event in events`. It ends when
        the server ends it. Raises the error of an ERROR event (Gone: list again), ApiError, Unreachable."""
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "allowWatchBookmarks": "true" if bookmarks else "",
            "timeoutSeconds": timeout_seconds or "",
            "sendInitialEvents": "true" if send_initial_events else "",
            "resourceVersionMatch": "NotOlderThan" if send_initial_events else "",
        }
        target = _target(path_of(kind, namespace), query)
        silent = timeout_seconds + 30.0 if timeout_seconds else 0.0
        if self._events is not None:
            async with self._events(target, self._headers) as (reply, events):
                if reply.code != 200:
                    raise failure(reply)
                yield events
            return
        async with self._transport.stream(target, self._headers, silent_seconds=silent) as (reply, lines):
            if reply.code != 200:
                raise failure(reply)
            yield _events(lines)

    # ---------------------------------------------------------------------------------------------- writing

    async def create(
        self,
        kind: ResourceType,
        document: Document | bytes,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
        read: bool = True,
    ) -> Document:
        """Create an object (or post to a subresource) and return what the server made of it.

        Without *read* the answer is not decoded, and an empty document comes back; so with the other verbs.
        """
        if isinstance(document, dict) and not namespace:
            namespace = document.get("metadata", {}).get("namespace", "")
        query = {"fieldManager": field_manager, "dryRun": "All" if dry_run else ""}
        path = path_of(kind, namespace, name, subresource)
        answer = await self.call("POST", path, query, document)
        return _decode_document(answer) if read else {}

    async def update(
        self, kind: ResourceType, document: Document, *, subresource: str = "", field_manager: str = ""
    ) -> Document:
        """Replace an object with *document*, if its resourceVersion is still the stored one. Raises Conflict."""
        metadata = document["metadata"]
        path = path_of(kind, metadata.get("namespace", ""), metadata["name"], subresource)
        return _decode_document(await self.call("PUT", path, {"fieldManager": field_manager}, document))

    async def update_status(self, kind: ResourceType, document: Document) -> Document:
        """Replace an object's status."""
        return await self.update(kind, document, subresource="status")

    async def patch(
        self,
        kind: ResourceType,
        name: str,
        patch: Document | Sequence[Any] | bytes,
        namespace: str = "",
        *,
        patch_type: str = MERGE_PATCH,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
        read: bool = True,
    ) -> Document:
        """Change an object as *patch* says and return the result."""
        query = None
        if field_manager or force or dry_run:
            query = {
                "fieldManager": field_manager,
                "force": "true" if force else "",
                "dryRun": "All" if dry_run else "",
            }
        data = patch if isinstance(patch, bytes) else _encode(patch)
        path = path_of(kind, namespace, name, subresource)
        answer = await self.call("PATCH", path, query, data, patch_type)
        return _decode_document(answer) if read else {}

    async def apply(
        self, kind: ResourceType, document: Document, *, field_manager: str, force: bool = False
    ) -> Document:
        """Apply *document* on the server's side, as *field_manager*."""
        metadata = document["metadata"]
        return await self.patch(
            kind,
            metadata["name"],
            _encode(document),
            metadata.get("namespace", ""),
            patch_type=APPLY_PATCH,
            field_manager=field_manager,
            force=force,
        )

    async def delete(
        self,
        kind: ResourceType,
        name: str,
        namespace: str = "",
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
        uid: str = "",
        resource_version: str = "",
        read: bool = True,
    ) -> Document:
        """Delete an object and return the server's answer. Raises NotFound; Conflict when it is not the one
        meant (*uid*, *resource_version*)."""
        options: Document = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy:
            options["propagationPolicy"] = propagation_policy
        wanted = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {key: value for key, value in wanted.items() if value}:
            options["preconditions"] = preconditions
        answer = await self.call("DELETE", path_of(kind, namespace, name), None, options)
        return _decode_document(answer) if read else {}

    async def delete_collection(
        self, kind: ResourceType, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> None:
        """Delete everything that the selectors select."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        await self.call("DELETE", path_of(kind, namespace), query)

    # ------------------------------------------------------------------------------------- subresources of pods

    async def bind(self, pod: str, namespace: str, node: str, *, uid: str = "") -> None:
        """Put a pod on a node. Raises Conflict when it already has one."""
        metadata: Document = {"name": pod, "namespace": namespace}
        if uid:
            metadata["uid"] = uid
        binding = {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": metadata,
            "target": {"kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{_quoted(namespace)}/pods/{_quoted(pod)}/binding"
        await self.call("POST", path, None, binding)

    async def evict(self, pod: str, namespace: str, *, grace_period_seconds: int | None = None) -> None:
        """Ask for a pod's eviction. Raises TooManyRequests when a disruption budget says no."""
        eviction: Document = {
            "kind": "Eviction",
            "apiVersion": "policy/v1",
            "metadata": {"name": pod, "namespace": namespace},
        }
        if grace_period_seconds is not None:
            eviction["deleteOptions"] = {"gracePeriodSeconds": grace_period_seconds}
        path = f"/api/v1/namespaces/{_quoted(namespace)}/pods/{_quoted(pod)}/eviction"
        await self.call("POST", path, None, eviction)


async def _events(lines: AsyncIterator[bytes]) -> AsyncIterator[WatchEvent]:
    async for line in lines:
        yield read_event(line)


def read_event(line: bytes) -> WatchEvent:
    """Return what one line of a watch says; raises the error that it may be."""
    event = _decode_event(line)
    if event.type == "ERROR":
        raise errors.from_status(_decode_document(event.object))
    return event


def _target(path: str, query: Mapping[str, object] | None) -> str:
    if not query:
        return path
    given = {name: value for name, value in query.items() if value != ""}
    return f"{path}?{urlencode(given)}" if given else path
