"""Maintains APIService objects: autoregistration of local groups, and availability of remote ones.

As upstream's autoregistration: built-in groups are registered once at startup; those of definitions while they are
served, and restored when changed or deleted. With several servers on one store all of them write; the losers find
nothing left to do. The expected objects are computed in .objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from weir import errors
from weir.apiserver.aggregation.objects import (
    ALWAYS,
    API_SERVICE,
    ON_START,
    SERVICE,
    SLICE,
    at_start,
    availability,
    is_remote,
    judged,
    managed_of,
    of_definitions,
    registered,
)
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.customresources.definitions import DEFINITIONS
from weir.apiserver.registry.deletion import Deletion
from weir.apiserver.registry.verbs import Verbs, msgspec_copy
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.transport.options import DeleteOptions
from weir.objects.kind import Kind
from weir.objects.served_kinds import ServedKinds
from weir.observe.logs import Log
from weir.store import StoreError, StoreUnavailable

__all__ = ["ApiServiceController"]

log = Log("weir.apiserver.aggregation")
Document = Mapping[str, Any]
SYSTEM: Final = User("system:apiserver", groups=(MASTERS, "system:authenticated"))
MANAGER: Final = "kube-apiserver"
OWNER_LABEL: Final = "kubernetes.io/service-name"


class ApiServiceController:
    """Keeps the APIServices of one server."""

    def __init__(self, verbs: Verbs, served: ServedKinds, groups: Mapping[str, Iterable[str]]) -> None:
        """*groups* are the server's own, with their versions."""
        self._verbs, self._served, self._groups = verbs, served, groups
        self._deletion = Deletion(verbs)
        self._working: asyncio.Task[None] | None = None
        self._again = self._stopped = False
        self._remote = False  #: whether there is one of another server, whose services matter

    async def start(self) -> None:
        """Register the server's own groups, then keep what changes."""
        wanted = at_start(self._groups)
        stored = {found["metadata"]["name"]: found for found in self._verbs.documents(API_SERVICE)}
        await asyncio.gather(*(self._ensure(one, stored.get(name)) for name, one in wanted.items()))
        for name, found in stored.items():
            if managed_of(found) == ON_START and name not in wanted:
                await self._delete(found)
        for kind in (API_SERVICE, DEFINITIONS, SERVICE, SLICE):
            self._follow(kind)
        self._changed()

    def stop(self) -> None:
        """Let everything be as it is."""
        self._stopped = True
        if self._working is not None:
            self._working.cancel()

    def _follow(self, kind: Kind) -> None:
        store = self._verbs.store

        def changed(events: Iterable[Any]) -> None:
            if self._remote or kind in (API_SERVICE, DEFINITIONS):
                self._changed()

        def lost(reason: StoreError) -> None:
            if not self._stopped:
                self._changed()
                self._follow(kind)

        store.watch(kind.prefix, store.revision, changed, lost)

    def _changed(self) -> None:
        if self._stopped:
            return
        if self._working is not None:
            self._again = True
            return
        self._working = asyncio.get_running_loop().create_task(self._work())
        self._working.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._working = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the APIServices cannot be kept", err=error)
        if self._again:
            self._again = False
            self._changed()

    async def _work(self) -> None:
        try:
            await self._keep()
        except (errors.NotFound, errors.Conflict):
            self._again = True  # changed meanwhile: look once more
        except (errors.ApiError, StoreUnavailable) as error:
            log.error("the APIServices cannot be kept", err=error)

    async def _keep(self) -> None:
        stored = {found["metadata"]["name"]: found for found in self._verbs.documents(API_SERVICE)}
        self._remote = any(map(is_remote, stored.values()))
        wanted = of_definitions(self._served.groups())
        own = at_start(self._groups)
        self._served.register(registered(stored.values(), own))
        await asyncio.gather(
            *(self._ensure(one, stored.get(name)) for name, one in wanted.items() if name not in own)
        )
        for name, found in stored.items():
            if managed_of(found) == ALWAYS and name not in wanted:
                await self._delete(found)
            elif is_remote(found):
                await self._judge(name, found)

    async def _ensure(self, wanted: dict[str, Any], stored: Document | None) -> None:
        """Make what is missing, and let what the server keeps say what it should."""
        name = wanted["metadata"]["name"]
        write = WriteRequest(API_SERVICE, "", name, SYSTEM, MANAGER)
        if stored is None:
            write.name = ""
            with suppress(errors.AlreadyExists):  # by another server, a moment ago
                await self._verbs.create_document(write, msgspec_copy(wanted))
        elif managed_of(stored) and stored.get("spec") != wanted["spec"]:

            def revised(old: dict[str, Any]) -> dict[str, Any]:
                return {**old, "spec": msgspec_copy(wanted["spec"])}

            await self._verbs.change(write, revised)

    async def _delete(self, found: Document) -> None:
        metadata = found["metadata"]
        with suppress(errors.NotFound, errors.Conflict):
            options = DeleteOptions(uid=metadata["uid"])
            await self._deletion.delete(API_SERVICE, "", metadata["name"], options, SYSTEM, [])

    async def _judge(self, name: str, found: Document) -> None:
        service = found["spec"]["service"]
        namespace = service.get("namespace") or ""
        slices = (
            one
            for one in self._verbs.reader.list_now(SLICE, namespace)
            if (one["metadata"].get("labels") or {}).get(OWNER_LABEL) == service.get("name")
        )
        there = self._verbs.reader.get_now(SERVICE, namespace, service.get("name") or "")
        status = judged(found, availability(found, there, slices), self._verbs.now)
        if status is not None:
            write = WriteRequest(API_SERVICE, "", name, SYSTEM, MANAGER, "status")
            await self._verbs.change(write, lambda old: {**old, "status": msgspec_copy(status)})
