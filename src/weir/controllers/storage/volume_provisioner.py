"""The simulated provisioner `simulated.weir.dev`: creates and deletes volumes for classes that name it.

Each claim gets a volume of its requested size, immediately or, with WaitForFirstConsumer, when the scheduler has
annotated the selected node. The class's allowedTopologies or its parameter `topologyKey` (a node label:
`kubernetes.io/hostname` gives node-local volumes) restrict where the volume can be used. If the selected node is gone
or lacks a needed label, the annotation is removed so that the scheduler chooses again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.controllers.runtime.controller import Action, Controller, Create, Delete, Document, Patch, Record
from weir.controllers.runtime.listers import Listers
from weir.controllers.storage.persistent_volume import OLD_PROVISIONER, PROVISIONER, SELECTED_NODE
from weir.controllers.storage.volume_phase import PROVISIONED_BY
from weir.controllers.workloads.pod_control import about
from weir.objects.kind import Kind
from weir.objects.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES

NAME: Final = "simulated.weir.dev"
TOPOLOGY_KEY: Final = "topologyKey"


@dataclass(frozen=True)
class UnprovisionedClaimKey:
    """A claim that was marked for this provisioner."""

    namespace: str
    name: str


@dataclass(frozen=True)
class ProvisionedVolumeKey:
    """A volume that this provisioner made."""

    name: str


Key = UnprovisionedClaimKey | ProvisionedVolumeKey


class CannotProvision(ValueError):
    """Why no volume can be made for a claim; where a node was chosen, another may do."""


class VolumeProvisioner(Controller):
    """The simulated provisioner."""

    name = "volume-provisioner"
    event_source = NAME
    kinds: Sequence[Kind] = (STORAGE_CLASSES, NODES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield claims that wait for a volume, and volumes that may be done with."""
        if kind is PERSISTENT_VOLUME_CLAIMS:
            metadata = (new or old)["metadata"]
            if new is not None and _is_asked(new):
                yield UnprovisionedClaimKey(metadata["namespace"], metadata["name"])
            if new is None and (volume := old["spec"].get("volumeName")):
                yield ProvisionedVolumeKey(volume)
        elif kind is PERSISTENT_VOLUMES and new is not None and _is_mine(new):
            yield ProvisionedVolumeKey(new["metadata"]["name"])

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the volume to make, or to remove."""
        if isinstance(key, ProvisionedVolumeKey):
            volume = listers.get(PERSISTENT_VOLUMES, key.name)
            if volume is not None and _is_mine(volume):
                yield from _release(volume, listers)
            return
        claim = listers.get(PERSISTENT_VOLUME_CLAIMS, key.name, key.namespace)
        if claim is None or not _is_asked(claim):
            return
        storage_class = listers.get(STORAGE_CLASSES, claim["spec"].get("storageClassName") or "")
        name = f"pvc-{claim['metadata']['uid']}"
        if storage_class is None or listers.get(PERSISTENT_VOLUMES, name) is not None:
            return
        whom = about(claim, PERSISTENT_VOLUME_CLAIMS)
        try:
            document = volume_for(claim, storage_class, name, listers)
        except CannotProvision as error:
            text = (
                f'failed to provision volume with StorageClass "{storage_class["metadata"]["name"]}": {error}'
            )
            yield Record(whom, "Warning", "ProvisioningFailed", text)
            patch = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            yield Patch(PERSISTENT_VOLUME_CLAIMS, key.name, key.namespace, patch)
            return
        yield Create(PERSISTENT_VOLUMES, document)
        yield Record(whom, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")


def volume_for(claim: Document, storage_class: Document, name: str, listers: Listers) -> dict[str, Any]:
    """Return the volume that a claim gets; raises CannotProvision."""
    metadata, asked = claim["metadata"], claim["spec"]
    size = ((asked.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")
    spec: dict[str, Any] = {
        "capacity": {"storage": size},
        "accessModes": asked.get("accessModes") or ["ReadWriteOnce"],
        "volumeMode": asked.get("volumeMode") or "Filesystem",
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": storage_class["metadata"]["name"],
        "csi": {"driver": NAME, "volumeHandle": name},
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
    }
    if storage_class.get("mountOptions"):
        spec["mountOptions"] = storage_class["mountOptions"]
    if terms := _terms(claim, storage_class, listers):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: NAME}},
        "spec": spec,
    }


def _terms(claim: Document, storage_class: Document, listers: Listers) -> list[dict[str, Any]]:
    """Return where the volume can be used from: node selector terms, none for everywhere."""
    allowed = storage_class.get("allowedTopologies") or ()
    keys = {e["key"]: None for term in allowed for e in term.get("matchLabelExpressions") or ()}
    if key := (storage_class.get("parameters") or {}).get(TOPOLOGY_KEY):
        keys[key] = None
    chosen = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
    if chosen:
        node = listers.node(chosen)
        if node is None:
            raise CannotProvision(f'node "{chosen}" not found')
        missing = [key for key in keys if key not in node.labels]
        if missing:
            raise CannotProvision(f'node "{chosen}" has no label {missing[0]}')
        expressions = [{"key": key, "operator": "In", "values": [node.labels[key]]} for key in sorted(keys)]
        return [{"matchExpressions": expressions}] if expressions else []
    return [
        {
            "matchExpressions": [
                {"key": e["key"], "operator": "In", "values": list(e["values"])}
                for e in term.get("matchLabelExpressions") or ()
            ]
        }
        for term in allowed
    ]


def _release(volume: Document, listers: Listers) -> Iterator[Action]:
    """Yield the deletion of a volume whose claim is gone, where its reclaim policy is Delete."""
    reference = volume["spec"].get("claimRef") or {}
    claim = listers.get(PERSISTENT_VOLUME_CLAIMS, reference.get("name", ""), reference.get("namespace", ""))
    held = claim is not None and claim["metadata"]["uid"] == reference.get("uid")
    if held or volume["metadata"].get("deletionTimestamp"):
        return
    if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and reference.get("uid"):
        yield Delete(PERSISTENT_VOLUMES, volume["metadata"]["name"], "", volume["metadata"]["uid"])


def _is_asked(claim: Document) -> bool:
    annotations = claim["metadata"].get("annotations") or {}
    marked = annotations.get(PROVISIONER) or annotations.get(OLD_PROVISIONER)
    terminating = claim["metadata"].get("deletionTimestamp")
    return marked == NAME and not claim["spec"].get("volumeName") and not terminating


def _is_mine(volume: Document) -> bool:
    return (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == NAME
