"""Divides a cluster into the pods that a change can affect, which live in the copy, and those that only take room.

A copy of a large cluster would spend its time on pods that nothing happens to. Those are counted in the scheduler's
table of nodes, where they take room, ports and devices' places and are seen by affinity and spreading, and are left out
of the copy's API together with their owners. Alive are:

- pods on the nodes that the change is made to, unless it only taints them and they tolerate that for ever; pods on
  nodes that are not Ready or whose taints evict them; pods that are pending, terminating, or have resource claims; pods
  whose owner wants more or fewer than it has;
- every other pod of their owners, and of the Deployment above them; but of a ReplicaSet that is not itself changed
  only those: its replicas are reduced by as many as are left out;
- every pod of a budget that counts one of them, and of a namespace whose quota does;
- once an unschedulable pod of the copy could preempt less important ones: all less important ones.

A DaemonSet's pod that tolerates everything is moved by no taint, cordon or drain; its DaemonSet is left out for those.
A change that adds or deletes nodes, changes their labels or removes a taint may let any DaemonSet in: all of them live
then. A change that could affect anything (gates, a new quota) leaves no pod out. tests/integration/test_what_if.py
compares the answer with that of a copy in which every pod lives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from weir.controllers.runtime.views import Node
from weir.controllers.workloads.daemon_nodes import EligibleNodes, template_pod
from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import Taint, read
from weir.scheduler.pod_class import SeatedPods
from weir.selectors.labels import from_object
from weir.taints.eviction import stay
from weir.taints.toleration import EVICTING, untolerated
from weir.whatif.change_scope import Scope, scope_of, taints_with
from weir.whatif.changes import Change
from weir.whatif.pod_records import OWNERS, PodReader, PodRecord, Template, deployments_above, whole
from weir.whatif.snapshot import owner_of

Document = dict[str, Any]
Seats = dict[str, SeatedPods]  #: by node

_SIZED: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")


@dataclass
class Divided:
    """The objects of the copy, and the pods that only take room in it."""

    documents: list[Document]
    seats: Seats = field(default_factory=dict)
    lowest: int | None = None  #: the least priority of those left out
    seated: Counter[str] = field(default_factory=Counter)  #: how many of each owner's pods only take room

    @property
    def quiet(self) -> bool:
        """Whether nothing is alive: no pod, and nothing that could make one."""
        return not any(each.get("kind") in ("Pod", *OWNERS) and _wants_pods(each) for each in self.documents)


class Population:
    """The pods of a cluster with what may decide about them: read once, for every question about it."""

    def __init__(self, documents: Sequence[Document], pods: Iterable[Any]) -> None:
        """*documents* are all objects but pods, *pods* the pods, as bytes or documents."""
        self._documents = documents
        self._nodes = {each["metadata"]["name"]: each for each in documents if each.get("kind") == "Node"}
        self._above = deployments_above(documents)
        owners = {each["metadata"].get("uid", "") for each in documents if each.get("kind") in OWNERS}
        read_pod = PodReader(self._above, owners).read
        seen = [read_pod(source) for source in pods]
        self._pods = [each for each in seen if each is not None]
        self._readable = len(self._pods) == len(seen)
        self._on: dict[str, list[PodRecord]] = {}
        for one in self._pods:
            self._on.setdefault(one.node, []).append(one)
        self._counted = _counted_together(self._pods, documents)
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
        """Return which pods are alive and which take room, or None when all must be alive.

        Pods of a priority *below* this are alive, too.
        """
        scope = scope_of(changes, self._nodes)
        if scope is None or not self._readable:
            return None  # a pod that cannot be read is named by whoever reads everything
        unchanged = self._unchanged.get(gates)
        if unchanged is None:
            unsettled = self._find_unsettled(gates)
            self._add_counted_together(unsettled, Scope())
            unchanged = self._unchanged[gates] = _Unchanged(self._pods, unsettled)
        alive = unchanged.alive.copy()
        self._add_touched(alive, scope, below, gates)
        self._add_counted_together(alive, scope)
        return self._divided(unchanged, alive)

    def _divided(self, unchanged: _Unchanged, alive: _Alive) -> Divided:
        """Return which pods live and which take room: as without a change, plus the pods that are *alive* besides."""
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
                    seats[node] = SeatedPods(seats[node])
                del seats[node][key]
                if not seats[node]:
                    del seats[node]
        living = [self._pods[place] for place in sorted([*unchanged.living, *more])]
        left_out = +left_out
        found = Divided([whole(one.source) for one in living], seats)
        _add_others(found, self._documents, living, left_out, alive, self._above, self._counted)
        return found

    def _find_unsettled(self, gates: Gates) -> _Alive:
        """Return the pods alive whatever the change: of unsettled owners, or on nodes that are lost or evict."""
        found = _Alive(_unsettled_owners(self._pods, self._documents, self._above, self._nodes, gates))
        home = {name for name, node in self._nodes.items() if not _is_unwell(node)}
        lasting = _LastingTolerations(gates)
        tolerates = {
            name: lasting.of(taints) for name in home if (taints := taints_with(self._nodes[name], EVICTING))
        }
        for one in self._pods:
            _, _, node, template = one
            if template.unsettled or not (node or template.ended):
                found.add(one)
            elif template.tolerates_everything or not node:
                continue
            elif node not in home or (
                node in tolerates and not template.ended and not tolerates[node](template)
            ):
                found.add(one)
        for document, counted_pods, groups in self._counted:
            if document["kind"] != "ResourceQuota" and _is_short(document, counted_pods):
                found.groups |= groups
        return found

    def _add_touched(self, found: _Alive, scope: Scope, below: int | None, gates: Gates) -> None:
        """Add the pods that the change itself, or a pod that it moves, may evict."""
        uids = {
            each["metadata"].get("uid", "")
            for each in self._documents
            if scope.workloads and _identity(each) in scope.workloads
        }
        found.groups |= {self._above.get(uid, uid) for uid in uids}
        lasting = _LastingTolerations(gates)
        for name in scope.nodes | scope.tainted.keys():
            tolerates = None if name in scope.nodes else lasting.of(scope.tainted[name])
            for one in self._on.get(name, ()):
                if not one.template.tolerates_everything and (
                    tolerates is None or not tolerates(one.template)
                ):
                    found.add(one)
        written = {f"{namespace}/{name}" for kind, namespace, name in scope.workloads if kind == "Pod"}
        if not (written or scope.moves_daemons or below is not None):
            return
        for one in self._pods:
            template = one.template
            weak = below is not None and template.priority < below and not template.ended
            if template.tolerates_everything and not scope.moves_daemons:
                weak = False
            if weak or one.key in written or (template.daemon and scope.moves_daemons):
                found.add(one)

    def _add_counted_together(self, found: _Alive, scope: Scope) -> None:
        """Add all pods of every budget and quota that counts one of those alive."""
        named = {namespace for _, namespace, _ in scope.workloads}
        for document, _, groups in self._counted:
            if document["kind"] == "ResourceQuota" and _identity(document)[1] in named:
                found.groups |= groups
        grown = True
        while grown:
            grown = False
            for _, counted_pods, groups in self._counted:
                if not groups <= found.groups and any(found.has(one) for one in counted_pods):
                    found.groups |= groups
                    grown = True


@dataclass
class _Alive:
    """What lives in the copy: whole groups, and single pods of ReplicaSets."""

    groups: set[str]
    pods: set[str] = field(default_factory=set)  #: keys

    def has(self, one: PodRecord) -> bool:
        return one.group in self.groups or one.key in self.pods

    def add(self, one: PodRecord) -> None:
        if one.template.replicated and not one.template.ended:
            self.pods.add(one.key)
        else:
            self.groups.add(one.group)

    def copy(self) -> _Alive:
        return _Alive(set(self.groups), set(self.pods))


def _is_short(budget: Document, pods: list[PodRecord]) -> bool:
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


class _LastingTolerations:
    """The templates that tolerate a node's taints without a time limit, and could be scheduled there again."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self._known: dict[tuple[Taint, ...], Callable[[Template], bool]] = {}

    def of(self, taints: tuple[Taint, ...]) -> Callable[[Template], bool]:
        """Return whether the pods of a template tolerate all of *taints* without a limit of time."""
        if taints not in self._known:
            gates = self._gates
            others = tuple(taint for taint in taints if taint.effect not in EVICTING)

            @cache
            def tolerates(template: Template) -> bool:
                tolerations = template.pod_class.tolerations
                if not stay(taints, tolerations, gates).for_ever:
                    return False  # one that evicts is not tolerated, or not for ever
                return not others or not untolerated(others, tolerations, gates)

            self._known[taints] = tolerates
        return self._known[taints]


