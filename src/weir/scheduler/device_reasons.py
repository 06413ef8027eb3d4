"""Rejection reasons about devices.

Spec: KEP-5055. Each rejected device is named with the failed check, each taint with its origin: a DeviceTaintRule, or
the driver's ResourceSlice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.devices.outcome import DeviceRefusal
from weir.scheduler.reasons import Reason, plain


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
