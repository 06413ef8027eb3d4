"""Delete one object or a collection.

Spec: apiserver.md 8 "Delete". Three things can keep an object after a delete: the grace period of a pod, its
finalizers, and a propagation policy that makes the server add one (`orphan`, `foregroundDeletion`). Until they
are gone the object stays with a deletionTimestamp. The garbage collector and the namespace
controller act on what is left here; they are controllers, not part of the server.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from weir import errors
from weir.apiserver.admission.attributes import DELETE, Attributes
from weir.apiserver.auth.authn import User
from weir.apiserver.registry import codec
from weir.apiserver.registry.lists import Lists, Page
from weir.apiserver.registry.object_write import gone_with_this_update
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_path import body_of
from weir.apiserver.registry.write_request import WriteResult
from weir.apiserver.strategies import for_kind
from weir.apiserver.transport.http import Turn
from weir.apiserver.transport.options import DeleteOptions
from weir.objects.kind import Document, Kind
from weir.objects.kinds import CUSTOM_RESOURCE_DEFINITIONS
from weir.objects.times import format_time
from weir.store import WRITTEN_BEFORE, KeyValue, Write

#: changes an object that goes, and says whether that changed anything
Note = Callable[[Document], bool]
_ATTEMPTS = 16
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


class Deletion:
    """Everything a DELETE can mean."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._store = verbs.store

    async def delete(
        self, kind: Kind, namespace: str, name: str, options: DeleteOptions, user: User, warnings: list[str]
    ) -> WriteResult:
        """Delete one object, or start its end."""
        found = await self._verbs.read(kind, namespace, name)
        document = await self._decoded(kind, found, self._verbs.turn_for(found.value, user.name))
        attributes = Attributes(
            DELETE,
            kind,
            namespace=namespace,
            name=name,
            old=document,
            options=options.document,
            dry_run=options.dry_run,
            user=user,
            warnings=warnings,
        )
        await self._verbs.admit(attributes)
        outcome = await self._hand_over(kind, name, options) if for_kind(kind).is_emptied_first else None
        if outcome is not None:
            return outcome
        return await self._tried(kind, namespace, name, options, user, admitted=(found, document))

    async def noted(
        self, kind: Kind, namespace: str, name: str, options: DeleteOptions, user: User, note: Note
    ) -> WriteResult:
        """Delete one object that *note* has changed before: two revisions in one commit, with no write in between.

        Who calls this has asked admission; a deletion that is part of another request is not admitted again.
        """
        return await self._tried(kind, namespace, name, options, user, note=note)

    async def _tried(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        options: DeleteOptions,
        user: User,
        *,
        admitted: tuple[KeyValue, Document] | None = None,
        note: Note | None = None,
    ) -> WriteResult:
        """Try until no other write comes in between; what admission was shown is not decoded again."""
        for _ in range(_ATTEMPTS):
            found = await self._verbs.read(kind, namespace, name)
            turn = self._verbs.turn_for(found.value, user.name)
            if admitted is not None and admitted[0] is found:
                document = admitted[1]
            else:
                document = await self._decoded(kind, found, turn)
            outcome = await self._once(kind, found, document, options, turn, note)
            if outcome is not None:
                return outcome
            admitted = None
        raise errors.Conflict.object(kind, name)

    async def _decoded(self, kind: Kind, found: KeyValue, turn: Turn | None) -> Document:
        """Return a stored object; a large one is read beside the loop."""
        return await self._verbs.off_loop.run(turn, codec.decode, kind, found.value)

    async def _once(
        self,
        kind: Kind,
        found: KeyValue,
        document: Document,
        options: DeleteOptions,
        turn: Turn | None,
        note: Note | None = None,
    ) -> WriteResult | None:
        """Try once, and change *document*, which *found* holds; None when the object changed meanwhile."""
        metadata = document["metadata"]
        before = dict(metadata)  # what changes lies here, and is replaced as a whole
        check_preconditions(kind, metadata, options)
        first: tuple[Write, ...] = ()
        if note is not None and not options.dry_run and note(document):
            first = (await self._put(kind, found.key, document, found.mod_revision, turn),)
        expected = WRITTEN_BEFORE if first else found.mod_revision
        asked = options.grace_period_seconds
        if asked is not None and asked < 0:
            asked = 1
        graceful, pending, grace = begin_deletion(kind, document, asked, self._verbs.now)
        if pending:
            return await self._left(kind, found, first)
        held = finalizers_after(kind, metadata.get("finalizers") or [], options)
        stays = bool(held) or grace > 0
        if held or graceful:
            if held:
                metadata["finalizers"] = held
            else:
                metadata.pop("finalizers", None)
            if not graceful:
                mark_terminating(metadata, self._verbs.now)
            if options.dry_run:
                return self._answer(kind, document, removed=not stays)
            if metadata != before:
                written = await self._write(kind, found, document, turn, first=first, then_removed=not stays)
                if written is None:
                    return None
                if stays or kind.returns_deleted:
                    return WriteResult(200, codec.served(kind, written.value))
                return self._answer(kind, document, removed=True)
            if stays:
                return await self._left(kind, found, first)
        if not options.dry_run:
            *_, result = await self._store.commit((*first, Write(found.key, None, expected)))
            if result.error is not None and self._store.get(found.key) is not None:
                return None
        return self._answer(kind, document, removed=True)

    async def _left(self, kind: Kind, found: KeyValue, first: tuple[Write, ...]) -> WriteResult | None:
        """Answer with an object whose end has begun before, once *first* is stored; None when it changed meanwhile."""
        for result in await self._store.commit(first) if first else ():
            if result.event is None or result.event.now is None:
                return None
            found = await self._verbs.in_version(kind, result.event.now)
        return WriteResult(200, codec.served(kind, found.value))

    async def _write(
        self,
        kind: Kind,
        found: KeyValue,
        document: Document,
        turn: Turn | None = None,
        *,
        first: tuple[Write, ...] = (),
        then_removed: bool = False,
    ) -> KeyValue | None:
        """Store *document*, and remove it in the same commit if it is *then_removed*; None when it changed meanwhile.

        *first* is what is stored of it before, in that commit too. Watchers see everything, as they do where these
        are several commits, but the disk is waited for once.
        """
        expected = WRITTEN_BEFORE if first else found.mod_revision
        writes = [*first, await self._put(kind, found.key, document, expected, turn)]
        if then_removed:
            writes.append(Write(found.key, None, WRITTEN_BEFORE))
        result, *removed = (await self._store.commit(writes))[len(first) :]
        if result.event is None or result.event.now is None:
            return None
        for one in removed:
            if one.error is not None and self._store.get(found.key) is not None:
                return None
        return await self._verbs.in_version(kind, result.event.now)

    async def _put(self, kind: Kind, key: str, document: Document, expected: int, turn: Turn | None) -> Write:
        """Return the write that stores *document* as it is now; a large one is encoded beside the loop."""
        return Write(key, await self._verbs.encode(kind, document, turn), expected, codec.STAMP)

    def _answer(self, kind: Kind, document: Document, *, removed: bool) -> WriteResult:
        if not removed or kind.returns_deleted:
            return WriteResult(200, body_of(document))
        details: Document = {"name": document["metadata"]["name"]}
        if kind.group:
            details["group"] = kind.group
        details["kind"] = kind.plural
        details["uid"] = document["metadata"]["uid"]
        return WriteResult(200, body_of(success(code=None, details=details)))

    async def _hand_over(self, kind: Kind, name: str, options: DeleteOptions) -> WriteResult | None:
        """Leave an object to the controller that empties it first; None when it can be deleted like others."""
        strategy = for_kind(kind)
        check = _check_definition if kind is CUSTOM_RESOURCE_DEFINITIONS else check_preconditions
        for _ in range(_ATTEMPTS):
            found = self._verbs.find(kind, "", name)
            before = codec.decode(kind, found.value)
            document = strategy.hand_over(before, self._verbs.now)
            if document is None:
                return None
            check(kind, before["metadata"], options)
            if gone_with_this_update(kind, document):
                if options.dry_run or await self._verbs.replace(found, None) is not None:
                    return self._answer(kind, document, removed=True)
            elif options.dry_run or document == before:
                return WriteResult(200, body_of(document))
            elif (written := await self._write(kind, found, document)) is not None:
                return WriteResult(200, codec.served(kind, written.value))
        raise errors.Conflict.object(kind, name)

    async def collection(
        self,
        kind: Kind,
        namespace: str,
        lists: Lists,
        params: dict[str, str],
        options: DeleteOptions,
        user: User,
        warnings: list[str],
    ) -> Page:
        """Delete everything the selectors choose; the answer is the list as it was before."""
        selected = await lists.select(kind, namespace, params)
        for found in selected.items:
            metadata = msgspec.json.decode(found.value)["metadata"]
            try:
                await self.delete(
                    kind, metadata.get("namespace", ""), metadata["name"], options, user, warnings
                )
            except errors.NotFound:
                continue
        return selected


