"""A cluster between two waves: the objects that one leaves are what the next is forecast from.

A state is never changed. To try two waves from one state is to ask it twice; the state that a wave leaves is made only
when something is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

import msgspec

from weir.errors import NotFound
from weir.objects.pod_reader import SnapshotPod
from weir.plan.document import BudgetState, Goals
from weir.plan.goals import Breach, Pending, Unready, breaches
from weir.plan.waves import budgets_at_the_end, busy_seconds
from weir.simulation.named_kinds import kind_called
from weir.whatif.changes import Apply, Change
from weir.whatif.changes.change import ChangedCluster
from weir.whatif.forecast import Forecast
from weir.whatif.horizon import Tick
from weir.whatif.pod_records import whole
from weir.whatif.run import LoadedCluster, WhatIfOptions
from weir.whatif.snapshot import owner_of
from weir.world import flatten

Document = dict[str, Any]
PodSource = msgspec.Raw | SnapshotPod | Document
#: So far a forecast looks, unless pods are due to leave later.
SOON_SECONDS: Final = 600.0
#: What waves change but pods; specs of workloads stay, and their statuses are worked out anew.
_CHANGED: Final = ("Node", "ResourceClaim", "ResourceSlice")


class _Name(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Head(msgspec.Struct):
    metadata: _Name


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Placed(msgspec.Struct):
    spec: _Spec


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] | None = None


class _Life(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Reported(msgspec.Struct):
    metadata: _Life = msgspec.field(default_factory=_Life)
    status: _Status | None = None


_read_node: Final = msgspec.json.Decoder(_Placed).decode
_read_head: Final = msgspec.json.Decoder(_Head).decode
_read_reported: Final = msgspec.json.Decoder(_Reported).decode


@dataclass(frozen=True)
class Step:
    """What a wave does to a state."""

    forecast: Forecast
    after: ClusterState
    budgets: tuple[BudgetState, ...] = ()
    losable: Mapping[str, int] = field(
        default_factory=dict
    )  #: budget → how many of its pods, if all are healthy
    pending: tuple[Pending, ...] = ()  #: new pods, each with how long it waited for a node
    seconds: float = 0.0  #: until all is done and what is new is ready


class ClusterState:
    """The objects of a cluster at one moment."""

    def __init__(self, objects: list[Document], pods: dict[str, PodSource], options: WhatIfOptions) -> None:
        self.objects, self.pods, self.options = objects, pods, options

    @classmethod
    def of(
        cls, documents: Iterable[Document], pods: Iterable[PodSource], options: WhatIfOptions
    ) -> ClusterState:
        """Return the state that a cluster was read in; *pods* are those not among *documents*."""
        flat = list(flatten(documents))
        sources = [*(each for each in flat if each.get("kind") == "Pod"), *pods]
        others = [each for each in flat if each.get("kind") != "Pod"]
        return cls(others, {_key(each): each for each in sources}, options)

    @cached_property
    def loaded(self) -> LoadedCluster:
        """The cluster for what-if questions."""
        written = [each for each in self.pods.values() if isinstance(each, dict)]
        rest = [each for each in self.pods.values() if not isinstance(each, dict)]
        return LoadedCluster([*self.objects, *written], rest)

    @cached_property
    def unready(self) -> Unready:
        """The pods that are not ready; kept from one state to the next until they are evicted."""
        above = {
            each["metadata"].get("uid", ""): owner
            for each in self.objects
            if each.get("kind") == "ReplicaSet" and (owner := owner_of(each)) is not None
        }
        found: dict[str, dict[str, str]] = {}
        for key, source in self.pods.items():
            if _is_unready(source):
                pod = whole(source)
                owner = owner_of(pod)
                if owner is None or owner["kind"] == "Job":  # whose pods wait for room as a matter of course
                    continue
                owner = above.get(owner.get("uid", ""), owner)
                title = f"{key.partition('/')[0]}/{owner['kind']}/{owner['name']}"
                found.setdefault(title, {})[key] = (pod.get("spec") or {}).get("nodeName") or ""
        return found

    @cached_property
    def node_names(self) -> frozenset[str]:
        """The names of all nodes."""
        return frozenset(each["metadata"]["name"] for each in self.objects if each.get("kind") == "Node")

    def forecast(self, changes: Sequence[Change], tick: Tick | None = None) -> Step:
        """Return what *changes* do, and the state they leave."""
        ends: list[_End] = []
        soon = replace(self.options, until=min(SOON_SECONDS, self.options.until))

        def ask(options: WhatIfOptions) -> Forecast:
            return self.loaded.what_if(
                changes, options, tick, lambda copy: ends.append(_End(changes, copy, self))
            )

        found = ask(soon)
        if found.later and self.options.until > SOON_SECONDS:
            found = ask(self.options)
        if not ends:
            return Step(found, self)
        end = ends[-1]
        seconds = max([busy_seconds(found), *end.ready], default=0.0)
        return Step(
            found, self._after(found, end, seconds), end.budgets, end.losable, tuple(end.pending), seconds
        )

    def pod(self, key: str) -> Document:
        """Return a pod as a document."""
        return whole(self.pods[key])

    def placed(self) -> Iterator[tuple[str, str]]:
        """Yield every pod that has a node, with it."""
        for key, each in self.pods.items():
            if node := _node_of(each):
                yield key, node

    def evicted(self, found: Forecast) -> dict[str, Document]:
        """Return the pods that a forecast evicts, as they are before it."""
        return {one.pod: self.pod(one.pod) for one in found.leaving if one.pod in self.pods}

    def breaches(self, goals: Goals, step: Step) -> list[Breach]:
        """Return the goals that a *step* from here breaks."""
        found = step.forecast
        return breaches(goals, found, self.evicted(found), step.pending, self.options.now, self.unready)

    def _after(self, found: Forecast, end: _End, seconds: float) -> ClusterState:
        """Return the state at the *end* of a forecast; pods that only took room in it are as they were."""
        gone = {one.pod for one in (*found.leaving, *found.leaving_anyway)}
        pods = {key: each for key, each in self.pods.items() if key not in gone}
        pods |= {_key(each): each for each in end.pods}
        changed = dict(end.changed)
        objects = [changed.pop((each.get("kind", ""), *_names(each)), each) for each in self.objects]
        later = self.options.now + timedelta(seconds=seconds)
        # another seed: with the same one new pods would be given the names of those that the last wave made
        options = replace(self.options, now=later, seed=self.options.seed + 1)
        after = ClusterState([*objects, *changed.values()], pods, options)
        after.unready = {
            name: {key: node for key, node in those.items() if key not in gone}
            for name, those in self.unready.items()
        }
        return after


class _End:
    """What a wave leaves behind, read from the copy while it is there."""

    def __init__(self, changes: Sequence[Change], copy: ChangedCluster, before: ClusterState) -> None:
        self.budgets = budgets_at_the_end(copy)
        self.losable = {
            "/".join(_names(each)): max(status.get("expectedPods", 0) - status.get("desiredHealthy", 0), 0)
            for each in _list(copy, "PodDisruptionBudget")
            for status in (each.get("status") or {},)
        }
        self.pods = [_typed("Pod", each) for each in copy.list("Pod")]
        self.pending: list[Pending] = []
        self.ready: list[float] = []
        for each in self.pods:
            if _key(each) not in before.pods:
                self._add_new(each, before.options.now)
        self.changed = {
            (kind, *_names(each)): _typed(kind, each) for kind in _CHANGED for each in _list(copy, kind)
        }
        for change in changes:
            for document in change.documents if isinstance(change, Apply) else ():
                kind, (namespace, name) = document["kind"], _names(document)
                if kind != "Pod" and (made := copy.get(kind, name, namespace)) is not None:
                    self.changed[kind, namespace, name] = _typed(kind, made)

    def _add_new(self, pod: Document, change: datetime) -> None:
        """Note how long a pod waited for its node, if it was made since the *change*."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        made = _seconds(metadata["creationTimestamp"])
        began = float(int(change.timestamp()))  # times in objects are whole seconds
        if made < began - 1.0 or metadata.get("deletionTimestamp"):
            return
        conditions = {each.get("type"): each for each in status.get("conditions") or ()}
        scheduled = conditions.get("PodScheduled", {})
        key = "/".join(_names(pod))
        if not pod["spec"].get("nodeName"):
            self.pending.append(Pending(key, 0.0, scheduled.get("message") or "no node is found for it"))
            return
        if since := scheduled.get("lastTransitionTime"):
            self.pending.append(Pending(key, max(_seconds(since) - made, 0.0)))
        if ready := conditions.get("Ready", {}).get("lastTransitionTime"):
            self.ready.append(_seconds(ready) - began)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _list(copy: ChangedCluster, kind: str) -> list[Document]:
    """Return the objects of a kind; none where an older release does not serve it."""
    try:
        return copy.list(kind)
    except NotFound:
        return []


