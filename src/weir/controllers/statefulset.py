"""Which of this StatefulSet's numbered pods comes or goes next?

Pods have an ordinal, a name and claims of their own. With OrderedReady one comes after the other is ready, and they
go from the highest down; Parallel does all at once. An update replaces pods from the highest ordinal down to the
partition, each after those above it are ready again. A pod that failed is replaced by one of the same name.
What surprises: claims stay when pods go. The revision a set came from is only told by its hash.
Not here: ControllerRevision objects, persistentVolumeClaimRetentionPolicy other than Retain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.controllers.actions import Action, Create, Patch, WakeAt
from weir.controllers.known import PODS, Known
from weir.controllers.views import Pod
from weir.controllers.workload import (
    about,
    available_at,
    is_available,
    make_pod,
    owner_key,
    remove_pod,
    template_hash,
)
from weir.gates import Gates
from weir.objects.kinds import Kind, by_kind

STATEFULSETS: Final = by_kind("apps/v1", "StatefulSet")
CLAIMS: Final = by_kind("v1", "PersistentVolumeClaim")
HASH_LABEL: Final = "controller-revision-hash"

Document = Mapping[str, Any]


@dataclass(frozen=True)
class StatefulSetKey:
    """One StatefulSet."""

    namespace: str
    name: str


class StatefulSets:
    """The StatefulSet controller."""

    name: Final = "statefulset-controller"
    kinds: Final[tuple[Kind, ...]] = (STATEFULSETS, PODS, CLAIMS)

    def __init__(self, gates: Gates) -> None:
        pass

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[StatefulSetKey]:
        """Yield the StatefulSet that changed, or whose pod did."""
        if kind is STATEFULSETS:
            metadata = (new or old)["metadata"]
            yield StatefulSetKey(metadata["namespace"], metadata["name"])
        elif kind is PODS and (found := owner_key(new or old, STATEFULSETS)) is not None:
            yield StatefulSetKey(*found)

    def reconcile(self, key: StatefulSetKey, known: Known, now: datetime) -> Iterator[Action]:
        """Yield the next step, and the status."""
        stateful = known.get(STATEFULSETS, key.name, key.namespace)
        if stateful is None or stateful["metadata"].get("deletionTimestamp"):
            return
        yield from _Round(key, stateful, known, now).actions()


class _Round:
    """One look at one StatefulSet."""

    def __init__(self, key: StatefulSetKey, stateful: Document, known: Known, now: datetime) -> None:
        self._key, self._set, self._known, self._now = key, stateful, known, now
        spec = self._spec = stateful["spec"]
        self._start: int = (spec.get("ordinals") or {}).get("start", 0)
        self._wanted = range(self._start, self._start + spec.get("replicas", 1))
        self._ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        self._min_ready: int = spec.get("minReadySeconds") or 0
        self._update = template_hash({"template": spec["template"]})
        self._current: str = (stateful.get("status") or {}).get("currentRevision") or self._name(self._update)
        self._pods: dict[int, Pod] = {}
        for pod in known.owned(PODS, stateful["metadata"]["uid"]):
            number = ordinal(key.name, pod.metadata.name)
            if number is not None:
                self._pods[number] = pod

    def _name(self, code: str) -> str:
        return f"{self._key.name}-{code}"

    def actions(self) -> Iterator[Action]:
        yield from self._steps()
        yield from self._status()

    def _steps(self) -> Iterator[Action]:
        for number in self._wanted:
            pod = self._pods.get(number)
            if pod is None:
                yield from self._make(number)
                if self._ordered:
                    return
            elif pod.terminated and not pod.deleting:
                yield remove_pod(pod, self._set, STATEFULSETS)
                if self._ordered:
                    return
            elif self._ordered and (pod.deleting or not is_available(pod, self._min_ready, self._now)):
                return
        surplus = sorted((n for n in self._pods if n not in self._wanted), reverse=True)
        for number in surplus:
            pod = self._pods[number]
            if not pod.deleting:
                yield remove_pod(pod, self._set, STATEFULSETS)
            if self._ordered:
                return
        if not surplus:
            yield from self._roll()

    def _roll(self) -> Iterator[Action]:
        strategy = self._spec.get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for number in sorted(self._wanted, reverse=True):
            pod = self._pods.get(number)
            if number < partition or pod is None or pod.deleting:
                return
            if not self._is_updated(pod):
                yield remove_pod(pod, self._set, STATEFULSETS)
                return
            if not is_available(pod, self._min_ready, self._now):
                return

    def _is_updated(self, pod: Pod) -> bool:
        return (pod.metadata.labels or {}).get(HASH_LABEL) == self._name(self._update)

    def _make(self, number: int) -> Iterator[Action]:
        name = f"{self._key.name}-{number}"
        template = self._spec["template"]
        claims = self._spec.get("volumeClaimTemplates") or ()
        named = {claim["metadata"]["name"] for claim in claims}
        volumes = [v for v in template["spec"].get("volumes") or () if v["name"] not in named]
        for claim in claims:
            claim_name = f"{claim['metadata']['name']}-{name}"
            source = {"claimName": claim_name}
            volumes.append({"name": claim["metadata"]["name"], "persistentVolumeClaim": source})
            if self._known.get(CLAIMS, claim_name, self._key.namespace) is None:
                yield self._claim(claim, claim_name)
        spec: dict[str, Any] = {"hostname": name}
        if self._spec.get("serviceName"):
            spec["subdomain"] = self._spec["serviceName"]
        if volumes:
            spec["volumes"] = volumes
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(number),
            HASH_LABEL: self._name(self._update),
        }
        yield make_pod(self._set, STATEFULSETS, name=name, labels=labels, spec=spec)

    def _claim(self, template: Document, name: str) -> Create:
        selector = (self._spec.get("selector") or {}).get("matchLabels") or {}
        metadata = {
            "name": name,
            "namespace": self._key.namespace,
            "labels": {**(template["metadata"].get("labels") or {}), **selector},
            "annotations": template["metadata"].get("annotations") or {},
        }
        document = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": template["spec"],
        }
        return Create(CLAIMS, document, self._key.namespace, about(self._set, STATEFULSETS))

    def _status(self) -> Iterator[Action]:
        pods = [pod for pod in self._pods.values() if not pod.terminated]
        updated = sum(self._is_updated(pod) and not pod.deleting for pod in pods)
        whole = updated == len(self._wanted) == len(pods) and all(pod.ready for pod in pods)
        current = self._name(self._update) if whole else self._current
        status = {
            "observedGeneration": self._set["metadata"].get("generation", 0),
            "replicas": len(pods),
            "readyReplicas": sum(pod.ready and not pod.deleting for pod in pods),
            "availableReplicas": sum(is_available(pod, self._min_ready, self._now) for pod in pods),
            "currentReplicas": sum((p.metadata.labels or {}).get(HASH_LABEL) == current for p in pods),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": self._name(self._update),
        }
        present = self._set.get("status") or {}
        if any(present.get(name, 0) != value for name, value in status.items()):
            always = ("replicas", "availableReplicas")
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


def ordinal(parent: str, name: str) -> int | None:
    """Return the number of a pod of this set; None when the name is not one of its names.

    >>> ordinal("db", "db-3"), ordinal("db", "db-03"), ordinal("db", "other-3")
    (3, None, None)
    """
    prefix, dash, text = name.rpartition("-")
    if prefix != parent or not dash or not text.isdigit() or text != str(int(text)):
        return None
    return int(text)
