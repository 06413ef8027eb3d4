"""Reserved storage of one pod: the writes it needs, and whether its claims are bound.

Spec: core.md 3.7.6 "Reserve", "PreBind". Pure: writing and waiting are in weir.scheduler.schedule_one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weir.objects.volumes import PersistentVolume, PersistentVolumeClaim
from weir.scheduler.framework import PluginError, Reservation
from weir.scheduler.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE, Storage, belongs_to, is_bound


@dataclass
class Plan:
    """What has to be done about a pod's waiting claims on one node."""

    bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)
    #: the bytes that may still be made of the class of each provision, where its driver says
    capacities: list[int | None] = field(default_factory=list)
    refused: int = 0  #: why it cannot be done


@dataclass(frozen=True)
class Write:
    """A change of an object that has to reach the API server before the pod is bound."""

    kind: str
    namespace: str
    name: str
    patch: dict[str, Any]


class VolumeReservation(Reservation):
    """What was promised for one pod: what to write, when it is kept, how to take it back."""

    plugin = "VolumeBinding"

    def __init__(self, storage: Storage, plan: Plan, node: str) -> None:
        self._storage, self._plan, self._node = storage, plan, node
        self._written: dict[tuple[str, str], int] = {}

    def writes(self) -> list[Write]:
        """Return what PreBind writes; stale objects are refused by their resourceVersion."""
        found: list[Write] = []
        for volume, claim in self._plan.bindings:
            stored = self._storage.volumes.get(volume.metadata.name)
            if stored is not None and belongs_to(stored, claim) and stored.spec.claim_ref.uid:  # type: ignore[union-attr]
                continue
            reference = {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": claim.metadata.namespace,
                "name": claim.metadata.name,
                "uid": claim.metadata.uid,
                "resourceVersion": claim.metadata.resource_version,
            }
            metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
            if stored is None or stored.spec.claim_ref is None:
                metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
            patch = {"metadata": metadata, "spec": {"claimRef": reference}}
            found.append(Write("PersistentVolume", "", volume.metadata.name, patch))
        for claim in self._plan.provisions:
            now = self._storage.claims.get(f"{claim.metadata.namespace}/{claim.metadata.name}")
            if now is not None and (now.metadata.annotations or {}).get(SELECTED_NODE) == self._node:
                continue
            metadata = {
                "resourceVersion": claim.metadata.resource_version,
                "annotations": {SELECTED_NODE: self._node},
            }
            found.append(
                Write(
                    "PersistentVolumeClaim",
                    claim.metadata.namespace,
                    claim.metadata.name,
                    {"metadata": metadata},
                )
            )
        return found

    def wrote(self, write: Write, resource_version: str) -> None:
        """Note what a write made of its object: what is older in the watch says nothing yet."""
        if resource_version.isdigit():
            self._written[write.kind, write.name] = int(resource_version)

    def settled(self) -> bool:
        """Return whether every claim is bound; raise PluginError when it will not be."""
        for volume, claim in self._plan.bindings:
            name = volume.metadata.name
            stored = self._storage.volumes.get(name)
            if stored is None:
                raise PluginError(f'binding volumes: persistentvolume "{name}" not found')
            if self._is_current(stored, "PersistentVolume") and not belongs_to(stored, claim):
                raise PluginError(f'binding volumes: ClaimRef got reset for pv "{name}"')
        bound = [self._claim_settled(claim, "") for _, claim in self._plan.bindings]
        bound += [self._claim_settled(claim, self._node) for claim in self._plan.provisions]
        return all(bound)

    def _claim_settled(self, claim: PersistentVolumeClaim, node: str) -> bool:
        name = claim.metadata.name
        now = self._storage.claims.get(f"{claim.metadata.namespace}/{name}")
        if now is None:
            raise PluginError(f'binding volumes: persistentvolumeclaim "{name}" not found')
        if now.metadata.deletion_timestamp:
            raise PluginError(f'binding volumes: pvc "{name}" is being deleted')
        if is_bound(now):
            return True
        selected = (now.metadata.annotations or {}).get(SELECTED_NODE, "")
        if node and selected != node and self._is_current(now, "PersistentVolumeClaim"):
            # A provisioner that cannot make the volume here takes the node's name off the claim.
            raise PluginError(f'binding volumes: provisioning failed for PVC "{name}"')
        return False

    def _is_current(self, stored: PersistentVolume | PersistentVolumeClaim, kind: str) -> bool:
        written = self._written.get((kind, stored.metadata.name), 0)
        version = stored.metadata.resource_version
        return not version.isdigit() or int(version) >= written

    def end(self) -> None:
        """Take the promises back: they are kept, or the pod was not placed after all."""
        self._storage.take_back(
            [volume.metadata.name for volume, _ in self._plan.bindings], self._plan.provisions
        )
