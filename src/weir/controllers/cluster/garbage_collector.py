"""Garbage collector: deletes or orphans dependents according to their owner references.

Three policies: background (the dependents are deleted after the owner), foreground (the owner keeps the finalizer
`foregroundDeletion` until its blocking dependents are gone), orphan (finalizer `orphan`: owner references are removed
first). An owner that is not in the informer cache may be new, so it is read live before a dependent is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from weir.client.events import ObjectReference
from weir.controllers.runtime.controller import Action, Controller, Delete, Patch, Record, WakeAt
from weir.controllers.runtime.custom_kinds import CustomKinds
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Node, Pod
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS, NAMESPACES, find_kind

FindKind = Callable[[str, str], Kind | None]
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
SECOND_LOOK: Final = timedelta(seconds=1)


class ItemKey(msgspec.Struct, frozen=True):
    """One object of any kind."""

    kind: Kind
    namespace: str
    name: str


class Owner(msgspec.Struct, frozen=True):
    """One entry of an object's ownerReferences."""

    kind: Kind | None
    name: str
    uid: str
    blocks: bool


class Item(msgspec.Struct, frozen=True):
    """What the collector reads of any object."""

    uid: str
    deleting: bool
    finalizers: tuple[str, ...]
    owners: tuple[Owner, ...]
    version: str
    written: tuple[Mapping[str, Any], ...] = ()  # the owners as the object has them


