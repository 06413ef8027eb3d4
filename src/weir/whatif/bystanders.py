"""Which pods can a change not touch? They need not live in the copy: they only take room there.

A copy of a large cluster would spend its time on pods that nothing happens to. Those are counted in the scheduler's
table of nodes, where they take room, ports and devices' places and are seen by affinity and spreading, and are left out
of the copy's API together with their owners. Alive are:

- pods on the nodes that the change is made to, unless it only taints them and they tolerate that for ever; pods on
  nodes that are not well or whose taints they may not stay with; pods that wait, end, or have claims to devices; pods
  whose owner wants more or fewer than it has;
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from weir.controllers.runtime.views import Node
from weir.controllers.workloads.daemon_nodes import EligibleNodes, template_pod
from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import Pod, PodStatus, Taint, ViewError, read
from weir.objects.kinds import KINDS
from weir.objects.pod_reader import SnapshotPod, relevant_volumes
from weir.objects.requests import has_allocated_resources
from weir.scheduler.pod_class import PodClass, PodClasses
from weir.selectors.labels import from_object, parse
from weir.taints.eviction import stay
from weir.taints.toleration import BLOCKING, EVICTING, untolerated
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
Seats = dict[str, dict[str, PodClass]]  #: node → pod → class

_OWNERS: Final = ("ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Deployment", "Job")
_MADE_UP: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"})
_SIZED: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")
_decode_pod: Final = msgspec.json.Decoder(Pod).decode
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """What pods that differ in name and node alone have in common."""

    namespace: str
    owner: str  #: the uid of the controller
    group: str  #: the uid of the topmost owner; "" for a pod nobody owns, which is a group by itself
    priority: int
    pod_class: PodClass
    stirs: bool  #: it is being deleted, or has claims
    ended: bool
    daemon: bool  #: a DaemonSet's pod
    steadfast: bool  #: one that tolerates everything
    replicated: bool  #: a ReplicaSet's pod, of which there may be more or fewer


class Seen(NamedTuple):
    """What must be known of a pod to decide whether it is alive in the copy."""

    source: Any  #: its bytes, or its document
    key: str
    node: str
    template: Template

    @property
    def group(self) -> str:
        return self.template.group or self.key


@dataclass
class Divided:
    """The objects of the copy, and who only takes room in it."""

    documents: list[Document]
    seats: Seats = field(default_factory=dict)
    lowest: int | None = None  #: the least priority of those left out
    seated: Counter[str] = field(default_factory=Counter)  #: how many of each owner's pods only take room

    @property
    def quiet(self) -> bool:
        """Whether nobody is alive: no pod, and nothing that could make one."""
        return not any(each.get("kind") in ("Pod", *_OWNERS) and _wants_pods(each) for each in self.documents)


@dataclass
class _Scope:
    """What a change is made to."""

    nodes: set[str] = field(default_factory=set)
    tainted: dict[str, tuple[Taint, ...]] = field(default_factory=dict)  #: node → its taints at any time
    workloads: set[tuple[str, str, str]] = field(default_factory=set)  #: kind, namespace, name
    moves_daemons: bool = False  #: a DaemonSet may want a pod where it had none


class Population:
    """The pods of a cluster with what may decide about them: read once, for every question about it."""

    def __init__(self, documents: Sequence[Document], pods: Iterable[Any]) -> None:
        """*documents* are all objects but pods, *pods* the pods, as bytes or documents."""
        self._documents = documents
        self._nodes = {each["metadata"]["name"]: each for each in documents if each.get("kind") == "Node"}
        self._above = _above(documents)
        owners = {each["metadata"].get("uid", "") for each in documents if each.get("kind") in _OWNERS}
        read_pod = _Reader(self._above, owners).read
        seen = [read_pod(source) for source in pods]
        self._pods = [each for each in seen if each is not None]
        self._readable = len(self._pods) == len(seen)
        self._on: dict[str, list[Seen]] = {}
        for one in self._pods:
            self._on.setdefault(one.node, []).append(one)
        self._circles = _counted_together(self._pods, documents)
        self._unchanged: dict[Gates, _Unchanged] = {}
        self._rests: dict[Gates, bool] = {}

    def rests(self, gates: Gates) -> bool:
        """Return whether no pod is alive without a change, and nothing that could make one."""
        if gates not in self._rests:
            divided = self.divide([], gates=gates)
            self._rests[gates] = divided is not None and divided.quiet
        return self._rests[gates]

    def divide(
        self, changes: Sequence[Change], below: int | None = None, gates: Gates = ALL_FEATURES
    ) -> Divided | None:
        """Return who is alive and who takes room, or None when everybody must be alive.

        Pods of a priority *below* this are alive, too.
        """
        scope = _scope(changes, self._nodes)
        if scope is None or not self._readable:
            return None  # a pod that cannot be read is named by whoever reads everything
        unchanged = self._unchanged.get(gates)
        if unchanged is None:
            restless = self._find_restless(gates)
            self._add_counted_together(restless, _Scope())
            unchanged = self._unchanged[gates] = _Unchanged(self._pods, restless)
        alive = unchanged.alive.copy()
        self._add_touched(alive, scope, below, gates)
        self._add_counted_together(alive, scope)
        return self._divided(unchanged, alive)

    def _divided(self, unchanged: _Unchanged, alive: _Alive) -> Divided:
        """Return who lives and who takes room: as without a change, but for the pods that are *alive* besides."""
        groups, single = alive.groups - unchanged.alive.groups, alive.pods - unchanged.alive.pods
        more = [
            place
            for place, (_, key, _, template) in enumerate(self._pods)
            if (key in single or (template.group or key) in groups)
            and not unchanged.alive.has(self._pods[place])
        ]
        seats, left_out, own = dict(unchanged.seats), Counter(unchanged.left_out), set[str]()
        for place in more:
            _, key, node, template = self._pods[place]
            left_out[template] -= 1
            if not template.ended:
                if node not in own:
                    own.add(node)
                    seats[node] = dict(seats[node])
                del seats[node][key]
                if not seats[node]:
                    del seats[node]
        living = [self._pods[place] for place in sorted([*unchanged.living, *more])]
        left_out = +left_out
        found = Divided([whole(one.source) for one in living], seats)
        _add_others(found, self._documents, living, left_out, alive, self._above, self._circles)
        return found

    def _find_restless(self, gates: Gates) -> _Alive:
        """Return who is alive whatever the change: where something is under way, or a node is lost or evicts."""
        found = _Alive(_under_way(self._pods, self._documents, self._above, self._nodes, gates))
        home = {name for name, node in self._nodes.items() if not _is_unwell(node)}
        bearings = _Bearings(gates)
        bears = {
            name: bearings.of(taints) for name in home if (taints := _taints(self._nodes[name], EVICTING))
        }
        for one in self._pods:
            _, _, node, template = one
            if template.stirs or not (node or template.ended):
                found.add(one)
            elif template.steadfast or not node:
                continue
            elif node not in home or (node in bears and not template.ended and not bears[node](template)):
                found.add(one)
        for document, circle, groups in self._circles:
            if document["kind"] != "ResourceQuota" and _is_short(document, circle):
                found.groups |= groups
        return found

    def _add_touched(self, found: _Alive, scope: _Scope, below: int | None, gates: Gates) -> None:
        """Add the pods that the change itself, or a pod that it moves, may make leave."""
        uids = {
            each["metadata"].get("uid", "")
            for each in self._documents
            if scope.workloads and _identity(each) in scope.workloads
        }
        found.groups |= {self._above.get(uid, uid) for uid in uids}
        bearings = _Bearings(gates)
        for name in scope.nodes | scope.tainted.keys():
            bears = None if name in scope.nodes else bearings.of(scope.tainted[name])
            for one in self._on.get(name, ()):
                if not one.template.steadfast and (bears is None or not bears(one.template)):
                    found.add(one)
        written = {f"{namespace}/{name}" for kind, namespace, name in scope.workloads if kind == "Pod"}
        if not (written or scope.moves_daemons or below is not None):
            return
        for one in self._pods:
            template = one.template
            weak = below is not None and template.priority < below and not template.ended
            if template.steadfast and not scope.moves_daemons:
                weak = False
            if weak or one.key in written or (template.daemon and scope.moves_daemons):
                found.add(one)

    def _add_counted_together(self, found: _Alive, scope: _Scope) -> None:
        """Add all pods of every budget and quota that counts one of those alive."""
        named = {namespace for _, namespace, _ in scope.workloads}
        for document, _, groups in self._circles:
            if document["kind"] == "ResourceQuota" and _identity(document)[1] in named:
                found.groups |= groups
        grown = True
        while grown:
            grown = False
            for _, circle, groups in self._circles:
                if not groups <= found.groups and any(found.has(one) for one in circle):
                    found.groups |= groups
                    grown = True


@dataclass
class _Alive:
    """Who lives in the copy: whole groups, and single pods of ReplicaSets."""

    groups: set[str]
    pods: set[str] = field(default_factory=set)  #: keys

    def has(self, one: Seen) -> bool:
        return one.group in self.groups or one.key in self.pods

    def add(self, one: Seen) -> None:
        if one.template.replicated and not one.template.ended:
            self.pods.add(one.key)
        else:
            self.groups.add(one.group)

    def copy(self) -> _Alive:
        return _Alive(set(self.groups), set(self.pods))


# ── what is changed ──────────────────────────────────────────────────────────────────────────────


def _scope(changes: Sequence[Change], nodes: dict[str, Document]) -> _Scope | None:
    """Return what *changes* are made to; None when that could be anything."""
    found, tainted = _Scope(), dict[str, list[Document]]()
    for change in changes:
        if isinstance(change, TaintNodes | Cordon | Drain | Label | DeleteNode):
            chosen = set(_chosen(change.nodes.names, change.nodes.selector, nodes))
            found.moves_daemons |= isinstance(change, Label | DeleteNode)
            if not isinstance(change, TaintNodes):
                found.nodes |= chosen
                continue
            for name in chosen & nodes.keys():
                found.moves_daemons |= _takes_away(change, nodes[name])
                before = tainted.get(name) or (nodes[name].get("spec") or {}).get("taints") or []
                tainted[name] = [*before, *(each for each in change.change(before) if each not in before)]
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
    for name, taints in tainted.items():
        found.tainted[name] = _taints({"spec": {"taints": taints}}, BLOCKING)
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


class _Reader:
    """Reads pods; what pods have in common is worked out once."""

    def __init__(self, above: dict[str, str], owners: set[str]) -> None:
        self._above, self._owners = above, owners
        self._classes = PodClasses()
        self._templates: dict[bytes, Template] = {}
        self._of_templates: dict[int, Template | None] = {}
        self._names: dict[str, str] = {}

    def read(self, source: Any) -> Seen | None:
        """Return a pod; None for one that cannot be read, or that only a copy with everybody alive can hold."""
        if isinstance(source, SnapshotPod):
            template = self._of_snapshot(source.template)
            return None if template is None else Seen(source.source, source.key, source.node_name, template)
        try:
            pod = read(Pod, source) if isinstance(source, dict) else _decode_pod(source)
        except (ViewError, msgspec.ValidationError):
            return None
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        if not metadata.name:
            return None
        volumes = relevant_volumes(pod) if spec.volumes else ()
        own = any(each.ephemeral for each in volumes)  # whose claims are named after the pod
        shared = Pod(
            metadata=replace(
                metadata,
                name=metadata.name if own else "",
                uid=metadata.uid if own else "",
                namespace=metadata.namespace or "default",
                resource_version="",
                creation_timestamp=None,
                annotations=None,
            ),
            spec=replace(spec, node_name="", volumes=volumes or None),
            status=status if has_allocated_resources(pod) else PodStatus(phase=status.phase),
        )
        key = _encode(shared)
        template = self._templates.get(key)
        if template is None:
            made = self._template(shared)
            if made is None:
                return None
            template = self._templates[key] = made
        node = self._names.setdefault(spec.node_name, spec.node_name)
        return Seen(source, f"{template.namespace}/{metadata.name}", node, template)

    def _of_snapshot(self, shared: Pod) -> Template | None:
        """Return what pods with the template *shared* have in common, which lives as long as its snapshot."""
        if id(shared) not in self._of_templates:
            metadata = replace(shared.metadata, namespace=shared.metadata.namespace or "default")
            self._of_templates[id(shared)] = self._template(replace(shared, metadata=metadata))
        return self._of_templates[id(shared)]

    def _template(self, pod: Pod) -> Template | None:
        metadata, spec = pod.metadata, pod.spec
        owner = next((one for one in metadata.owner_references or () if one.controller), None)
        if owner is not None and not owner.uid:
            return None  # a dump written by hand: small enough to be run whole
        if owner is not None and owner.uid not in self._owners and owner.kind in _MADE_UP:
            # as the pods of its owner have in the copy
            labels = {**(metadata.labels or {}), **owner_label(owner.uid)}
            pod = replace(pod, metadata=replace(metadata, labels=labels))
        daemon = owner is not None and owner.kind == "DaemonSet"
        return Template(
            metadata.namespace,
            owner.uid if owner is not None else "",
            self._above.get(owner.uid, owner.uid) if owner is not None else "",
            spec.priority or 0,
            self._classes.of(pod),
            bool(metadata.deletion_timestamp or spec.resource_claims),
            pod.terminated,
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


def _is_short(budget: Document, pods: list[Seen]) -> bool:
    """Return whether fewer pods of a budget are healthy than it wants, as far as that is plain to see."""
    status, least = budget.get("status") or {}, (budget.get("spec") or {}).get("minAvailable")
    if "desiredHealthy" in status:
        return int(status.get("currentHealthy") or 0) < int(status["desiredHealthy"])
    if not isinstance(least, int):
        return False
    return sum(_is_ready(whole(one.source)) for one in pods) < least


def _is_ready(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _is_unwell(node: Document) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") != "True" for c in conditions)


def _taints(node: Document, effects: frozenset[str]) -> tuple[Taint, ...]:
    """Return the taints of a node with one of *effects*."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return tuple(read(Taint, taint) for taint in taints if taint.get("effect") in effects)


