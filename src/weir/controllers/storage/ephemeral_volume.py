"""Creates PersistentVolumeClaims for generic ephemeral volumes of pods.

The claim is named POD-VOLUME and owned by the pod, so that the garbage collector deletes it with the pod. A claim of
that name with another owner is left alone, and the pod waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from weir.client.cache import ObjectKey
from weir.client.events import ObjectReference
from weir.controllers.runtime.controller import Action, Controller, Create, Record, Retry
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.controllers.workloads.pod_control import owner_reference
from weir.objects.kind import Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PODS


class EphemeralVolumes(Controller):
    """The ephemeral volume controller."""

    name = "ephemeral-volume-controller"
    event_source = "ephemeral_volume"
    kinds: Sequence[Kind] = (PODS, PERSISTENT_VOLUME_CLAIMS)
    reads = {PODS: ()}

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield a new pod with ephemeral volumes, or the pod of a deleted claim."""
        if kind is PODS:
            if old is None and any(volume.ephemeral is not None for volume in new.spec.volumes or ()):
                yield key_of(new)
        elif new is None:
            for owner in old["metadata"].get("ownerReferences") or ():
                if owner["kind"] == "Pod" and owner.get("controller"):
                    yield ObjectKey(old["metadata"]["namespace"], owner["name"])

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the claims that the pod lacks."""
        pod = listers.pod(key.namespace, key.name)
        if pod is None or pod.deleting:
            return
        for volume in pod.spec.volumes or ():
            if volume.ephemeral is None:
                continue
            name = f"{key.name}-{volume.name}"
            claim = listers.get(PERSISTENT_VOLUME_CLAIMS, name, key.namespace)
            if claim is None:
                yield _claim(pod, name, volume.ephemeral.get("volumeClaimTemplate") or {})
            elif not any(
                o["uid"] == pod.metadata.uid for o in claim["metadata"].get("ownerReferences") or ()
            ):
                problem = (
                    f"PVC {key.namespace}/{name} was not created for pod {key.namespace}/{key.name} "
                    "(pod is not owner)"
                )
                text = f"ephemeral volume {volume.name}: {problem}"
                yield Record(_about(pod), "Warning", "FailedBinding", text)
                yield Retry(problem)
                return


def _claim(pod: Pod, name: str, template: dict[str, Any]) -> Create:
    owner = {"metadata": {"name": pod.metadata.name, "uid": pod.metadata.uid}}
    described = template.get("metadata") or {}
    document = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": pod.metadata.namespace,
            "labels": described.get("labels") or {},
            "annotations": described.get("annotations") or {},
            "ownerReferences": [owner_reference(owner, PODS)],
        },
        "spec": template.get("spec") or {},
    }
    return Create(PERSISTENT_VOLUME_CLAIMS, document, pod.metadata.namespace)


def _about(pod: Pod) -> ObjectReference:
    metadata = pod.metadata
    return ObjectReference("Pod", metadata.name, metadata.namespace, metadata.uid)
