"""StatefulSet controller: creates, updates and deletes numbered pods in order.

OrderedReady creates each pod after the previous is available and deletes from the highest ordinal down; Parallel acts
on all at once. An update replaces pods from the highest ordinal down to the partition, within maxUnavailable. A
failed pod is replaced by one of the same name. A lost pod below the partition is recreated from the old revision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from msgspec import structs

from weir.controllers.runtime.actions import Action, Delete, Document, Patch, WakeAt
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.controller_refs import Claimants, claim
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.controllers.workloads.controller_revisions import REVISIONS, history, template_of
from weir.controllers.workloads.failed_pod_backoff import EarlyLosses, Replacements
from weir.controllers.workloads.pod_control import (
    available_at,
    is_available,
    make_pod,
    owner_keys,
    remove_pod,
    scaled,
)
from weir.controllers.workloads.stateful_claims import StatefulClaims
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, by_kind

STATEFULSETS: Final = by_kind("apps/v1", "StatefulSet")
HASH_LABEL: Final = "controller-revision-hash"
REVISION_HASH_LABEL: Final = "controller.kubernetes.io/hash"
NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True)
class StatefulSetKey:
    """One StatefulSet."""

    namespace: str
    name: str


class StatefulSets(Controller):
    """The StatefulSet controller."""

    name = "statefulset-controller"
    kinds: Sequence[Kind] = (STATEFULSETS, REVISIONS, PODS, PERSISTENT_VOLUME_CLAIMS)

    def __init__(self, gates: Gates) -> None:
        self._claimants = Claimants()
        self._replacements, self._lost = Replacements(), EarlyLosses()

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[StatefulSetKey]:
        """Yield the StatefulSet that changed, or whose pod did, or that may want a pod without an owner."""
        if kind is STATEFULSETS:
            self._claimants.changed(old, new)
            metadata = (new or old)["metadata"]
            if new is None:
                self._replacements.forget(metadata["uid"])
                self._lost.forget(metadata["uid"])
            yield StatefulSetKey(metadata["namespace"], metadata["name"])
        elif kind in (PODS, REVISIONS):
            if kind is PODS:
                self._lost.changed(old, new)
            owners = owner_keys(old, new, STATEFULSETS)
            for namespace, name in (*owners, *self._claimants.concerned(old, new)):
                yield StatefulSetKey(namespace, name)

    def reconcile(self, key: StatefulSetKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the next step, and the status."""
        stateful = listers.get(STATEFULSETS, key.name, key.namespace)
        if stateful is None:
            return
        later = self._lost.until(stateful["metadata"]["uid"], now)
        yield from _Round(key, stateful, listers, now, self._replacements, later).actions()


