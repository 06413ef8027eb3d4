"""Lifecycle of CustomResourceDefinitions: names accepted, established, and on deletion the objects deleted first.

Each step is one status write, and the next follows from what is then stored. With several servers on one store all of
them write; the losers find nothing left to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from weir import errors
from weir.apiserver.auth.authn import SYSTEM
from weir.apiserver.registry import codec
from weir.apiserver.registry.deletion import Deletion
from weir.apiserver.registry.lists import Lists
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.strategies.apiextensions import CLEANUP
from weir.apiserver.transport.options import DeleteOptions
from weir.compat.customresources.group_approval import approval, is_protected
from weir.compat.customresources.served import (
    find_condition,
    in_storage_version,
    is_true,
    rows_of,
    with_condition,
)
from weir.objects.kind import Document, Kind
from weir.objects.kinds import CUSTOM_RESOURCE_DEFINITIONS
from weir.objects.served_kinds import ServedKinds
from weir.observe.logs import Log
from weir.store import Store, StoreError, StoreUnavailable
from weir.values.quoting import quote

# ── registers the kinds of stored CustomResourceDefinitions once their names are accepted ──
# Definitions are watched in the store, so that a server also registers what another server wrote.


log = Log("weir.apiserver.customresources")


class Definitions:
    """Keeps a registry of kinds in step with the stored definitions."""

    def __init__(self, store: Store, served: ServedKinds) -> None:
        self._store, self._served = store, served
        #: by name: group and accepted names, all that one definition needs to know of the others
        self.names: dict[str, tuple[str, Document]] = {}
        #: called with every kind that is no longer served, or converted in another way
        self.when_gone: Callable[[Kind], None] = _nothing
        #: called with the name of every definition that is written or deleted
        self.when_changed: Callable[[str], None] = _nothing
        self._follow()

    def _follow(self) -> None:
        under = CUSTOM_RESOURCE_DEFINITIONS.prefix
        page = self._store.range(under)
        there = {item.key[len(under) :]: item.value for item in page.items}
        for name in {kind.definition for kind in self._served.joined() if hasattr(kind, "definition")}:
            if name not in there:
                self._set(name, None)
        for name, value in there.items():
            self._set(name, value)

        def deliver(events: Iterable[Any]) -> None:
            for event in events:
                self._set(event.key[len(under) :], None if event.now is None else event.now.value)

        def lost(reason: StoreError) -> None:
            self._follow()

        self._store.watch(under, page.revision, deliver, lost)

    def _set(self, name: str, value: bytes | None) -> None:
        """Serve what a definition says now; None: it is gone."""
        known = self._served.under(name)
        rows: list[Any] = []
        self.names.pop(name, None)
        if value is not None:
            try:
                definition = codec.decode(CUSTOM_RESOURCE_DEFINITIONS, value)
                names = (definition.get("status") or {}).get("acceptedNames") or {}
                self.names[name] = definition["spec"].get("group") or "", names
                rows = list(rows_of(definition, known))
            except (KeyError, TypeError, ValueError) as error:  # written past this server
                log.error("a definition in the store cannot be served", name=name, err=error)
        if rows or known:
            self._served.join(name, rows)
        left = {(kind.group, kind.version): kind.conversion for kind in rows}
        for kind in known:
            # Watches of a version whose conversion webhook changed must restart.
            if left.get((kind.group, kind.version)) != getattr(kind, "conversion", None):
                self.when_gone(kind)
        self.when_changed(name)


def _nothing(what: object) -> None:
    """Default callback."""


# ── lifecycle of CustomResourceDefinitions: names accepted, established, and on deletion the objects deleted first ──


# ── name acceptance of CustomResourceDefinitions within a group ──
# Pure: definitions in, accepted names and conditions out.


_NAMES = ("plural", "singular", "shortNames", "kind", "listKind")


def named(definition: Document, others: Iterable[tuple[str, Document]], now: str) -> Document | None:
    """Return *definition* with the names it gets, and what is said of them; None when nothing changes.

    *others* are the groups and accepted names of all other definitions.
    """
    wanted = definition["spec"]["names"]
    has = (definition.get("status") or {}).get("acceptedNames") or {}
    if _plain(wanted) == _plain(has):
        return None
    resources, kinds = _taken(definition, others)
    accepted, problem = dict(has), ("", "")
    for name in ("plural", "singular"):
        if _is_free(wanted.get(name) or "", has.get(name) or "", resources):
            accepted[name] = wanted.get(name) or ""
        else:
            problem = f"{name.capitalize()}Conflict", _in_use(wanted[name])
    if (wanted.get("shortNames") or []) != (has.get("shortNames") or []):
        mine = has.get("shortNames") or ()
        taken = [name for name in wanted.get("shortNames") or () if name not in mine and name in resources]
        if taken:
            texts = list(dict.fromkeys(map(_in_use, taken)))
            problem = "ShortNamesConflict", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        else:
            accepted["shortNames"] = wanted.get("shortNames")
    for name in ("kind", "listKind"):
        if _is_free(wanted.get(name) or "", has.get(name) or "", kinds):
            accepted[name] = wanted.get(name) or ""
        else:
            problem = f"{name[0].upper()}{name[1:]}Conflict", _in_use(wanted[name])
    accepted["categories"] = wanted.get("categories")
    new = {**definition, "status": {**(definition.get("status") or {}), "acceptedNames": _plain(accepted)}}
    if problem[0]:
        new = with_condition(new, "NamesAccepted", "False", *problem, now)
    else:
        new = with_condition(new, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    was = find_condition(definition, "Established")
    if was is not None and was.get("status") == "True":
        return new
    if problem[0]:
        if was is None:
            new = with_condition(
                new, "Established", "False", "NotAccepted", "not all names are accepted", now
            )
        return new
    message = "the initial names have been accepted"
    return with_condition(new, "Established", "False", "Installing", message, now)


def established(definition: Document, now: str) -> Document | None:
    """Return *definition* established, when its names are accepted and it is not yet; else None."""
    accepted, was = find_condition(definition, "NamesAccepted"), find_condition(definition, "Established")
    if accepted is None or accepted.get("status") != "True":
        return None
    if was is not None and was.get("status") == "True":
        return None
    message = "the initial names have been accepted"
    return with_condition(definition, "Established", "True", "InitialNamesAccepted", message, now)


def approved(definition: Document, now: str) -> Document | None:
    """Return *definition* with what is said of its approval, in groups that need one; None when nothing changes."""
    if not is_protected(definition["spec"].get("group") or ""):
        return None
    state, message = approval(definition)
    status, reason = {
        "invalid": ("False", "InvalidAnnotation"),
        "missing": ("False", "MissingAnnotation"),
        "approved": ("True", "ApprovedAnnotation"),
        "bypassed": ("False", "UnapprovedAnnotation"),
    }[state]
    name = "KubernetesAPIApprovalPolicyConformant"
    was = find_condition(definition, name) or {}
    if (was.get("status"), was.get("reason"), was.get("message")) == (status, reason, message):
        return None
    return with_condition(definition, name, status, reason, message, now)


def _plain(names: Document) -> Document:
    """Return names as they are stored: the plural and the kind always, the rest when they are given."""
    kept = {name: names[name] for name in (*_NAMES, "categories") if names.get(name)}
    return {"plural": "", "kind": "", **kept}


def _taken(definition: Document, others: Iterable[tuple[str, Document]]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    mine = definition["spec"].get("group") or ""
    for group, names in [(mine, (definition.get("status") or {}).get("acceptedNames") or {}), *others]:
        if group != mine:
            continue
        resources |= {
            names.get("plural") or "",
            names.get("singular") or "",
            *(names.get("shortNames") or ()),
        }
        kinds |= {names.get("kind") or "", names.get("listKind") or ""}
    return resources, kinds


def _is_free(wanted: str, has: str, taken: set[str]) -> bool:
    return wanted == has or wanted not in taken


def _in_use(name: str) -> str:
    return f"{quote(name)} is already in use"


# ── lifecycle of CustomResourceDefinitions: names accepted, established, and on deletion the objects deleted first ──


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
        for found in verbs.store.range(CUSTOM_RESOURCE_DEFINITIONS.prefix).items:
            self._changed(found.key[len(CUSTOM_RESOURCE_DEFINITIONS.prefix) :])

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
        found = self._verbs.reader.get_now(CUSTOM_RESOURCE_DEFINITIONS, "", name)
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
            lambda old: named(old, others, now),
            lambda old: established(old, now),
            lambda old: approved(old, now),
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
        found = self._verbs.reader.get_now(CUSTOM_RESOURCE_DEFINITIONS, "", name)
        if found is None or step(dict(found)) is None:
            return
        write = WriteRequest(CUSTOM_RESOURCE_DEFINITIONS, "", name, SYSTEM, MANAGER, "status")
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
        found = verbs.reader.get_now(CUSTOM_RESOURCE_DEFINITIONS, "", name)
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
