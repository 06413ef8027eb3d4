"""World: a read-only snapshot of a cluster, and edits of it.

Every decision that concerns more than one object reads a World. A hypothetical is an ordinary World: `what-if`,
`explain` and proofs of a proposed fix call `overlay` and run the same functions again. weir.client.cache builds
Worlds from watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from weir.objects.core import Namespace, Node, Pod, View, ViewError, read
from weir.objects.pod_reader import Json, SnapshotPods, like, seated, templates, with_templates
from weir.objects.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from weir.objects.v1alpha4 import VERSION as RELAXED
from weir.objects.v1alpha4 import relax
from weir.objects.versions import to_v1
from weir.objects.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass

#: Kinds of a World, with their view and their field.
_PLACES: Final[Mapping[str, tuple[type[View], str]]] = {
    "Node": (Node, "nodes"),
    "Pod": (Pod, "pods"),
    "PersistentVolume": (PersistentVolume, "volumes"),
    "PersistentVolumeClaim": (PersistentVolumeClaim, "claims"),
    "StorageClass": (StorageClass, "storage_classes"),
    "Namespace": (Namespace, "namespaces"),
    "ResourceClaim": (ResourceClaim, "resource_claims"),
    "ResourceClaimTemplate": (ResourceClaimTemplate, "resource_claim_templates"),
    "DeviceClass": (DeviceClass, "device_classes"),
    "ResourceSlice": (ResourceSlice, "resource_slices"),
    "DeviceTaintRule": (DeviceTaintRule, "device_taint_rules"),
}
_CLUSTER_SCOPED: Final = frozenset(
    {
        "nodes",
        "volumes",
        "storage_classes",
        "namespaces",
        "device_classes",
        "resource_slices",
        "device_taint_rules",
    }
)
#: Kinds that are kept as documents, for rules that read them so (admission, storage of drivers, budgets, owners);
#: True for those without a namespace.
_DOCUMENTS: Final[Mapping[str, bool]] = {
    "Namespace": True,
    "LimitRange": False,
    "ResourceQuota": False,
    "ServiceAccount": False,
    "PriorityClass": True,
    "RuntimeClass": True,
    "PodDisruptionBudget": False,
    "CSINode": True,
    "CSIDriver": True,
    "CSIStorageCapacity": False,
    "VolumeAttachment": True,
    "Service": False,
    "ReplicationController": False,
    "ReplicaSet": False,
    "StatefulSet": False,
    "Deployment": False,
    "DaemonSet": False,
    "Job": False,
    "Event": False,
}
_DEVICE_GROUP: Final = "resource.k8s.io"
_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True)
class World:
    """The objects of a cluster that decisions read, by name or by `namespace/name`."""

    nodes: Mapping[str, Node] = field(default_factory=lambda: _EMPTY)
    pods: Mapping[str, Pod] = field(default_factory=lambda: _EMPTY)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=lambda: _EMPTY)
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=lambda: _EMPTY)
    storage_classes: Mapping[str, StorageClass] = field(default_factory=lambda: _EMPTY)
    namespaces: Mapping[str, Namespace] = field(default_factory=lambda: _EMPTY)
    resource_claims: Mapping[str, ResourceClaim] = field(default_factory=lambda: _EMPTY)
    resource_claim_templates: Mapping[str, ResourceClaimTemplate] = field(default_factory=lambda: _EMPTY)
    device_classes: Mapping[str, DeviceClass] = field(default_factory=lambda: _EMPTY)
    resource_slices: Mapping[str, ResourceSlice] = field(default_factory=lambda: _EMPTY)
    device_taint_rules: Mapping[str, DeviceTaintRule] = field(default_factory=lambda: _EMPTY)
    documents: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=lambda: _EMPTY)
    listed: frozenset[str] = frozenset()  #: kinds of which every object is here, even if there is none
    #: What was worked out from these objects and can be used again, by who keeps it.
    memory: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        documents: Iterable[Any],
        listed: Iterable[str] = (),
        pods: Iterable[Json] | SnapshotPods = (),
    ) -> World:
        """Return the World that *documents* describe; Lists are opened, other kinds are left out.

        *listed* are kinds that were read whole, so that an object that is not here does not exist. *pods* are more
        pods, each as JSON, or read already.

        >>> World.of([{"kind": "Node", "metadata": {"name": "n1"}}]).nodes["n1"].taints
        ()
        """
        places: dict[str, dict[str, View]] = {name: {} for _, name in _PLACES.values()}
        kept: dict[str, dict[str, Mapping[str, Any]]] = {}
        for document in flatten(documents):
            kind = document.get("kind")
            if not isinstance(kind, str):
                continue
            if kind in _DOCUMENTS:
                kept.setdefault(kind, {})[_document_key(kind, document)] = document
            if kind not in _PLACES:
                continue
            view_type, place = _PLACES[kind]
            view = read(view_type, _as_v1(kind, document))
            places[place][_key(view, place)] = view
        world = cls(**places, documents=kept, listed=frozenset(listed))  # type: ignore[arg-type]
        snapshot = pods if isinstance(pods, SnapshotPods) else SnapshotPods.of(pods)
        return replace(world, pods=SnapshotPods({**world.pods, **snapshot.entries})) if snapshot else world

    def knows(self, *kinds: str) -> bool:
        """Return whether objects of *kinds* were collected: all of one were listed, or some are here."""
        return any(
            kind in self.listed
            or bool(self.documents.get(kind))
            or (kind in _PLACES and bool(getattr(self, _PLACES[kind][1])))
            for kind in kinds
        )

    def views(self) -> list[View]:
        """Return every object."""
        return [view for _, place in _PLACES.values() for view in getattr(self, place).values()]

    @cached_property
    def _pods_by_node(self) -> Mapping[str, tuple[Pod, ...]]:
        by_node: dict[str, list[Pod]] = {}
        for key, node_name, _ in self.seated_pods():
            by_node.setdefault(node_name, []).append(self.pods[key])
        return {name: tuple(pods) for name, pods in by_node.items()}

    def pods_on(self, node_name: str) -> tuple[Pod, ...]:
        """Return the pods that use the node: bound to it and not ended."""
        return self._pods_by_node.get(node_name, ())

    def seated_pods(self) -> Iterator[tuple[str, str, Pod]]:
        """Yield key and node of the pods that use one, with a view of everything but what is the pod's own."""
        return seated(self.pods)

    def pod_templates(self) -> Iterable[Pod]:
        """Return a view of each kind of pod, ended ones included."""
        return templates(self.pods)

    def pods_like(self, holds: Callable[[Pod], object]) -> Iterator[Pod]:
        """Yield the pods for which *holds* is true, which must not look at what is a pod's own: name, UID, node."""
        return like(self.pods, holds)

    @cached_property
    def _pods_by_owner(self) -> Mapping[tuple[str, str, str], list[tuple[int, str]]]:
        by_owner: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
        owners_of: dict[int, list[tuple[str, str, str]]] = {}  # by template
        for number, (key, template) in enumerate(with_templates(self.pods)):
            owners = owners_of.get(id(template))
            if owners is None:
                metadata = template.metadata
                named = [each for each in metadata.owner_references or () if each.controller]
                owners = owners_of[id(template)] = (
                    []
                    if template.terminated
                    else [(metadata.namespace or "default", each.kind, each.name) for each in named]
                )
            for owner in owners:
                by_owner.setdefault(owner, []).append((number, key))
        return by_owner

    def pod_keys_of(self, namespace: str, owners: Iterable[tuple[str, str]]) -> Iterator[str]:
        """Yield the keys of the pods that controllers, each kind and name, have in a namespace, ended ones left out."""
        by_owner = self._pods_by_owner
        owned = {each for owner in owners for each in by_owner.get((namespace, *owner), ())}
        return (key for _, key in sorted(owned))

    @cached_property
    def _replica_sets_by_deployment(self) -> Mapping[tuple[str, str], list[str]]:
        by_deployment: dict[tuple[str, str], list[str]] = {}
        for document in self.documents.get("ReplicaSet", {}).values():
            metadata = document.get("metadata") or {}
            for owner in metadata.get("ownerReferences") or ():
                if owner.get("kind") == "Deployment":
                    key = (metadata.get("namespace") or "default", str(owner.get("name")))
                    by_deployment.setdefault(key, []).append(str(metadata.get("name")))
        return by_deployment

    def replica_sets_of(self, namespace: str, deployment: str) -> Sequence[str]:
        """Return the names of the ReplicaSets that a Deployment owns."""
        return self._replica_sets_by_deployment.get((namespace, deployment), ())

    def overlay(self, *changed: View, without: Iterable[View] = ()) -> World:
        """Return this World with *changed* objects put in or replaced, and *without* taken out."""
        places: dict[str, Any] = {}
        for view, remove in (*((v, False) for v in changed), *((v, True) for v in without)):
            place = next(name for view_type, name in _PLACES.values() if isinstance(view, view_type))
            objects = places.get(place)
            if objects is None:
                here = getattr(self, place)
                objects = places[place] = dict(here.entries if isinstance(here, SnapshotPods) else here)
            if remove:
                objects.pop(_key(view, place), None)
            else:
                objects[_key(view, place)] = view
        if isinstance(self.pods, SnapshotPods) and "pods" in places:
            return replace(self, **{**places, "pods": SnapshotPods(places["pods"])})
        return replace(self, **places)