def _identity(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return str(document.get("kind")), metadata.get("namespace") or "default", metadata.get("name", "")


def _unsettled_owners(
    pods: list[PodRecord],
    documents: Sequence[Document],
    above: dict[str, str],
    nodes: dict[str, Document],
    gates: Gates,
) -> set[str]:
    """Return the owners with more or fewer pods than they want, or with two revisions."""
    standing: dict[str, list[str]] = {}  # owner → the nodes of its pods
    for _, _, node, template in pods:
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
    pods: list[PodRecord], documents: Sequence[Document]
) -> list[tuple[Document, list[PodRecord], set[str]]]:
    """Return every budget and every quota with the pods it counts, and their groups."""
    counting = [each for each in documents if each.get("kind") in ("PodDisruptionBudget", "ResourceQuota")]
    by_namespace: dict[str, list[PodRecord]] = {_identity(each)[1]: [] for each in counting}
    for one in pods:
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
    """The pods that live and those that take room while nothing is changed; a question adds to the former."""

    def __init__(self, pods: list[PodRecord], alive: _Alive) -> None:
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
                    there = seats[node] = SeatedPods()
                there[key] = template.pod_class


def _add_others(
    found: Divided,
    documents: Sequence[Document],
    living: Iterable[PodRecord],
    left_out: Counter[Template],
    alive: _Alive,
    above: dict[str, str],
    counted: list[tuple[Document, list[PodRecord], set[str]]],
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
        for document, counted_pods, _ in counted
        if counted_pods and not any(alive.has(one) for one in counted_pods)
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
    if document.get("kind") not in (*OWNERS, "ControllerRevision"):
        return False
    owner = owner_of(document)
    return document["metadata"].get("uid") in absent or (owner is not None and owner.get("uid") in absent)
