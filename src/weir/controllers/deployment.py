"""Which ReplicaSets of this Deployment should have how many pods now?

A template has one ReplicaSet, named by its hash. A rolling update raises the new one and lowers the old ones so that
never more than maxSurge pods are too many and never more than maxUnavailable are missing. Rolling back is
writing an older template again: its ReplicaSet is still there and becomes the newest revision.
Not here: scaling old and new in proportion while a rollout is under way (the new one takes the difference).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from weir.controllers.actions import Action, Create, Delete, Patch, Record, WakeAt
from weir.controllers.known import PODS, Known
from weir.controllers.replicaset import REPLICASETS
from weir.controllers.views import parse_time, print_time
from weir.controllers.workload import about, owner_key, owner_reference, scaled, template_hash
from weir.gates import Gates
from weir.objects.kinds import Kind, by_kind

DEPLOYMENTS: Final = by_kind("apps/v1", "Deployment")
HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"

Document = Mapping[str, Any]


@dataclass(frozen=True)
class DeploymentKey:
    """One Deployment."""

    namespace: str
    name: str


@dataclass(frozen=True)
class PodGoneKey:
    """A pod of this ReplicaSet is gone; its Deployment may wait for that (Recreate)."""

    namespace: str
    replicaset: str


Key = DeploymentKey | PodGoneKey


class Deployments:
    """The Deployment controller."""

    name: Final = "deployment-controller"
    kinds: Final[tuple[Kind, ...]] = (DEPLOYMENTS, REPLICASETS, PODS)

    def __init__(self, gates: Gates) -> None:
        pass

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield the Deployment that changed, or whose ReplicaSet did, or that lost a pod."""
        if kind is DEPLOYMENTS:
            metadata = (new or old)["metadata"]
            yield DeploymentKey(metadata["namespace"], metadata["name"])
        elif kind is REPLICASETS and (found := owner_key(new or old, DEPLOYMENTS)) is not None:
            yield DeploymentKey(*found)
        elif kind is PODS and new is None and (found := owner_key(old, REPLICASETS)) is not None:
            yield PodGoneKey(*found)

    def reconcile(self, key: Key, known: Known, now: datetime) -> Iterator[Action]:
        """Yield the next step of a rollout, and the status."""
        if isinstance(key, PodGoneKey):
            owner = owner_key(known.get(REPLICASETS, key.replicaset, key.namespace), DEPLOYMENTS)
            if owner is not None:
                yield WakeAt(DeploymentKey(*owner), now)
            return
        deployment = known.get(DEPLOYMENTS, key.name, key.namespace)
        if deployment is None or deployment["metadata"].get("deletionTimestamp"):
            return
        owned = known.owned(REPLICASETS, deployment["metadata"]["uid"])
        rollout = Rollout(deployment, [each for each in owned if not _deleting(each)], now)
        old_pods = sum(len(known.owned(PODS, each["metadata"]["uid"])) for each in rollout.old)
        yield from rollout.actions(key, old_pods)