class _Round:
    """One look at one StatefulSet."""

    def __init__(
        self,
        key: StatefulSetKey,
        stateful: Document,
        listers: Listers,
        now: datetime,
        replacements: Replacements,
        later: datetime | None,
    ) -> None:
        self._key, self._set, self._now, self._replacements = key, stateful, now, replacements
        self._later = later  # no new pods before, since the last ones were lost before they ran
        spec = self._spec = stateful["spec"]
        self._first: int = (spec.get("ordinals") or {}).get("start", 0)
        self._wanted = range(self._first, self._first + spec.get("replicas", 1))
        self._ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        self._min_ready: int = spec.get("minReadySeconds") or 0
        self._claimed = claim(
            stateful,
            STATEFULSETS,
            listers,
            PODS,
            fits=lambda pod: ordinal(key.name, pod.metadata.name) is not None,
        )
        self._history = history(stateful, STATEFULSETS, listers, REVISION_HASH_LABEL, wrapped=True)
        status = stateful.get("status") or {}
        self._update: str = self._history.update["metadata"]["name"]
        current = self._history.named(status.get("currentRevision") or "")
        self._current = current if current is not None else self._history.update
        self._pods: dict[int, Pod] = {}
        for pod in self._claimed.mine:
            number = ordinal(key.name, pod.metadata.name)
            if number is not None:
                self._pods[number] = pod
        strategy = spec.get("updateStrategy") or {}
        self._rolls = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        rolling = strategy.get("rollingUpdate") or {}
        self._partition: int = rolling.get("partition") or 0
        asked = scaled(rolling.get("maxUnavailable") or 1, len(self._wanted), up=False)
        self._unavailable = max(1, asked)
        self._claims = StatefulClaims(stateful, STATEFULSETS, listers)
        self._going = 0  # pods of the current revision that this round removes

    def actions(self) -> Iterator[Action]:
        yield from self._claimed.changes
        yield from self._history.changes
        if not self._set["metadata"].get("deletionTimestamp"):
            yield from self._steps()
        live = {self._current["metadata"]["name"], *(_revision(pod) for pod in self._claimed.mine)}
        limit = self._spec.get("revisionHistoryLimit", 10)
        yield from self._history.surplus(live, limit, live_count=False)
        yield from self._status()

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def _steps(self) -> Iterator[Action]:
        surplus = sorted((number for number in self._pods if number not in self._wanted), reverse=True)
        for number in self._wanted:
            pod = self._pods.get(number)
            if pod is None:
                yield from self._make(number)
                if self._ordered:
                    return
            elif pod.terminated:
                if not pod.deleting:
                    yield self._replace(pod)
                if self._ordered:
                    return
            else:
                if pod.status.phase == "Pending" and not pod.deleting:
                    yield from self._claims.missing(number)
                if self._ordered and (pod.deleting or not self._available(pod)):
                    return
                yield from self._keep_identity(pod, number)
                yield from self._claims.retained(number, pod, scaled_down=False)
        for number in surplus:
            yield from self._claims.retained(number, self._pods[number], scaled_down=True)
        first_unavailable = next((n for n in sorted(surplus) if self._missing(self._pods[n])), None)
        for number in surplus:
            pod = self._pods[number]
            if pod.deleting:
                if self._ordered:
                    return
                continue
            if self._ordered and self._missing(pod) and number != first_unavailable:
                return
            yield self._remove(pod)
            if self._ordered:
                return
        if self._rolls:
            yield from self._roll()

    def _roll(self) -> Iterator[Action]:
        missing = sum(
            (pod := self._pods.get(number)) is None or self._missing(pod) for number in self._wanted
        )
        room = self._unavailable - missing
        for number in sorted(self._wanted, reverse=True):
            pod = self._pods.get(number)
            if number - self._first < self._partition or pod is None:
                continue
            if pod.deleting or _revision(pod) == self._update:
                continue
            if not self._ordered and self._missing(pod):
                self._going += _revision(pod) == self._current["metadata"]["name"]
                yield self._remove(pod)  # it served nothing
            elif room > 0:
                room -= 1
                self._going += _revision(pod) == self._current["metadata"]["name"]
                yield self._remove(pod)

    def _available(self, pod: Pod) -> bool:
        return pod.status.phase == "Running" and is_available(pod, self._min_ready, self._now)

    def _missing(self, pod: Pod) -> bool:
        return pod.deleting or not self._available(pod)

    def _keep_identity(self, pod: Pod, number: int) -> Iterator[Action]:
        """Give an adopted pod back the labels that every pod of the set has."""
        labels = pod.metadata.labels or {}
        wanted = {NAME_LABEL: pod.metadata.name, INDEX_LABEL: str(number)}
        if not pod.deleting and labels.get(NAME_LABEL) != pod.metadata.name:
            yield Patch(PODS, pod.metadata.name, self._key.namespace, {"metadata": {"labels": wanted}})

    def _make(self, number: int) -> Iterator[Action]:
        if self._later is not None:
            yield WakeAt(self._key, self._later)
            return
        name = f"{self._key.name}-{number}"
        old = self._rolls and number - self._first < self._partition
        revision = self._current if old else self._history.update
        template = template_of(revision)
        yield from self._claims.missing(number)
        if self._claims.going(number):
            return  # a claim of the name is on its way out: the pod would get the old one
        spec: dict[str, Any] = {"hostname": name}
        if self._spec.get("serviceName"):
            spec["subdomain"] = self._spec["serviceName"]
        if volumes := self._claims.volumes(number, template):
            spec["volumes"] = volumes
        labels = {NAME_LABEL: name, INDEX_LABEL: str(number), HASH_LABEL: revision["metadata"]["name"]}
        made = make_pod(
            self._set,
            STATEFULSETS,
            name=name,
            prefix=f"{self._key.name}-",
            labels=labels,
            spec=spec,
            template=template,
        )
        yield structs.replace(
            made,
            event_message=f"Create Pod {name} in StatefulSet {self._key.name} successful",
            failed=f"Create Pod {name} in StatefulSet {self._key.name} failed error:",
        )

    def _replace(self, pod: Pod) -> Action:
        """Make way for the next pod of the name; for one that keeps failing, after a pause."""
        uid, name = self._set["metadata"]["uid"], pod.metadata.name
        later = self._replacements.may(uid, name, self._now) if pod.status.phase == "Failed" else None
        return self._remove(pod) if later is None else WakeAt(self._key, later)

    def _remove(self, pod: Pod) -> Delete:
        message = f"Delete Pod {pod.metadata.name} in StatefulSet {self._key.name} successful"
        return structs.replace(remove_pod(pod, self._set, STATEFULSETS), event_message=message)

    # ── status ───────────────────────────────────────────────────────────────────────────────────

    def _status(self) -> Iterator[Action]:
        pods = list(self._pods.values())
        current_name = self._current["metadata"]["name"]
        standing = [pod for pod in pods if not pod.deleting]
        counts = {
            "replicas": len(pods),
            "readyReplicas": sum(pod.status.phase == "Running" and pod.ready for pod in pods),
            "availableReplicas": sum(self._available(pod) for pod in pods),
            "currentReplicas": sum(_revision(pod) == current_name for pod in standing) - self._going,
            "updatedReplicas": sum(_revision(pod) == self._update for pod in standing),
        }
        whole = self._rolls and counts["updatedReplicas"] == counts["replicas"] == counts[
            "readyReplicas"
        ] == len(self._wanted)
        if whole:  # the update is over: what was new is current
            current_name = self._update
            counts["currentReplicas"] = counts["updatedReplicas"]
        status: dict[str, Any] = {
            "observedGeneration": self._set["metadata"].get("generation", 0),
            **counts,
            "currentRevision": current_name,
            "updateRevision": self._update,
            "collisionCount": self._history.collisions,
        }
        present = self._set.get("status") or {}
        if any(present.get(name, 0) != value for name, value in status.items()):
            always = ("replicas", "availableReplicas", "collisionCount")
            written = {name: value if value or name in always else None for name, value in status.items()}
            patch = {"status": written}
            yield Patch(STATEFULSETS, self._key.name, self._key.namespace, patch, subresource="status")
        waiting = [
            at
            for pod in pods
            if self._min_ready and (at := available_at(pod, self._min_ready)) is not None and at > self._now
        ]
        if waiting:
            yield WakeAt(self._key, min(waiting))


def _revision(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(HASH_LABEL, "")


def ordinal(parent: str, name: str) -> int | None:
    """Return the number of a pod of this set; None when the name is not one of its names.

    >>> ordinal("db", "db-3"), ordinal("db", "db-03"), ordinal("db", "other-3")
    (3, None, None)
    """
    prefix, dash, text = name.rpartition("-")
    if prefix != parent or not dash or not text.isdigit() or text != str(int(text)):
        return None
    return int(text)
