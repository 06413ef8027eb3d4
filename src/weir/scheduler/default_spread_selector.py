"""The selector of the default spread constraints, from a pod's services and controller.

Spec: core.md 3.7.7. A pod without constraints of its own is spread with the pods that its services and its controller
(ReplicationController, ReplicaSet, StatefulSet) select.
"""

from __future__ import annotations

from typing import Any, Final

from weir.objects.core import LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference, View
from weir.scheduler.pod_class import PodClass

#: (apiVersion's group, kind) of the controllers whose selector counts.
CONTROLLERS: Final = {("", "ReplicationController"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")}


class MapSelected(View, frozen=True):
    selector: dict[str, str] | None = None


class Service(View, frozen=True):
    """A Service or a ReplicationController: both select by plain pairs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MapSelected = MapSelected()


class LabelSelected(View, frozen=True):
    selector: LabelSelector | None = None


class Controller(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LabelSelected = LabelSelected()


class DefaultSpreadSelectors:
    """The services and controllers of a cluster, from which a pod's default selector follows."""

    def __init__(self) -> None:
        self.version = 0
        self._services: dict[str, dict[str, dict[str, str]]] = {}  # namespace → service → selector
        self._controllers: dict[tuple[str, str, str], LabelSelector] = {}

    def put_service(self, old: Service | None, new: Service | None) -> None:
        """Take in a change of a service."""
        if old is not None:
            there = self._services.get(old.metadata.namespace, {})
            there.pop(old.metadata.name, None)
            if not there:
                self._services.pop(old.metadata.namespace, None)
        if new is not None and new.spec.selector:
            self._services.setdefault(new.metadata.namespace, {})[new.metadata.name] = new.spec.selector
        before = old.spec.selector if old is not None else None
        after = new.spec.selector if new is not None else None
        self.version += before != after

    def put_controller(self, kind: str, old: Any, new: Any) -> None:
        """Take in a change of a ReplicationController, ReplicaSet or StatefulSet."""
        metadata = (new or old).metadata
        key = (kind, metadata.namespace, metadata.name)
        before = self._controllers.pop(key, None)
        selector = new.spec.selector if new is not None else None
        if isinstance(selector, dict):
            selector = LabelSelector(selector)
        if selector is not None:
            self._controllers[key] = selector
        self.version += before != selector

    def __call__(self, pod: PodClass) -> LabelSelector | None:
        """Return the selector for *pod*, or None when nothing selects it."""
        labels, pairs = pod.labels, {}
        for selector in self._services.get(pod.namespace, {}).values():
            if selector.items() <= labels.items():
                pairs.update(selector)
        requirements: tuple[LabelSelectorRequirement, ...] = ()
        owner = next((o for o in pod.pod.metadata.owner_references or () if o.controller), None)
        found = None
        if owner is not None and _counts(owner):
            found = self._controllers.get((owner.kind, pod.namespace, owner.name))
        if found is not None:
            requirements = tuple(
                LabelSelectorRequirement(key, "In", (value,))
                for key, value in (found.match_labels or {}).items()
            ) + (found.match_expressions or ())
        return LabelSelector(pairs or None, requirements or None) if pairs or requirements else None


def _counts(owner: OwnerReference) -> bool:
    group = owner.api_version.rpartition("/")[0]
    return (group, owner.kind) in CONTROLLERS
