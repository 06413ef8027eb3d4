"""ControllerRef management: adopts matching objects without a controller and releases those that no longer match.

An object has at most one controller. A workload that is being deleted neither adopts nor releases, and before
adopting its deletionTimestamp is read live, since the informer may lag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from weir.caches import bounded
from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Document, Patch
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.controllers.workloads.pod_control import owner_reference
from weir.objects.kind import Kind
from weir.selectors.labels import Selector, SelectorError, from_object


class Claimed(msgspec.Struct, frozen=True):
    """What a workload has after claiming, and the changes that make it so."""

    mine: tuple[Any, ...]
    changes: tuple[Patch, ...]


class Claimants:
    """The workloads of one kind by selector, to find those that may adopt an object without a controller."""

    def __init__(self) -> None:
        self._selectors: dict[str, dict[str, Selector | None]] = {}

    def changed(self, old: Document | None, new: Document | None) -> None:
        """Take in a change of one workload."""
        workload = new if new is not None else old
        assert workload is not None
        metadata = workload["metadata"]
        there = self._selectors.setdefault(metadata["namespace"], {})
        if new is None:
            there.pop(metadata["name"], None)
            if not there:
                del self._selectors[metadata["namespace"]]
        elif old is None or old["spec"].get("selector") != new["spec"].get("selector"):
            there[metadata["name"]] = selector_of(new)

    def of(self, namespace: str, labels: Mapping[str, str]) -> Iterator[str]:
        """Yield the names of the workloads in *namespace* that select *labels*."""
        for name, selector in self._selectors.get(namespace, {}).items():
            if selector is not None and selector.matches(labels):
                yield name

    def concerned(self, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the workloads that may adopt a changed object that has no controller."""
        if new is None or owned(new):
            return
        labels = labels_of(new)
        if old is not None and not owned(old) and labels_of(old) == labels:
            return
        namespace, _, _ = identity(new)
        for name in self.of(namespace, labels):
            yield ObjectKey(namespace, name)


def selector_of(workload: Document) -> Selector | None:
    """Return what a workload selects; None when it selects nothing (or cannot be read)."""
    written = workload["spec"].get("selector")
    if not written:
        return None
    return _read_selector(msgspec.json.encode(written))


@bounded(4096, longest=2048)
def _read_selector(text: bytes) -> Selector | None:
    """Return the selector that *text* writes; workloads are looked at often, and their selectors do not change."""
    written = msgspec.json.decode(text)
    if "matchLabels" not in written and "matchExpressions" not in written:
        written = {"matchLabels": written}  # ReplicationControllers write plain labels
    try:
        return from_object(written)
    except SelectorError:
        return None


def claim(
    owner: Document,
    kind: Kind,
    listers: Listers,
    wanted: Kind,
    *,
    fits: Callable[[Any], bool] | None = None,
    considers: Callable[[Any], bool] | None = None,
    finalizer: str = "",
    selector: Selector | None = None,
) -> Claimed:
    """Return the objects of *wanted* that *owner* controls, including those to adopt, excluding those to release.

    *fits* further restricts what may be adopted or kept; what *considers* rejects is left unchanged.
    *finalizer* is added on adoption and removed on release.
    """
    metadata = owner["metadata"]
    selector = selector if selector is not None else selector_of(owner)
    terminating = bool(metadata.get("deletionTimestamp"))
    mine: list[Any] = []
    changes: list[Patch] = []

    def selects(item: Any) -> bool:
        return selector is not None and selector.matches(labels_of(item)) and (fits is None or fits(item))

    for item in listers.owned(wanted, metadata["uid"]):
        if selector is None or (considers is not None and not considers(item)) or selects(item):
            mine.append(item)
        elif not terminating:
            changes.append(release(item, wanted, metadata["uid"], finalizer))
    if selector is None or terminating:
        return Claimed(tuple(mine), tuple(changes))
    for item in listers.free(wanted, metadata["namespace"]):
        if _deleting(item) or (considers is not None and not considers(item)):
            continue
        if selects(item):
            mine.append(item)
            changes.append(adopt(item, wanted, owner, kind, finalizer))
    return Claimed(tuple(mine), tuple(changes))


def adopt(item: Any, wanted: Kind, owner: Document, kind: Kind, finalizer: str = "") -> Patch:
    """Return the change that makes *owner* the controller of *item*."""
    namespace, name, uid = identity(item)
    metadata: dict[str, Any] = {"uid": uid, "ownerReferences": [owner_reference(owner, kind)]}
    if finalizer:
        metadata["finalizers"] = [finalizer]
    still = ((kind, owner["metadata"]["name"], owner["metadata"]["uid"]),)
    return Patch(wanted, name, namespace, {"metadata": metadata}, STRATEGIC_MERGE_PATCH, while_present=still)


def release(item: Any, wanted: Kind, owner_uid: str, finalizer: str = "") -> Patch:
    """Return the change by which *item* is without a controller again."""
    namespace, name, uid = identity(item)
    metadata: dict[str, Any] = {"uid": uid, "ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}
    if finalizer:
        metadata["$deleteFromPrimitiveList/finalizers"] = [finalizer]
    return Patch(wanted, name, namespace, {"metadata": metadata}, STRATEGIC_MERGE_PATCH)


# ── pods are views, everything else is documents ─────────────────────────────────────────────────


def identity(item: Any) -> tuple[str, str, str]:
    """Return namespace, name and uid."""
    if isinstance(item, Pod):
        return item.metadata.namespace, item.metadata.name, item.metadata.uid
    return item["metadata"].get("namespace", ""), item["metadata"]["name"], item["metadata"]["uid"]


def labels_of(item: Any) -> Mapping[str, str]:
    """Return the labels of a view or document."""
    found = item.metadata.labels if isinstance(item, Pod) else item["metadata"].get("labels")
    return found or {}


def owned(item: Any) -> bool:
    """Return whether the object has a controller."""
    if isinstance(item, Pod):
        return bool(item.controller_uid)
    return any(owner.get("controller") for owner in item["metadata"].get("ownerReferences") or ())


def _deleting(item: Any) -> bool:
    return item.deleting if isinstance(item, Pod) else bool(item["metadata"].get("deletionTimestamp"))
