"""The typed views of pods and nodes that the controllers and the scheduler of a forecast share.

A view is made from the parts of a document that changed; the others are taken from the view before it. Pods of one
template share the parts of their spec, and often their status: views of those are made once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from weir.client.cache import Cache
from weir.controllers.runtime.listers import decoder, prepare
from weir.controllers.runtime.views import Node, ObjectMeta, Pod, PodSpec, PodStatus
from weir.forecast.objects import MOST_STATUSES, Objects, key_of
from weir.objects.core import read
from weir.objects.kind import Kind

Document = dict[str, Any]
#: What a deletion or any other write changes of a pod's metadata.
_CHANGING: Final = {
    "resourceVersion": "resource_version",
    "deletionTimestamp": "deletion_timestamp",
    "generation": "generation",
}
_UNSEEN: Final = frozenset({"deletionGracePeriodSeconds", "managedFields"})
_MOST_SPECS: Final = 65_536


class Views:
    """The last view of every pod and node, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[Document, Pod]] = {}
        self._nodes: dict[str, tuple[Document, Node]] = {}
        #: by the identity of its containers: a spec, and its view
        self._specs: dict[int, tuple[Document, PodSpec]] = {}
        #: by the identity of a status: itself, and its view
        self._statuses: dict[int, tuple[Document, PodStatus]] = {}

    def pod(self, document: Document) -> Pod:
        """Return the view of a pod as *document* describes it."""
        uid = document["metadata"]["uid"]
        last = self._pods.get(uid)
        if last is None:
            view = Pod(
                metadata=read(ObjectMeta, document["metadata"]),
                spec=self._spec(document["spec"]),
                status=self._status(document.get("status") or {}),
            )
        else:
            old, view = last
            if old is document:
                return view
            metadata, spec, status = view.metadata, view.spec, view.status
            if old["metadata"] is not document["metadata"]:
                metadata = _metadata(metadata, old["metadata"], document["metadata"])
            if old["spec"] is not document["spec"]:
                spec = self._spec(document["spec"])
            if old.get("status") is not document.get("status"):
                status = self._status(document.get("status") or {})
            view = Pod(metadata=metadata, spec=spec, status=status)
        self._pods[uid] = (document, view)
        return view

    def _spec(self, document: Document) -> PodSpec:
        """Return the view of a spec; of one that differs from another in the node alone it is made from that one's."""
        key = id(document.get("containers"))
        alike = self._specs.get(key)
        if alike is not None and _same_but_node(alike[0], document):
            return replace(alike[1], node_name=document.get("nodeName", ""))
        if len(self._specs) >= _MOST_SPECS:
            self._specs.clear()
        view = read(PodSpec, document)
        self._specs[key] = (document, view)
        return view

    def _status(self, document: Document) -> PodStatus:
        """Return the view of a status, which pods that came to it at one instant share."""
        alike = self._statuses.get(id(document))
        if alike is None or alike[0] is not document:
            if len(self._statuses) >= MOST_STATUSES:
                self._statuses.clear()
            alike = self._statuses[id(document)] = (document, read(PodStatus, document))
        return alike[1]

    def forget_pod(self, uid: str) -> None:
        """A pod is gone."""
        self._pods.pop(uid, None)

    def node(self, document: Document) -> Node:
        """Return the view of a node as *document* describes it."""
        uid = document["metadata"]["uid"]
        last = self._nodes.get(uid)
        if last is None or last[0] is not document:
            last = self._nodes[uid] = (document, read(Node, document))
        return last[1]


def _metadata(view: ObjectMeta, old: Document, new: Document) -> ObjectMeta:
    """Return the view of *new*, made from that of *old* where only what writes change differs."""
    changed, added = {}, 0
    for name, value in new.items():
        before = old.get(name)
        if before is None:
            added += 1
        if before is not value and name not in _UNSEEN:
            if name not in _CHANGING:
                return read(ObjectMeta, new)
            changed[_CHANGING[name]] = value
    if len(new) != len(old) + added:
        return read(ObjectMeta, new)
    return replace(view, **changed)


def _same_but_node(one: Document, other: Document) -> bool:
    """Return whether two specs consist of the same parts, the node apart; parts that they share are not compared."""
    return {**one, "nodeName": ""} == {**other, "nodeName": ""}


def follow(objects: Objects, kind: Kind, view: Callable[[Document], Any]) -> Cache[Any]:
    """Return a cache of all objects of *kind* that shows every write to them at once."""
    cache: Cache[Any] = Cache(decoder(kind))
    prepare(kind, cache)

    def changed(old: Document | None, new: Document | None) -> None:
        if new is not None:
            cache.put(key_of(new), view(new))
        elif old is not None:
            cache.discard(key_of(old))

    for document in objects.documents(kind):
        changed(None, document)
    cache.set_synced()
    objects.listen(kind, changed)
    return cache
