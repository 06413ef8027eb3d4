"""Rejection reasons about volumes and claims.

Spec: core.md 3.6, VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from weir.scheduler.reasons import Reason, UnmetTerm


@dataclass(frozen=True, slots=True)
class DiskInUse(Reason):
    """A pod on the node uses the same disk."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "VolumeRestrictions"
    words: ClassVar[str] = "node(s) had no available disk"


@dataclass(frozen=True, slots=True)
class ClaimInUse(Reason):
    """A claim that one pod may use is used by another."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "VolumeRestrictions"
    words: ClassVar[str] = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
        "another pod"
    )


@dataclass(frozen=True, slots=True)
class TooManyVolumes(Reason):
    """A CSI driver can attach no more volumes to the node."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "NodeVolumeLimits"
    words: ClassVar[str] = "node(s) exceed max volume count"
    driver: str
    limit: int
    attached: int

    @property
    def group(self) -> tuple[Any, ...]:
        return (self.kind, self.driver, self.limit)


@dataclass(frozen=True, slots=True)
class DriverMissing(Reason):
    """The driver of a volume is not installed on the node, and asks that pods keep away from such nodes."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "NodeVolumeLimits"
    driver: str

    def message(self) -> str:
        return f"{self.driver} CSI driver is not installed on the node"


@dataclass(frozen=True, slots=True)
class VolumeElsewhere(Reason):
    """A bound volume cannot be used on the node."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "VolumeBinding"
    words: ClassVar[str] = "node(s) didn't match PersistentVolume's node affinity"
    claim: str
    volume: str
    terms: tuple[UnmetTerm, ...]


@dataclass(frozen=True, slots=True)
class VolumeMissing(Reason):
    """A claim is bound to a volume that does not exist."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "VolumeBinding"
    words: ClassVar[str] = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    claim: str
    volume: str


@dataclass(frozen=True, slots=True)
class NothingToBind(Reason):
    """No volume there fits a claim that waits for its pod, and none can be made there."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "VolumeBinding"
    words: ClassVar[str] = "node(s) didn't find available persistent volumes to bind"


@dataclass(frozen=True, slots=True)
class NoStorageLeft(Reason):
    """The class could make a volume there, but its driver reports too little capacity."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "VolumeBinding"
    words: ClassVar[str] = "node(s) did not have enough free storage"


@dataclass(frozen=True, slots=True)
class WrongVolumeZone(Reason):
    """A volume is labelled with another zone or region than the node."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "VolumeZone"
    words: ClassVar[str] = "node(s) had no available volume zone"
    volume: str
    key: str
    wanted: str
    found: str | None


@dataclass(frozen=True, slots=True)
class ClaimUnusable(Reason):
    """A claim of the pod keeps it off every node; *text* is the scheduler's."""

    kind: ClassVar[str] = "claim"
    plugin: ClassVar[str] = "VolumeBinding"
    claim: str
    text: str
    missing: bool = False  #: there is no such claim

    def message(self) -> str:
        return self.text

    def data(self) -> dict[str, Any]:
        return {"claim": self.claim}
