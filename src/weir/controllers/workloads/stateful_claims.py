"""PersistentVolumeClaims of a StatefulSet's pods, and their owner references.

Each volumeClaimTemplate gives each pod a claim named TEMPLATE-SET-ORDINAL, which survives the pod.
persistentVolumeClaimRetentionPolicy changes that by ownership: with whenDeleted Delete the set owns the claim, with
whenScaled Delete a pod that is scaled down owns it, and the garbage collector deletes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weir.controllers.runtime.actions import Action, Create, Document, Patch
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.controllers.workloads.pod_control import about, owner_reference
from weir.objects.kind import Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PODS


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
