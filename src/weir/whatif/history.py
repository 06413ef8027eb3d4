"""The history of every pod in a copy: when it was created, bound, running, evicted and deleted, and why.

Each write to a pod is observed at its time. Why a pod was evicted is what the component that removed it wrote on it
(its DisruptionTarget condition); of a taint, which one by the node's taints at that time. Afterwards each evicted pod
is paired with its replacement: a StatefulSet's by name, a DaemonSet's by node, any other owner's in the order of
eviction. A pod that failed on its node counts as evicted, though its object stays.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from weir.gates import Gates
from weir.objects.core import Node, Taint, Toleration, View, ViewError, read
from weir.scheduler.plugins.taint_toleration import NAME as TAINT_TOLERATION
from weir.taints.eviction import Stay, stay
from weir.whatif.snapshot import owner_of

Document = dict[str, Any]


class Why(enum.Enum):
    """What made a pod go; each value is how the answer names it."""

    TAINT = "taint"
    DEVICE_TAINT = "device taint"
    EVICTED = "eviction"  #: asked for through the API, as a drain does
    PREEMPTED = "preemption"
    NODE_GONE = "node gone"
    REFUSED = "refused by the kubelet"
    ENDED = "ended"
    OWNER = "its owner"  #: scaled down, rolled over


#: Causes that are an eviction; by the others a pod is deleted or fails.
EVICTIONS: Final = frozenset({Why.TAINT, Why.DEVICE_TAINT, Why.EVICTED, Why.PREEMPTED})
_BY_REASON = {
    "DeletionByTaintManager": Why.TAINT,
    "DeletionByDeviceTaintManager": Why.DEVICE_TAINT,
    "EvictionByEvictionAPI": Why.EVICTED,
    "PreemptionByScheduler": Why.PREEMPTED,
    "DeletionByPodGC": Why.NODE_GONE,
}


@dataclass(frozen=True)
class Cause:
    """Why a pod went."""

    why: Why
    taint: Taint | None = None
    of: str = ""  #: what carries the taint: `node n1`, or a device or rule
    tolerated_for: int | None = None  #: seconds a toleration grants; None: nothing tolerates the taint
    anyway: bool = False  #: it had to go without the change, too
    message: str = ""

    def say(self, *, where: bool = True) -> str:
        """Return the cause as part of a sentence; without *where*, not of which node or device."""
        if self.taint is not None:
            taint = f"{self.taint} of {self.of}" if where else str(self.taint)
            if self.tolerated_for is None:
                return f"nothing tolerates {taint}"
            return f"tolerates {taint} for {self.tolerated_for}s"
        return {
            Why.TAINT: "a taint of its node",
            Why.DEVICE_TAINT: "a taint of its device",
            Why.EVICTED: "drained",
            Why.PREEMPTED: "makes room for a more important pod",
            Why.NODE_GONE: "its node is gone",
            Why.REFUSED: f"refused by the kubelet: {self.message}",
            Why.ENDED: "has ended",
            Why.OWNER: "its owner removes it",
        }[self.why]


@dataclass(eq=False, slots=True)
class PodLife:
    """One pod, from the first to the last that was seen of it. Times are seconds after the change."""

    namespace: str
    name: str
    uid: str
    owner: str  #: `ReplicaSet/web-5d4`, "" for a pod without a controller
    owner_uid: str
    made: float
    came: int  #: which of all writes to pods made it
    node: str = ""
    bound: float | None = None
    running: float | None = None
    left: float | None = None  #: picked to go, failed or gone, whichever came first
    gone: float | None = None
    cause: Cause | None = None
    waits: str = ""  #: what the scheduler said last of a pod without a node
    went: int = 0  #: which of all writes to pods showed first that it goes
    target: str = ""  #: the one node that a DaemonSet made it for
    document: Document = field(default_factory=dict, repr=False)
    instead: PodLife | None = field(default=None, repr=False)  #: what was made in its place

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def runs(self) -> bool:
        """Whether it runs at the end of what was seen."""
        return self.left is None and self.running is not None

    @property
    def last(self) -> PodLife:
        """The last of those made in its place, itself if none was."""
        life = self
        while life.instead is not None:
            life = life.instead
        return life


class History:
    """The pods' lives, and the nodes they were lived on."""

    def __init__(self, gates: Gates) -> None:
        self._gates_before = self.gates = gates  #: of the controllers, before the change and now
        self.began: datetime | None = None  #: when the change was made
        self.lives: dict[str, PodLife] = {}  # by uid
        self.nodes: dict[str, Document] = {}
        self.nodes_before: dict[str, Document] = {}
        #: of pods at the change, by uid; an older server shows them without some fields
        self._tolerations_before: dict[str, Any] = {}
        #: asked while a pod is deleted because of its devices
        self.device_cause: Callable[[PodLife], Cause] = lambda life: Cause(Why.DEVICE_TAINT)
        self.budgets: dict[str, list[tuple[float, int, int]]] = {}  #: → (time, healthy, desired)
        self.waited_for: dict[
            str, str
        ] = {}  #: uid of a pod without a node at the change → what the scheduler said
        self.ended_owners: dict[str, str] = {}  #: uid of an owner that gave up → in its own words
        self.refusals: dict[str, str] = {}  #: uid of an owner whose pods the server refuses → why
        self.suspended: set[str] = set()  #: uids of owners whose pods are known to loop and are left alone
        self.refused_priority: int | None = (
            None  #: the highest of pods that fitted nowhere and may push others out
        )
        #: by the identity of a node's document, which is kept with them
        self._taints: dict[int, tuple[Document, tuple[Taint, ...]]] = {}
        self._stays: dict[object, tuple[Gates, Stay]] = {}
        #: by the identity of the list of a spec, which pods of a template share and which is kept with them
        self._tolerations: dict[int, tuple[object, tuple[Toleration, ...]]] = {}
        self._order = 0  # how many writes to pods were seen
        self.writes = 0  #: to pods, since the change
        self.due: dict[str, float] = {}  #: pod → when a taint evicts it, of those that are there at the end
        self.departures = 0
        self.last_change = 0.0
        self.last_seen = 0.0  #: how far was looked

    # ── seeing ───────────────────────────────────────────────────────────────────────────────────

    def start(self, now: datetime, nodes: Iterable[Document]) -> None:
        """The change is made now, to these nodes."""
        shift = (now - self.began).total_seconds() if self.began is not None else 0.0
        self.began = now
        self.nodes_before = {each["metadata"]["name"]: each for each in nodes}
        self._tolerations_before = {uid: _tolerations(life.document) for uid, life in self.lives.items()}
        self.waited_for = {uid: life.waits for uid, life in self.lives.items() if life.waits}
        for life in self.lives.values():
            life.made -= shift
            for name in ("bound", "running", "left", "gone"):
                if (value := getattr(life, name)) is not None:
                    setattr(life, name, value - shift)
        self.writes, self.departures, self.last_change = 0, 0, 0.0

    def observe_node(self, now: datetime, old: Document | None, new: Document | None) -> None:
        if new is not None:
            self.nodes[new["metadata"]["name"]] = new
        elif old is not None:
            self.nodes.pop(old["metadata"]["name"], None)

    def observe_budget(self, now: datetime, old: Document | None, new: Document | None) -> None:
        status = (new or {}).get("status") or {}
        if new is not None and "desiredHealthy" in status:
            key = f"{new['metadata']['namespace']}/{new['metadata']['name']}"
            counts = (status.get("currentHealthy", 0), status["desiredHealthy"])
            self.budgets.setdefault(key, []).append((self._at(now), *counts))

    def observe_pod(self, now: datetime, old: Document | None, new: Document | None) -> None:
        """Note what a write changed about a pod."""
        at = self._at(now)
        document = new or old
        assert document is not None
        uid = document["metadata"]["uid"]
        life = self.lives.get(uid)
        self._order += 1
        if life is None:
            life = self.lives[uid] = _born(document, at, self._order)
        self.last_change = at
        self.writes += 1
        if new is None:
            self._left(life, document, at)
            life.gone = at if life.gone is None else life.gone
            life.document = {name: part for name, part in life.document.items() if name != "status"}
            return
        life.document = new
        status = new.get("status") or {}
        if not life.node and (node := new["spec"].get("nodeName")):
            life.node, life.bound, life.waits = node, at, ""
        if life.running is None and status.get("phase") == "Running":
            life.running = at
        if not life.node:
            said = next((c for c in status.get("conditions") or () if c.get("type") == "PodScheduled"), None)
            life.waits = (said or {}).get("message") or life.waits
            if (said or {}).get("reason") == "Unschedulable" and new["spec"].get(
                "preemptionPolicy"
            ) != "Never":
                self.refused_priority = max(self.refused_priority or 0, new["spec"].get("priority") or 0)
        if new["metadata"].get("deletionTimestamp") or status.get("phase") in ("Failed", "Succeeded"):
            self._left(life, new, at)

    def _at(self, now: datetime) -> float:
        if self.began is None:
            self.began = now
        return (now - self.began).total_seconds()

    def _left(self, life: PodLife, document: Document, at: float) -> None:
        if life.left is None:
            life.left, life.went = at, self._order
            life.cause = self._cause(document, life)
            self.departures += 1

    def _cause(self, document: Document, life: PodLife) -> Cause:
        status = document.get("status") or {}
        targeted = (c for c in status.get("conditions") or () if c.get("type") == "DisruptionTarget")
        picked = next((c for c in targeted if c.get("reason") in _BY_REASON), None)
        why = _BY_REASON[picked["reason"]] if picked is not None else None
        if why is Why.TAINT:
            return self._by_taint(document, life)
        if why is Why.DEVICE_TAINT:
            return self.device_cause(life)
        if picked is not None and why is not None:
            return Cause(why, message=picked.get("message", ""))
        if status.get("phase") == "Failed" and status.get("reason"):
            if status["reason"] == TAINT_TOLERATION:
                found = self._by_taint(document, life)
                return replace(found, why=Why.REFUSED, message=status.get("message", ""))
            return Cause(Why.REFUSED, message=f"{status['reason']}: {status.get('message', '')}")
        if status.get("phase") in ("Failed", "Succeeded"):
            return Cause(Why.ENDED)
        return Cause(Why.OWNER)

    def coming_cause(self, life: PodLife, why: Why) -> Cause:
        """Return why a pod that is due will go, by a taint of its node or of its devices."""
        if why is Why.DEVICE_TAINT:
            return self.device_cause(life)
        return replace(self._by_taint(life.document, life), why=why)

    def keeps(self, node: str, life: PodLife) -> bool:
        """Return whether no taint of a node would evict a pod."""
        try:
            taints, tolerations = (
                self._taints_of(self.nodes.get(node)),
                self._tolerations_of(_tolerations(life.document)),
            )
        except ViewError:
            return False
        return self._stay(taints, tolerations, self.gates).for_ever

    def _by_taint(self, document: Document, life: PodLife) -> Cause:
        node, written = life.node, _tolerations(document)
        before = self._tolerations_before.get(life.uid, written)
        try:
            tolerations, taints = self._tolerations_of(written), self._taints_of(self.nodes.get(node))
            earlier, then = self._tolerations_of(before), self._taints_of(self.nodes_before.get(node))
        except ViewError:
            return Cause(Why.TAINT)
        stays = self._stay(taints, tolerations, self.gates)
        if stays.taint is None:
            return Cause(Why.TAINT)
        stayed = self._stay(then, earlier, self._gates_before)
        anyway = stayed.limit is not None and stays.limit is not None and stayed.limit <= stays.limit
        seconds = None if stays.toleration is None else max(stays.toleration.toleration_seconds or 0, 0)
        return Cause(Why.TAINT, stays.taint, f"node {node}", seconds, anyway)

    def _tolerations_of(self, written: Any) -> tuple[Toleration, ...]:
        """Return the tolerations of a pod as its spec has them *written*."""
        if not written:
            return ()
        known = self._tolerations.get(id(written))
        if known is None:
            tolerations = read(_PodSpec, {"tolerations": written}).tolerations or ()
            known = self._tolerations[id(written)] = (written, tolerations)
        return known[1]

    def _taints_of(self, node: Document | None) -> tuple[Taint, ...]:
        """Return the taints of a node; many pods ask for those of one."""
        if node is None:
            return ()
        known = self._taints.get(id(node))
        if known is None:
            known = self._taints[id(node)] = (node, read(Node, node).taints)
        return known[1]

    def _stay(self, taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], gates: Gates) -> Stay:
        """Return how long these tolerations let a pod stay; pods of one workload have the same."""
        key = (taints, tolerations, gates is self.gates)
        known = self._stays.get(key)
        if known is None or known[0] is not gates:
            known = self._stays[key] = (gates, stay(taints, tolerations, gates))
        return known[1]

    # ── afterwards ───────────────────────────────────────────────────────────────────────────────

    def pair(self) -> None:
        """Find for each pod that went the one that was made in its place.

        What had ended or was terminating when the cluster was read had its place filled before.
        """
        went: dict[tuple[str, str], list[PodLife]] = {}
        made: dict[tuple[str, str], list[PodLife]] = {}
        for life in self.lives.values():
            life.instead = None
            if not life.owner_uid:
                continue
            slot = (life.owner_uid, _slot(life))
            had_ended = life.went == life.came and life.made < 0.0
            if life.left is not None and not had_ended:
                went.setdefault(slot, []).append(life)
            made.setdefault(slot, []).append(life)
        for slot, lives in went.items():
            queue = sorted(made[slot], key=lambda life: life.came)
            taken = 0
            for life in sorted(lives, key=lambda life: life.went):
                while taken < len(queue) and queue[taken].came <= life.went:
                    taken += 1
                if taken < len(queue):
                    life.instead = queue[taken]
                    taken += 1

    def there_at_the_change(self) -> Iterator[PodLife]:
        """Yield the pods that were there when the change was made."""
        for life in self.lives.values():
            if life.made < 0.0 and (life.left is None or life.left >= 0.0):
                yield life