class GarbageCollector(Controller):
    """The garbage collector."""

    name = "garbage-collector-controller"
    custom = True
    kinds: Sequence[Kind] = tuple(
        kind
        for kind in KINDS
        if kind.stored
        and "watch" in kind.verbs
        and kind.kind != "Event"  # they expire; they own nothing and have no owner
    )

    def __init__(self, gates: Gates) -> None:
        self._dependents: dict[str, set[ItemKey]] = {}  # uid of an owner → those that name it
        self._doubted: dict[ItemKey, datetime] = {}  # objects whose owners seem gone → since when
        self._find: FindKind = find_kind

    def set_custom_kinds(self, kinds: CustomKinds) -> None:
        """Find owners among custom kinds too."""
        self._find = kinds.find

    def _read(self, found: Any) -> Item:
        return read_item(found, self._find)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ItemKey]:
        """Yield the object itself if it has owners or waits for dependents, and those that wait for it."""
        if old is not None and new is not None and _same_owners(old, new):
            return  # nothing of what is kept here, and nothing that is waited for
        key = _key(kind, new if new is not None else old)
        before = self._read(old) if old is not None else None
        after = self._read(new) if new is not None else None
        for owner in before.owners if before is not None else ():
            there = self._dependents.get(owner.uid, set())
            there.discard(key)
            if not there:
                self._dependents.pop(owner.uid, None)
        if after is not None:
            for owner in after.owners:
                self._dependents.setdefault(owner.uid, set()).add(key)
            if after.owners and (before is None or before.owners != after.owners):
                yield key
            if after.deleting and (FOREGROUND in after.finalizers or ORPHAN in after.finalizers):
                yield key
            for owner in before.owners if before is not None else ():
                if owner.blocks and owner not in after.owners:
                    yield from _owner_key(owner, key)  # it need not wait for this one any more
            return
        assert before is not None
        self._doubted.pop(key, None)
        yield from sorted(self._dependents.pop(before.uid, ()), key=_order)
        for owner in before.owners:  # it may have been the last one an owner waited for
            yield from _owner_key(owner, key)

    def reconcile(self, key: ItemKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what follows for one object from the state of its owners and dependents."""
        if key.kind not in listers.caches:
            return
        document = listers.get(key.kind, key.name, key.namespace)
        if document is None:
            return
        item = self._read(document)
        if item.deleting and ORPHAN in item.finalizers:
            yield from self._release(key, item, listers)
        elif item.deleting and FOREGROUND in item.finalizers:
            yield from self._wait(key, item, listers, now)
        if item.owners and not item.deleting:
            yield from self._owned(key, item, listers, now)

    # ── an owner that is being deleted ───────────────────────────────────────────────────────────

    def _release(self, key: ItemKey, item: Item, listers: Listers) -> Iterator[Action]:
        for dependent in sorted(self._dependents.get(item.uid, ()), key=_order):
            other = listers.get(dependent.kind, dependent.name, dependent.namespace)
            if other is not None:
                yield _without_owners(dependent, self._read(other), {item.uid})
        yield _without_finalizer(key, item, ORPHAN)

    def _wait(self, key: ItemKey, item: Item, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the deletion of the dependents, or the end of waiting where none of them blocks any more."""
        blocking = False
        for dependent in sorted(self._dependents.get(item.uid, ()), key=_order):
            other = listers.get(dependent.kind, dependent.name, dependent.namespace)
            if other is None:
                continue
            inner = self._read(other)
            blocking = blocking or any(o.uid == item.uid and o.blocks for o in inner.owners)
            if not inner.deleting:
                yield from self._owned(dependent, inner, listers, now)
        if not blocking:
            yield _without_finalizer(key, item, FOREGROUND)

    # ── an object with owners ────────────────────────────────────────────────────────────────────

    def _owned(self, key: ItemKey, item: Item, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what follows from the owners: some are there, some gone, some wait for their dependents to go."""
        if any(
            owner.kind in listers.caches and not listers.caches[owner.kind].synced for owner in item.owners
        ):
            yield WakeAt(key, now + SECOND_LOOK)  # a kind that just came: its objects are being read
            return
        gone = [owner for owner in item.owners if _is_gone(owner, key.namespace, listers)]
        waiting = [
            owner for owner in item.owners if owner not in gone and self._waits(owner, key.namespace, listers)
        ]
        if not gone:
            self._doubted.pop(key, None)
            if not waiting:
                return
        else:
            if key not in self._doubted:
                for owner in gone:
                    yield from _elsewhere(key, item, owner, listers)
            since = self._doubted.setdefault(key, now)
            if now - since < SECOND_LOOK:  # the other copy may only be late
                yield WakeAt(key, since + SECOND_LOOK)
                return
        if len(gone) + len(waiting) < len(item.owners):
            # One that stays would otherwise be waited for until it goes for another reason.
            yield _without_owners(key, item, {owner.uid for owner in (*gone, *waiting)})
            return
        policy = "Orphan" if ORPHAN in item.finalizers else "Background"
        if FOREGROUND in item.finalizers:
            policy = "Foreground"
        own = self._dependents.get(item.uid, ())
        if waiting and own:
            policy = "Foreground"
            if any(self._deletes_dependents(each, listers) for each in own):
                yield _unblocking(
                    key, item
                )  # it may be a circle, in which each would wait for the next for ever
        owners = tuple((owner.kind, owner.name, owner.uid) for owner in gone if owner.kind is not None)
        yield Delete(
            key.kind,
            key.name,
            key.namespace,
            item.uid,
            propagation_policy=policy,
            unless_present=owners,
        )

    def _waits(self, owner: Owner, namespace: str, listers: Listers) -> bool:
        if owner.kind is None:
            return False
        where = namespace if owner.kind.namespaced else ""
        return self._deletes_dependents(ItemKey(owner.kind, where, owner.name), listers)

    def _deletes_dependents(self, key: ItemKey, listers: Listers) -> bool:
        """Return whether an object waits in the foreground until its dependents are gone."""
        if key.kind not in listers.caches:
            return False
        document = listers.get(key.kind, key.name, key.namespace)
        return document is not None and _is_deleting_in_foreground(document)


def _elsewhere(key: ItemKey, item: Item, owner: Owner, listers: Listers) -> Iterator[Action]:
    """Yield a word about an owner that is in another namespace, where it cannot own anything."""
    kind = owner.kind
    if kind is None or not kind.namespaced or not listers.serves(NAMESPACES):
        return
    for namespace in listers.all(NAMESPACES):
        document = listers.get(kind, owner.name, namespace["metadata"]["name"])
        if document is not None and read_item(document).uid == owner.uid:
            whom = ObjectReference(key.kind.kind, key.name, key.namespace, item.uid, key.kind.api_version)
            what = f"{kind.api_version}/{kind.kind}, namespace: {key.namespace}, name: {owner.name}, uid: {owner.uid}"
            text = f'ownerRef [{what}] does not exist in namespace "{key.namespace}"'
            yield Record(whom, "Warning", "OwnerRefInvalidNamespace", text)
            return


def _same_owners(old: Any, new: Any) -> bool:
    """Whether a change is none to the collector: the same owners, and no finalizer of something being deleted."""
    if isinstance(new, dict):
        before, after = old["metadata"], new["metadata"]
        return before.get("ownerReferences") == after.get("ownerReferences") and not (
            after.get("deletionTimestamp") and after.get("finalizers")
        )
    before, after = old.metadata, new.metadata
    return before.owner_references == after.owner_references and not (
        after.deletion_timestamp and after.finalizers
    )


def read_item(found: Any, find: FindKind = find_kind) -> Item:
    """Return what the collector reads of an object, whatever its kind."""
    if isinstance(found, Pod | Node):
        metadata = found.metadata
        owners = tuple(
            Owner(find(o.api_version, o.kind), o.name, o.uid, bool(o.block_owner_deletion))
            for o in metadata.owner_references or ()
        )
        return Item(
            metadata.uid,
            metadata.deletion_timestamp is not None,
            metadata.finalizers or (),
            owners,
            metadata.resource_version,
        )
    document = found["metadata"]
    owners = tuple(
        Owner(
            find(o.get("apiVersion", ""), o.get("kind", "")),
            o.get("name", ""),
            o.get("uid", ""),
            bool(o.get("blockOwnerDeletion")),
        )
        for o in document.get("ownerReferences") or ()
    )
    return Item(
        document["uid"],
        bool(document.get("deletionTimestamp")),
        tuple(document.get("finalizers") or ()),
        owners,
        document.get("resourceVersion", ""),
        tuple(document.get("ownerReferences") or ()),
    )


def _is_gone(owner: Owner, namespace: str, listers: Listers) -> bool:
    if owner.kind is None or owner.kind not in listers.caches:
        return False  # a kind that is not in the table: decided by a live read
    document = listers.get(owner.kind, owner.name, namespace if owner.kind.namespaced else "")
    if document is None:
        return True
    uid = document["metadata"]["uid"] if isinstance(document, dict) else document.metadata.uid
    return bool(uid != owner.uid)


def _is_deleting_in_foreground(found: Any) -> bool:
    if isinstance(found, dict):
        metadata = found["metadata"]
        return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())
    metadata = found.metadata
    return metadata.deletion_timestamp is not None and FOREGROUND in (metadata.finalizers or ())


def _key(kind: Kind, found: Any) -> ItemKey:
    if isinstance(found, dict):
        return ItemKey(kind, found["metadata"].get("namespace", ""), found["metadata"]["name"])
    return ItemKey(kind, found.metadata.namespace, found.metadata.name)


def _owner_key(owner: Owner, of: ItemKey) -> Iterator[ItemKey]:
    if owner.kind is not None:
        yield ItemKey(owner.kind, of.namespace if owner.kind.namespaced else "", owner.name)


def _order(key: ItemKey) -> tuple[str, str, str]:
    return key.kind.plural, key.namespace, key.name


def _without_finalizer(key: ItemKey, item: Item, finalizer: str) -> Patch:
    kept = [each for each in item.finalizers if each != finalizer]
    return Patch(
        key.kind,
        key.name,
        key.namespace,
        {"metadata": {"resourceVersion": item.version, "uid": item.uid, "finalizers": kept or None}},
    )


def _without_owners(key: ItemKey, item: Item, uids: set[str]) -> Patch:
    """Return the change that makes an object forget these owners, whatever else it has."""
    if key.kind.group and find_kind(key.kind.api_version, key.kind.kind) is None:
        # Custom resources have no strategic merge: write the remaining list, guarded by resourceVersion.
        left = [owner for owner in item.written if owner.get("uid") not in uids]
        kept = {"uid": item.uid, "resourceVersion": item.version, "ownerReferences": left or None}
        return Patch(key.kind, key.name, key.namespace, {"metadata": kept})
    gone = [{"$patch": "delete", "uid": uid} for uid in sorted(uids)]
    patch = {"metadata": {"uid": item.uid, "ownerReferences": gone}}
    return Patch(key.kind, key.name, key.namespace, patch, "application/strategic-merge-patch+json")


def _unblocking(key: ItemKey, item: Item) -> Patch:
    """Return the change after which no owner waits for an object, though they stay its owners."""
    if key.kind.group and find_kind(key.kind.api_version, key.kind.kind) is None:
        free = [{**owner, "blockOwnerDeletion": False} for owner in item.written]
        patch = {"uid": item.uid, "resourceVersion": item.version, "ownerReferences": free}
        return Patch(key.kind, key.name, key.namespace, {"metadata": patch})
    blocking = [{"uid": owner.uid, "blockOwnerDeletion": False} for owner in item.owners if owner.blocks]
    changed = {"metadata": {"uid": item.uid, "ownerReferences": blocking}}
    return Patch(key.kind, key.name, key.namespace, changed, "application/strategic-merge-patch+json")
