"""Stuck workloads of a running cluster: pods rejected, unschedulable, or created and lost in a loop.

From conditions (ReplicaFailure, ReplicaSetCreateError, PodScheduled), events (FailedCreate, FailedScheduling,
FailedDaemonPod, evictions, kubelet rejections) and failed pods, reported on the top-level workload. Pods of a loop
are mostly gone; their owner is found by the prefix of the name in their events. A rejection followed by a success is
over. So is a loop whose workload has been ready for minutes; pods evicted once each, by a deliberate taint, are no
loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

#: A refused workload is tried again after at most this long; what is older says nothing of now.
RECENT: Final = timedelta(minutes=30)
LOOPING: Final = timedelta(hours=1)
#: This many pods lost within the hour are a loop; fewer are bad luck.
LOOP: Final = 3
#: A workload that is ready, and lost no pod for so long, is in no loop any more.
SETTLED: Final = timedelta(minutes=5)
#: Reasons of deliberate evictions: a loop only when replacements are lost as well.
EVICTED: Final = frozenset({"TaintManagerEviction", "DeviceTaintManagerEviction", "Evicted", "Preempted"})
#: Reasons for which kubelets reject pods, and controllers evict them.
REJECTED: Final = re.compile(
    r"TaintToleration|NodeAffinity|NodeName|NodePorts|OutOf\w+|UnexpectedAdmissionError|Evicted|"
    r"TaintManagerEviction|DeviceTaintManagerEviction|Preempt\w*"
)
_GENERATED: Final = re.compile(r"^(.+)-[a-z0-9]{5}$")
_NUMBERED: Final = re.compile(r"^(.+)-\d+$")

Document = Mapping[str, Any]
Name = tuple[str, str, str]  #: kind, namespace, name


@dataclass(frozen=True)
class Refusal:
    """What the server answered to a workload's pods."""

    message: str
    times: int = 0  #: 0 when only a condition tells of it


@dataclass(frozen=True)
class Loop:
    """Pods of one workload that were lost for one reason."""

    reason: str
    pods: int
    message: str


@dataclass(frozen=True)
class Waiting:
    """Pods of one workload that the scheduler has found no node for, and what it says of one of them."""

    pods: int
    message: str


