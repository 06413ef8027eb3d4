"""Lifecycle of CustomResourceDefinitions: names accepted, established, and on deletion the objects deleted first.

Each step is one status write, and the next follows from what is then stored. With several servers on one store all of
them write; the losers find nothing left to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from weir import errors
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.customresources import naming
from weir.apiserver.customresources.definitions import DEFINITIONS, Definitions
from weir.apiserver.registry.deletion import Deletion
from weir.apiserver.registry.lists import Lists
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.strategies.apiextensions import CLEANUP
from weir.apiserver.transport.options import DeleteOptions
from weir.customresources.conditions import is_true, with_condition
from weir.customresources.served import in_storage_version
from weir.objects.kind import Kind
from weir.objects.served_kinds import ServedKinds
from weir.observe.logs import Log
from weir.store import StoreUnavailable

__all__ = ["DefinitionController"]

log = Log("weir.apiserver.customresources")
Document = dict[str, Any]
SYSTEM: Final = User("system:apiserver", groups=(MASTERS, "system:authenticated"))
MANAGER: Final = "kube-apiserver"
AGAIN_SECONDS: Final = 0.25  #: how soon objects that finalizers hold are looked at again, at first
LONGEST_SECONDS: Final = 5.0


class DefinitionController:
    """Brings the definitions of one server on their way."""

    def __init__(self, verbs: Verbs, lists: Lists, served: ServedKinds, definitions: Definitions) -> None:
        self._verbs, self._lists, self._served = verbs, lists, served
        self._deletion, self._definitions = Deletion(verbs), definitions
        self._working: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._stopped = False
        definitions.when_changed = self._changed
        for found in verbs.store.range(DEFINITIONS.prefix).items:
            self._changed(found.key[len(DEFINITIONS.prefix) :])

    def stop(self) -> None:
        """Let everything be as it is."""
        self._stopped = True
        for task in self._working.values():
            task.cancel()

    def _changed(self, name: str) -> None:
        if self._stopped:
            return
        if name in self._working:
            self._again.add(name)
            return
        task = asyncio.get_running_loop().create_task(self._work(name))
        self._working[name] = task
        task.add_done_callback(lambda done: self._done(name, done))

    def _done(self, name: str, task: asyncio.Task[None]) -> None:
        self._working.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a definition cannot be brought on its way", name=name, err=error)
        if name in self._again:
            self._again.discard(name)
            self._changed(name)

    async def _work(self, name: str) -> None:
        try:
            await self._step(name)
        except (errors.NotFound, errors.Conflict):
            pass  # deleted or changed meanwhile: that is noticed
        except (errors.ApiError, StoreUnavailable) as error:
            log.error("the status of a definition cannot be written", name=name, err=error)

    async def _step(self, name: str) -> None:
        found = self._verbs.reader.get_now(DEFINITIONS, "", name)
        if found is None:
            self._reconsider(name)
            return
        definition = dict(found)
        if definition["metadata"].get("deletionTimestamp"):
            if CLEANUP in (definition["metadata"].get("finalizers") or ()):
                await self._finalize(name)
            return
        now = self._verbs.now
        others = [names for other, names in self._definitions.names.items() if other != name]
        for step in (
            lambda old: naming.named(old, others, now),
            lambda old: naming.established(old, now),
            lambda old: naming.approved(old, now),
        ):
            await self._write(name, step)

    def _reconsider(self, gone: str) -> None:
        """A definition is gone and has freed its names: look at those of its group again."""
        group = gone.partition(".")[2]
        for name in list(self._definitions.names):
            if name.partition(".")[2] == group:
                self._changed(name)

    async def _write(self, name: str, step: Callable[[Document], Document | None]) -> None:
        """Write what *step* makes of the definition, unless that is nothing new."""
        found = self._verbs.reader.get_now(DEFINITIONS, "", name)
        if found is None or step(dict(found)) is None:
            return
        write = WriteRequest(DEFINITIONS, "", name, SYSTEM, MANAGER, "status")
        await self._verbs.change(write, lambda old: step(old) or old)

    # ── deletion ─────────────────────────────────────────────────────────────────────────────────

    async def _finalize(self, name: str) -> None:
        """Delete the objects of a definition, then let it go."""
        verbs = self._verbs

        def say(status: str, reason: str, message: str) -> Callable[[Document], Document]:
            return lambda old: with_condition(old, "Terminating", status, reason, message, verbs.now)

        await self._write(
            name, say("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        )
        found = verbs.reader.get_now(DEFINITIONS, "", name)
        if found is None:
            return
        last = say("False", "NeverEstablished", "resource was never established")
        if is_true(dict(found), "Established"):
            for kind in list(self._served.under(name))[:1]:
                await self._empty(in_storage_version(kind))
            last = say("False", "InstanceDeletionCompleted", "removed all instances")

        def let_go(old: Document) -> Document:
            new = last(old)
            kept = [one for one in old["metadata"].get("finalizers") or () if one != CLEANUP]
            metadata = {key: value for key, value in old["metadata"].items() if key != "finalizers"}
            return {**new, "metadata": {**metadata, **({"finalizers": kept} if kept else {})}}

        await self._write(name, let_go)

    async def _empty(self, kind: Kind) -> None:
        """Delete every object of *kind*, and wait until none is left."""
        pause = AGAIN_SECONDS
        while not self._stopped:
            with suppress(errors.NotFound):
                await self._deletion.collection(kind, "", self._lists, {}, DeleteOptions(), SYSTEM, [])
            if not self._verbs.store.count(kind.prefix):
                return
            await self._verbs.clock.sleep(pause)
            pause = min(pause * 2, LONGEST_SECONDS)
