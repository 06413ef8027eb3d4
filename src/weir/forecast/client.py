"""The verbs of a client, carried out on the objects of a forecast at once."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from weir.client.api import Client, Transport
from weir.client.wire import Listed
from weir.forecast.objects import Objects
from weir.forecast.timeline import Timeline
from weir.selectors.labels import parse

Document = dict[str, Any]
_NOWHERE = cast(Transport, None)  # nothing leaves the process


class ObjectsClient(Client):
    """What components of a forecast read and write through."""

    def __init__(self, objects: Objects, clock: Timeline, event_reasons: frozenset[str]) -> None:
        super().__init__(_NOWHERE, clock=clock, user_agent="weir", event_reasons=event_reasons)
        self._objects = objects

    async def get(self, kind: Any, name: str, namespace: str = "", **options: Any) -> Any:
        return self._objects.get(kind, namespace, name)

    async def find(self, kind: Any, name: str, namespace: str = "") -> Document | None:
        return self._objects.find(kind, namespace, name)

    async def list(self, kind: Any, namespace: str = "", **options: Any) -> Listed:
        chosen = parse(options.get("label_selector") or "")
        found = (
            each
            for each in self._objects.documents(kind)
            if (not namespace or each["metadata"].get("namespace") == namespace)
            and chosen.matches(each["metadata"].get("labels") or {})
        )
        return Listed([msgspec.Raw(msgspec.json.encode(each)) for each in found], str(self._objects.revision))

    async def create(self, kind: Any, document: Any, namespace: str = "", **options: Any) -> Document:
        return self._objects.create(kind, document, namespace)

    async def update(self, kind: Any, document: Document, **options: Any) -> Document:
        metadata = document["metadata"]
        old = self._objects.get(kind, metadata.get("namespace", ""), metadata["name"])
        new = {**document, "metadata": dict(metadata)}
        return self._objects.update(kind, old, new, options.get("subresource", ""))

    async def patch(self, kind: Any, name: str, patch: Any, namespace: str = "", **options: Any) -> Any:
        into = options.pop("into", None)
        for name_ in ("read", "dry_run"):
            options.pop(name_, None)
        new = self._objects.patch(kind, namespace, name, patch, **options)
        return new if into is None else msgspec.convert(new, into)

    async def delete(self, kind: Any, name: str, namespace: str = "", **options: Any) -> Document:
        for name_ in ("read", "resource_version"):
            options.pop(name_, None)
        self._objects.delete(kind, namespace, name, **options)
        return {}

    async def bind(self, pod: str, namespace: str, node: str, *, uid: str = "") -> None:
        self._objects.bind(namespace, pod, node, uid)

    async def evict(self, pod: str, namespace: str, *, grace_period_seconds: int | None = None) -> None:
        self._objects.evict(namespace, pod)

    async def call(self, *request: Any, **options: Any) -> bytes:
        """Take what only a server keeps (the logs of containers), and answer nothing."""
        return b"{}"