def _check_definition(kind: Kind, metadata: Document, options: DeleteOptions) -> None:
    for what, given, has in (
        ("UID", options.uid, metadata["uid"]),
        ("ResourceVersion", options.resource_version, metadata["resourceVersion"]),
    ):
        if given is not None and given != has:
            text = f"precondition failed: {what} in precondition: {given}, {what} in object meta: {has}"
            raise errors.Conflict.object(kind, metadata["name"], text)


def success(*, code: int | None = None, details: Document | None = None) -> Document:
    """Return the Status of something that went well."""
    status: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code is not None:
        status["code"] = code
    return status


def begin_deletion(kind: Kind, document: Document, asked: int | None, now: str) -> tuple[bool, bool, int]:
    """Return (graceful, already pending, grace seconds) and mark a pod whose end starts *now*, in its metadata."""
    metadata = document["metadata"]
    strategy = for_kind(kind)
    if strategy.delete_grace(document, 0) is None:
        return False, False, 0
    if metadata.get("deletionTimestamp"):
        current = metadata.get("deletionGracePeriodSeconds") or 0
        if not current:
            return False, False, 0
        if asked is not None and asked < current:
            due = datetime.fromisoformat(metadata["deletionTimestamp"]) - timedelta(seconds=current - asked)
            metadata["deletionTimestamp"] = format_time(due)
            metadata["deletionGracePeriodSeconds"] = asked
            return True, False, asked
        return False, True, current
    grace = strategy.delete_grace(document, asked) or 0
    if grace:
        now = format_time(datetime.fromisoformat(now) + timedelta(seconds=grace))
    metadata["deletionTimestamp"] = now
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1
    return True, False, grace


