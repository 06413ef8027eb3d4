"""Deployment controller: maps changes to Deployments, adopts their ReplicaSets and writes their status.

A template has one ReplicaSet, named by its hash. Rolling back writes an older template again: its ReplicaSet still
exists and becomes the newest revision. Scaling is in weir.controllers.workloads.rollout.

Progressing reports a rollout as created, progressing (lastUpdateTime moves), complete, or stuck for
progressDeadlineSeconds; a paused Deployment has no deadline. ReplicaFailure is copied from the ReplicaSets. A
condition whose status and reason are unchanged keeps its times and its message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, Controller, Patch, Record, WakeAt
from weir.controllers.runtime.controller_refs import Claimants, claim
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import parse_time
from weir.controllers.workloads.pod_control import about, owner_key, owner_keys
from weir.controllers.workloads.rollout import Rollout
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from weir.objects.times import format_time

NO_DEADLINE: Final = 2**31 - 1
DONE, TIMED_OUT, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"
_COUNTS: Final = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "observedGeneration",
)

Document = Mapping[str, Any]
Conditions = list[dict[str, Any]]


def rollout_status(rollout: Rollout, now: datetime) -> tuple[dict[str, Any], bool]:
    """Return the status as a patch, and whether it differs from what is written."""
    counts = _counts(rollout)
    present = rollout.status
    conditions: Conditions = [dict(each) for each in present.get("conditions") or ()]
    conditions = _paused(rollout, conditions, now)
    if rollout.created and has_deadline(rollout.deployment):
        text = f'Created new replica set "{rollout.created}"'
        conditions = with_condition(
            conditions, condition("Progressing", "True", "NewReplicaSetCreated", text, now)
        )
    enough = counts["availableReplicas"] >= rollout.wanted - rollout.unavailable
    conditions = with_condition(
        conditions,
        condition(
            "Available",
            "True" if enough else "False",
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            f"Deployment {'has' if enough else 'does not have'} minimum availability.",
            now,
        ),
    )
    if not rollout.spec.get("paused"):
        conditions = _progressing(rollout, counts, conditions, now)
        conditions = _failing(rollout, conditions)
    written: dict[str, Any] = {name: counts[name] or None for name in _COUNTS}
    written["terminatingReplicas"] = counts["terminatingReplicas"]
    moved = conditions != [dict(each) for each in present.get("conditions") or ()]
    moved = moved or any(present.get(name, 0) != value for name, value in counts.items())
    return {**written, "conditions": conditions}, moved


def progress_check(rollout: Rollout, status: Document) -> datetime | None:
    """Return when to look whether the rollout still moves; None when nothing is awaited."""
    found = find(status["conditions"], "Progressing")
    if found is None or not has_deadline(rollout.deployment) or rollout.spec.get("paused"):
        return None
    if found["reason"] in (DONE, TIMED_OUT):
        return None
    since = parse_time(found.get("lastUpdateTime"))
    return since + _deadline(rollout.deployment) + timedelta(seconds=1) if since is not None else None


def has_deadline(deployment: Document) -> bool:
    """Return whether a limit is set on the progress of this Deployment."""
    return deployment["spec"].get("progressDeadlineSeconds", 600) not in (None, NO_DEADLINE)


def _deadline(deployment: Document) -> timedelta:
    return timedelta(seconds=deployment["spec"].get("progressDeadlineSeconds", 600))


def _counts(rollout: Rollout) -> dict[str, int]:
    def total(name: str) -> int:
        return sum((each.get("status") or {}).get(name, 0) for each in rollout.all)

    asked = sum(each["spec"].get("replicas", 1) for each in rollout.all)
    available = total("availableReplicas")
    new = (rollout.new.get("status") or {}) if rollout.new is not None else {}
    return {
        "replicas": total("replicas"),
        "updatedReplicas": new.get("replicas", 0),
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, asked - available),
        "terminatingReplicas": total("terminatingReplicas"),
        "observedGeneration": rollout.deployment["metadata"].get("generation", 0),
    }


def _paused(rollout: Rollout, conditions: Conditions, now: datetime) -> Conditions:
    """A pause ends all waiting, so that a resumed Deployment has its whole deadline again."""
    found = find(conditions, "Progressing")
    if not has_deadline(rollout.deployment) or (found is not None and found["reason"] == TIMED_OUT):
        return conditions
    was = found is not None and found["reason"] == PAUSED
    if rollout.spec.get("paused") and not was:
        return with_condition(
            conditions, condition("Progressing", "Unknown", PAUSED, "Deployment is paused", now)
        )
    if was and not rollout.spec.get("paused"):
        return with_condition(
            conditions,
            condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now),
        )
    return conditions


def _progressing(
    rollout: Rollout, counts: Mapping[str, int], conditions: Conditions, now: datetime
) -> Conditions:
    if not has_deadline(rollout.deployment):
        return [each for each in conditions if each["type"] != "Progressing"]
    found = find(conditions, "Progressing")
    if found is not None and found["reason"] == DONE and counts["replicas"] == counts["updatedReplicas"]:
        return conditions  # no rollout is under way
    name = rollout.new["metadata"]["name"] if rollout.new is not None else rollout.created
    which = f'ReplicaSet "{name}"' if name else f'Deployment "{rollout.deployment["metadata"]["name"]}"'
    if counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == rollout.wanted:
        text = f"{which} has successfully progressed."
        return with_condition(conditions, condition("Progressing", "True", DONE, text, now))
    if _moved(rollout.status, counts):
        text = f"{which} is progressing."
        made = condition("Progressing", "True", "ReplicaSetUpdated", text, now)
        if found is not None and found["status"] == "True":
            made["lastTransitionTime"] = found["lastTransitionTime"]
        return [*(each for each in conditions if each["type"] != "Progressing"), made]
    if found is None or found["reason"] == DONE:
        return conditions
    since = parse_time(found.get("lastUpdateTime")) or now
    if found["reason"] == TIMED_OUT or now > since + _deadline(rollout.deployment):
        text = f"{which} has timed out progressing."
        return with_condition(conditions, condition("Progressing", "False", TIMED_OUT, text, now))
    return conditions


def _moved(before: Document, counts: Mapping[str, int]) -> bool:
    """Return whether the rollout got somewhere since the status was last written."""
    old_before = before.get("replicas", 0) - before.get("updatedReplicas", 0)
    return bool(
        counts["updatedReplicas"] > before.get("updatedReplicas", 0)
        or counts["replicas"] - counts["updatedReplicas"] < old_before
        or counts["readyReplicas"] > before.get("readyReplicas", 0)
        or counts["availableReplicas"] > before.get("availableReplicas", 0)
    )


def _failing(rollout: Rollout, conditions: Conditions) -> Conditions:
    """Show the failure of a ReplicaSet (the new one's first) as the Deployment's."""
    ordered = [*([rollout.new] if rollout.new is not None else []), *rollout.old]
    for each in ordered:
        failure = find((each.get("status") or {}).get("conditions") or (), "ReplicaFailure")
        if failure is not None:
            shown = {**failure, "lastUpdateTime": failure["lastTransitionTime"]}
            return with_condition(conditions, shown)
    return [each for each in conditions if each["type"] != "ReplicaFailure"]


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


def find(conditions: Iterable[Document], type: str) -> dict[str, Any] | None:
    """Return the condition of this type, if there is one; a reason may be left out where it is written."""
    return next(({"reason": "", **each} for each in conditions if each["type"] == type), None)


def condition(type: str, status: str, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """Return a condition that begins now."""
    at = format_time(now)
    return {
        "type": type,
        "status": status,
        "lastUpdateTime": at,
        "lastTransitionTime": at,
        "reason": reason,
        "message": message,
    }


def with_condition(conditions: Iterable[Document], made: Document) -> Conditions:
    """Return *conditions* with *made*; one that says the same with the same reason stays as it is."""
    present = [dict(each) for each in conditions]
    found = find(present, made["type"])
    if found is not None and (found["status"], found["reason"]) == (made["status"], made["reason"]):
        return present
    moved = dict(made)
    if found is not None and found["status"] == made["status"]:
        moved["lastTransitionTime"] = found["lastTransitionTime"]
    return [*(each for each in present if each["type"] != made["type"]), moved]


CREATE_ERROR: Final = "ReplicaSetCreateError"


class PodGoneKey(msgspec.Struct, frozen=True):
    """A pod of this ReplicaSet is gone; its Deployment may wait for that (Recreate)."""

    namespace: str
    replicaset: str


Key = ObjectKey | PodGoneKey


class Deployments(Controller):
    """The Deployment controller."""

    name = "deployment-controller"
    kinds: Sequence[Kind] = (DEPLOYMENTS, REPLICA_SETS, PODS)

    def __init__(self, gates: Gates) -> None:
        self._claimants = Claimants()

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield the Deployment that changed, or whose ReplicaSet did, or that lost a pod."""
        if kind is DEPLOYMENTS:
            self._claimants.changed(old, new)
            yield key_of(new or old)
        elif kind is REPLICA_SETS:
            yield from owner_keys(old, new, DEPLOYMENTS)
            yield from self._claimants.concerned(old, new)
        elif kind is PODS and new is None and (owner := owner_key(old, REPLICA_SETS)) is not None:
            yield PodGoneKey(*owner)

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the next step of a rollout, and the status."""
        if isinstance(key, PodGoneKey):
            owner = owner_key(listers.get(REPLICA_SETS, key.replicaset, key.namespace), DEPLOYMENTS)
            if owner is not None and _recreates(listers.get(DEPLOYMENTS, owner.name, owner.namespace)):
                yield WakeAt(owner, now)
            return
        deployment = listers.get(DEPLOYMENTS, key.name, key.namespace)
        if deployment is None:
            return
        claimed = claim(deployment, DEPLOYMENTS, listers, REPLICA_SETS)
        yield from claimed.changes
        rollout = Rollout(deployment, claimed.mine, now)
        running = 0
        if rollout.recreates:  # a rolling update goes by what the ReplicaSets say of their pods
            old = (listers.owned(PODS, each["metadata"]["uid"]) for each in rollout.old)
            running = sum(not pod.terminated for pods in old for pod in pods)
        taken = listers.get(REPLICA_SETS, rollout.new_name, key.namespace) if rollout.new is None else None
        if not deployment["metadata"].get("deletionTimestamp"):
            yield from rollout.actions(running, taken)
        status, moved = rollout_status(rollout, now)
        if moved:
            patch = {"status": status}
            yield Patch(
                DEPLOYMENTS,
                key.name,
                key.namespace,
                patch,
                subresource="status",
                unless_refused=bool(rollout.created),
            )
        if (check := progress_check(rollout, status)) is not None:
            yield WakeAt(key, max(check, now))

    def create_refused(self, key: Key, message: str, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what says that the new ReplicaSet could not be made."""
        if isinstance(key, PodGoneKey):
            return
        deployment = listers.get(DEPLOYMENTS, key.name, key.namespace)
        if deployment is None:
            return
        rollout = Rollout(deployment, claim(deployment, DEPLOYMENTS, listers, REPLICA_SETS).mine, now)
        text = f'Failed to create new replica set "{rollout.new_name}": {message}'
        yield Record(about(deployment, DEPLOYMENTS), "Warning", CREATE_ERROR, text)
        present = (deployment.get("status") or {}).get("conditions") or ()
        conditions = [dict(each) for each in present]
        if has_deadline(deployment):
            conditions = with_condition(present, condition("Progressing", "False", CREATE_ERROR, text, now))
        status, moved = rollout_status(rollout, now)
        if moved or conditions != list(present):
            patch = {"status": {**status, "conditions": conditions}}
            yield Patch(DEPLOYMENTS, key.name, key.namespace, patch, subresource="status")


def _recreates(deployment: Mapping[str, Any] | None) -> bool:
    """Return whether the Deployment waits for the last of its old pods before it makes new ones."""
    return deployment is not None and (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