class _PodSpec(View, frozen=True):
    """What of a pod decides how long it may stay on a node."""

    tolerations: tuple[Toleration, ...] | None = None


def _tolerations(pod: Document) -> Any:
    return pod["spec"].get("tolerations")


def _born(document: Document, at: float, came: int) -> PodLife:
    metadata, owner = document["metadata"], owner_of(document)
    return PodLife(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        f"{owner['kind']}/{owner['name']}" if owner else "",
        owner["uid"] if owner else "",
        at,
        came,
        target=_target(document),
        document=document,
    )


def _target(document: Document) -> str:
    """Return the node that a pod names by a field of its affinity, as DaemonSets let their pods do."""
    affinity = (document["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for wanted in term.get("matchFields") or ():
            if wanted.get("key") == "metadata.name" and wanted.get("values"):
                return str(wanted["values"][0])
    return ""


def _slot(life: PodLife) -> str:
    """Return what the owner tells its pods apart by."""
    if life.owner.startswith("StatefulSet/"):
        return life.name
    if life.owner.startswith("DaemonSet/"):
        return life.target or life.node
    return ""


def after(seconds: float) -> timedelta:
    """Return a time of the history as it is printed; what happens within milliseconds is at once."""
    return timedelta(seconds=round(seconds, 3) if seconds > 0.0015 else 0.0)