def mark_terminating(metadata: Document, now: str) -> None:
    """Set what a delete sets on an object that finalizers keep."""
    if not metadata.get("deletionTimestamp"):
        if metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = now
    metadata["deletionGracePeriodSeconds"] = 0


def check_preconditions(kind: Kind, metadata: Document, options: DeleteOptions) -> None:
    """Refuse to delete another object than the one the client means."""
    head = f'Operation cannot be fulfilled on {kind.kind} "{metadata["name"]}": '
    details = {"name": metadata["name"], "kind": kind.kind}
    if kind.group:
        head = head.replace(kind.kind, f"{kind.kind}.{kind.group}", 1)
        details = {"name": metadata["name"], "group": kind.group, "kind": kind.kind}
    if options.uid is not None and options.uid != metadata["uid"]:
        raise errors.Conflict(
            f"{head}the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated",
            details=details,
        )
    if options.resource_version is not None and options.resource_version != metadata["resourceVersion"]:
        raise errors.Conflict(
            f"{head}the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({metadata['resourceVersion']}). The object might have been modified",
            details=details,
        )


def finalizers_after(kind: Kind, finalizers: list[str], options: DeleteOptions) -> list[str]:
    """Return the finalizers with the garbage collector's own put in or taken out, as the policy says.

    >>> from weir.objects.kinds import by_kind
    >>> finalizers_after(by_kind("v1", "Pod"), ["a"], DeleteOptions(propagation_policy="Foreground"))
    ['a', 'foregroundDeletion']
    """
    policy = options.propagation_policy
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        else:
            policy = kind.default_propagation
    kept = [finalizer for finalizer in finalizers if finalizer not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        kept.append(ORPHAN)
    elif policy == "Foreground":
        kept.append(FOREGROUND)
    return kept


KEEPS_PODS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


def deletion_warnings(kind: Kind, options: DeleteOptions) -> list[str]:
    """Return what a client should know before it deletes objects of this kind with these options."""
    silent = options.propagation_policy is None and options.orphan_dependents is None
    return [KEEPS_PODS] if (kind.group, kind.kind) == ("batch", "Job") and silent else []