class Rollout:
    """One look at one Deployment and its ReplicaSets."""

    def __init__(self, deployment: Document, replicasets: Sequence[Document], now: datetime) -> None:
        self._set, self._now = deployment, now
        self.spec = deployment["spec"]
        self.wanted: int = self.spec.get("replicas", 1)
        self.new = next((r for r in _oldest_first(replicasets) if same_template(r, deployment)), None)
        self.old = [each for each in _oldest_first(replicasets) if each is not self.new]
        self.all = [*self.old, *([self.new] if self.new is not None else [])]
        strategy = self.spec.get("strategy") or {}
        self.recreates = strategy.get("type") == "Recreate"
        rolling = strategy.get("rollingUpdate") or {}
        self.surge = 0 if self.recreates else scaled(rolling.get("maxSurge", "25%"), self.wanted, up=True)
        self.unavailable = scaled(rolling.get("maxUnavailable", "25%"), self.wanted, up=False)
        if not self.surge and not self.unavailable:
            self.unavailable = 1  # both round to nothing: one at a time, or nothing would ever move
        self.unavailable = min(self.unavailable, self.wanted)

    def actions(self, key: DeploymentKey, old_pods: int) -> Iterator[Action]:
        """Yield everything that follows now."""
        if self.spec.get("paused"):
            yield from self._scale_paused()
        elif self.recreates and self.new is None and (any(map(replicas, self.old)) or old_pods):
            yield from self._lower_all_old()
        elif self.new is None:
            yield from self._create()
        else:
            yield from self._number(self.new)
            if self.recreates:
                yield from self._lower_all_old()
                if not any(map(replicas, self.old)) and not old_pods:
                    yield from self._scale(self.new, self.wanted)
            else:
                yield from self._roll(self.new)
            yield from self._clean_up()
        yield from self._status(key)

    # ── the new ReplicaSet ───────────────────────────────────────────────────────────────────────

    def _next_revision(self) -> int:
        return max((_revision(each) for each in self.old), default=0) + 1

    def _create(self) -> Iterator[Action]:
        metadata, template = self._set["metadata"], self.spec["template"]
        code = template_hash(template, (self._set.get("status") or {}).get("collisionCount") or 0)
        labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: code}
        selector = self.spec["selector"]
        revision = self._next_revision()
        number = self._room(0)
        document: dict[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{metadata['name']}-{code}",
                "namespace": metadata["namespace"],
                "labels": labels,
                "annotations": {
                    REVISION: str(revision),
                    DESIRED: str(self.wanted),
                    MAXIMUM: str(self.wanted + self.surge),
                },
                "ownerReferences": [owner_reference(self._set, DEPLOYMENTS)],
            },
            "spec": {
                "replicas": number,
                "minReadySeconds": self.spec.get("minReadySeconds") or 0,
                "selector": {
                    **selector,
                    "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: code},
                },
                "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
            },
        }
        yield Create(REPLICASETS, document, metadata["namespace"])
        yield self._tell_scaling(document["metadata"]["name"], 0, number)
        yield from self._note_revision(revision)

    def _number(self, new: Document) -> Iterator[Action]:
        """Make the ReplicaSet of the current template the newest revision."""
        newest = max((_revision(each) for each in self.old), default=0)
        revision = _revision(new)
        if revision <= newest:
            revision = newest + 1
            yield _annotate(REPLICASETS, new, {REVISION: str(revision)})
        yield from self._note_revision(revision)

    def _note_revision(self, revision: int) -> Iterator[Action]:
        if (self._set["metadata"].get("annotations") or {}).get(REVISION) != str(revision):
            yield _annotate(DEPLOYMENTS, self._set, {REVISION: str(revision)})

    def _room(self, has: int) -> int:
        """Return how many pods the new ReplicaSet may have now."""
        if self.recreates:
            return self.wanted
        total = sum(map(replicas, self.all))
        room = self.wanted + self.surge - total
        return max(has, min(self.wanted, has + max(room, 0)))

    # ── rolling ──────────────────────────────────────────────────────────────────────────────────

    def _roll(self, new: Document) -> Iterator[Action]:
        has = replicas(new)
        if has > self.wanted:
            yield from self._scale(new, self.wanted)
            return
        if has < self.wanted and (number := self._room(has)) != has:
            yield from self._scale(new, number)
            return
        total = sum(map(replicas, self.all))
        at_least = self.wanted - self.unavailable
        missing = has - _available(new)
        spare = total - at_least - missing
        if spare <= 0:
            return
        for each in self.old:  # pods that do not serve anybody go first
            idle = min(replicas(each) - _available(each), spare)
            if idle > 0:
                spare -= idle
                yield from self._scale(each, replicas(each) - idle)
        if spare == total - at_least - missing:
            yield from self._lower_old(sum(map(_available, self.all)) - at_least)

    def _lower_old(self, spare: int) -> Iterator[Action]:
        for each in self.old:
            lowered = min(replicas(each), spare)
            if lowered > 0:
                spare -= lowered
                yield from self._scale(each, replicas(each) - lowered)

    def _lower_all_old(self) -> Iterator[Action]:
        for each in self.old:
            yield from self._scale(each, 0)

    def _scale_paused(self) -> Iterator[Action]:
        """A paused Deployment is still as large as it should be: its largest ReplicaSet follows."""
        if not self.all:
            return
        newest = self.new if self.new is not None else max(self.all, key=_revision)
        yield from self._scale(
            newest, max(0, self.wanted - sum(replicas(r) for r in self.all if r is not newest))
        )

    def _scale(self, replicaset: Document, number: int) -> Iterator[Action]:
        has = replicas(replicaset)
        if has == number:
            return
        metadata = replicaset["metadata"]
        annotations = {DESIRED: str(self.wanted), MAXIMUM: str(self.wanted + self.surge)}
        patch = {"metadata": {"annotations": annotations}, "spec": {"replicas": number}}
        yield Patch(REPLICASETS, metadata["name"], metadata["namespace"], patch)
        yield self._tell_scaling(metadata["name"], has, number)

    def _tell_scaling(self, name: str, has: int, number: int) -> Record:
        word = "up" if number > has else "down"
        message = f"Scaled {word} replica set {name} from {has} to {number}"
        return Record(about(self._set, DEPLOYMENTS), "Normal", "ScalingReplicaSet", message)

    def _clean_up(self) -> Iterator[Action]:
        limit = self.spec.get("revisionHistoryLimit", 10)
        idle = [e for e in self.old if not replicas(e) and not (e.get("status") or {}).get("replicas")]
        for each in sorted(idle, key=_revision)[: max(0, len(self.old) - limit)]:
            metadata = each["metadata"]
            yield Delete(REPLICASETS, metadata["name"], metadata["namespace"], metadata["uid"])

    # ── status ───────────────────────────────────────────────────────────────────────────────────

    def _status(self, key: DeploymentKey) -> Iterator[Action]:
        metadata, present = self._set["metadata"], self._set.get("status") or {}
        total = sum((each.get("status") or {}).get("replicas", 0) for each in self.all)
        updated = (self.new.get("status") or {}).get("replicas", 0) if self.new is not None else 0
        available = sum(map(_available, self.all))
        counts = {
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": sum((each.get("status") or {}).get("readyReplicas", 0) for each in self.all),
            "availableReplicas": available,
            "unavailableReplicas": max(0, self.wanted - available),
            "observedGeneration": metadata.get("generation", 0),
        }
        enough = available >= self.wanted - self.unavailable
        conditions = [
            self._condition(
                "Available",
                "True" if enough else "False",
                "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
                f"Deployment {'has' if enough else 'does not have'} minimum availability.",
            )
        ]
        complete = (
            updated == self.wanted
            and total == self.wanted
            and available >= self.wanted
            and self.new is not None
        )
        progressing, wake = self._progressing(counts, complete)
        conditions.append(progressing)
        known = {c["type"]: c for c in present.get("conditions") or ()}
        moved = any(known.get(c["type"]) != c for c in conditions)
        if moved or any(present.get(name, 0) != value for name, value in counts.items()):
            others = [c for type, c in known.items() if type not in ("Available", "Progressing")]
            written = {name: value or None for name, value in counts.items()}
            patch = {"status": {**written, "conditions": [*others, *conditions]}}
            yield Patch(DEPLOYMENTS, key.name, key.namespace, patch, subresource="status")
        if wake is not None:
            yield WakeAt(key, wake)

    def _progressing(self, counts: dict[str, int], complete: bool) -> tuple[dict[str, Any], datetime | None]:
        """Return the Progressing condition, and when the deadline has to be looked at."""
        present = self._set.get("status") or {}
        name = self.new["metadata"]["name"] if self.new is not None else ""
        which = f'ReplicaSet "{name}"' if name else f'Deployment "{self._set["metadata"]["name"]}"'
        if complete:
            message = f"{which} has successfully progressed."
            return self._condition("Progressing", "True", "NewReplicaSetAvailable", message), None
        if self.spec.get("paused"):
            return self._condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"), None
        known = next((c for c in present.get("conditions") or () if c["type"] == "Progressing"), None)
        numbers = ("updatedReplicas", "readyReplicas", "availableReplicas", "replicas")
        moved = any(present.get(number, 0) != counts[number] for number in numbers)
        fresh = known is None or known["reason"] == "NewReplicaSetAvailable"
        deadline = timedelta(seconds=self.spec.get("progressDeadlineSeconds") or 600)
        if known is not None and not moved and not fresh:
            since = parse_time(known.get("lastUpdateTime")) or self._now
            if self._now >= since + deadline or known["reason"] == "ProgressDeadlineExceeded":
                message = f"{which} has timed out progressing."
                return self._condition("Progressing", "False", "ProgressDeadlineExceeded", message), None
            return known, since + deadline
        found = self._condition("Progressing", "True", "ReplicaSetUpdated", f"{which} is progressing.")
        found["lastUpdateTime"] = print_time(self._now)
        return found, self._now + deadline

    def _condition(self, type: str, status: str, reason: str, message: str) -> dict[str, Any]:
        """Return a condition; one that says what it said before keeps its times."""
        known = next(
            (c for c in (self._set.get("status") or {}).get("conditions") or () if c["type"] == type), None
        )
        now = print_time(self._now)
        same = known is not None and (known["status"], known["reason"]) == (status, reason)
        if known is not None and same and known.get("message") == message:
            return dict(known)
        return {
            "type": type,
            "status": status,
            "lastUpdateTime": now,
            "lastTransitionTime": known["lastTransitionTime"] if known and known["status"] == status else now,
            "reason": reason,
            "message": message,
        }