@dataclass
class Troubles:
    """What is wrong with workloads, by kind, namespace and name."""

    refused: dict[Name, Refusal] = field(default_factory=dict)
    loops: dict[Name, Loop] = field(default_factory=dict)
    waiting: dict[Name, Waiting] = field(default_factory=dict)

    @classmethod
    def of(cls, documents: Iterable[Document], now: datetime) -> Troubles:
        """Return what *documents* (workloads, pods, events) tell at *now*."""
        troubles, cluster = cls(), _Cluster(documents)
        troubles._read_events(cluster, now)
        troubles._read_conditions(cluster)
        troubles._read_pods(cluster, now)
        troubles._read_waiting(cluster)
        return troubles

    def _read_conditions(self, cluster: _Cluster) -> None:
        for name, document in cluster.workloads.items():
            for condition in (document.get("status") or {}).get("conditions") or ():
                failing = condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"
                uncreated = condition.get("reason") == "ReplicaSetCreateError"
                if failing or uncreated:
                    refusal = self.refused.get(cluster.top(name))
                    times = refusal.times if refusal is not None else 0
                    self.refused[cluster.top(name)] = Refusal(str(condition.get("message", "")), times)

    def _read_events(self, cluster: _Cluster, now: datetime) -> None:
        last: dict[Name, dict[str, datetime]] = {}
        latest: dict[Name, Refusal] = {}
        lost: dict[tuple[Name, str], _Losses] = {}
        for event in cluster.events:
            about, reason, at = _about(event), str(event.get("reason", "")), _when(event)
            if at is None or now - at > LOOPING:
                continue
            if reason in ("FailedCreate", "SuccessfulCreate"):
                times = last.setdefault(about, {})
                times[reason] = max(at, times.get(reason, at))
                if reason == "FailedCreate" and now - at <= RECENT:
                    message = str(event.get("message", "")).removeprefix("Error creating: ")
                    latest[about] = Refusal(message, _count(event))
            owner = about if reason == "FailedDaemonPod" else cluster.owner_of(about)
            losing = reason == "FailedDaemonPod" or REJECTED.fullmatch(reason)
            cancelled = str(event.get("message", "")).startswith("Cancelling deletion")
            if owner is not None and losing and not cancelled:
                losses = lost.setdefault((cluster.top(owner), reason), _Losses(at))
                losses.add(_count(event), at, str(event.get("message", "")))
        for name, refusal in latest.items():
            times = last[name]
            over = times.get("SuccessfulCreate", times["FailedCreate"]) > times["FailedCreate"]
            if name in cluster.workloads and not over and not cluster.is_whole(name):
                self.refused[cluster.top(name)] = refusal
        for (name, reason), losses in lost.items():
            if name in cluster.workloads and cluster.is_loop(name, reason, losses, now):
                self._note(name, Loop(reason, losses.number, losses.message))

    def _read_pods(self, cluster: _Cluster, now: datetime) -> None:
        failed: dict[tuple[Name, str], list[Document]] = {}
        for pod in cluster.pods:
            status = pod.get("status") or {}
            created = _time(pod["metadata"].get("creationTimestamp"))
            if status.get("phase") != "Failed" or created is None or now - created > LOOPING:
                continue
            owner = cluster.owner_of(_name(pod))
            reason = str(status.get("reason") or "Error")
            if owner is None or (owner[0] == "Job" and not REJECTED.fullmatch(reason)):
                continue  # a Job's pods may fail; it gives up by itself
            failed.setdefault((cluster.top(owner), reason), []).append(pod)
        for (name, reason), pods in failed.items():
            losses = _Losses(max(_time(pod["metadata"].get("creationTimestamp")) or now for pod in pods))
            for pod in pods:
                losses.add(1, losses.last, str((pod.get("status") or {}).get("message", "")))
            if cluster.is_loop(name, reason, losses, now):
                self._note(name, Loop(reason, losses.number, losses.message))

    def _read_waiting(self, cluster: _Cluster) -> None:
        events = {
            _about(event): str(event.get("message", ""))
            for event in cluster.events
            if event.get("reason") == "FailedScheduling"
        }
        for pod in cluster.pods:
            status = pod.get("status") or {}
            placed = (pod.get("spec") or {}).get("nodeName") or pod["metadata"].get("deletionTimestamp")
            if placed or status.get("phase") not in (None, "", "Pending"):
                continue
            message = _unplaced(status, events.get(_name(pod), ""))
            if message:
                owner = cluster.owner_of(_name(pod)) or _name(pod)
                earlier = self.waiting.get(cluster.top(owner), Waiting(0, message))
                self.waiting[cluster.top(owner)] = Waiting(earlier.pods + 1, earlier.message)

    def _note(self, name: Name, loop: Loop) -> None:
        noted = self.loops.get(name)
        if noted is None or noted.pods < loop.pods:
            self.loops[name] = loop


@dataclass
class _Losses:
    """Pods of one workload that were lost for one reason."""

    last: datetime
    number: int = 0
    message: str = ""

    def add(self, number: int, at: datetime, message: str) -> None:
        self.number += number
        self.last = max(self.last, at)
        self.message = message or self.message


