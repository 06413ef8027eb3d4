"""Informer: a local cache of one collection, with event handlers.

Objects are decoded once and shared: readers must not modify them. A change is delivered as (old, new): old is None
for an added object, new is None for a deleted one. After a relist the difference is delivered in the same way. An
object that cannot be decoded (another API version) is left out.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, NamedTuple, TypedDict, TypeVar

import msgspec

from weir.client.api import Client, ResourceType
from weir.client.watch import Reflector
from weir.clock import Clock
from weir.observe.logs import Log

_LOG = Log("weir.client")
T = TypeVar("T")
Listener = Callable[[T | None, T | None], None]
IndexFunction = Callable[[T], Sequence[str]]


class ObjectKey(NamedTuple):
    """Names an object within its collection.

    >>> str(ObjectKey("default", "web")), str(ObjectKey("", "node-1"))
    ('default/web', 'node-1')
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Meta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815  (the wire's spelling)


class _Head(msgspec.Struct, gc=False):
    metadata: _Meta


_decode_head = msgspec.json.Decoder(_Head).decode


class _ObjectMeta(TypedDict, total=False):
    """The metadata of an object but for managedFields, which are the longer half of most documents."""

    name: Any
    generateName: Any
    namespace: Any
    selfLink: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    deletionGracePeriodSeconds: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    finalizers: Any


class _Described(TypedDict, total=False):
    """An object that consists of a spec and a status."""

    kind: Any
    apiVersion: Any
    metadata: _ObjectMeta
    spec: Any
    status: Any


#: Decodes a document of spec and status without its managedFields: for copies that only decisions are made on.
decode_described: Callable[[bytes | msgspec.Raw], dict[str, Any]] = msgspec.json.Decoder(_Described).decode  # type: ignore[assignment]
decode_document: Callable[[bytes | msgspec.Raw], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode


class _Named(NamedTuple):
    """What a cache must know of every object."""

    key: ObjectKey
    version: str


def _name_of_raw(item: msgspec.Raw) -> _Named:
    meta = _decode_head(item).metadata
    return _Named(ObjectKey(meta.namespace, meta.name), meta.resourceVersion)


def _name_of_document(document: Any) -> _Named:
    meta = document["metadata"]
    return _Named(ObjectKey(meta.get("namespace", ""), meta["name"]), meta.get("resourceVersion", ""))


def _name_of_view(view: Any) -> _Named:
    meta = view.metadata
    return _Named(ObjectKey(meta.namespace, meta.name), meta.resource_version)


def _namer_of(decoded: Any) -> Callable[[Any], _Named] | None:
    """Return what finds the name in objects decoded like this one; None when only their bytes say it."""
    if isinstance(decoded, dict):
        return _name_of_document
    meta = getattr(decoded, "metadata", None)
    names = ("namespace", "name", "resource_version")
    return _name_of_view if all(isinstance(getattr(meta, name, None), str) for name in names) else None


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Keep the garbage collector from walking thousands of new objects again and again while they are made."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_PARTS: Final = ("metadata", "spec", "status")
#: Beside a bit for each part: that an object came or went, and that it was written.
_CAME_OR_WENT: Final = 8
_WRITTEN: Final = 16


class _Entry(Generic[T]):
    """One known object, and the values that each index has for it."""

    __slots__ = ("item", "values", "version")

    def __init__(self, item: T, version: str) -> None:
        self.item, self.version = item, version
        self.values: list[Sequence[str]] = []


def _bits_of(parts: Sequence[str]) -> int:
    """Return a bit for each of these parts of a view."""
    return sum(1 << _PARTS.index(part) for part in parts)


def _changed_parts(old: Any, new: Any) -> int:
    """Return which parts of a view are other objects than before, as a bit for each."""
    return (
        (old.metadata is not new.metadata)
        + 2 * (old.spec is not new.spec)
        + 4 * (old.status is not new.status)
    )


class Cache(Generic[T]):
    """A copy of one collection. A `weir.client.watch.Target`."""

    def __init__(
        self,
        decode: Callable[[msgspec.Raw], T],
        unreadable: Callable[[ObjectKey, Exception], None] = lambda key, error: None,
    ) -> None:
        self._decode, self._unreadable = decode, unreadable
        #: how the name of a decoded object is found, as the first one shows; None: from its bytes
        self._name: Callable[[T], _Named] | None = None
        self._tried = False
        self._entries: dict[ObjectKey, _Entry[T]] = {}
        #: each with the bits of the changes that it is called for
        self._listeners: list[tuple[int, Listener[T]]] = []
        self._indexes: dict[str, tuple[IndexFunction[T], dict[str, dict[ObjectKey, _Entry[T]]]]] = {}
        #: what each index reads, if it says so: parts of a view that stay the same object until they change
        self._reads: tuple[int, ...] = ()
        self._synced: asyncio.Event = asyncio.Event()
        self.resource_version = ""

    # ----------------------------------------------------------------------------------------------- reading

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: ObjectKey) -> T | None:
        """Return the object called *key*, if it is known."""
        entry = self._entries.get(key)
        return None if entry is None else entry.item

    def find(self, namespace: str, name: str) -> T | None:
        """Return the same by namespace and name: a tuple equals the key, and is made in a fifth of the time."""
        entry = self._entries.get((namespace, name))  # type: ignore[call-overload]
        return None if entry is None else entry.item

    def __iter__(self) -> Iterator[T]:
        return iter([entry.item for entry in self._entries.values()])

    def keys(self) -> list[ObjectKey]:
        """Return the name of every known object."""
        return list(self._entries)

    def add_index(self, name: str, function: IndexFunction[T], reads: Sequence[str] = ()) -> None:
        """Keep objects findable by the values *function* gives for each, such as a pod's node.

        It is not asked again while the *reads* of a view (metadata, spec, status) are the same objects as before.
        """
        groups: dict[str, dict[ObjectKey, _Entry[T]]] = {}
        self._indexes[name] = (function, groups)
        self._reads += (_bits_of(reads),)
        for key, entry in self._entries.items():
            entry.values.append(values := function(entry.item))
            for value in values:
                groups.setdefault(value, {})[key] = entry

    def by_index(self, name: str, value: str) -> list[T]:
        """Return the objects for which index *name* has *value*, in the order in which they got it."""
        return [entry.item for entry in self._indexes[name][1].get(value, {}).values()]

    @property
    def synced(self) -> bool:
        """Whether everything there was has been read once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return when everything there was has been read once."""
        await self._synced.wait()

    # --------------------------------------------------------------------------------------------- listening

    def listen(self, listener: Listener[T], reads: Sequence[str] | None = None) -> None:
        """Call *listener* with (old, new) for every change, and now with everything already known.

        One that *reads* some parts of a view (metadata, spec, status) need not be called for a write that leaves them
        the same objects as before.
        """
        self._listeners.append((_WRITTEN if reads is None else _CAME_OR_WENT | _bits_of(reads), listener))
        for entry in list(self._entries.values()):
            listener(None, entry.item)

    # ---------------------------------------------------------------------------------------------- changing

    def replace(self, items: list[msgspec.Raw], resource_version: str) -> None:
        with _without_collecting():
            objects = [read for item in items if (read := self._find(item)) is not None]
        there = {named.key for named, _ in objects}
        for key in [key for key in self._entries if key not in there]:
            self._remove(key)
        for (key, version), item in objects:
            known = self._entries.get(key)
            if known is None or known.version != version:
                self._put(key, item, version)
        self.resource_version = resource_version
        self._synced.set()

    def change(self, type: str, item: msgspec.Raw) -> str:
        if type == "DELETED":
            key, version = _name_of_raw(item)
            self._remove(key)
        else:
            read = self._find(item)
            if read is None:
                key, version = _name_of_raw(item)
                self._remove(key)
            else:
                (key, version), decoded = read
                self._put(key, decoded, version)
        self.resource_version = version
        return version

    def _find(self, item: msgspec.Raw) -> tuple[_Named, T] | None:
        """Return the object, or None for one that says something else than it should."""
        try:
            return self._read(item)
        except msgspec.ValidationError as error:
            self._unreadable(_name_of_raw(item).key, error)
            return None

    def _read(self, item: msgspec.Raw) -> tuple[_Named, T]:
        decoded = self._decode(item)
        if not self._tried:
            self._tried = True
            self._name = _namer_of(decoded)
        return (_name_of_raw(item) if self._name is None else self._name(decoded)), decoded

    def put(self, key: ObjectKey, item: T, version: str = "") -> None:
        """Take in an object that is decoded already."""
        self._put(key, item, version)

    def set_synced(self) -> None:
        """Everything there is has been put in."""
        self._synced.set()

    def discard(self, key: ObjectKey) -> None:
        """Let go of an object, if it is known."""
        self._remove(key)

    def progress(self, resource_version: str) -> None:
        self.resource_version = resource_version

    def _put(self, key: ObjectKey, item: T, version: str) -> None:
        entry = self._entries.get(key)
        if entry is None:
            entry, old, changed = _Entry(item, version), None, _WRITTEN | _CAME_OR_WENT
            self._entries[key] = entry
            for function, groups in self._indexes.values():
                entry.values.append(values := function(item))
                for value in values:
                    groups.setdefault(value, {})[key] = entry
        else:
            old = entry.item
            entry.item, entry.version = item, version
            reads = self._reads
            changed = _WRITTEN | (_changed_parts(old, item) if any(reads) else _CAME_OR_WENT)
            for number, (function, groups) in enumerate(self._indexes.values()):
                if reads[number] and not reads[number] & changed:
                    continue
                values, before = function(item), entry.values[number]
                if values != before:
                    self._unindex(key, before, groups)
                    entry.values[number] = values
                    for value in values:
                        groups.setdefault(value, {})[key] = entry
        for called_for, listener in self._listeners:
            if called_for & changed:
                listener(old, item)

    def _remove(self, key: ObjectKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        for (_, groups), values in zip(self._indexes.values(), entry.values, strict=True):
            self._unindex(key, values, groups)
        for _, listener in self._listeners:
            listener(entry.item, None)

    @staticmethod
    def _unindex(
        key: ObjectKey, values: Sequence[str], groups: dict[str, dict[ObjectKey, _Entry[T]]]
    ) -> None:
        for value in values:
            group = groups.get(value)
            if group is not None:
                group.pop(key, None)
                if not group:
                    del groups[value]


class Informer(Generic[T]):
    """A cache together with what keeps it up to date."""

    def __init__(
        self,
        client: Client,
        kind: ResourceType,
        clock: Clock,
        decode: Callable[[msgspec.Raw], T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        seed: int | None = None,
    ) -> None:
        self.kind = kind
        self.cache: Cache[T] = Cache(decode, self._unreadable)
        self.reflector = Reflector(
            client,
            kind,
            self.cache,
            clock,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            seed=seed,
        )

    def _unreadable(self, key: ObjectKey, error: Exception) -> None:
        _LOG.warning("cannot be read and is left out", kind=self.kind.plural, name=str(key), error=str(error))

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        await self.reflector.run()


async def wait_all_synced(informers: Mapping[str, Informer[Any]] | Iterable[Informer[Any]]) -> None:
    """Return when every one of *informers* has read everything once."""
    several = informers.values() if isinstance(informers, Mapping) else informers
    for informer in several:
        await informer.cache.wait_synced()
