"""Which pods can a change not touch? They need not live in the copy: they only take room there.

A copy of a large cluster would spend its time on pods that nothing happens to. Those are counted in the scheduler's
table of nodes, where they take room, ports and devices' places and are seen by affinity and spreading, and are left out
of the copy's API together with their owners. Alive are:

- pods on the nodes that the change is made to, or on nodes that are not well or whose taints they may not stay with;
  pods that wait, end, or have claims to devices; pods whose owner wants more or fewer than it has;
- every other pod of their owners, and of the Deployment above them; but of a ReplicaSet that is not itself changed
  only those: it is taken to want fewer by as many as are left out;
- every pod of a budget that counts one of them, and of a namespace whose quota does;
- once a pod of the copy that fits nowhere could push out less important ones: all less important ones.

A DaemonSet's pod that tolerates everything is moved by no taint, cordon or drain; its DaemonSet is left out for those.
What makes or unmakes nodes, changes their labels or takes a taint away may let any DaemonSet in: all of them live then.
What surprises: a change that could touch anything (gates, a new quota) leaves nobody out.
Not here: what is made up for a snapshot (weir.whatif.completion). That the answer is the same as with everybody alive
is held by tests/integration/test_what_if.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import Pod, Taint, Toleration, ViewError, read
from weir.objects.kinds import KINDS
from weir.scheduler.pod_class import PodClass, PodClasses
from weir.selectors.labels import from_object, parse
from weir.taints.eviction import stay
from weir.taints.toleration import EVICTING
from weir.whatif.changes import (
    AddNodes,
    Apply,
    Change,
    Cordon,
    DeleteNode,
    Drain,
    Label,
    Rollout,
    Scale,
    Wait,
)
from weir.whatif.changes import Taint as TaintNodes
from weir.whatif.made_up_owners import owner_label
from weir.whatif.snapshot import owner_of

Document = dict[str, Any]
Seats = dict[str, list[tuple[str, PodClass]]]

_OWNERS: Final = ("ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Deployment", "Job")
_MADE_UP: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"})
_SIZED: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")
_decode_pod: Final = msgspec.json.Decoder(Pod).decode


@dataclass(slots=True)
class Seen:
    """What must be known of a pod to decide whether it is alive in the copy."""

    source: Any  #: its bytes, or its document
    key: str
    namespace: str
    node: str
    group: str  #: the uid of the topmost owner, or the pod's own key
    owner: str
    priority: int
    pod_class: PodClass
    stirs: bool  #: waits, ends, or has claims
    ended: bool
    daemon: bool  #: a DaemonSet's pod
    steadfast: bool  #: one that tolerates everything
    replicated: bool  #: a ReplicaSet's pod, of which there may be more or fewer


@dataclass
class Divided:
    """The objects of the copy, and who only takes room in it."""

    documents: list[Document]
    seats: Seats = field(default_factory=dict)
    lowest: int | None = None  #: the least priority of those left out
    seated: Counter[str] = field(default_factory=Counter)  #: how many of each owner's pods only take room


@dataclass
class _Scope:
    """What a change is made to."""

    nodes: set[str] = field(default_factory=set)
    workloads: set[tuple[str, str, str]] = field(default_factory=set)  #: kind, namespace, name
    moves_daemons: bool = False  #: a DaemonSet may want a pod where it had none


def divide(
    documents: Sequence[Document],
    pods: Iterable[Any],
    changes: Sequence[Change],
    below: int | None = None,
    gates: Gates = ALL_FEATURES,
) -> Divided | None:
    """Return who is alive and who takes room, or None when everybody must be alive.

    *documents* are all objects but pods, *pods* the pods, as bytes or documents. Pods of a priority *below* this are
    alive, too.
    """
    nodes = {each["metadata"]["name"]: each for each in documents if each.get("kind") == "Node"}
    scope = _scope(changes, nodes)
    if scope is None:
        return None
    above = _above(documents)
    classes = PodClasses()
    owners = {each["metadata"].get("uid", "") for each in documents if each.get("kind") in _OWNERS}
    seen = [_seen(source, above, owners, classes) for source in pods]
    if any(each is None for each in seen):
        return None  # one that cannot be read is named by whoever reads everything
    people = [each for each in seen if each is not None]
    alive = _alive(people, documents, nodes, scope, above, below, gates)
    return _divided(people, documents, alive, above)


@dataclass
class _Alive:
    """Who lives in the copy: whole groups, and single pods of ReplicaSets."""

    groups: set[str]
    pods: set[str] = field(default_factory=set)  #: keys

    def has(self, one: Seen) -> bool:
        return one.group in self.groups or one.key in self.pods


# ── what is changed ──────────────────────────────────────────────────────────────────────────────


def _scope(changes: Sequence[Change], nodes: dict[str, Document]) -> _Scope | None:
    """Return what *changes* are made to; None when that could be anything."""
    found = _Scope()
    for change in changes:
        if isinstance(change, TaintNodes | Cordon | Drain | Label | DeleteNode):
            chosen = set(_chosen(change.nodes.names, change.nodes.selector, nodes))
            found.nodes |= chosen
            found.moves_daemons |= isinstance(change, Label | DeleteNode)
            if isinstance(change, TaintNodes):
                found.moves_daemons |= any(
                    _takes_away(change, nodes[name]) for name in chosen if name in nodes
                )
        elif isinstance(change, AddNodes):
            found.moves_daemons = True
        elif isinstance(change, Scale | Rollout):
            short, _, name = change.workload.partition("/")
            kind = next(
                (
                    k.kind
                    for k in KINDS
                    if short.lower() in (k.kind.lower(), k.plural, k.singular, *k.short_names)
                ),
                "",
            )
            found.workloads.add((kind, change.namespace, name))
        elif isinstance(change, Apply):
            if not _scope_of_manifests(change, found):
                return None
        elif not isinstance(change, Wait):
            return None
    return found


def _takes_away(change: TaintNodes, node: Document) -> bool:
    """Return whether a taint of *node* is gone after the change, or has another value."""
    return any(
        taint.get("key") == edit.taint.key and edit.taint.effect in ("", taint.get("effect"))
        for edit in change.edits
        for taint in (node.get("spec") or {}).get("taints") or ()
    )


def _scope_of_manifests(change: Apply, found: _Scope) -> bool:
    for document in change.documents:
        kind, metadata = document.get("kind"), document.get("metadata") or {}
        if kind == "Node":
            found.nodes.add(metadata.get("name", ""))
            found.moves_daemons = True
        elif kind in _OWNERS and kind != "DaemonSet":
            found.workloads.add((str(kind), metadata.get("namespace") or "default", metadata.get("name", "")))
        elif kind == "Pod":
            found.workloads.add((kind, metadata.get("namespace") or "default", metadata.get("name", "")))
        elif kind not in ("DeviceTaintRule", "ResourceSlice", "DeviceClass"):
            return False
    return True


def _chosen(names: Sequence[str], selector: str, nodes: dict[str, Document]) -> Iterator[str]:
    if names:
        yield from names
        return
    wanted = parse(selector)
    for name, node in nodes.items():
        if wanted.matches(node["metadata"].get("labels") or {}):
            yield name


# ── who is there ─────────────────────────────────────────────────────────────────────────────────


def _above(documents: Sequence[Document]) -> dict[str, str]:
    """Return the uid of the Deployment above each ReplicaSet."""
    return {
        each["metadata"].get("uid", ""): owner["uid"]
        for each in documents
        if each.get("kind") == "ReplicaSet" and (owner := owner_of(each)) is not None and owner.get("uid")
    }


def _seen(source: Any, above: dict[str, str], owners: set[str], classes: PodClasses) -> Seen | None:
    try:
        pod = read(Pod, source) if isinstance(source, dict) else _decode_pod(source)
    except (ViewError, msgspec.ValidationError):
        return None
    metadata, spec = pod.metadata, pod.spec
    namespace = metadata.namespace or "default"
    if not metadata.name:
        return None
    owner = next((one for one in metadata.owner_references or () if one.controller), None)
    if owner is not None and not owner.uid:
        return None  # a dump written by hand: small enough to be run whole
    node, ended = spec.node_name, pod.terminated
    daemon = owner is not None and owner.kind == "DaemonSet"
    unbound = msgspec.structs.replace(spec, node_name="")
    labels = metadata.labels
    if owner is not None and owner.uid not in owners and owner.kind in _MADE_UP:
        labels = {**(labels or {}), **owner_label(owner.uid)}  # as the pods of its owner have in the copy
    plain = msgspec.structs.replace(metadata, namespace=namespace, labels=labels)
    return Seen(
        source,
        f"{namespace}/{metadata.name}",
        namespace,
        node,
        above.get(owner.uid, owner.uid) if owner is not None else f"{namespace}/{metadata.name}",
        owner.uid if owner is not None else "",
        spec.priority or 0,
        classes.of(msgspec.structs.replace(pod, spec=unbound, metadata=plain)),
        bool((not node and not ended) or metadata.deletion_timestamp or spec.resource_claims),
        ended,
        daemon,
        daemon and any(_tolerates_everything(each) for each in pod.tolerations),
        owner is not None and owner.kind in ("ReplicaSet", "ReplicationController"),
    )


def _tolerates_everything(toleration: Any) -> bool:
    return (
        toleration.operator == "Exists"
        and not toleration.key
        and not toleration.effect
        and toleration.toleration_seconds is None
    )


# ── who is alive ─────────────────────────────────────────────────────────────────────────────────


def _alive(
    people: list[Seen],
    documents: Sequence[Document],
    nodes: dict[str, Document],
    scope: _Scope,
    above: dict[str, str],
    below: int | None,
    gates: Gates,
) -> _Alive:
    """Return who lives in the copy."""
    touched = scope.nodes | {name for name, node in nodes.items() if _is_unwell(node)}
    evicting = {
        name: taints for name, node in nodes.items() if name not in touched and (taints := _evicting(node))
    }
    stays: dict[tuple[tuple[Taint, ...], tuple[Toleration, ...]], bool] = {}
    uids = {each["metadata"].get("uid", "") for each in documents if _identity(each) in scope.workloads}
    found = _Alive({above.get(uid, uid) for uid in uids} | _under_way(people, documents, above))
    written = {f"{namespace}/{name}" for kind, namespace, name in scope.workloads if kind == "Pod"}
    for one in people:
        stirs = one.stirs or one.key in written
        if one.steadfast and not scope.moves_daemons and not stirs:
            continue
        lost = one.node in touched or bool(one.node and one.node not in nodes)
        if not lost and not one.ended and one.node in evicting:
            judged = (evicting[one.node], one.pod_class.tolerations)
            if judged not in stays:
                stays[judged] = stay(*judged, gates).for_ever
            lost = not stays[judged]
        weak = below is not None and one.priority < below and not one.ended
        if stirs or lost or weak or (one.daemon and scope.moves_daemons):
            if one.replicated and not one.ended:
                found.pods.add(one.key)
            else:
                found.groups.add(one.group)
    circles = _counted_together(people, documents)
    named = {namespace for _, namespace, _ in scope.workloads}
    for document, circle in circles:
        if document["kind"] == "ResourceQuota" and _identity(document)[1] in named:
            found.groups |= {one.group for one in circle}
    grown = True
    while grown:
        grown = False
        for _, circle in circles:
            groups = {one.group for one in circle}
            if not groups <= found.groups and any(found.has(one) for one in circle):
                found.groups |= groups
                grown = True
    return found


def _is_unwell(node: Document) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") != "True" for c in conditions)


def _evicting(node: Document) -> tuple[Taint, ...]:
    """Return the taints of a node that make pods leave."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return tuple(read(Taint, taint) for taint in taints if taint.get("effect") in EVICTING)


