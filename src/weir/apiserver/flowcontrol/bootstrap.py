"""Maintains bootstrap flow schemas and priority levels, and the Dangling condition of schemas.

Objects exist before the first request; changes and deletions are reverted once a minute; a condition is written as
soon as its level is added or removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from weir import errors
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.flowcontrol.objects import (
    FLOW_SCHEMA,
    PRIORITY_LEVEL,
    dangling,
    is_unwanted,
    kind_of,
    new_object,
    revised,
)
from weir.apiserver.registry.patching import APPLY_PATCH, Patching
from weir.apiserver.registry.verbs import Verbs, msgspec_copy
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.transport.http import Request
from weir.clock import Clock
from weir.objects.flow_control import Row, rows
from weir.objects.kind import Kind
from weir.observe.logs import Log
from weir.store import StoreError, StoreUnavailable, Write

__all__ = ["FlowControlBootstrap"]

log = Log("weir.apiserver.flowcontrol")
ENSURE_SECONDS: Final = 60.0
SYSTEM: Final = User("system:apiserver", groups=(MASTERS, "system:authenticated"))
PRODUCER: Final = "api-priority-and-fairness-config-producer-v1"
CONSUMER: Final = "api-priority-and-fairness-config-consumer-v1"
_KINDS: Final = (PRIORITY_LEVEL, FLOW_SCHEMA)


class FlowControlBootstrap:
    """Keeps the configuration of one cluster."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs, self._patching = verbs, Patching(verbs)
        self._changed = asyncio.Event()
        self._seen: tuple[int, ...] = ()

    def _versions(self) -> tuple[int, ...]:
        return tuple(self._verbs.reader.version(kind) for kind in _KINDS)

    async def ensure(self) -> None:
        """Write what is missing or not as it has to be, then the conditions."""
        await asyncio.gather(*(self._ensure(row) for row in rows()))
        for kind in _KINDS:
            for found in self._verbs.documents(kind):
                if is_unwanted(found, kind.kind) and not found["metadata"].get("finalizers"):
                    version = int(found["metadata"]["resourceVersion"])
                    await self._verbs.store.commit(
                        (Write(kind.key("", found["metadata"]["name"]), None, version),)
                    )
        await self.judge()
        self._seen = self._versions()

    async def _ensure(self, row: Row) -> None:
        kind = kind_of(row)
        write = WriteRequest(kind, "", row.name, SYSTEM, PRODUCER)
        stored = self._verbs.reader.get_now(kind, "", row.name)
        if stored is None:
            whole = {"kind": kind.kind, "apiVersion": kind.api_version, **new_object(row)}
            with suppress(errors.AlreadyExists):  # by another server, a moment ago
                await self._verbs.create_document(write, msgspec_copy(whole))
            return
        better = revised(row, stored)
        if better is not None:
            better["metadata"].pop("resourceVersion", None)
            await self._verbs.change(write, lambda old: msgspec_copy(better))

    async def judge(self) -> None:
        """Say of every schema whether its level exists."""
        levels = {found["metadata"]["name"] for found in self._verbs.documents(PRIORITY_LEVEL)}
        work = []
        for schema in self._verbs.documents(FLOW_SCHEMA):
            level = schema["spec"]["priorityLevelConfiguration"]["name"]
            condition = dangling(schema, level in levels, self._verbs.now)
            if condition is not None:
                work.append(self._write_condition(schema["metadata"]["name"], condition))
        await asyncio.gather(*work)

    async def _write_condition(self, name: str, condition: dict[str, Any]) -> None:
        body = {
            "apiVersion": FLOW_SCHEMA.api_version,
            "kind": FLOW_SCHEMA.kind,
            "metadata": {"name": name},
            "status": {"conditions": [condition]},
        }
        request = Request(
            "PATCH",
            f"/apis/{FLOW_SCHEMA.api_version}/{FLOW_SCHEMA.plural}/{name}/status",
            f"fieldManager={CONSUMER}&force=true",
            {b"content-type": APPLY_PATCH.encode()},
            msgspec.json.encode(body),
        )
        request.user = SYSTEM
        try:
            await self._patching.patch(request, FLOW_SCHEMA, "", name, "status", [])
        except errors.NotFound:
            pass  # deleted meanwhile
        except errors.ApiError as error:
            log.error("the status of a FlowSchema cannot be written", name=name, err=error)

    async def run(self, clock: Clock) -> None:
        """Keep the configuration for ever; a store that is away is tried again the next time."""
        for kind in _KINDS:
            self._follow(kind)
        loop = asyncio.get_running_loop()
        minute: asyncio.Task[None] = loop.create_task(clock.sleep(ENSURE_SECONDS))
        try:
            while True:
                changed = loop.create_task(self._changed.wait())
                await asyncio.wait((minute, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                self._changed.clear()
                try:
                    if minute.done():
                        minute = loop.create_task(clock.sleep(ENSURE_SECONDS))
                        if self._versions() != self._seen:
                            await self.ensure()
                    else:
                        await self.judge()
                except (errors.ApiError, StoreUnavailable) as error:
                    log.error("the flow control configuration cannot be kept", err=error)
        finally:
            minute.cancel()

    def _follow(self, kind: Kind) -> None:
        """Notice changes of *kind*; a store that lost its place is followed anew."""
        store = self._verbs.store

        def changed(events: Iterable[Any]) -> None:
            self._changed.set()

        def lost(reason: StoreError) -> None:
            self._changed.set()
            self._follow(kind)

        store.watch(kind.prefix, store.revision, changed, lost)
