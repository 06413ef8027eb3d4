"""Pods as a what-if question reads them: key, node, and the template that equal pods share.

Everything that decides whether a pod can be left out of a copy (weir.whatif.unaffected_pods) is worked out once per
template, not per pod. Pods come as bytes, as documents, or from a snapshot that holds their templates already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from weir.objects.core import Pod, PodStatus, ViewError, read
from weir.objects.pod_reader import SnapshotPod, relevant_volumes
from weir.objects.requests import has_allocated_resources
from weir.scheduler.pod_class import PodClass, PodClasses
from weir.whatif.inferred_owners import owner_label
from weir.whatif.snapshot import owner_of

Document = dict[str, Any]

OWNERS: Final = ("ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Deployment", "Job")
_INFERRED: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"})
_decode_pod: Final = msgspec.json.Decoder(Pod).decode
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """What pods that differ in name and node alone have in common."""

    namespace: str
    owner: str  #: the uid of the controller
    group: str  #: the uid of the topmost owner; "" for a pod without an owner, which is a group by itself
    priority: int
    pod_class: PodClass
    unsettled: bool  #: it is being deleted, or has claims
    ended: bool
    daemon: bool  #: a DaemonSet's pod
    tolerates_everything: bool  #: one that tolerates everything
    replicated: bool  #: a ReplicaSet's pod, of which there may be more or fewer


class PodRecord(NamedTuple):
    """What decides whether a pod is alive in the copy."""

    source: Any  #: its bytes, or its document
    key: str
    node: str
    template: Template

    @property
    def group(self) -> str:
        return self.template.group or self.key


def deployments_above(documents: Sequence[Document]) -> dict[str, str]:
    """Return the uid of the Deployment above each ReplicaSet."""
    return {
        each["metadata"].get("uid", ""): owner["uid"]
        for each in documents
        if each.get("kind") == "ReplicaSet" and (owner := owner_of(each)) is not None and owner.get("uid")
    }


class PodReader:
    """Reads pods; what pods have in common is worked out once."""

    def __init__(self, above: dict[str, str], owners: set[str]) -> None:
        self._above, self._owners = above, owners
        self._classes = PodClasses()
        self._templates: dict[bytes, Template] = {}
        self._of_templates: dict[int, Template | None] = {}
        self._names: dict[str, str] = {}

    def read(self, source: Any) -> PodRecord | None:
        """Return a pod; None for one that cannot be read, or that only a copy with all pods alive can hold."""
        if isinstance(source, SnapshotPod):
            raw, name, node_name, shared_template = source
            template = self._of_templates.get(id(shared_template)) or self._of_snapshot(shared_template)
            return None if template is None else PodRecord(raw, name, node_name, template)
        try:
            pod = read(Pod, source) if isinstance(source, dict) else _decode_pod(source)
        except (ViewError, msgspec.ValidationError):
            return None
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        if not metadata.name:
            return None
        volumes = relevant_volumes(pod) if spec.volumes else ()
        own = any(each.ephemeral for each in volumes)  # whose claims are named after the pod
        shared = Pod(
            metadata=replace(
                metadata,
                name=metadata.name if own else "",
                uid=metadata.uid if own else "",
                namespace=metadata.namespace or "default",
                resource_version="",
                creation_timestamp=None,
                annotations=None,
            ),
            spec=replace(spec, node_name="", volumes=volumes or None),
            status=status if has_allocated_resources(pod) else PodStatus(phase=status.phase),
        )
        key = _encode(shared)
        template = self._templates.get(key)
        if template is None:
            made = self._template(shared)
            if made is None:
                return None
            template = self._templates[key] = made
        node = self._names.setdefault(spec.node_name, spec.node_name)
        return PodRecord(source, f"{template.namespace}/{metadata.name}", node, template)

    def _of_snapshot(self, shared: Pod) -> Template | None:
        """Return what pods with the template *shared* have in common, which lives as long as its snapshot."""
        if id(shared) not in self._of_templates:
            metadata = replace(shared.metadata, namespace=shared.metadata.namespace or "default")
            self._of_templates[id(shared)] = self._template(replace(shared, metadata=metadata))
        return self._of_templates[id(shared)]

    def _template(self, pod: Pod) -> Template | None:
        metadata, spec = pod.metadata, pod.spec
        owner = next((one for one in metadata.owner_references or () if one.controller), None)
        if owner is not None and not owner.uid:
            return None  # a dump written by hand: small enough to be run whole
        if owner is not None and owner.uid not in self._owners and owner.kind in _INFERRED:
            # as the pods of its owner have in the copy
            labels = {**(metadata.labels or {}), **owner_label(owner.uid)}
            pod = replace(pod, metadata=replace(metadata, labels=labels))
        daemon = owner is not None and owner.kind == "DaemonSet"
        return Template(
            metadata.namespace,
            owner.uid if owner is not None else "",
            self._above.get(owner.uid, owner.uid) if owner is not None else "",
            spec.priority or 0,
            self._classes.of(pod),
            bool(metadata.deletion_timestamp or spec.resource_claims),
            pod.terminated,
            daemon,
            daemon and any(_tolerates_everything(each) for each in pod.tolerations),
            owner is not None and owner.kind in ("ReplicaSet", "ReplicationController"),
        )


def _tolerates_everything(toleration: Any) -> bool:
    return (
        toleration.operator == "Exists"
        and not toleration.key
        and not toleration.effect
        and toleration.toleration_seconds is None
    )


def whole(pod: Any) -> Document:
    """Return a pod given as bytes, of a snapshot or as a document as a document."""
    if isinstance(pod, SnapshotPod):
        pod = pod.source
    return pod if isinstance(pod, dict) else {"kind": "Pod", **msgspec.json.decode(pod)}