def _identity(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return str(document.get("kind")), metadata.get("namespace") or "default", metadata.get("name", "")


def _under_way(people: list[Seen], documents: Sequence[Document], above: dict[str, str]) -> set[str]:
    """Return the owners with which something is under way: more or fewer pods than they want, two revisions."""
    standing = Counter(one.owner for one in people if one.owner and not one.ended)
    found, sized = set(), Counter[str]()
    for each in documents:
        if each.get("kind") in _SIZED:
            uid = each["metadata"].get("uid", "")
            wanted = (each.get("spec") or {}).get("replicas", 1)
            if wanted != standing[uid]:
                found.add(above.get(uid, uid))
            if wanted and uid in above:
                sized[above[uid]] += 1
    return found | {uid for uid, revisions in sized.items() if revisions > 1}


def _counted_together(people: list[Seen], documents: Sequence[Document]) -> list[tuple[Document, list[Seen]]]:
    """Return every budget and every quota with the pods it counts."""
    counting = [each for each in documents if each.get("kind") in ("PodDisruptionBudget", "ResourceQuota")]
    by_namespace: dict[str, list[Seen]] = {_identity(each)[1]: [] for each in counting}
    for one in people:
        if one.namespace in by_namespace:
            by_namespace[one.namespace].append(one)
    found = []
    for each in counting:
        there = by_namespace[_identity(each)[1]]
        if each["kind"] == "PodDisruptionBudget":
            selector = from_object((each.get("spec") or {}).get("selector"))
            there = [
                one
                for one in there
                if selector is not None and selector.matches(one.pod_class.pod.metadata.labels or {})
            ]
        found.append((each, there))
    return found


def _divided(
    people: list[Seen], documents: Sequence[Document], alive: _Alive, above: dict[str, str]
) -> Divided:
    found = Divided([])
    living, absent = set(alive.groups), set()
    for one in people:
        if alive.has(one):
            living |= {one.group, one.owner}
            found.documents.append(whole(one.source))
        elif not one.ended:  # it has a node: one that waits is alive
            found.seats.setdefault(one.node, []).append((one.key, one.pod_class))
            found.seated[one.owner] += 1
            found.lowest = one.priority if found.lowest is None else min(found.lowest, one.priority)
        if not alive.has(one):
            absent |= {one.group, one.owner}
    absent -= living | {""}
    idle = {
        _identity(document)
        for document, circle in _counted_together(people, documents)
        if circle and not any(alive.has(one) for one in circle)
    }
    shrunk = Counter(found.seated)
    for uid, number in list(found.seated.items()):
        if uid in above:
            shrunk[above[uid]] += number
    for each in documents:
        if not _belongs(each, absent) and _identity(each) not in idle:
            found.documents.append(_smaller(each, shrunk[each["metadata"].get("uid", "")]))
    return found


def _smaller(document: Document, by: int) -> Document:
    """Return a workload that wants fewer pods: as many fewer as are left out."""
    spec = document.get("spec")
    if not by or not isinstance(spec, dict) or document.get("kind") not in (*_SIZED, "Deployment"):
        return document
    return {**document, "spec": {**spec, "replicas": max(int(spec.get("replicas", 1)) - by, 0)}}


def _belongs(document: Document, absent: set[str]) -> bool:
    """Return whether an object is one of the owners that are left out, or only theirs."""
    if document.get("kind") not in (*_OWNERS, "ControllerRevision"):
        return False
    owner = owner_of(document)
    return document["metadata"].get("uid") in absent or (owner is not None and owner.get("uid") in absent)


def whole(pod: Any) -> Document:
    """Return a pod given as bytes or as a document as a document."""
    return pod if isinstance(pod, dict) else {"kind": "Pod", **msgspec.json.decode(pod)}
