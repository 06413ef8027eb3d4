"""Strategies of resource.k8s.io: gated fields, taint times, admin access.

Spec: dra.md 1.14 "Defaulting and server-managed fields", 8 "Feature gates and skew", D-14.
A field whose feature is off is dropped on write, unless the stored object already uses it. A rule that changes its
effect gets a new `timeAdded` when the client leaves the old one; a driver that resends a taint without a time keeps
the stored one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from weir.apiserver.strategies.strategy import Context, Strategy
from weir.fields.field import FieldError, forbidden
from weir.gates import DEVICE_TAINTS, Gates
from weir.objects.kind import Document, Kind
from weir.objects.kinds import NAMESPACES, RESOURCE_SLICES
from weir.validate.resource.claim_status import device_key
from weir.values.quoting import quote

ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_NO_ADMIN: Final = (
    f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
)


# ── gates ────────────────────────────────────────────────────────────────────────────────────────


def _itself(spec: Document) -> Iterator[Document]:
    yield spec


def _devices(spec: Document) -> Iterator[Document]:
    yield from (device for device in spec.get("devices") or () if isinstance(device, dict))


def _attributes(spec: Document) -> Iterator[Document]:
    for device in _devices(spec):
        yield from (device.get("attributes") or {}).values()


def _capacities(spec: Document) -> Iterator[Document]:
    for device in _devices(spec):
        yield from (device.get("capacity") or {}).values()


def _consumptions(spec: Document) -> Iterator[Document]:
    for device in _devices(spec):
        yield from device.get("consumesCounters") or ()


def _asked(spec: Document) -> Iterator[Document]:
    """Every `exactly` and every alternative of a claim's spec."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("exactly"):
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def _requests(spec: Document) -> Iterator[Document]:
    yield from (spec.get("devices") or {}).get("requests") or ()


def _constraints(spec: Document) -> Iterator[Document]:
    yield from (spec.get("devices") or {}).get("constraints") or ()


def results_of(status: Document) -> list[Document]:
    """Return the allocated devices of a claim's status."""
    allocation = status.get("allocation") or {}
    found: list[Document] = (allocation.get("devices") or {}).get("results") or []
    return found


#: gate → the objects of a spec or status that hold its fields, and the fields; "" stands for features never on.
_Held = tuple[Callable[[Document], Iterable[Document]], tuple[str, ...]]
_Table = dict[str, tuple[_Held, ...]]
_SLICE: Final[_Table] = {
    DEVICE_TAINTS: ((_devices, ("taints",)), (_itself, ("taints",))),
    "DRAPartitionableDevices": (
        (_itself, ("sharedCounters", "perDeviceNodeSelection")),
        (_devices, ("consumesCounters", "nodeName", "nodeSelector", "allNodes")),
    ),
    "DRAConsumableCapacity": (
        (_devices, ("allowMultipleAllocations",)),
        (_capacities, ("requestPolicy",)),
    ),
    "DRADeviceBindingConditions": (
        (_devices, ("bindsToNode", "bindingConditions", "bindingFailureConditions")),
    ),
    "": (
        (_itself, ("partitionTypeAttribute", "skipNodeOperations")),
        (_devices, ("nodeAllocatableResources",)),
        (_attributes, ("ints", "bools", "strings", "versions")),
        (_consumptions, ("compatibilityGroups",)),
    ),
}
_CLAIM: Final[_Table] = {
    DEVICE_TAINTS: ((_asked, ("tolerations",)),),
    "DRAAdminAccess": ((_asked, ("adminAccess",)),),
    "DRAPrioritizedList": ((_requests, ("firstAvailable",)),),
    "DRAConsumableCapacity": ((_asked, ("capacity",)), (_constraints, ("distinctAttribute",))),
    "": ((_asked, ("derivedAttributes",)),),
}
_CLASS: Final[_Table] = {"DRAExtendedResource": ((_itself, ("extendedResourceName",)),)}
_STATUS: Final[_Table] = {
    "DRAResourceClaimDeviceStatus": ((_itself, ("devices",)),),
    "DRAAdminAccess": ((results_of, ("adminAccess",)),),
    "DRAConsumableCapacity": ((results_of, ("shareID", "consumedCapacity")), (_devices, ("shareID",))),
    "DRADeviceBindingConditions": ((results_of, ("bindingConditions", "bindingFailureConditions")),),
    "": ((results_of, ("skipNodeOperations",)),),
}


def drop(part: Document, old: Document | None, table: _Table, gates: Gates) -> None:
    """Take fields out of a spec or status whose gate is off, unless the stored one uses the feature."""
    for gate, held in table.items():
        if (gate and gates.enabled(gate)) or (old and _uses(old, held)):
            continue
        for holders, names in held:
            for holder in holders(part):
                for name in names:
                    holder.pop(name, None)


