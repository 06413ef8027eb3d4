"""StatefulSet controller: creates, updates and deletes numbered pods in order, and their claims.

OrderedReady creates each pod after the previous is available and deletes from the highest ordinal down; Parallel acts
on all at once. An update replaces pods from the highest ordinal down to the partition, within maxUnavailable. A
failed pod is replaced by one of the same name. A lost pod below the partition is recreated from the old revision.

Each volumeClaimTemplate gives each pod a claim named TEMPLATE-SET-ORDINAL, which survives the pod.
persistentVolumeClaimRetentionPolicy changes that by ownership: with whenDeleted Delete the set owns the claim, with
whenScaled Delete a pod that is scaled down owns it, and the garbage collector deletes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import structs

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, Controller, Create, Delete, Document, Patch, WakeAt
from weir.controllers.runtime.controller_refs import Claimants, claim
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.controllers.workloads.controller_revisions import REVISIONS, history, template_of
from weir.controllers.workloads.failed_pod_backoff import EarlyLosses, Replacements
from weir.controllers.workloads.pod_control import (
    about,
    available_at,
    is_available,
    make_pod,
    owner_keys,
    owner_reference,
    remove_pod,
    scaled,
)
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, by_kind


class StatefulClaims:
    """The claims of one StatefulSet."""

    def __init__(self, stateful: Document, kind: Kind, listers: Listers) -> None:
        self._set, self._kind, self._listers = stateful, kind, listers
        self._templates: list[Document] = list(stateful["spec"].get("volumeClaimTemplates") or ())
        policy = stateful["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        self._with_set = policy.get("whenDeleted", "Retain") == "Delete"
        self._with_pod = policy.get("whenScaled", "Retain") == "Delete"

    def name(self, template: Document, number: int) -> str:
        """Return the name of one pod's claim."""
        return f"{template['metadata']['name']}-{self._set['metadata']['name']}-{number}"

    def volumes(self, number: int, template: Document) -> list[dict[str, Any]]:
        """Return the volumes of a pod: its claims, and those of the template with other names."""
        mine = [
            {
                "name": claim["metadata"]["name"],
                "persistentVolumeClaim": {"claimName": self.name(claim, number)},
            }
            for claim in self._templates
        ]
        named = {volume["name"] for volume in mine}
        return [*mine, *(v for v in template["spec"].get("volumes") or () if v["name"] not in named)]

    def missing(self, number: int) -> Iterator[Create]:
        """Yield the claims of a pod that are not there."""
        for template in self._templates:
            if self._find(template, number) is None:
                yield self._make(template, number)

    def going(self, number: int) -> bool:
        """Return whether a claim of this pod is being deleted."""
        found = (self._find(template, number) for template in self._templates)
        return any(claim is not None and claim["metadata"].get("deletionTimestamp") for claim in found)

    def retained(self, number: int, pod: Pod, *, scaled_down: bool) -> Iterator[Action]:
        """Yield the changes of ownership that make claims go with the set or with a pod scaled away."""
        for template in self._templates:
            claim = self._find(template, number)
            if claim is None or claim["metadata"].get("deletionTimestamp"):
                continue
            present = claim["metadata"].get("ownerReferences") or []
            if any(self._stale(each, pod) for each in present):
                continue  # of an earlier set or pod of the name: not ours to touch
            mine = [each for each in present if self._ours(each, pod)]
            others = [each for each in present if not self._ours(each, pod)]
            # Where another owner looks after it we own nothing of it, and give up what we did.
            apart = (self._with_set or self._with_pod) and any(each.get("controller") for each in others)
            owners = [] if apart else [*self._owners(pod, scaled_down)]
            same = {each["uid"] for each in owners} == {each["uid"] for each in mine}
            if same and all(each.get("controller") for each in mine):
                continue
            metadata, wanted = claim["metadata"], [*others, *owners]
            changes = {"resourceVersion": metadata["resourceVersion"], "ownerReferences": wanted or None}
            yield Patch(
                PERSISTENT_VOLUME_CLAIMS, metadata["name"], metadata["namespace"], {"metadata": changes}
            )

    def _owners(self, pod: Pod, scaled_down: bool) -> Iterator[Document]:
        if scaled_down and self._with_pod:
            metadata = {"metadata": {"name": pod.metadata.name, "uid": pod.metadata.uid}}
            yield owner_reference(metadata, PODS)
        elif self._with_set:
            yield owner_reference(self._set, self._kind)

    def _ours(self, reference: Document, pod: Pod) -> bool:
        return reference["uid"] in (self._set["metadata"]["uid"], pod.metadata.uid)

    def _stale(self, reference: Document, pod: Pod) -> bool:
        return not self._ours(reference, pod) and (reference["kind"], reference["name"]) in (
            (self._kind.kind, self._set["metadata"]["name"]),
            ("Pod", pod.metadata.name),
        )

    def _find(self, template: Document, number: int) -> Document | None:
        found: Document | None = self._listers.get(
            PERSISTENT_VOLUME_CLAIMS, self.name(template, number), self._set["metadata"]["namespace"]
        )
        return found

    def _make(self, template: Document, number: int) -> Create:
        selector = (self._set["spec"].get("selector") or {}).get("matchLabels") or {}
        metadata: dict[str, Any] = {
            "name": self.name(template, number),
            "namespace": self._set["metadata"]["namespace"],
            "labels": {**(template["metadata"].get("labels") or {}), **selector},
            "annotations": template["metadata"].get("annotations") or {},
        }
        if self._with_set:
            metadata["ownerReferences"] = [owner_reference(self._set, self._kind)]
        document = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": template["spec"],
        }
        owner = self._set["metadata"]
        whom = about(self._set, self._kind)
        pod = f"{owner['name']}-{number}"
        what = f"Create Claim {metadata['name']} for Pod {pod} in StatefulSet {owner['name']}"
        return Create(
            PERSISTENT_VOLUME_CLAIMS,
            document,
            owner["namespace"],
            whom,
            owner.get("generation", 0),
            event_message=f"Create Claim {metadata['name']} Pod {pod} in StatefulSet {owner['name']} success",
            failed=f"{what} failed error:",
        )


STATEFULSETS: Final = by_kind("apps/v1", "StatefulSet")
HASH_LABEL: Final = "controller-revision-hash"
REVISION_HASH_LABEL: Final = "controller.kubernetes.io/hash"
NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


class StatefulSets(Controller):
    """The StatefulSet controller."""

    name = "statefulset-controller"
    kinds: Sequence[Kind] = (STATEFULSETS, REVISIONS, PODS, PERSISTENT_VOLUME_CLAIMS)

    def __init__(self, gates: Gates) -> None:
        self._claimants = Claimants()
        self._replacements, self._lost = Replacements(), EarlyLosses()

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the StatefulSet that changed, or whose pod did, or that may want a pod without an owner."""
        if kind is STATEFULSETS:
            self._claimants.changed(old, new)
            metadata = (new or old)["metadata"]
            if new is None:
                self._replacements.forget(metadata["uid"])
                self._lost.forget(metadata["uid"])
            yield ObjectKey(metadata["namespace"], metadata["name"])
        elif kind in (PODS, REVISIONS):
            if kind is PODS:
                self._lost.changed(old, new)
            yield from owner_keys(old, new, STATEFULSETS)
            yield from self._claimants.concerned(old, new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
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
        key: ObjectKey,
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
