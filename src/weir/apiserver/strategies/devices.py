"""Devices: gated fields, when a taint was added, and who may look into devices others use.

Spec: dra.md 1.14 "Defaulting and server-managed fields", 8 "Feature gates and skew", D-14.
A field whose feature is off is dropped from what is written, unless the stored object used the feature already.
What surprises: a rule that changes its effect gets a new `timeAdded` when the client leaves the old one; a driver
that sends a taint again without its time keeps the time the stored taint has.
Not here: validity of a single object (weir.validate), the time of a taint that is really new (weir.objects.defaults).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from weir.apiserver.strategies.strategy import Context, Document, Strategy
from weir.gates import DEVICE_TAINTS, Gates
from weir.objects.kinds import Kind, by_kind
from weir.validate.field import FieldError, forbidden
from weir.values.quoting import quote

ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
NAMESPACE: Final = by_kind("v1", "Namespace")
SLICE: Final = by_kind("resource.k8s.io/v1", "ResourceSlice")
_NO_ADMIN: Final = (
    f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
)


# ── gates ────────────────────────────────────────────────────────────────────────────────────────


def _devices(spec: Document) -> Iterator[Document]:
    yield from (device for device in spec.get("devices") or () if isinstance(device, dict))


def _asked(spec: Document) -> Iterator[Document]:
    """Every `exactly` and every alternative of a claim's spec."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("exactly"):
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def _requests(spec: Document) -> Iterator[Document]:
    yield from (spec.get("devices") or {}).get("requests") or ()


#: gate → the objects of a slice's or claim's spec that hold its fields, and the fields.
_Held = tuple[Any, tuple[str, ...]]
_SLICE: Final[dict[str, tuple[_Held, ...]]] = {
    DEVICE_TAINTS: ((_devices, ("taints",)), (lambda spec: [spec], ("taints",))),
    "DRAPartitionableDevices": (
        (lambda spec: [spec], ("sharedCounters", "perDeviceNodeSelection")),
        (_devices, ("consumesCounters", "nodeName", "nodeSelector", "allNodes")),
    ),
    "DRAConsumableCapacity": ((_devices, ("allowMultipleAllocations",)),),
    "DRADeviceBindingConditions": (
        (_devices, ("bindsToNode", "bindingConditions", "bindingFailureConditions")),
    ),
    "": (
        (lambda spec: [spec], ("partitionTypeAttribute", "skipNodeOperations")),
        (_devices, ("nodeAllocatableResources",)),
    ),
}
_CLAIM: Final[dict[str, tuple[_Held, ...]]] = {
    DEVICE_TAINTS: ((_asked, ("tolerations",)),),
    "DRAAdminAccess": ((_asked, ("adminAccess",)),),
    "DRAPrioritizedList": ((_requests, ("firstAvailable",)),),
    "DRAConsumableCapacity": ((_asked, ("capacity",)),),
    "": ((_asked, ("derivedAttributes",)),),
}


def drop(spec: Document, old: Document | None, table: dict[str, tuple[_Held, ...]], gates: Gates) -> None:
    """Take fields out of *spec* whose gate is off ("" stands for features that are never on)."""
    for gate, held in table.items():
        if (gate and gates.enabled(gate)) or (old and _uses(old, held)):
            continue
        for holders, names in held:
            for holder in holders(spec):
                for name in names:
                    holder.pop(name, None)


def _uses(spec: Document, held: Iterable[_Held]) -> bool:
    return any(holder.get(name) for holders, names in held for holder in holders(spec) for name in names)


# ── strategies ───────────────────────────────────────────────────────────────────────────────────


class DeviceStrategy(Strategy):
    """What all kinds of resource.k8s.io share: their spec is pruned before anything else."""

    table: dict[str, tuple[_Held, ...]] = {}

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Drop what is not served."""
        super().prepare_create(kind, new, context)
        drop(self.spec_of(new), None, self.table, context.gates)

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Drop what is not served and was not there."""
        drop(self.spec_of(new), self.spec_of(old), self.table, context.gates)
        super().prepare_update(kind, new, old, context)

    def relaxes(self, kind: Kind, new: Document, context: Context) -> bool:
        """Return whether the drivers with slashes that *new* is about all have devices: they may be named then."""
        odd = {driver for driver in self.drivers(new) if "/" in driver}
        if not odd:
            return False
        return odd <= {found["spec"].get("driver") for found in context.documents(SLICE)}

    def drivers(self, document: Document) -> Iterator[str]:
        """Yield the drivers a document refers to."""
        yield from ()

    def spec_of(self, document: Document) -> Document:
        """Return the spec that holds gated fields; an empty one when there is none."""
        spec = document.get("spec")
        return spec if isinstance(spec, dict) else {}


