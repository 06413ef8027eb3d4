"""The client: API verbs, the same over every transport.

Objects go in as documents (dict) or as encoded bytes, and come out decoded, as documents unless another type is
given.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, overload

import msgspec

from weir import errors
from weir.client.rest import RestClient
from weir.client.wire import (
    Document,
    Listed,
    Reply,
    ResourceType,
    Transport,
    Unreachable,
    WatchEvent,
    failure,
    object_path,
    path_of,
    quoted,
    read_event,
    read_list,
    target_of,
)

__all__ = [
    "APPLY_PATCH",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "Client",
    "Listed",
    "Reply",
    "ResourceType",
    "Transport",
    "Unreachable",
    "WatchEvent",
    "path_of",
    "read_event",
]

T = TypeVar("T")

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_encode = msgspec.json.Encoder().encode
_decode_document = msgspec.json.Decoder(Document).decode


class Client(RestClient):
    """The verbs. Give it a transport; components get it ready made."""

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
        body = await self.call("GET", object_path(kind, namespace, name, subresource), query)
        return msgspec.json.decode(body, type=into)

    async def find(self, kind: ResourceType, name: str, namespace: str = "") -> Document | None:
        """Return one object, or None when there is none."""
        if not name:
            return None
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
        return read_list(await self.call("GET", path_of(kind, namespace), query))

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
        target = target_of(path_of(kind, namespace), query)
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
        path = object_path(kind, metadata.get("namespace", ""), metadata["name"], subresource)
        return _decode_document(await self.call("PUT", path, {"fieldManager": field_manager}, document))

    async def update_status(self, kind: ResourceType, document: Document) -> Document:
        """Replace an object's status."""
        return await self.update(kind, document, subresource="status")

    @overload
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
    ) -> Document: ...

    @overload
    async def patch(
        self,
        kind: ResourceType,
        name: str,
        patch: Document | Sequence[Any] | bytes,
        namespace: str = "",
        *,
        patch_type: str = MERGE_PATCH,
        subresource: str = "",
        into: type[T],
    ) -> T: ...

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
        into: Any = Document,
    ) -> Any:
        """Change an object as *patch* says and return the result, decoded as *into*."""
        query = None
        if field_manager or force or dry_run:
            query = {
                "fieldManager": field_manager,
                "force": "true" if force else "",
                "dryRun": "All" if dry_run else "",
            }
        data = patch if isinstance(patch, bytes) else _encode(patch)
        path = object_path(kind, namespace, name, subresource)
        answer = await self.call("PATCH", path, query, data, patch_type)
        if not read:
            return {}
        return _decode_document(answer) if into is Document else msgspec.json.decode(answer, type=into)

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
        answer = await self.call("DELETE", object_path(kind, namespace, name), None, options)
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
        path = f"/api/v1/namespaces/{quoted(namespace)}/pods/{quoted(pod)}/binding"
        await self.call("POST", path, None, binding)

    async def evict(self, pod: str, namespace: str, *, grace_period_seconds: int | None = None) -> None:
        """Evict a pod through the eviction API. Raises TooManyRequests when a disruption budget forbids it."""
        eviction: Document = {
            "kind": "Eviction",
            "apiVersion": "policy/v1",
            "metadata": {"name": pod, "namespace": namespace},
        }
        if grace_period_seconds is not None:
            eviction["deleteOptions"] = {"gracePeriodSeconds": grace_period_seconds}
        path = f"/api/v1/namespaces/{quoted(namespace)}/pods/{quoted(pod)}/eviction"
        await self.call("POST", path, None, eviction)


async def _events(lines: AsyncIterator[bytes]) -> AsyncIterator[WatchEvent]:
    async for line in lines:
        yield read_event(line)
