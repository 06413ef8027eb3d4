"""Maintains bootstrap flow schemas and priority levels, and the Dangling condition of schemas.

Objects exist before the first request; changes and deletions are reverted once a minute; a condition is written as
soon as its level is added or removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from weir import errors
from weir.apiserver.auth.authn import SYSTEM
from weir.apiserver.registry.patching import APPLY_PATCH, Patching
from weir.apiserver.registry.verbs import Verbs, msgspec_copy
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.transport.http import Request
from weir.clock import Clock
from weir.objects.flow_control import AUTO_UPDATE, EXEMPT, GROUP, LEVEL, Row, rows
from weir.objects.kind import Document, Kind
from weir.objects.kinds import by_kind
from weir.observe.logs import Log
from weir.store import StoreError, StoreUnavailable, Write
from weir.validate.gonames import equal

# ── reconciliation rules of bootstrap flow control objects, and dangling schemas ──
# Pure. A mandatory object always gets its fixed spec back (except the shares of level `exempt`); a suggested one only
# while its annotation says so or it is unchanged. An unknown object with the annotation is from an older release and is
# deleted.


FLOW_SCHEMA, PRIORITY_LEVEL = by_kind(f"{GROUP}/v1", "FlowSchema"), by_kind(f"{GROUP}/v1", LEVEL)
DANGLING = "Dangling"
#: How Kubernetes' own strings are read as booleans.
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def kind_of(row: Row) -> Kind:
    """Return the kind of a row."""
    return PRIORITY_LEVEL if row.kind == LEVEL else FLOW_SCHEMA


def new_object(row: Row) -> Document:
    """Return the object as it is first written."""
    return {"metadata": {"name": row.name, "annotations": {AUTO_UPDATE: "true"}}, "spec": row.spec}


def _auto_update(stored: Mapping[str, Any]) -> bool | None:
    """Return what the annotation says; None when it says nothing that can be read."""
    return _BOOLEANS.get(((stored.get("metadata") or {}).get("annotations") or {}).get(AUTO_UPDATE, ""))


def revised(row: Row, stored: Mapping[str, Any]) -> Document | None:
    """Return what the stored object has to become; None when it may stay as it is."""
    metadata = stored.get("metadata") or {}
    said = _auto_update(stored)
    update = row.mandatory or (metadata.get("generation") == 1 if said is None else said)
    spec: Document = stored.get("spec") or {}
    wanted = row.spec
    if row.kind == LEVEL and row.name == EXEMPT and spec.get("exempt") is not None:
        wanted = {**wanted, "exempt": spec["exempt"]}
    changed = update and not equal(f"{row.kind}Spec", spec, wanted)
    if said == update and not changed:
        return None
    annotations = {**(metadata.get("annotations") or {}), AUTO_UPDATE: "true" if update else "false"}
    return {
        **stored,
        "metadata": {**metadata, "annotations": annotations},
        "spec": row.spec if changed else spec,
    }


def is_unwanted(stored: Mapping[str, Any], kind: str) -> bool:
    """Return whether *stored* is an object that an older release started with."""
    name = stored["metadata"]["name"]
    return _auto_update(stored) is True and not any(row.kind == kind and row.name == name for row in rows())


def dangling(schema: Mapping[str, Any], has_level: bool, now: str) -> Document | None:
    """Return the condition that the status of *schema* has to get; None when it is there."""
    level = ((schema.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name") or ""
    about = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    wanted = {
        "status": "False" if has_level else "True",
        "reason": "Found" if has_level else "NotFound",
        "message": f"{about} and it exists" if has_level else f"{about} but there is no such object",
    }
    for condition in (schema.get("status") or {}).get("conditions") or ():
        if condition.get("type") == DANGLING and all(condition.get(name) == wanted[name] for name in wanted):
            return None
    return {"type": DANGLING, "lastTransitionTime": now, **wanted}


# ── maintains bootstrap flow schemas and priority levels, and the Dangling condition of schemas ──


log = Log("weir.apiserver.flowcontrol")
ENSURE_SECONDS: Final = 60.0
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
