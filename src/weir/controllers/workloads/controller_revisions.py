"""ControllerRevisions of DaemonSets and StatefulSets: one per pod template.

They serve `kubectl rollout history` and `undo`. A revision holds a patch that restores its template; returning to an
older template makes its revision the newest again, with a new number. Revisions that no pod runs beyond
revisionHistoryLimit are deleted. kubectl finds revisions by the workload's selector, so they carry the template's
labels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.controllers.runtime.controller import Action, Create, Delete, Document, Patch
from weir.controllers.runtime.controller_refs import claim
from weir.controllers.runtime.listers import Listers
from weir.controllers.workloads.pod_control import owner_reference, template_hash
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind

REVISIONS: Final = by_kind("apps/v1", "ControllerRevision")
LONGEST_PREFIX: Final = 223


@dataclass(frozen=True)
class History:
    """A workload's revisions, and what brings them up to date."""

    update: Document  #: the revision of the current template; it may be about to be created
    old: tuple[Document, ...]  #: all others, oldest first
    changes: tuple[Action, ...]
    collisions: int  #: how often a name was taken by something else

    def named(self, name: str) -> Document | None:
        """Return the revision called *name*, if there is one."""
        return next((each for each in (*self.old, self.update) if each["metadata"]["name"] == name), None)

    def surplus(self, live: Collection[str], limit: int, *, live_count: bool) -> Iterator[Delete]:
        """Yield the deletion of the oldest revisions beyond *limit*; those in *live* stay.

        DaemonSets count the live ones towards the limit (*live_count*), StatefulSets do not.
        """
        idle = [each for each in self.old if each["metadata"]["name"] not in live]
        too_many = max(0, (len(self.old) if live_count else len(idle)) - limit)
        for each in idle[:too_many]:
            metadata = each["metadata"]
            yield Delete(REVISIONS, metadata["name"], metadata["namespace"], metadata["uid"])


def history(
    owner: Document, kind: Kind, listers: Listers, hash_label: str, *, wrapped: bool = False
) -> History:
    """Return the history of *owner* as it is and as it should be.

    *hash_label* carries the template's hash on every revision. A server without ControllerRevisions has no history.
    """
    claimed = claim(owner, kind, listers, REVISIONS) if listers.serves(REVISIONS) else None
    there = sorted(claimed.mine if claimed is not None else (), key=_order)
    data = restoring(owner["spec"]["template"])
    equal = [each for each in there if _same(each.get("data"), data)]
    changes: list[Action] = list(claimed.changes) if claimed is not None else []
    collisions: int = (owner.get("status") or {}).get("collisionCount") or 0
    if not equal:
        number = _number(there[-1]) + 1 if there else 1
        made, collisions = _make(owner, kind, listers, data, number, hash_label, collisions, wrapped)
        if claimed is not None:
            generation = owner["metadata"].get("generation", 0)
            namespace = owner["metadata"]["namespace"]
            changes.append(Create(REVISIONS, made, namespace, generation=generation))
        return History(made, tuple(there), tuple(changes), collisions)
    update = equal[-1]
    old = tuple(each for each in there if each is not update)
    newest = max((_number(each) for each in old), default=0)
    if _number(update) <= newest and there[-1] is not update:
        metadata = update["metadata"]
        changes.append(Patch(REVISIONS, metadata["name"], metadata["namespace"], {"revision": newest + 1}))
    return History(update, old, tuple(changes), collisions)


def restoring(template: Document) -> dict[str, Any]:
    """Return the patch that puts *template* back, as revisions hold it.

    Names are in order at every depth: Kubernetes' own tools compare what a revision holds byte by byte.
    """
    patch: dict[str, Any] = {"spec": {"template": _in_order({**template, "$patch": "replace"})}}
    return patch


def _in_order(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(each) for each in value] if isinstance(value, list | tuple) else value


def template_of(revision: Document) -> dict[str, Any]:
    """Return the pod template that a revision holds.

    >>> template_of({"data": restoring({"spec": {"containers": []}})})
    {'spec': {'containers': []}}
    """
    template = dict(((revision.get("data") or {}).get("spec") or {}).get("template") or {})
    template.pop("$patch", None)
    return template


def hash_of(revision: Document, hash_label: str) -> str:
    """Return the hash of the template that a revision holds."""
    found: str = (revision["metadata"].get("labels") or {}).get(hash_label, "")
    return found


def _make(
    owner: Document,
    kind: Kind,
    listers: Listers,
    data: Document,
    number: int,
    hash_label: str,
    collisions: int,
    wrapped: bool,
) -> tuple[dict[str, Any], int]:
    """Return a new revision, and the collision count that made its name free."""
    metadata, template = owner["metadata"], owner["spec"]["template"]
    while True:
        code = template_hash({"template": template} if wrapped else template, collisions)
        name = f"{metadata['name'][:LONGEST_PREFIX]}-{code}"
        taken = listers.get(REVISIONS, name, metadata["namespace"]) if listers.serves(REVISIONS) else None
        if taken is None or _same(taken.get("data"), data):
            break
        collisions += 1
    labels = {**((template.get("metadata") or {}).get("labels") or {}), hash_label: code}
    document: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner_reference(owner, kind)],
        },
        "data": data,
        "revision": number,
    }
    return document, collisions


def _same(data: Any, wanted: Document) -> bool:
    """Return whether two revisions hold the same template; Kubernetes writes an empty creationTimestamp."""
    return bool(_plain(data) == _plain(wanted))


def _plain(data: Any) -> Any:
    template = ((data or {}).get("spec") or {}).get("template") or {}
    metadata = {k: v for k, v in (template.get("metadata") or {}).items() if v is not None}
    return {**template, "metadata": metadata}


def _number(revision: Document) -> int:
    found: int = revision.get("revision", 0)
    return found


def _order(revision: Document) -> tuple[int, str, str]:
    metadata = revision["metadata"]
    return _number(revision), metadata.get("creationTimestamp", ""), metadata["name"]
