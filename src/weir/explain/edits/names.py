"""Edits for references to missing objects: the nearest name, creating it, or dropping the reference.

Claims, runtime classes, priority classes and service accounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Final

import msgspec

from weir.apiserver.admission.default_classes import default_storage_class
from weir.explain.edits.edit import Edit
from weir.objects.core import Pod, read
from weir.objects.volumes import PersistentVolumeClaim
from weir.scheduler.claim_reasons import ClaimUnusable
from weir.world import World

_NEAR: Final = 0.6
#: Fields of a pod spec that name an object, and the kind they name; those that may be left out come with a cost.
NAMED: Final[Mapping[str, tuple[str, float]]] = {
    "runtimeClassName": ("RuntimeClass", 45),
    "priorityClassName": ("PriorityClass", 30),
    "serviceAccountName": ("ServiceAccount", 40),
}


@dataclass(frozen=True)
class UseClaim(Edit):
    """Use a claim that exists."""

    cost: ClassVar[float] = 20
    before: str
    after: str

    def say(self) -> str:
        return f"use the claim {self.after} instead of {self.before}, which does not exist"

    def on_pod(self, spec: dict[str, Any]) -> None:
        spec["volumes"] = [self._in_volume(volume) for volume in spec.get("volumes") or ()]

    def _in_volume(self, volume: Any) -> Any:
        source = volume.get("persistentVolumeClaim") if isinstance(volume, dict) else None
        if not source or source.get("claimName") != self.before:
            return volume
        return {**volume, "persistentVolumeClaim": {**source, "claimName": self.after}}


@dataclass(frozen=True)
class CreateClaim(Edit):
    """Make the claim that is missing, of the default class."""

    cost: ClassVar[float] = 24
    side: ClassVar[str] = "cluster"
    namespace: str
    name: str
    storage_class: str

    def say(self) -> str:
        claim = f"{self.namespace}/{self.name}"
        return f"create the claim {claim} of class {self.storage_class} (1Gi here; choose its size)"

    def on_world(self, world: World) -> World:
        return world.overlay(read(PersistentVolumeClaim, self.manifest))

    @property
    def manifest(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.storage_class,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }


@dataclass(frozen=True)
class ChangeName(Edit):
    """Name an object that exists, or none."""

    field: str
    before: str
    after: str  #: "": leave the field out
    dear: float

    @property
    def cost(self) -> float:
        return 20 if self.after else self.dear

    def say(self) -> str:
        if not self.after:
            return f"remove {self.field} {self.before}"
        return f"set {self.field} {self.after} instead of {self.before}, which does not exist"

    def on_pod(self, spec: dict[str, Any]) -> None:
        spec.pop(self.field, None)
        if self.field == "serviceAccountName":
            spec.pop("serviceAccount", None)
        if self.after:
            spec[self.field] = self.after


@dataclass(frozen=True)
class DropGiven(Edit):
    """Leave out what only the server may set."""

    cost: ClassVar[float] = 12
    field: str

    def say(self) -> str:
        return f"remove {self.field}: only admission sets it"

    def on_pod(self, spec: dict[str, Any]) -> None:
        spec.pop(self.field, None)


def for_claim(reason: ClaimUnusable, pod: Pod, world: World) -> Iterator[tuple[Edit, ...]]:
    """Yield what helps against a claim that does not exist."""
    if not reason.missing:
        return
    namespace = pod.metadata.namespace or "default"
    names = [key.partition("/")[2] for key in world.claims if key.partition("/")[0] == namespace]
    for near in get_close_matches(reason.claim, names, n=2, cutoff=_NEAR):
        yield (UseClaim(reason.claim, near),)
    default = default_storage_class([msgspec.to_builtins(each) for each in world.storage_classes.values()])
    if default is not None:
        yield (CreateClaim(namespace, reason.claim, str(default["metadata"]["name"])),)


def for_refusal(pod: Pod, written: Mapping[str, Any], world: World) -> Iterator[Edit]:
    """Yield what might help a pod that admission refuses; *written* is its spec as written."""
    for field, (kind, dear) in NAMED.items():
        name = written.get(field)
        if not isinstance(name, str) or not name or not world.knows(kind):
            continue
        names = _names(world, kind, pod)
        if name in names:
            continue
        for near in get_close_matches(name, names, n=1, cutoff=_NEAR):
            yield ChangeName(field, name, near, dear)
        yield ChangeName(field, name, "", dear)
    for field in ("priority", "preemptionPolicy", "overhead"):
        if written.get(field) is not None:
            yield DropGiven(field)


def for_runtime_class(key: str, written: Mapping[str, Any], world: World) -> Edit | None:
    """Return the removal of the RuntimeClass whose node selector asks for the label *key*, None where none does."""
    field = "runtimeClassName"
    name = written.get(field)
    scheduling = world.documents.get("RuntimeClass", {}).get(str(name), {}).get("scheduling") or {}
    return (
        ChangeName(field, str(name), "", NAMED[field][1])
        if key in (scheduling.get("nodeSelector") or ())
        else None
    )


def _names(world: World, kind: str, pod: Pod) -> Iterable[str]:
    keys = world.documents.get(kind, {})
    if kind != "ServiceAccount":
        return list(keys)
    namespace = pod.metadata.namespace or "default"
    return [key.partition("/")[2] for key in keys if key.partition("/")[0] == namespace]
