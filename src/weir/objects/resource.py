"""Views of resource.k8s.io/v1 objects: frozen structs of slices, claims, classes and rules.

Spec: dra.md 1.2–1.10.
Lenient and partial like weir.objects.core. Device tolerations are the same view as pod tolerations: one comparison
serves both (D-15). An absent `deviceSelector` and `deviceSelector: {}` are opposites (nothing, everything), so the
view distinguishes None from an empty selector.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from weir.objects.core import NodeSelector, ObjectMeta, Quantities, Taint, Toleration, View

#: One entry of a request's `tolerations`: the same fields and the same meaning as in a pod.
DeviceToleration = Toleration


class DeviceID(NamedTuple):
    """Which device: `driver/pool/device` is how Kubernetes prints it."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


# ── taints ───────────────────────────────────────────────────────────────────────────────────────


class DeviceTaint(View, frozen=True, kw_only=False):
    """A taint of a device, published by its driver or put on it by a rule.

    >>> str(DeviceTaint("sla", "980", "NoSchedule"))
    'sla=980:NoSchedule'
    """

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None
    evictions_per_second: int | None = None
    description: str = ""

    @property
    def plain(self) -> Taint:
        """The part that tolerations are about."""
        return Taint(self.key, self.value, self.effect, self.time_added)

    def __str__(self) -> str:
        return str(self.plain)


class SliceDeviceTaint(View, frozen=True):
    """One entry of a slice's `taints`: the form that keeps taints apart from devices."""

    device: str = ""
    taint: DeviceTaint = DeviceTaint()


# ── slices ───────────────────────────────────────────────────────────────────────────────────────


class Counter(View, frozen=True):
    value: str | int | float = "0"


class CounterSet(View, frozen=True):
    name: str = ""
    counters: dict[str, Counter] | None = None


class DeviceCounterConsumption(View, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class Device(View, frozen=True):
    name: str = ""
    attributes: dict[str, dict[str, Any]] | None = None
    capacity: dict[str, dict[str, Any]] | None = None
    taints: tuple[DeviceTaint, ...] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    consumes_counters: tuple[DeviceCounterConsumption, ...] | None = None
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(View, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(View, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] | None = None
    taints: tuple[SliceDeviceTaint, ...] | None = None
    shared_counters: tuple[CounterSet, ...] | None = None


class ResourceSlice(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def pool_key(self) -> tuple[str, str]:
        """The pool this slice belongs to: driver and pool name."""
        return self.spec.driver, self.spec.pool.name


# ── classes and selectors ────────────────────────────────────────────────────────────────────────


class CELDeviceSelector(View, frozen=True):
    expression: str = ""


class DeviceSelector(View, frozen=True):
    cel: CELDeviceSelector | None = None

    @property
    def expression(self) -> str:
        return self.cel.expression if self.cel else ""


class DeviceClassSpec(View, frozen=True):
    selectors: tuple[DeviceSelector, ...] | None = None
    config: tuple[dict[str, Any], ...] | None = None
    extended_resource_name: str | None = None


class DeviceClass(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()

    @property
    def name(self) -> str:
        return self.metadata.name


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


class DeviceTaintSelector(View, frozen=True):
    """Which devices a rule is about; every part that is given must hold."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: tuple[DeviceSelector, ...] | None = None


class DeviceTaintRuleSpec(View, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()

    @property
    def name(self) -> str:
        return self.metadata.name


# ── claims ───────────────────────────────────────────────────────────────────────────────────────


class CapacityRequirements(View, frozen=True):
    requests: Quantities | None = None


class DeviceSubRequest(View, frozen=True):
    """One request (`exactly`) or one alternative of it (`firstAvailable`)."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] | None = None
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(View, frozen=True):
    name: str = ""
    exactly: DeviceSubRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] | None = None


class DeviceConstraint(View, frozen=True):
    requests: tuple[str, ...] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(View, frozen=True):
    requests: tuple[DeviceRequest, ...] | None = None
    constraints: tuple[DeviceConstraint, ...] | None = None
    config: tuple[dict[str, Any], ...] | None = None


class ResourceClaimSpec(View, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class ResourceClaimTemplateSpec(View, frozen=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceRequestAllocationResult(View, frozen=True):
    """One allocated device, with the tolerations its request had then: eviction reads only this copy."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Quantities | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None

    @property
    def id(self) -> DeviceID:
        return DeviceID(self.driver, self.pool, self.device)


class DeviceAllocationResult(View, frozen=True):
    results: tuple[DeviceRequestAllocationResult, ...] | None = None


class AllocationResult(View, frozen=True):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class AllocatedDeviceCondition(View, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(View, frozen=True):
    """What a driver says about a device it was allocated from."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: tuple[AllocatedDeviceCondition, ...] | None = None

    @property
    def id(self) -> DeviceID:
        return DeviceID(self.driver, self.pool, self.device)


class ResourceClaimConsumerReference(View, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(View, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] | None = None
    devices: tuple[AllocatedDeviceStatus, ...] | None = None


class ClaimMeta(ObjectMeta, frozen=True):
    finalizers: tuple[str, ...] | None = None


class ResourceClaim(View, frozen=True):
    metadata: ClaimMeta = ClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> str:
        """`namespace/name`, as Kubernetes' own messages write it."""
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"

    @property
    def results(self) -> tuple[DeviceRequestAllocationResult, ...]:
        """The allocated devices; none when the claim is not allocated."""
        allocation = self.status.allocation
        return (allocation.devices.results or ()) if allocation else ()
