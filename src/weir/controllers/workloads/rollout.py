"""Scaling of a Deployment's ReplicaSets during rollouts.

A rolling update scales the new ReplicaSet up and the old ones down within maxSurge and maxUnavailable. A Deployment
scaled while several ReplicaSets have pods scales them in proportion. Whether it was scaled is read from the
ReplicaSets' annotation deployment.kubernetes.io/desired-replicas, and such a sync does nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from weir.controllers.runtime.controller import Action, Create, Delete, Document, Patch, Record
from weir.controllers.workloads.pod_control import about, owner_reference, scaled, template_hash
from weir.objects.kinds import DEPLOYMENTS, REPLICA_SETS

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
LONGEST_NAME: Final = 253
#: Annotations of a Deployment that are its own and not its ReplicaSets'.
OWN: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
        "deprecated.deployment.rollback.to",
    }
)


class Rollout:
    """One look at one Deployment and its ReplicaSets."""

    def __init__(self, deployment: Document, replicasets: Sequence[Document], now: datetime) -> None:
        self.deployment, self.now = deployment, now
        self.spec = deployment["spec"]
        self.status: Document = deployment.get("status") or {}
        self.wanted: int = self.spec.get("replicas", 1)
        ordered = _oldest_first(replicasets)
        self.new = next((r for r in ordered if same_template(r, deployment)), None)
        self.old = [each for each in ordered if each is not self.new]
        self.all = [*self.old, *([self.new] if self.new is not None else [])]
        strategy = self.spec.get("strategy") or {}
        self.recreates = strategy.get("type") == "Recreate"
        rolling = strategy.get("rollingUpdate") or {}
        surge = scaled(rolling.get("maxSurge", "25%"), self.wanted, up=True)
        unavailable = scaled(rolling.get("maxUnavailable", "25%"), self.wanted, up=False)
        if not surge and not unavailable:
            unavailable = 1  # both round to nothing: one at a time, or nothing would ever move
        self.surge = 0 if self.recreates else surge
        self.unavailable = 0 if self.recreates else min(unavailable, self.wanted)
        self.created = ""  #: the ReplicaSet that this round creates
        self.collisions: int = self.status.get("collisionCount") or 0

    @cached_property
    def _code(self) -> str:
        """The short name of the current template."""
        return template_hash(self.spec["template"], self.collisions)

    @property
    def new_name(self) -> str:
        """Return the name that a new ReplicaSet of the current template gets."""
        name = self.deployment["metadata"]["name"]
        return f"{name[: LONGEST_NAME - 1 - len(self._code)]}-{self._code}"

    @property
    def complete(self) -> bool:
        """Whether the status says that all pods are new and available."""
        status = self.status
        return bool(
            status.get("updatedReplicas", 0) == self.wanted
            and status.get("replicas", 0) == self.wanted
            and status.get("availableReplicas", 0) == self.wanted
            and status.get("observedGeneration", 0) >= self.deployment["metadata"].get("generation", 0)
        )

    def actions(self, old_pods: int, taken: Document | None) -> Iterator[Action]:
        """Yield the next step; *old_pods* run of older templates, *taken* has the name a new ReplicaSet would get."""
        if self.new is not None:
            yield from self._number(self.new)
        if self.spec.get("paused") or self._was_scaled():
            yield from self._scale_all()
            if self.spec.get("paused"):
                yield from self._clean_up()
        elif self.recreates:
            yield from self._recreate(old_pods, taken)
        elif self.new is None:
            yield from self._create(taken)
        else:
            steps = list(self._roll(self.new))
            yield from steps
            if not steps and self.complete:
                yield from self._clean_up()

    # ── the new ReplicaSet ───────────────────────────────────────────────────────────────────────

    def _create(self, taken: Document | None) -> Iterator[Action]:
        metadata, template = self.deployment["metadata"], self.spec["template"]
        if taken is not None:  # not this template's, or it would be the new one: another name, next time
            patch = {"status": {"collisionCount": self.collisions + 1}}
            yield Patch(DEPLOYMENTS, metadata["name"], metadata["namespace"], patch, subresource="status")
            return
        labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: self._code}
        selector = self.spec["selector"]
        revision = max((_revision(each) for each in self.old), default=0) + 1
        number = self._room(0)
        annotations = {**self._passed_on(), REVISION: str(revision), **self._sizes()}
        document: dict[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": self.new_name,
                "namespace": metadata["namespace"],
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner_reference(self.deployment, DEPLOYMENTS)],
            },
            "spec": {
                "replicas": number,
                "minReadySeconds": self.spec.get("minReadySeconds") or 0,
                "selector": {
                    **selector,
                    "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: self._code},
                },
                "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
            },
        }
        generation = metadata.get("generation", 0)
        yield Create(REPLICA_SETS, document, metadata["namespace"], generation=generation)
        self.created = self.new_name
        if number:
            yield self._report_scaling(self.new_name, 0, number)
        yield from self._note_revision(revision)

    def _number(self, new: Document) -> Iterator[Action]:
        """Make the ReplicaSet of the current template the newest revision, and like its Deployment."""
        newest = max((_revision(each) for each in self.old), default=0)
        revision = _revision(new)
        present = new["metadata"].get("annotations") or {}
        changes = {key: value for key, value in self._passed_on().items() if present.get(key) != value}
        if revision <= newest:
            if revision:
                changes[HISTORY] = ",".join(filter(None, (present.get(HISTORY, ""), str(revision))))
            revision = newest + 1
            changes[REVISION] = str(revision)
        patch: dict[str, Any] = {"metadata": {"annotations": changes}} if changes else {}
        min_ready = self.spec.get("minReadySeconds") or 0
        if (new["spec"].get("minReadySeconds") or 0) != min_ready:
            patch["spec"] = {"minReadySeconds": min_ready}
        if patch:
            yield Patch(REPLICA_SETS, new["metadata"]["name"], new["metadata"]["namespace"], patch)
        yield from self._note_revision(revision)

    def _passed_on(self) -> dict[str, str]:
        annotations = self.deployment["metadata"].get("annotations") or {}
        return {key: value for key, value in annotations.items() if key not in OWN}

    def _note_revision(self, revision: int) -> Iterator[Action]:
        metadata = self.deployment["metadata"]
        if (metadata.get("annotations") or {}).get(REVISION) != str(revision):
            patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
            # With the status, as Kubernetes' own does: annotations of a Deployment count as a new generation.
            yield Patch(DEPLOYMENTS, metadata["name"], metadata["namespace"], patch, subresource="status")

    def _room(self, has: int) -> int:
        """Return how many pods the new ReplicaSet may have now."""
        if self.recreates:
            return self.wanted
        room = self.wanted + self.surge - sum(map(replicas, self.all))
        return max(has, min(self.wanted, has + max(room, 0)))

    # ── rolling and recreating ───────────────────────────────────────────────────────────────────

    def _recreate(self, old_pods: int, taken: Document | None) -> Iterator[Action]:
        if any(map(replicas, self.old)):
            for each in self.old:
                yield from self._scale(each, 0)
        elif old_pods:
            return  # until the last one is gone
        elif self.new is None:
            yield from self._create(taken)
        elif replicas(self.new) != self.wanted:
            yield from self._scale(self.new, self.wanted)
        elif self.complete:
            yield from self._clean_up()

    def _roll(self, new: Document) -> Iterator[Action]:
        has = replicas(new)
        number = self.wanted if has > self.wanted else self._room(has)
        if number != has:
            yield from self._scale(new, number)
            return
        if not any(map(replicas, self.old)):
            return
        at_least = self.wanted - self.unavailable
        spare = sum(map(replicas, self.all)) - at_least - (has - available(new))
        if spare <= 0:
            return
        sizes = {each["metadata"]["name"]: replicas(each) for each in self.old}
        for each in self.old:  # pods that serve nothing go first
            idle = min(spare, sizes[each["metadata"]["name"]] - available(each))
            if idle > 0:
                spare -= idle
                sizes[each["metadata"]["name"]] -= idle
        spare = sum(map(available, self.all)) - at_least
        for each in self.old:
            lowered = min(sizes[each["metadata"]["name"]], spare)
            if lowered > 0:
                spare -= lowered
                sizes[each["metadata"]["name"]] -= lowered
        for each in self.old:
            yield from self._scale(each, sizes[each["metadata"]["name"]])

    # ── scaling in proportion ────────────────────────────────────────────────────────────────────

    def _was_scaled(self) -> bool:
        """Return whether the Deployment's size is another than its ReplicaSets were made for."""
        noted = (_noted(each, DESIRED) for each in self.all if replicas(each))
        return any(number is not None and number != self.wanted for number in noted)

    def _scale_all(self) -> Iterator[Action]:
        active = [each for each in self.all if replicas(each)]
        if len(active) <= 1:
            newest = [*self.old, self.new] if self.new is not None else self.old
            for one in active or newest[-1:]:
                yield from self._scale(one, self.wanted)
        elif self.new is not None and self._is_saturated(self.new):
            for each in self.old:
                yield from self._scale(each, 0)
        elif not self.recreates:
            for each, number in zip(*self._proportions(active), strict=True):
                yield from self._scale(each, number, noting=True)

    def _is_saturated(self, new: Document) -> bool:
        return _noted(new, DESIRED) == replicas(new) == available(new) == self.wanted

    def _proportions(self, active: list[Document]) -> tuple[list[Document], list[int]]:
        """Return the ReplicaSets that have pods and what each gets of the difference, the largest what is left."""
        allowed = self.wanted + self.surge if self.wanted else 0
        to_add = allowed - sum(map(replicas, active))
        newest_first = list(reversed(active)) if to_add > 0 else active
        ordered = sorted(
            newest_first, key=lambda each: -replicas(each)
        )  # stable: of equal ones the first stays
        sizes, added = [], 0
        for each in ordered:
            share = 0
            if to_add and to_add != added:
                share = self._share(each)
                share = min(share, to_add - added) if to_add > 0 else max(share, to_add - added)
            sizes.append(replicas(each) + share)
            added += share
        sizes[0] = max(0, sizes[0] + to_add - added)
        return ordered, sizes

    def _share(self, replicaset: Document) -> int:
        """Return by how many pods this ReplicaSet would grow or shrink with the Deployment."""
        has = replicas(replicaset)
        if not self.wanted:
            return -has
        before = _noted(replicaset, MAXIMUM) or self.status.get("replicas", 0)
        if not before:
            return 0
        return math.floor(has * (self.wanted + self.surge) / before + 0.5) - has

    def _sizes(self) -> dict[str, str]:
        return {DESIRED: str(self.wanted), MAXIMUM: str(self.wanted + self.surge)}

    def _scale(self, replicaset: Document, number: int, *, noting: bool = False) -> Iterator[Action]:
        has, metadata = replicas(replicaset), replicaset["metadata"]
        present = metadata.get("annotations") or {}
        noted = all(present.get(key) == value for key, value in self._sizes().items())
        if has == number and (noted or not noting):
            return
        patch: dict[str, Any] = {"metadata": {"annotations": self._sizes()}}
        if has != number:
            patch["spec"] = {"replicas": number}
        yield Patch(REPLICA_SETS, metadata["name"], metadata["namespace"], patch, held=True)
        if has != number:
            yield self._report_scaling(metadata["name"], has, number)

    def _report_scaling(self, name: str, has: int, number: int) -> Record:
        word = "up" if number > has else "down"
        message = f"Scaled {word} replica set {name} from {has} to {number}"
        return Record(about(self.deployment, DEPLOYMENTS), "Normal", "ScalingReplicaSet", message)

    def _clean_up(self) -> Iterator[Action]:
        limit = self.spec.get("revisionHistoryLimit", 10)
        alive = [each for each in self.old if not each["metadata"].get("deletionTimestamp")]
        for each in sorted(alive, key=_revision)[: max(0, len(alive) - limit)]:
            metadata, status = each["metadata"], each.get("status") or {}
            seen = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
            if not replicas(each) and not status.get("replicas") and seen:
                yield Delete(REPLICA_SETS, metadata["name"], metadata["namespace"], metadata["uid"])


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


def available(replicaset: Document) -> int:
    """Return how many of the pods the ReplicaSet should have are available; its status may lag behind its size."""
    found: int = (replicaset.get("status") or {}).get("availableReplicas", 0)
    return min(found, replicas(replicaset))


def _revision(replicaset: Document) -> int:
    text = (replicaset["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _noted(replicaset: Document, annotation: str) -> int | None:
    text = (replicaset["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isdigit() else None


def _oldest_first(replicasets: Sequence[Document]) -> list[Document]:
    return sorted(
        replicasets, key=lambda r: (r["metadata"].get("creationTimestamp", ""), r["metadata"]["name"])
    )
