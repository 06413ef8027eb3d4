"""DaemonSet controller: one pod per eligible node, with rolling updates.

Spec: core.md 5 "DaemonSet controller". A rolling update deletes old pods within maxUnavailable, or with maxSurge
starts the new pod beside the old one and deletes the old one once the new one is available. Eligibility is in
weir.controllers.workloads.daemon_nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import is_not
from typing import Any, Final, NamedTuple

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, Controller, Patch, Record, WakeAt
from weir.controllers.runtime.controller_refs import Claimants, claim
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.views import Node, Pod
from weir.controllers.workloads.controller_revisions import REVISIONS, hash_of, history
from weir.controllers.workloads.daemon_nodes import (
    NEITHER,
    EligibleNodes,
    ShouldRun,
    node_of,
    spec_for,
    template_pod,
)
from weir.controllers.workloads.failed_pod_backoff import EarlyLosses, Replacements
from weir.controllers.workloads.pod_control import (
    about,
    available_at,
    is_available,
    make_pod,
    owner_keys,
    remove_pod,
    scaled,
)
from weir.gates import Gates
from weir.objects import core
from weir.objects.kind import Kind
from weir.objects.kinds import DAEMON_SETS, NODES, PODS
from weir.observe.logs import ObjectRef
from weir.observe.unreadable import AGAIN_SECONDS, UnreadableValues
from weir.taints.expression import STOPPED_REASON, Expressions
from weir.taints.toleration import Evaluate

HASH_LABEL: Final = "controller-revision-hash"
GENERATION_LABEL: Final = "pod-template-generation"
AGAIN: Final = timedelta(seconds=AGAIN_SECONDS)
GENERATION: Final = "deprecated.daemonset.template.generation"


@dataclass(frozen=True)
class EveryDaemonSet:
    """A node changed in a way that may matter to any of them."""


Key = ObjectKey | EveryDaemonSet


class DaemonSets(Controller):
    """The DaemonSet controller."""

    name = "daemonset-controller"
    kinds: Sequence[Kind] = (DAEMON_SETS, REVISIONS, PODS, NODES)

    def __init__(self, gates: Gates, evaluate: Evaluate | None = None) -> None:
        self.expressions = Expressions()
        self._gates, self._evaluate = gates, evaluate or self.expressions.evaluate
        self._unreadable = UnreadableValues(self.log, self.expressions)
        self._claimants = Claimants()
        self.replacements, self.lost = Replacements(), EarlyLosses(node_of)
        self._seen: list[Node] = []
        self._nodes = EligibleNodes(())
        self._judged: dict[str, _Judged] = {}  # by uid

    def register_metrics(self, metrics: ControllerMetrics) -> None:
        metrics.cel.watch(self.name, self.expressions)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield what a change of an object makes worth looking at."""
        if kind is DAEMON_SETS:
            self._claimants.changed(old, new)
            metadata = (new or old)["metadata"]
            if new is None:
                self.replacements.forget(metadata["uid"])
                self.lost.forget(metadata["uid"])
                self._judged.pop(metadata["uid"], None)
            yield ObjectKey(metadata["namespace"], metadata["name"])
        elif kind in (PODS, REVISIONS):
            if kind is PODS:
                self.lost.changed(old, new)
            yield from owner_keys(old, new, DAEMON_SETS)
            yield from self._claimants.concerned(old, new)
        elif old is None or new is None or (old.labels, old.taints) != (new.labels, new.taints):
            yield EveryDaemonSet()

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what brings the pods of a DaemonSet in line with its nodes."""
        if isinstance(key, EveryDaemonSet):
            for each in listers.all(DAEMON_SETS):
                yield WakeAt(key_of(each), now)
            return
        daemonset = listers.get(DAEMON_SETS, key.name, key.namespace)
        if daemonset is None or daemonset["metadata"].get("deletionTimestamp"):
            return
        judged = self._judge(daemonset, listers, now)
        if judged is not None:
            yield from _Round(self, daemonset, judged, listers, now).actions()

    def _judge(self, daemonset: Mapping[str, Any], listers: Listers, now: datetime) -> _Judged | None:
        """Return where a DaemonSet's pods run, from the last time where neither it nor a node has changed since."""
        nodes = listers.all(NODES)
        if len(nodes) != len(self._seen) or any(map(is_not, nodes, self._seen)):
            self._seen, self._nodes = nodes, EligibleNodes(nodes)
        metadata, spec = daemonset["metadata"], daemonset["spec"]
        known = self._judged.get(metadata["uid"])
        if known is None or known.nodes is not self._nodes or known.spec != spec or now >= known.until:
            pattern = template_pod(daemonset)
            if pattern is None:
                return None
            known = _Judged(spec, pattern, self._nodes, self._verdicts(pattern, metadata, now), now + AGAIN)
            self._judged[metadata["uid"]] = known
        return known

    def _verdicts(
        self, pattern: core.Pod, metadata: Mapping[str, Any], now: datetime
    ) -> dict[str, ShouldRun]:
        """Return the nodes that run the pods of a template, reporting values that could not be parsed."""
        whose, seen = ObjectRef(metadata["namespace"], metadata["name"]), set[tuple[core.Taint, ...]]()
        for node in self._nodes.by_name.values():
            if node.taints and (taints := tuple(node.taints)) not in seen:
                seen.add(taints)
                self._unreadable.look(
                    pattern.tolerations,
                    taints,
                    self._gates,
                    self._evaluate,
                    now=now.timestamp(),
                    pod=whose,
                    node=node.name,
                )
        verdicts = self._nodes.verdicts(pattern, self._gates, self._evaluate)
        return {node.name: verdict for node, verdict in verdicts}


