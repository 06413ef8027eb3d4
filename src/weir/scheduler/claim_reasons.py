"""Rejection reasons about claims: volumes and devices.

Spec: core.md 3.6, VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone; KEP-5055. Each rejected device is
named with the failed check, each taint with its origin: a DeviceTaintRule, or the driver's ResourceSlice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.devices.outcome import DeviceRefusal
from weir.scheduler.reasons import Reason, UnmetTerm, plain


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


@dataclass(frozen=True, slots=True)
class NoDevices(Reason):
    """The pod's claims cannot be allocated there; *refusals* gives the reason per device."""

    kind: ClassVar[str] = "devices"
    plugin: ClassVar[str] = "DynamicResources"
    text: str
    refusals: tuple[DeviceRefusal, ...] = ()

    def message(self) -> str:
        return self.text

    def data(self) -> dict[str, Any]:
        return {"devices": [_refused_device(refusal) for refusal in self.refusals]}

    @property
    def group(self) -> tuple[Any, ...]:
        # Each node has devices of its own; what speaks against them makes nodes alike.
        return (
            self.kind,
            self.text,
            *(
                (one.claim, one.request, one.device.device, one.refusal, *map(_taint_and_rule, one.taints))
                for one in self.refusals
            ),
        )


@dataclass(frozen=True, slots=True)
class ClaimTied(Reason):
    """A claim is allocated and cannot be used there: its devices are elsewhere, or their pods have to leave."""

    kind: ClassVar[str] = "allocated-claim"
    plugin: ClassVar[str] = "DynamicResources"
    text: str
    taints: tuple[tuple[str, TrackedTaint], ...] = ()  #: claim and taint, when its pods have to leave

    def message(self) -> str:
        return self.text

    def data(self) -> dict[str, Any]:
        return {"taints": [{"claim": claim, **_tracked(taint)} for claim, taint in self.taints]}

    @property
    def group(self) -> tuple[Any, ...]:
        return (self.kind, self.text, *((claim, *_taint_and_rule(taint)) for claim, taint in self.taints))


@dataclass(frozen=True, slots=True)
class DeviceClaimUnusable(Reason):
    """A device claim of the pod keeps it off every node; *text* is the scheduler's."""

    kind: ClassVar[str] = "device-claim"
    plugin: ClassVar[str] = "DynamicResources"
    text: str
    hint: str = ""  #: what would help, in weir's words

    def message(self) -> str:
        return self.text

    def data(self) -> dict[str, Any]:
        return {}


def _refused_device(refusal: DeviceRefusal) -> dict[str, Any]:
    data: dict[str, Any] = {
        "claim": refusal.claim,
        "request": refusal.request,
        "device": str(refusal.device),
        "refusal": refusal.refusal.name,
        "text": refusal.refusal.value,
    }
    return data | ({"taints": [_tracked(taint) for taint in refusal.taints]} if refusal.taints else {})


def _tracked(taint: TrackedTaint) -> dict[str, Any]:
    origin = taint.origin
    if isinstance(origin, RuleOrigin):
        where: dict[str, Any] = {"kind": "DeviceTaintRule", "name": origin.name}
    else:
        where = {"kind": "ResourceSlice", "name": origin.slice, "field": origin.form, "index": origin.index}
    return {"taint": plain(taint.plain), "origin": where}


def _taint_and_rule(taint: TrackedTaint) -> tuple[str, str]:
    return str(taint.taint), taint.origin.name if isinstance(taint.origin, RuleOrigin) else ""