def _typed(kind: str, document: Document) -> Document:
    return {"apiVersion": kind_called(kind).api_version, "kind": kind, **document}


def _key(pod: PodSource) -> str:
    if isinstance(pod, SnapshotPod):
        return pod.key
    if isinstance(pod, dict):
        return "/".join(_names(pod))
    metadata = _read_head(pod).metadata
    return f"{metadata.namespace or 'default'}/{metadata.name}"


def _is_unready(pod: PodSource) -> bool:
    """Return whether a pod waits, starts, or runs and is not ready; one whose kubelet says nothing is ready.

    A pod that is being deleted has been replaced, or will be.
    """
    if isinstance(pod, SnapshotPod):
        pod = pod.source  # type: ignore[assignment]  # bytes or Raw
    reported = msgspec.convert(pod, _Reported) if isinstance(pod, dict) else _read_reported(pod)  # type: ignore[arg-type]
    status = reported.status or _Status()
    if reported.metadata.deletion_timestamp:
        return False
    return status.phase == "Pending" or (
        status.phase == "Running"
        and any(each.type == "Ready" and each.status != "True" for each in status.conditions or ())
    )


def _node_of(pod: PodSource) -> str:
    if isinstance(pod, SnapshotPod):
        return pod.node_name
    if isinstance(pod, dict):
        return str((pod.get("spec") or {}).get("nodeName") or "")
    return _read_node(pod).spec.node_name


def _names(document: Document) -> tuple[str, str]:
    metadata = document.get("metadata") or {}
    return metadata.get("namespace") or "default", metadata.get("name", "")
