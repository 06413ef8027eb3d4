"""Wire format: paths, responses, lists, watch lines and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable
from urllib.parse import quote, urlencode

import msgspec

from weir import errors
from weir.errors import ApiError, WeirError

Document = dict[str, Any]

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
        Raises Unreachable when it breaks, or when nothing came for *silent_seconds* (0: wait for ever)."""

    async def close(self) -> None:
        """Close the connections."""


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One line of a watch; the object is not decoded yet."""

    type: str
    object: msgspec.Raw


@runtime_checkable
class InProcessTransport(Protocol):
    """What a transport to a server of the same process can do as well."""

    @property
    def steady(self) -> bool:
        """Whether nothing lies between here and the server that could break, so that watches need no end."""

    def events(
        self, target: str, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[tuple[Reply, AsyncIterator[WatchEvent]]]:
        """Open a watch: the answer's head and its changes, which need not be put into lines and read again."""


@runtime_checkable
class IdentifiedTransport(Protocol):
    """What a transport that shows credentials can say about them."""

    @property
    def who(self) -> str:
        """Which credentials the server received, for a message that it does not accept them."""


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


def read_list(body: bytes) -> Listed:
    """Return the collection, or the page of one, that an answer holds."""
    found = _decode_list(body)
    meta = found.metadata
    return Listed(found.items or [], meta.resourceVersion, meta.continue_, meta.remainingItemCount)


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
        path = f"{path}/namespaces/{quoted(namespace)}"
    path = f"{path}/{kind.plural}"
    if name:
        path = f"{path}/{quoted(name)}"
    return f"{path}/{subresource}" if subresource else path


def object_path(kind: ResourceType, namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of one object. Raises BadRequest for a name that would make it the path of something else.

    >>> class Nodes: group, version, plural, namespaced = "", "v1", "nodes", False
    >>> object_path(Nodes, "", "n1", "status")
    '/api/v1/nodes/n1/status'
    >>> object_path(Nodes, "", "")
    Traceback (most recent call last):
    weir.errors.BadRequest: resource name may not be empty
    """
    if not name:
        raise errors.BadRequest("resource name may not be empty")
    if name in (".", ".."):
        raise errors.BadRequest(f"invalid resource name \"{name}\": [may not be '{name}']")
    return path_of(kind, namespace, name, subresource)


def quoted(name: str) -> str:
    """Return a name as part of a path; names of Kubernetes hardly ever hold what must be quoted.

    >>> quoted("web-7f.example"), quoted("a/b"), quoted("é")
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
        error.retry_after_seconds = seconds_of(reply.headers["retry-after"])
    return error


def seconds_of(text: str) -> int | None:
    """Return the seconds of a Retry-After header; None for a date or anything else."""
    return int(text) if text.isdigit() else None


def read_event(line: bytes) -> WatchEvent:
    """Return what one line of a watch says; raises the error that it may be."""
    event = _decode_event(line)
    if event.type == "ERROR":
        raise errors.from_status(_decode_document(event.object))
    return event


def target_of(path: str, query: Mapping[str, object] | None) -> str:
    """Return path and query as a request names them; what is empty is left out.

    >>> target_of("/api/v1/pods", {"limit": 5, "continue": ""})
    '/api/v1/pods?limit=5'
    """
    if not query:
        return path
    given = {name: value for name, value in query.items() if value != ""}
    return f"{path}?{urlencode(given)}" if given else path