class ResourceSliceStrategy(DeviceStrategy):
    """Slices: a driver's taints keep their times."""

    table = _SLICE
    remembers = True

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterator[str]:
        """Warn of a driver name that is not written in lower case."""
        driver = self.spec_of(new).get("driver") or ""
        if driver != driver.lower():
            yield (
                f"spec.driver: driver names should be lowercase; {quote(driver)} contains uppercase characters"
            )

    def recall(self, new: Document, old: Document) -> None:
        """Give taints that were sent again without a time the time the stored ones have."""
        times: dict[tuple[Any, ...], str] = {}
        for device, taint in _driver_taints(old):
            if taint.get("timeAdded"):
                times.setdefault(_same(device, taint), taint["timeAdded"])
        for device, taint in _driver_taints(new):
            if not taint.get("timeAdded") and _same(device, taint) in times:
                taint["timeAdded"] = times[_same(device, taint)]


def _driver_taints(document: Document) -> Iterator[tuple[str, Document]]:
    """Yield every taint of a slice with its device, in the layout of any version."""
    spec = document.get("spec") or {}
    for device in spec.get("devices") or ():
        for taint in (*(device.get("taints") or ()), *((device.get("basic") or {}).get("taints") or ())):
            yield device.get("name", ""), taint
    for entry in spec.get("taints") or ():
        yield entry.get("device", ""), entry.get("taint") or {}


def _same(device: str, taint: Document) -> tuple[Any, ...]:
    return device, taint.get("key"), taint.get("value") or "", taint.get("effect")


def _status_keeps_metadata(new: Document, old: Document) -> None:
    """A status write takes nothing from metadata."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
        else:
            new["metadata"].pop(name, None)


class ResourceClaimStrategy(DeviceStrategy):
    """Claims: admin access needs a labelled namespace; a status write takes nothing from metadata."""

    table = _CLAIM

    def restrict(self, kind: Kind, new: Document, old: Document, subresource: str) -> None:
        """Put back what the endpoint may not change, for status also labels and the like."""
        super().restrict(kind, new, old, subresource)
        if subresource == "status":
            _status_keeps_metadata(new, old)

    def drivers(self, document: Document) -> Iterator[str]:
        """Yield the drivers of allocated devices."""
        allocation = (document.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            yield result.get("driver") or ""

    def problems(
        self, kind: Kind, new: Document, old: Document | None, context: Context
    ) -> Iterator[FieldError]:
        """Yield every request for admin access in a namespace that does not allow it."""
        if old is not None:  # the spec cannot change
            return
        asking = [
            index
            for index, request in enumerate(_requests(self.spec_of(new)))
            if (request.get("exactly") or {}).get("adminAccess")
        ]
        if not asking:
            return
        namespace = new["metadata"].get("namespace")
        for found in context.documents(NAMESPACE):
            metadata = found["metadata"]
            if metadata["name"] == namespace and (metadata.get("labels") or {}).get(ADMIN_LABEL) == "true":
                return
        at = "spec.spec" if kind.kind == "ResourceClaimTemplate" else "spec"
        for index in asking:
            yield forbidden(f"{at}.devices.requests[{index}].adminAccess", _NO_ADMIN)


class ResourceClaimTemplateStrategy(ResourceClaimStrategy):
    """Templates: the same rules, one level deeper."""

    def spec_of(self, document: Document) -> Document:
        """Return the spec of the claims to be made."""
        return super().spec_of(super().spec_of(document))


class DeviceTaintRuleStrategy(DeviceStrategy):
    """Rules: another effect is another taint, and starts now."""

    def drivers(self, document: Document) -> Iterator[str]:
        """Yield the driver whose devices the rule selects."""
        yield (self.spec_of(document).get("deviceSelector") or {}).get("driver") or ""

    def restrict(self, kind: Kind, new: Document, old: Document, subresource: str) -> None:
        """Put back what the endpoint may not change, for status also labels and the like."""
        super().restrict(kind, new, old, subresource)
        if subresource == "status":
            _status_keeps_metadata(new, old)

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Renew the time of a taint whose effect changed, unless the client gave a new one."""
        before, after = self.spec_of(old).get("taint") or {}, self.spec_of(new).get("taint") or {}
        if before.get("effect") != after.get("effect") and before.get("timeAdded") == after.get("timeAdded"):
            after["timeAdded"] = context.now
        super().prepare_update(kind, new, old, context)