def _uses(part: Document, held: Iterable[_Held]) -> bool:
    return any(
        holder.get(name) not in (None, [], {})
        for holders, names in held
        for holder in holders(part)
        for name in names
    )


# ── strategies ───────────────────────────────────────────────────────────────────────────────────


class DeviceStrategy(Strategy):
    """What all kinds of resource.k8s.io share: their spec is pruned before anything else."""

    table: _Table = {}

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
        return odd <= {found["spec"].get("driver") for found in context.documents(RESOURCE_SLICES)}

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

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Count the change before anything is dropped: that shows a driver that it sent what is not served."""
        Strategy.prepare_update(self, kind, new, old, context)
        drop(self.spec_of(new), self.spec_of(old), self.table, context.gates)

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


class ResourceClaimStrategy(DeviceStrategy):
    """Claims: admin access needs a labelled namespace; a status write takes nothing from metadata."""

    table = _CLAIM
    status_keeps_metadata = True

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Drop what is not served; no requests are always written as null."""
        super().prepare_create(kind, new, context)
        _nothing_asked(self.spec_of(new))

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Drop what is not served from the status too, and the status of devices that the claim no longer has."""
        super().prepare_update(kind, new, old, context)
        _nothing_asked(self.spec_of(new))
        status, before = new.get("status"), old.get("status") or {}
        if isinstance(status, dict) and status != before:
            drop(status, before, _STATUS, context.gates)
            _forget_deallocated(status, before)

    def drivers(self, document: Document) -> Iterator[str]:
        """Yield the drivers of allocated devices."""
        for result in results_of(document.get("status") or {}):
            yield result.get("driver") or ""

    def problems(
        self, kind: Kind, new: Document, old: Document | None, context: Context, *, dry_run: bool = False
    ) -> Iterator[FieldError]:
        """Yield the first request for admin access in a namespace that does not allow it."""
        at = self._requests_admin(new, old)
        if not at:
            return
        namespace = new["metadata"].get("namespace")
        for found in context.documents(NAMESPACES):
            metadata = found["metadata"]
            if metadata["name"] == namespace and (metadata.get("labels") or {}).get(ADMIN_LABEL) == "true":
                return
        yield forbidden(f"{at}.adminAccess", _NO_ADMIN)

    def _requests_admin(self, new: Document, old: Document | None) -> str:
        """Return where admin access is asked for that was not there before; the spec of a claim cannot change.

        A template's path is a claim's too.
        """
        if old is None:
            for i, request in enumerate(_requests(self.spec_of(new))):
                if (request.get("exactly") or {}).get("adminAccess"):
                    return f"spec.devices.requests[{i}]"
            return ""
        if any(result.get("adminAccess") for result in results_of(old.get("status") or {})):
            return ""
        for i, result in enumerate(results_of(new.get("status") or {})):
            if result.get("adminAccess"):
                return f"status.allocation.devices.results[{i}]"
        return ""


def _nothing_asked(spec: Document) -> None:
    devices = spec.get("devices")
    if isinstance(devices, dict) and devices.get("requests") == []:
        devices["requests"] = None


def _forget_deallocated(status: Document, before: Document) -> None:
    """Remove the status of devices that *before* had allocated and *status* has not."""
    freed = set(map(device_key, results_of(before))) - set(map(device_key, results_of(status)))
    devices = status.get("devices") or ()
    kept = [device for device in devices if device_key(device) not in freed]
    if len(kept) < len(devices):
        status["devices"] = kept
    if not kept:
        status.pop("devices", None)


class ResourceClaimTemplateStrategy(ResourceClaimStrategy):
    """Templates: the same rules, one level deeper."""

    def spec_of(self, document: Document) -> Document:
        """Return the spec of the claims to be made."""
        return super().spec_of(super().spec_of(document))


class DeviceClassStrategy(DeviceStrategy):
    """Classes: only their gate."""

    table = _CLASS


class DeviceTaintRuleStrategy(DeviceStrategy):
    """Rules: another effect is another taint, and starts now."""

    status_keeps_metadata = True

    def drivers(self, document: Document) -> Iterator[str]:
        """Yield the driver whose devices the rule selects."""
        yield (self.spec_of(document).get("deviceSelector") or {}).get("driver") or ""

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Renew the time of a taint whose effect changed, unless the client gave a new one."""
        before, after = self.spec_of(old).get("taint") or {}, self.spec_of(new).get("taint") or {}
        if before.get("effect") != after.get("effect") and before.get("timeAdded") == after.get("timeAdded"):
            after["timeAdded"] = context.now
        super().prepare_update(kind, new, old, context)
