"""Deployment controller: maps changes to Deployments and adopts their ReplicaSets.

A template has one ReplicaSet, named by its hash. Rolling back writes an older template again: its ReplicaSet still
exists and becomes the newest revision. Scaling is in weir.controllers.workloads.rollout, the status in
rollout_status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from weir.controllers.runtime.actions import Action, Patch, Record, WakeAt
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.controller_refs import Claimants, claim
from weir.controllers.runtime.listers import Listers
from weir.controllers.workloads.pod_control import about, owner_key, owner_keys
from weir.controllers.workloads.rollout import Rollout
from weir.controllers.workloads.rollout_status import (
    condition,
    has_deadline,
    progress_check,
    rollout_status,
    with_condition,
)
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import DEPLOYMENTS, PODS, REPLICA_SETS

CREATE_ERROR: Final = "ReplicaSetCreateError"


class DeploymentKey(msgspec.Struct, frozen=True):
    """One Deployment."""

    namespace: str
    name: str


class PodGoneKey(msgspec.Struct, frozen=True):
    """A pod of this ReplicaSet is gone; its Deployment may wait for that (Recreate)."""

    namespace: str
    replicaset: str


Key = DeploymentKey | PodGoneKey


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
            metadata = (new or old)["metadata"]
            yield DeploymentKey(metadata["namespace"], metadata["name"])
        elif kind is REPLICA_SETS:
            owners = owner_keys(old, new, DEPLOYMENTS)
            for namespace, name in (*owners, *self._claimants.concerned(old, new)):
                yield DeploymentKey(namespace, name)
        elif kind is PODS and new is None and (owner := owner_key(old, REPLICA_SETS)) is not None:
            yield PodGoneKey(*owner)

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the next step of a rollout, and the status."""
        if isinstance(key, PodGoneKey):
            owner = owner_key(listers.get(REPLICA_SETS, key.replicaset, key.namespace), DEPLOYMENTS)
            if owner is not None and _recreates(listers.get(DEPLOYMENTS, owner[1], owner[0])):
                yield WakeAt(DeploymentKey(*owner), now)
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