class _Cluster:
    """Workloads, pods and events, and their ownership."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.workloads: dict[Name, Document] = {}
        self.pods: list[Document] = []
        self.events: list[Document] = []
        self._pods: dict[Name, Document] = {}
        for document in documents:
            kind = document.get("kind")
            if kind == "Event":
                self.events.append(document)
            elif kind == "Pod":
                self.pods.append(document)
                self._pods[_name(document)] = document
            elif kind != "Node":
                self.workloads[_name(document)] = document

    def owner_of(self, pod: Name) -> Name | None:
        """Return the workload that made a pod, by what the pod says or else by its name."""
        document = self._pods.get(pod)
        if document is not None:
            return _controller(document)
        _, namespace, name = pod
        for pattern, kinds in (
            (_GENERATED, ("ReplicaSet", "DaemonSet", "Job", "ReplicationController")),
            (_NUMBERED, ("StatefulSet",)),
        ):
            match = pattern.match(name)
            for kind in kinds if match is not None else ():
                if match is not None and (kind, namespace, match.group(1)) in self.workloads:
                    return kind, namespace, match.group(1)
        return None

    def top(self, name: Name) -> Name:
        """Return the workload that a person wrote: the owner of the owner, as far up as it goes."""
        for _ in range(4):
            document = self.workloads.get(name)
            above = _controller(document) if document is not None else None
            if above is None or above not in self.workloads:
                return name
            name = above
        return name

    def is_loop(self, name: Name, reason: str, losses: _Losses, now: datetime) -> bool:
        """Return whether losses are a loop that still goes on."""
        wanted, ready = self._pods_of(name)
        if reason in EVICTED and losses.number <= wanted:
            return False  # each pod once
        over = ready >= wanted > 0 and now - losses.last > SETTLED
        return losses.number >= LOOP and not over

    def _pods_of(self, name: Name) -> tuple[int, int]:
        """Return how many pods a workload wants, and how many are ready; 0 where it does not say."""
        document = self.workloads.get(name) or {}
        status, spec = document.get("status") or {}, document.get("spec") or {}
        if name[0] == "DaemonSet":
            return int(status.get("desiredNumberScheduled") or 0), int(status.get("numberReady") or 0)
        if name[0] == "Job":
            return int(spec.get("parallelism") or 1), int(status.get("ready") or 0)
        return int(spec.get("replicas") or 1), int(status.get("readyReplicas") or 0)

    def is_whole(self, name: Name) -> bool:
        """Return whether a workload has all the pods it asks for."""
        document = self.workloads[name]
        status, spec = document.get("status") or {}, document.get("spec") or {}
        if name[0] == "DaemonSet":
            wanted, has = status.get("desiredNumberScheduled", 0), status.get("currentNumberScheduled", 0)
            return bool(wanted and has >= wanted)
        if name[0] in ("ReplicaSet", "StatefulSet", "ReplicationController"):
            return bool(status.get("replicas", 0) >= spec.get("replicas", 1))
        return False


def _unplaced(status: Mapping[str, Any], event: str) -> str:
    """Return what the scheduler says of a pod without a node: its condition, or else the last event; "" for nothing.

    A pod that is held back on purpose (SchedulingGated) is no trouble.
    """
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            refused = condition.get("reason") in ("Unschedulable", "SchedulerError")
            return str(condition.get("message") or condition.get("reason")) if refused else ""
    return event


def is_own(document: Document) -> bool:
    """Return whether a person wrote the object: no controller made it."""
    return _controller(document) is None


def _controller(document: Document) -> Name | None:
    metadata = document.get("metadata") or {}
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("kind", "")), str(metadata.get("namespace", "")), str(owner.get("name", ""))
    return None


def _name(document: Document) -> Name:
    metadata = document.get("metadata") or {}
    return str(document.get("kind", "")), str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _about(event: Document) -> Name:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    return str(involved.get("kind", "")), str(involved.get("namespace", "")), str(involved.get("name", ""))


def _when(event: Document) -> datetime | None:
    series = event.get("series") or {}
    for text in (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime")):
        if text:
            return _time(text)
    return None


def _count(event: Document) -> int:
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    return count if isinstance(count, int) else 1


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except (TypeError, ValueError):
        return None
