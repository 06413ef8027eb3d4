"""Encoding of documents in the store.

A stored value is the JSON of the document with `metadata` first and `resourceVersion` first in it, without kind and
apiVersion (which the key implies):

    {"metadata":{"resourceVersion":"<stamped by the store>", …}, "spec": …}

so a list is a join of stored bytes, and a single object or a watch event is a constant prefix plus stored bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from weir.apiserver.registry.conversion import convert_value, from_storage, to_storage
from weir.caches import bounded
from weir.compat.customresources.served import CustomResourceKind
from weir.objects.kind import Document, Kind
from weir.objects.kinds import KINDS, hub_of
from weir.store import Store, StoreError, Watch

HEAD = b'{"metadata":{"resourceVersion":"'
STAMP = len(HEAD)
_UNSTAMPED = {"resourceVersion": ""}
_KEPT_ELSEWHERE = frozenset({"kind", "apiVersion", "metadata"})
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode(document: Document, kind: Kind | None = None) -> bytes:
    """Return the value to store; the store inserts the revision at `STAMP`.

    >>> encode({"kind": "Pod", "metadata": {"name": "a", "resourceVersion": "7"}, "spec": {}})
    b'{"metadata":{"resourceVersion":"","name":"a"},"spec":{}}'
    """
    if kind is not None and kind.converted:
        document = to_storage(kind, document)
    whole: Document = {"metadata": {"resourceVersion": "", **document["metadata"], **_UNSTAMPED}}
    for name, value in document.items():
        if name not in _KEPT_ELSEWHERE:
            whole[name] = value
    if isinstance(kind, CustomResourceKind):  # objects of one kind may be stored in several versions
        whole["apiVersion"] = document["apiVersion"]
    return _encode(whole)


def served(kind: Kind, value: bytes) -> bytes:
    """Return stored bytes as the API shows one object."""
    if kind.converted:
        value = convert_value(kind, value)
    return kind.opening + value[1:]


def just_stored(kind: Kind, value: bytes) -> bytes:
    """Return bytes that were stored a moment ago as the API shows one object.

    A custom resource that was written in the version it is stored in need not be read with its schema again.
    """
    if isinstance(kind, CustomResourceKind) and kind.version == kind.storage:
        end = f',"apiVersion":"{kind.api_version}"}}'.encode()
        if value.endswith(end):
            return kind.opening + value[1 : -len(end)] + b"}"
    return served(kind, value)


def is_of_another_version(kind: Kind, value: bytes) -> bool:
    """Return whether a custom resource lies in the store in a version that is not the storage version any more."""
    if not isinstance(kind, CustomResourceKind):
        return False
    return not value.endswith(f',"apiVersion":"{kind.group}/{kind.storage}"}}'.encode())


def decode(kind: Kind, value: bytes) -> Document:
    """Return stored bytes as a document that may be edited."""
    document: Document = {"kind": kind.kind, "apiVersion": kind.api_version}
    found = _decode(value)
    document.update(from_storage(kind, found) if kind.converted else found)
    return document


_PREFIXES = frozenset(kind.prefix for kind in KINDS if kind.stored)


@bounded(10_000)
def _prefix_of(folder: str) -> str:
    """Return the prefix of the kind whose objects lie in *folder*.

    >>> _prefix_of("/registry/pods/default/"), _prefix_of("/registry/nodes/")
    ('/registry/pods/', '/registry/nodes/')
    """
    _, _, first, second, *_ = (*folder.split("/"), "")
    under = f"/registry/{first}/"
    return under if under in _PREFIXES else f"/registry/{first}/{second}/"


class Following:
    """Whether changes are still delivered; `stop` ends it."""

    def __init__(self) -> None:
        self.watch: Watch | None = None
        self._alive = True

    def __bool__(self) -> bool:
        return self._alive

    def lost(self, reason: StoreError) -> None:
        """The store lost events: followers must relist."""
        self._alive = False

    def stop(self) -> None:
        """Deliver nothing more."""
        self._alive = False
        if self.watch is not None:
            self.watch.cancel()


#: Kinds of which every object is needed again whenever one changed: those of unchanged ones stay decoded.
_KEPT_GROUP = "rbac.authorization.k8s.io"


class Reader:
    """Read-only access to stored objects for admission, authorization and strategies.

    Documents are decoded once per revision and shared: callers must not change them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: dict[str, tuple[int, Document]] = {}
        self._versions: dict[str, int] = {}
        self._kept: dict[str, dict[str, tuple[int, Document]]] = {}
        store.watch("/registry/", store.revision, self._changed)

    def _changed(self, events: Iterable[Any]) -> None:
        for event in events:
            key = event.key
            if key in self._cache:
                del self._cache[key]
            self._versions[_prefix_of(key[: key.rfind("/") + 1])] = event.revision

    def version(self, kind: Kind) -> int:
        """Return a number that changes whenever any object of *kind* changed."""
        return self._versions.get(kind.prefix, 0)

    def get_now(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return one object as it is stored, None when there is none."""
        kind = hub_of(kind)
        key = kind.key(namespace, name)
        cached = self._cache.get(key)
        if cached is not None:
            return cached[1]
        found = self._store.get(key)
        if found is None:
            return None
        document = decode(kind, found.value)
        if len(self._cache) > 10_000:
            self._cache.clear()
        self._cache[key] = (found.mod_revision, document)
        return document

    def list_now(self, kind: Kind, namespace: str | None = None) -> list[Mapping[str, Any]]:
        """Return the objects of a kind, of one namespace or of all."""
        under = f"{kind.prefix}{namespace}/" if namespace and kind.namespaced else kind.prefix
        items = self._store.range(under).items
        if kind.group != _KEPT_GROUP or namespace:
            return [decode(kind, item.value) for item in items]
        known = self._kept.get(kind.prefix, {})
        kept = self._kept[kind.prefix] = {
            item.key: found
            if (found := known.get(item.key)) is not None and found[0] == item.mod_revision
            else (item.mod_revision, decode(kind, item.value))
            for item in items
        }
        return [document for _, document in kept.values()]

    def follow(
        self, kind: Kind, namespace: str, changed: Callable[[str, Mapping[str, Any] | None], None]
    ) -> Following:
        """Call *changed* with the name and document of every object of a namespace, now and whenever one changes."""
        under = f"{kind.prefix}{namespace}/"
        following = Following()
        page = self._store.range(under)
        for item in page.items:
            changed(item.key[len(under) :], decode(kind, item.value))

        def deliver(events: Iterable[Any]) -> None:
            for event in events:
                name = event.key[len(under) :]
                changed(name, None if event.now is None else decode(kind, event.now.value))

        following.watch = self._store.watch(under, page.revision, deliver, following.lost)
        return following

    async def get(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return one object, None when there is none."""
        return self.get_now(kind, namespace, name)

    async def list(self, kind: Kind, namespace: str | None = None) -> list[Mapping[str, Any]]:
        """Return the objects of a kind, of one namespace or of all."""
        return self.list_now(kind, namespace)