class _Bearings:
    """Which templates stay with which taints for ever, and could come back."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self._known: dict[tuple[Taint, ...], Callable[[Template], bool]] = {}

    def of(self, taints: tuple[Taint, ...]) -> Callable[[Template], bool]:
        """Return whether the pods of a template tolerate all of *taints* without a limit of time."""
        if taints not in self._known:
            gates = self._gates
            others = tuple(taint for taint in taints if taint.effect not in EVICTING)

            @cache
            def bears(template: Template) -> bool:
                tolerations = template.pod_class.tolerations
                if not stay(taints, tolerations, gates).for_ever:
                    return False  # one that evicts is not tolerated, or not for ever
                return not others or not untolerated(others, tolerations, gates)

            self._known[taints] = bears
        return self._known[taints]


def _identity(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return str(document.get("kind")), metadata.get("namespace") or "default", metadata.get("name", "")


def _under_way(
    people: list[Seen],
    documents: Sequence[Document],
    above: dict[str, str],
    nodes: dict[str, Document],
    gates: Gates,
) -> set[str]:
    """Return the owners with which something is under way: more or fewer pods than they want, two revisions."""
    standing: dict[str, list[str]] = {}  # owner → the nodes of its pods
    for _, _, node, template in people:
        if template.owner and not template.ended:
            standing.setdefault(template.owner, []).append(node)
    daemons = any(each.get("kind") == "DaemonSet" for each in documents)
    views = EligibleNodes(read(Node, {**node, "status": {}}) for node in nodes.values() if daemons)
    found, sized = set(), Counter[str]()
    for each in documents:
        kind, uid, spec = each.get("kind"), each["metadata"].get("uid", ""), each.get("spec") or {}
        there = standing.get(uid, [])
        if kind in _SIZED:
            wanted = spec.get("replicas", 1)
            if wanted != len(there):
                found.add(above.get(uid, uid))
            if wanted and uid in above:
                sized[above[uid]] += 1
        elif (kind == "Job" and _pods_of_job(each) != len(there)) or (
            kind == "DaemonSet" and not _on_its_nodes(each, there, views, gates)
        ):
            found.add(uid)
    return found | {uid for uid, revisions in sized.items() if revisions > 1}


def _pods_of_job(job: Document) -> int:
    """Return how many pods a Job has while nothing happens to it."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    ended = any(
        condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    if ended or spec.get("suspend"):
        return 0
    at_once = int(spec.get("parallelism", 1))
    left = spec.get("completions")
    return at_once if left is None else min(at_once, max(int(left) - int(status.get("succeeded") or 0), 0))