class _Judged(NamedTuple):
    """Where the pods of a DaemonSet run; a node that is not named runs none."""

    spec: Mapping[str, Any]
    pattern: core.Pod
    nodes: EligibleNodes
    verdicts: Mapping[str, ShouldRun]
    until: datetime  #: when values that cannot be parsed are reported again


class _Round:
    """One look at one DaemonSet."""

    def __init__(
        self,
        controller: DaemonSets,
        daemonset: Mapping[str, Any],
        judged: _Judged,
        listers: Listers,
        now: datetime,
    ) -> None:
        self._controller, self._set, self._judged, self._now = controller, daemonset, judged, now
        self._pattern = judged.pattern
        self._uid = daemonset["metadata"]["uid"]
        self._claimed = claim(daemonset, DAEMON_SETS, listers, PODS)
        self._history = history(daemonset, DAEMON_SETS, listers, HASH_LABEL)
        self._hash = hash_of(self._history.update, HASH_LABEL)
        self._by_node: dict[str, list[Pod]] = {}
        for pod in self._claimed.mine:
            if not (pod.terminated and pod.deleting):  # something keeps it; nothing is left to do about it
                self._by_node.setdefault(node_of(pod), []).append(pod)
        self._min_ready = daemonset["spec"].get("minReadySeconds") or 0
        strategy = daemonset["spec"].get("updateStrategy") or {}
        self._rolls = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        self._rolling = strategy.get("rollingUpdate") or {}
        self._made: set[str] = set()  # nodes that get a pod in this round
        self._removed: set[str] = set()  # pods that go in this round, by uid

    def actions(self) -> Iterator[Action]:
        yield from self._claimed.changes
        yield from self._history.changes
        verdicts, nodes = self._judged.verdicts, self._judged.nodes.by_name
        # Of the other nodes there is nothing to say: they run no pod, and have none.
        concerned = sorted({*verdicts, *(name for name in self._by_node if name in nodes)})
        should = {name: verdicts.get(name, NEITHER) for name in concerned}
        if warning := self._controller.expressions.warning(self._uid, self._pattern.tolerations):
            yield Record(about(self._set, DAEMON_SETS), "Warning", STOPPED_REASON, warning)
        desired = sum(answer.run for answer in should.values())
        surge = scaled(self._rolling.get("maxSurge", 0), desired, up=True) if self._rolls else 0
        for name, verdict in should.items():
            yield from self._node(name, verdict, surge)
        for name in sorted(self._by_node):  # pods that still wait for a node that is gone
            if name and name not in should:
                for pod in self._by_node[name]:
                    if not pod.spec.node_name and not pod.deleting:
                        yield from self._remove(pod)
        if self._rolls:
            yield from self._surge(should, surge) if surge else self._replace(should, desired)
        live = {(pod.metadata.labels or {}).get(HASH_LABEL) for pod in self._claimed.mine}
        named = {each["metadata"]["name"] for each in self._history.old if hash_of(each, HASH_LABEL) in live}
        limit = self._set["spec"].get("revisionHistoryLimit", 10)
        yield from self._history.surplus(named, limit, live_count=True)
        yield from self._status(should)

    # ── one node ─────────────────────────────────────────────────────────────────────────────────

    def _node(self, name: str, should: ShouldRun, surge: int) -> Iterator[Action]:
        pods = self._by_node.get(name, [])
        here = [pod for pod in pods if not pod.deleting]
        if not should.go_on:
            for pod in here:
                yield from self._remove(pod)
            return
        if not pods:
            if should.run:
                yield self._make_again(name)
            return
        running = []
        for pod in here:
            if not pod.terminated:
                running.append(pod)
                continue
            yield from self._ended(pod, name)
        running.sort(
            key=lambda pod: (not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.metadata.name)
        )
        if not surge:
            for pod in running[1:]:
                yield from self._remove(pod)
        elif not running and should.run:
            yield self._make_again(name)  # beside one that still ends
        else:
            yield from self._pairs(running)

    def _pairs(self, running: list[Pod]) -> Iterator[Action]:
        """While surging, a node may have one old and one new pod, until the new one is available."""
        new = [pod for pod in running if self._is_new(pod)]
        old = [pod for pod in running if not self._is_new(pod)]
        for pod in (*new[1:], *old[1:]):
            yield from self._remove(pod)
        if new and old and (not old[0].ready or self._available(new[0])):
            yield from self._remove(old[0])

    def _make_again(self, node: str) -> Action:
        """Make a pod for a node that has none; where pods are evicted before they run, after a pause."""
        later = self._controller.lost.until(self._uid, self._now, node)
        if later is None:
            return self._make(node)
        metadata = self._set["metadata"]
        return WakeAt(ObjectKey(metadata["namespace"], metadata["name"]), later)

    def _make(self, node: str) -> Action:
        self._made.add(node)
        metadata = self._set["metadata"]
        annotations = metadata.get("annotations") or {}
        generation = annotations.get(GENERATION) or str(metadata.get("generation", 1))
        return make_pod(
            self._set,
            DAEMON_SETS,
            labels={HASH_LABEL: self._hash, GENERATION_LABEL: generation},
            spec=spec_for(self._set["spec"]["template"], node, self._pattern.tolerations),
        )

    def _remove(self, pod: Pod) -> Iterator[Action]:
        if pod.metadata.uid not in self._removed:
            self._removed.add(pod.metadata.uid)
            yield remove_pod(pod, self._set, DAEMON_SETS)

    def _ended(self, pod: Pod, node: str) -> Iterator[Action]:
        where = f"{pod.metadata.namespace}/{pod.metadata.name} on node {node}"
        if pod.status.phase == "Failed":
            later = self._controller.replacements.may(self._uid, node, self._now)
            if later is not None:
                metadata = self._set["metadata"]
                yield WakeAt(ObjectKey(metadata["namespace"], metadata["name"]), later)
                return
            message = f"Found failed daemon pod {where}, will try to kill it"
            yield Record(about(self._set, DAEMON_SETS), "Warning", "FailedDaemonPod", message)
        else:
            message = f"Found succeeded daemon pod {where}, will try to delete it"
            yield Record(about(self._set, DAEMON_SETS), "Normal", "SucceededDaemonPod", message)
        yield from self._remove(pod)

    # ── rolling ──────────────────────────────────────────────────────────────────────────────────

    def _is_new(self, pod: Pod) -> bool:
        return (pod.metadata.labels or {}).get(HASH_LABEL) == self._hash

    def _available(self, pod: Pod) -> bool:
        return is_available(pod, self._min_ready, self._now)

    def _standing(self, name: str) -> list[Pod]:
        """Return the pods of a node that are neither going nor ended."""
        return [
            pod for pod in self._by_node.get(name, ()) if pod.active and pod.metadata.uid not in self._removed
        ]

    def _replace(self, should: Mapping[str, ShouldRun], desired: int) -> Iterator[Action]:
        """Remove pods of an older template while few enough are missing, also where none would be started now."""
        limit = scaled(self._rolling.get("maxUnavailable", 1), desired, up=True)
        unavailable = 0
        candidates: list[Pod] = []
        for name in should:
            pods = self._standing(name)
            if not pods and not should[name].run:
                continue
            if not any(self._available(pod) for pod in pods):
                unavailable += 1
            for pod in pods:
                if self._is_new(pod):
                    continue
                if self._available(pod):
                    candidates.append(pod)
                elif name not in self._made:
                    yield from self._remove(pod)  # not available anyway
        for pod in candidates[: max(0, limit - unavailable)]:
            yield from self._remove(pod)

    def _surge(self, should: Mapping[str, ShouldRun], surge: int) -> Iterator[Action]:
        """Start new pods beside old ones, so that none is missing."""
        started = 0
        candidates: list[str] = []
        for name, answer in should.items():
            pods = self._standing(name)
            new = [pod for pod in pods if self._is_new(pod)]
            old = [pod for pod in pods if not self._is_new(pod)]
            if not old or name in self._made:
                continue
            if new:
                if self._available(new[0]):
                    yield from self._remove(old[0])
                else:
                    started += 1
            elif not answer.run:
                if not self._available(old[0]):
                    yield from self._remove(old[0])
            elif self._available(old[0]):
                candidates.append(name)
            else:
                yield self._make(name)  # the old one served nothing
        for name in candidates[: max(0, surge - started)]:
            yield self._make(name)

    # ── status ───────────────────────────────────────────────────────────────────────────────────

    def _status(self, should: Mapping[str, ShouldRun]) -> Iterator[Action]:
        desired = current = ready = available = updated = misscheduled = 0
        wake: datetime | None = None
        for name, answer in should.items():
            pods = [pod for pod in self._by_node.get(name, ()) if pod.active]
            if not answer.run:
                misscheduled += bool(pods)
                continue
            desired += 1
            if not pods:
                continue
            current += 1
            pod = min(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
            if any(self._is_new(each) for each in pods):
                updated += 1
            ready += pod.ready
            is_up = self._available(pod)
            available += is_up
            for each in pods:
                at = available_at(each, self._min_ready)
                if at is not None and at > self._now:
                    wake = min(wake or at, at)
        metadata = self._set["metadata"]
        status: dict[str, Any] = {
            "currentNumberScheduled": current,
            "numberMisscheduled": misscheduled,
            "desiredNumberScheduled": desired,
            "numberReady": ready,
            "observedGeneration": metadata.get("generation", 0),
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": desired - available,
        }
        if self._history.collisions:
            status["collisionCount"] = self._history.collisions
        present = self._set.get("status") or {}
        if any(present.get(name, 0) != value for name, value in status.items()):
            optional = ("updatedNumberScheduled", "numberAvailable", "numberUnavailable")
            written = {
                name: None if name in optional and not value else value for name, value in status.items()
            }
            yield Patch(
                DAEMON_SETS,
                metadata["name"],
                metadata["namespace"],
                {"status": written},
                subresource="status",
            )
        if wake is not None:
            yield WakeAt(ObjectKey(metadata["namespace"], metadata["name"]), wake)