def _as_v1(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return *document* in the layout of v1; only what is about devices has others."""
    group, _, version = str(document.get("apiVersion") or "").rpartition("/")
    if group != _DEVICE_GROUP:
        return document
    relaxed = relax(kind, document) if version == RELAXED else document
    return to_v1(version, kind, relaxed)


def _key(view: View, place: str) -> str:
    metadata = view.metadata  # type: ignore[attr-defined]
    if not metadata.name:
        raise ViewError(f"{type(view).__name__}: metadata.name is missing")
    return (
        str(metadata.name)
        if place in _CLUSTER_SCOPED
        else f"{metadata.namespace or 'default'}/{metadata.name}"
    )


def _document_key(kind: str, document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = str(metadata.get("name") or "")
    return name if _DOCUMENTS[kind] else f"{metadata.get('namespace') or 'default'}/{name}"


def flatten(documents: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield every object among *documents*; Lists are opened."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
            # A typed list (NodeList) may leave out kind and version of its items.
            kind, version = str(document["kind"]).removesuffix("List"), document.get("apiVersion")
            of_list = {"apiVersion": version, "kind": kind} if version else {"kind": kind}
            yield from flatten(
                {**of_list, **item} if kind and isinstance(item, dict) else item for item in document["items"]
            )
        else:
            yield document