def _on_its_nodes(daemonset: Document, there: list[str], nodes: EligibleNodes, gates: Gates) -> bool:
    """Return whether a DaemonSet has its one pod on every node that should run it, and none elsewhere."""
    if not (daemonset.get("spec") or {}).get("template"):
        return True
    pattern, having = template_pod(daemonset), set(there)
    if pattern is None or len(having) != len(there):
        return False
    on_nodes = {name for name in having if name in nodes.by_name}
    for node, verdict in nodes.verdicts(pattern, gates):
        if node.name not in having:
            if verdict.run:
                return False
        elif verdict.go_on:
            on_nodes.discard(node.name)
    return not on_nodes  # those that may not go on


def _counted_together(
    people: list[Seen], documents: Sequence[Document]
) -> list[tuple[Document, list[Seen], set[str]]]:
    """Return every budget and every quota with the pods it counts, and their groups."""
    counting = [each for each in documents if each.get("kind") in ("PodDisruptionBudget", "ResourceQuota")]
    by_namespace: dict[str, list[Seen]] = {_identity(each)[1]: [] for each in counting}
    for one in people:
        if one.template.namespace in by_namespace:
            by_namespace[one.template.namespace].append(one)
    found = []
    for each in counting:
        there = by_namespace[_identity(each)[1]]
        if each["kind"] == "PodDisruptionBudget":
            selector = from_object((each.get("spec") or {}).get("selector"))
            there = [
                one
                for one in there
                if selector is not None and selector.matches(one.template.pod_class.labels)
            ]
        found.append((each, there, {one.group for one in there}))
    return found


