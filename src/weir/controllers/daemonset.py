"""Which nodes should run this DaemonSet's pod, and which pods are too many?

Spec: core.md 5 "DaemonSet controller".
What surprises: a NoSchedule taint that appears later does not remove a running daemon pod (should continue), only
keeps new ones away; a NoExecute one removes it. A cordoned node still gets its pod. Pods are not given a node
but an affinity for one; the scheduler binds them.
Not here: ControllerRevision objects; `kubectl rollout history` of DaemonSets has nothing to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from weir.controllers.actions import Action, Patch, Record, WakeAt
from weir.controllers.known import NODES, PODS, Known
from weir.controllers.views import Node, Pod
from weir.controllers.workload import (
    about,
    available_at,
    is_available,
    make_pod,
    owner_key,
    remove_pod,
    scaled,
    template_hash,
)
from weir.gates import Gates
from weir.objects import core
from weir.objects.core import Toleration, ViewError, read
from weir.objects.kinds import Kind, by_kind
from weir.selectors.node import pod_selects_node
from weir.taints.toleration import BLOCKING, EVICTING, Evaluate, untolerated

DAEMONSETS: Final = by_kind("apps/v1", "DaemonSet")
HASH_LABEL: Final = "controller-revision-hash"
FIRST_BACKOFF: Final = timedelta(seconds=1)
LONGEST_BACKOFF: Final = timedelta(minutes=15)

_ALWAYS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


@dataclass(frozen=True)
class DaemonKey:
    """One DaemonSet."""

    namespace: str
    name: str


@dataclass(frozen=True)
class EveryDaemonSet:
    """A node changed in a way that may matter to any of them."""


Key = DaemonKey | EveryDaemonSet


# ── the rule ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ShouldRun:
    """Whether a node should get a daemon pod, and whether one that runs there may go on."""

    run: bool
    go_on: bool


def daemon_tolerations(tolerations: Sequence[Toleration], *, host_network: bool) -> list[Toleration]:
    """Return a template's tolerations with those every daemon pod has.

    >>> mine = Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute", 30)
    >>> daemon_tolerations([mine], host_network=False)[0].toleration_seconds is None
    True
    """
    found = list(tolerations)
    for key, effect in (*_ALWAYS, *((_HOST_NETWORK,) if host_network else ())):
        entry = Toleration(key, "Exists", "", effect)
        for position, present in enumerate(found):
            if present.identity == entry.identity:
                found[position] = entry
                break
        else:
            found.append(entry)
    return found


def should_run(pod: core.Pod, node: Node, gates: Gates, evaluate: Evaluate | None = None) -> ShouldRun:
    """Return whether *node* should run the pod of a template (its tolerations complete)."""
    if pod.spec.node_name and pod.spec.node_name != node.name:
        return ShouldRun(False, False)
    if not pod_selects_node(pod, node.labels, node.name, gates):
        return ShouldRun(False, False)
    if untolerated(node.taints, pod.tolerations, gates, BLOCKING, evaluate):
        return ShouldRun(False, not untolerated(node.taints, pod.tolerations, gates, EVICTING, evaluate))
    return ShouldRun(True, True)


def template_pod(daemonset: Mapping[str, Any]) -> core.Pod | None:
    """Return the pod a DaemonSet's template describes, tolerations complete; None when it cannot be read."""
    try:
        pod = read(core.Pod, {"spec": daemonset["spec"]["template"]["spec"]})
    except ViewError:
        return None
    host_network = bool(pod.spec.host_network)
    tolerations = tuple(daemon_tolerations(pod.tolerations, host_network=host_network))
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, tolerations=tolerations))


