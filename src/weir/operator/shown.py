"""Whether the cluster shows the object that a webhook review speaks of.

A review is a claim. The object that it says is being changed must be one that this replica has seen or that the API
server gives when asked: by name and uid. Only a review about such an object may have an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.client.api import Client
from weir.client.cache import Cache, ObjectKey
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind

Document = dict[str, Any]


class Shown:
    """Nodes and DaemonSets as the cluster shows them."""

    def __init__(self, client: Client, nodes: Cache[Document], daemonsets: Cache[Document]) -> None:
        self._client, self._nodes, self._daemonsets = client, nodes, daemonsets

    async def node(self, request: Mapping[str, Any]) -> Document | None:
        """Return the node whose update *request* announces, or None. Raises ApiError, Unreachable."""
        return await self._find(by_kind("v1", "Node"), self._nodes, request)

    async def named_node(self, name: str) -> Document | None:
        """Return the node *name* as the API server has it now, or None. Raises ApiError, Unreachable."""
        return await self._client.find(by_kind("v1", "Node"), name) if name else None

    async def daemonset(self, request: Mapping[str, Any]) -> Document | None:
        """Return the DaemonSet whose update *request* announces, or None. Raises ApiError, Unreachable."""
        return await self._find(by_kind("apps/v1", "DaemonSet"), self._daemonsets, request)

    async def _find(self, kind: Kind, cache: Cache[Document], request: Mapping[str, Any]) -> Document | None:
        metadata = (request.get("oldObject") or {}).get("metadata") or {}
        new = (request.get("object") or {}).get("metadata") or {}
        name, namespace, uid = metadata.get("name"), metadata.get("namespace") or "", metadata.get("uid")
        same = (new.get("name"), new.get("namespace") or "", request.get("name") or name) == (
            name,
            namespace,
            name,
        )
        if not (same and isinstance(name, str) and isinstance(namespace, str) and name and uid):
            return None
        known = cache.get(ObjectKey(namespace, name))
        if known is not None and known["metadata"].get("uid") == uid:
            return known
        found = await self._client.find(kind, name, namespace)
        return found if found is not None and found["metadata"].get("uid") == uid else None