# ── ReplicaSets ──────────────────────────────────────────────────────────────────────────────────


def same_template(replicaset: Document, deployment: Document) -> bool:
    """Return whether the ReplicaSet was made of the Deployment's current template."""
    return _plain(replicaset["spec"]["template"]) == _plain(deployment["spec"]["template"])


def _plain(template: Document) -> Document:
    """Return a template without what making a ReplicaSet adds to it."""
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": {**metadata, "labels": labels}}


def replicas(replicaset: Document) -> int:
    """Return how many pods the ReplicaSet should have."""
    found: int = replicaset["spec"].get("replicas", 1)
    return found


def _available(replicaset: Document) -> int:
    found: int = (replicaset.get("status") or {}).get("availableReplicas", 0)
    return min(found, replicas(replicaset))


def _revision(replicaset: Document) -> int:
    text = (replicaset["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _oldest_first(replicasets: Sequence[Document]) -> list[Document]:
    return sorted(
        replicasets, key=lambda r: (r["metadata"].get("creationTimestamp", ""), r["metadata"]["name"])
    )


def _deleting(document: Document) -> bool:
    return bool(document["metadata"].get("deletionTimestamp"))


def _annotate(kind: Kind, document: Document, annotations: dict[str, str]) -> Patch:
    metadata = document["metadata"]
    return Patch(kind, metadata["name"], metadata["namespace"], {"metadata": {"annotations": annotations}})