def node_of(pod: Pod) -> str:
    """Return the node a daemon pod is on, or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity.required if affinity else None
    for term in (required.node_selector_terms or ()) if required else ():
        for requirement in term.match_fields or ():
            if requirement.key == "metadata.name" and requirement.operator == "In" and requirement.values:
                return requirement.values[0]
    return ""


def spec_for(template: Mapping[str, Any], node: str, tolerations: Sequence[Toleration]) -> dict[str, Any]:
    """Return what of the template's spec differs in a pod meant for *node*."""
    affinity = dict(template["spec"].get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [{"matchFields": [field]}]
    }
    affinity["nodeAffinity"] = node_affinity
    return {"affinity": affinity, "tolerations": msgspec.to_builtins(list(tolerations))}


# ── the controller ───────────────────────────────────────────────────────────────────────────────


class DaemonSets:
    """The DaemonSet controller."""

    name: Final = "daemonset-controller"
    kinds: Final[tuple[Kind, ...]] = (DAEMONSETS, PODS, NODES)

    def __init__(self, gates: Gates, evaluate: Evaluate | None = None) -> None:
        if evaluate is None:
            from weir.taints.expression import Expressions

            evaluate = Expressions().evaluate
        self._gates, self._evaluate = gates, evaluate
        self._backoff: dict[
            tuple[str, str], tuple[datetime, timedelta]
        ] = {}  # (uid, node) → not before, pause

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield what a change of an object makes worth looking at."""
        if kind is DAEMONSETS:
            metadata = (new or old)["metadata"]
            yield DaemonKey(metadata["namespace"], metadata["name"])
        elif kind is PODS:
            found = owner_key(new or old, DAEMONSETS)
            if found is not None:
                yield DaemonKey(*found)
        elif old is None or new is None or (old.labels, old.taints) != (new.labels, new.taints):
            yield EveryDaemonSet()

    def reconcile(self, key: Key, known: Known, now: datetime) -> Iterator[Action]:
        """Yield what brings the pods of a DaemonSet in line with its nodes."""
        if isinstance(key, EveryDaemonSet):
            for each in known.all(DAEMONSETS):
                yield WakeAt(DaemonKey(each["metadata"]["namespace"], each["metadata"]["name"]), now)
            return
        daemonset = known.get(DAEMONSETS, key.name, key.namespace)
        if daemonset is None or daemonset["metadata"].get("deletionTimestamp"):
            return
        pattern = template_pod(daemonset)
        if pattern is None:
            return
        yield from _Round(self, daemonset, pattern, known, now).actions()

    def judge(self, pattern: core.Pod, node: Node) -> ShouldRun:
        return should_run(pattern, node, self._gates, self._evaluate)

    def may_replace(self, uid: str, node: str, now: datetime) -> datetime | None:
        """Return None when a failed pod may be replaced now (and count it), else when it may."""
        not_before, pause = self._backoff.get((uid, node), (now, FIRST_BACKOFF))
        if now < not_before:
            return not_before
        if now - not_before > 2 * LONGEST_BACKOFF:
            pause = FIRST_BACKOFF
        self._backoff[uid, node] = (now + pause, min(pause * 2, LONGEST_BACKOFF))
        return None


class _Round:
    """One look at one DaemonSet."""

    def __init__(
        self,
        controller: DaemonSets,
        daemonset: Mapping[str, Any],
        pattern: core.Pod,
        known: Known,
        now: datetime,
    ) -> None:
        self._controller, self._set, self._pattern, self._now = controller, daemonset, pattern, now
        self._hash = template_hash(daemonset["spec"]["template"])
        uid = daemonset["metadata"]["uid"]
        self._by_node: dict[str, list[Pod]] = {}
        for pod in known.owned(PODS, uid):
            self._by_node.setdefault(node_of(pod), []).append(pod)
        self._nodes: list[Node] = sorted(known.all(NODES), key=lambda node: str(node.name))
        self._uid = uid
        self._min_ready = daemonset["spec"].get("minReadySeconds") or 0

    def actions(self) -> Iterator[Action]:
        should = {node.name: self._controller.judge(self._pattern, node) for node in self._nodes}
        replaced: set[str] = set()
        for node in self._nodes:
            yield from self._node(node.name, should[node.name], replaced)
        for name in sorted(self._by_node):  # pods that still wait for a node that is gone
            if name and name not in should:
                for pod in self._by_node[name]:
                    if not pod.spec.node_name and not pod.deleting:
                        yield remove_pod(pod, self._set, DAEMONSETS)
        yield from self._roll(should, replaced)
        yield from self._status(should)

    def _node(self, name: str, should: ShouldRun, replaced: set[str]) -> Iterator[Action]:
        pods = self._by_node.get(name, [])
        here = [pod for pod in pods if not pod.deleting]
        if not should.go_on:
            for pod in here:
                yield remove_pod(pod, self._set, DAEMONSETS)
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
        for pod in running[1:]:
            yield remove_pod(pod, self._set, DAEMONSETS)
        if should.run and not pods:
            replaced.add(name)
            template = self._set["spec"]["template"]
            yield make_pod(
                self._set,
                DAEMONSETS,
                labels={
                    HASH_LABEL: self._hash,
                    "pod-template-generation": str(self._set["metadata"].get("generation", 1)),
                },
                spec=spec_for(template, name, self._pattern.tolerations),
            )

    def _ended(self, pod: Pod, node: str) -> Iterator[Action]:
        where = f"{pod.metadata.namespace}/{pod.metadata.name} on node {node}"
        if pod.status.phase == "Failed":
            later = self._controller.may_replace(self._uid, node, self._now)
            if later is not None:
                metadata = self._set["metadata"]
                yield WakeAt(DaemonKey(metadata["namespace"], metadata["name"]), later)
                return
            message = f"Found failed daemon pod {where}, will try to kill it"
            yield Record(about(self._set, DAEMONSETS), "Warning", "FailedDaemonPod", message)
        else:
            message = f"Found succeeded daemon pod {where}, will try to delete it"
            yield Record(about(self._set, DAEMONSETS), "Normal", "SucceededDaemonPod", message)
        yield remove_pod(pod, self._set, DAEMONSETS)

    def _roll(self, should: Mapping[str, ShouldRun], replaced: set[str]) -> Iterator[Action]:
        """Replace pods of an older template, a few at a time."""
        strategy = self._set["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        wanted = [name for name, answer in should.items() if answer.run]
        limit = scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), len(wanted), up=True)
        unavailable = 0
        old_ones: list[Pod] = []
        for name in wanted:
            pods = [pod for pod in self._by_node.get(name, ()) if pod.active]
            if not any(is_available(pod, self._min_ready, self._now) for pod in pods):
                unavailable += 1
            outdated = [pod for pod in pods if (pod.metadata.labels or {}).get(HASH_LABEL) != self._hash]
            for pod in outdated:
                if is_available(pod, self._min_ready, self._now):
                    old_ones.append(pod)
                elif name not in replaced:
                    yield remove_pod(pod, self._set, DAEMONSETS)  # not available anyway
        for pod in old_ones[: max(0, limit - unavailable)]:
            yield remove_pod(pod, self._set, DAEMONSETS)

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
            pod = pods[0]
            ready += pod.ready
            is_up = is_available(pod, self._min_ready, self._now)
            available += is_up
            updated += (pod.metadata.labels or {}).get(HASH_LABEL) == self._hash
            if not is_up and (at := available_at(pod, self._min_ready)) is not None:
                wake = min(wake or at, at)
        metadata = self._set["metadata"]
        status = {
            "currentNumberScheduled": current,
            "numberMisscheduled": misscheduled,
            "desiredNumberScheduled": desired,
            "numberReady": ready,
            "observedGeneration": metadata.get("generation", 0),
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": desired - available,
        }
        present = self._set.get("status") or {}
        if any(present.get(name, 0) != value for name, value in status.items()):
            yield Patch(
                DAEMONSETS,
                metadata["name"],
                metadata["namespace"],
                {"status": status},
                subresource="status",
            )
        if wake is not None:
            yield WakeAt(DaemonKey(metadata["namespace"], metadata["name"]), wake)