class _Unchanged:
    """Who lives and who takes room while nothing is changed; a question adds to the former."""

    def __init__(self, pods: list[Seen], alive: _Alive) -> None:
        self.alive = alive
        self.living: list[int] = []  #: by place in the list of pods
        self.left_out = Counter[Template]()
        self.seats: Seats = {}
        groups, single, seats = alive.groups, alive.pods, self.seats
        for place, (_, key, node, template) in enumerate(pods):
            if (template.group or key) in groups or key in single:
                self.living.append(place)
                continue
            self.left_out[template] += 1
            if not template.ended:  # it has a node: one that waits is alive
                there = seats.get(node)
                if there is None:
                    there = seats[node] = {}
                there[key] = template.pod_class


def _add_others(
    found: Divided,
    documents: Sequence[Document],
    living: Iterable[Seen],
    left_out: Counter[Template],
    alive: _Alive,
    above: dict[str, str],
    circles: list[tuple[Document, list[Seen], set[str]]],
) -> None:
    """Add the objects but pods, without what only pods that are left out have use for."""
    for template, number in left_out.items():
        if template.owner and not template.ended:
            found.seated[template.owner] += number
    found.lowest = min((each.priority for each in left_out if not each.ended), default=None)
    absent = {uid for each in left_out for uid in (each.group, each.owner)}
    there = {one.template for one in living}
    absent -= {uid for each in there for uid in (each.group, each.owner)} | alive.groups | {""}
    idle = {
        _identity(document)
        for document, circle, _ in circles
        if circle and not any(alive.has(one) for one in circle)
    }
    shrunk = Counter(found.seated)
    for uid, number in list(found.seated.items()):
        if uid in above:
            shrunk[above[uid]] += number
    for each in documents:
        if not _belongs(each, absent) and _identity(each) not in idle:
            found.documents.append(_smaller(each, shrunk[each["metadata"].get("uid", "")]))


def _smaller(document: Document, by: int) -> Document:
    """Return a workload that wants fewer pods: as many fewer as are left out."""
    spec = document.get("spec")
    if not by or not isinstance(spec, dict) or document.get("kind") not in (*_SIZED, "Deployment"):
        return document
    return {**document, "spec": {**spec, "replicas": max(int(spec.get("replicas", 1)) - by, 0)}}


def _wants_pods(document: Document) -> bool:
    return (document.get("spec") or {}).get("replicas") != 0


def _belongs(document: Document, absent: set[str]) -> bool:
    """Return whether an object is one of the owners that are left out, or only theirs."""
    if document.get("kind") not in (*_OWNERS, "ControllerRevision"):
        return False
    owner = owner_of(document)
    return document["metadata"].get("uid") in absent or (owner is not None and owner.get("uid") in absent)


def whole(pod: Any) -> Document:
    """Return a pod given as bytes, of a snapshot or as a document as a document."""
    if isinstance(pod, SnapshotPod):
        pod = pod.source
    return pod if isinstance(pod, dict) else {"kind": "Pod", **msgspec.json.decode(pod)}
