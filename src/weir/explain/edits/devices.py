"""Edits for device taints: a toleration in the request, or deletion of the DeviceTaintRule.

Claims and templates are immutable: the change is for the next one. An existing claim and its template are different
objects; a pending pod keeps the claim it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Final

import msgspec

from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.devices.outcome import DeviceRefusal, Refusal
from weir.explain.edits.edit import Edit
from weir.explain.phrases import asks, counted
from weir.objects.core import Pod, Toleration
from weir.objects.resource import (
    DeviceRequest,
    DeviceSubRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from weir.scheduler.claim_reasons import ClaimTied, NoDevices
from weir.values.names import check_label_value
from weir.world import World

#: How many numbers of devices are tried, downwards from those that are there.
_MOST_COUNTS: Final = 8


@dataclass(frozen=True)
class ChangeRequest(Edit):
    """A change of one request of a claim, in the claim or in the template it is made from."""

    side: ClassVar[str] = "claim"
    holder: str  #: `ResourceClaim` or `ResourceClaimTemplate`
    key: str  #: `namespace/name` of it
    request: str  #: `req` or `req/sub`

    @property
    def where(self) -> str:
        return f"request {self.request} of {self.holder} {self.key}"

    def changed(self, request: DeviceSubRequest) -> DeviceSubRequest:
        """Return what is asked for once the change is made."""
        raise NotImplementedError

    def patch(self, world: World) -> dict[str, Any]:
        """Return the claim or template with its new requests, as a merge patch."""
        return self._document(self.on_world(world))

    def original(self, world: World) -> dict[str, Any]:
        """Return the claim or template as it is."""
        return self._document(world)

    def _document(self, world: World) -> dict[str, Any]:
        if self.holder == "ResourceClaim":
            spec: Any = msgspec.to_builtins(world.resource_claims[self.key].spec)
        else:
            inner = world.resource_claim_templates[self.key].spec.spec
            spec = {"spec": msgspec.to_builtins(inner)}
        namespace, _, name = self.key.partition("/")
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": self.holder,
            "metadata": {"name": name, "namespace": namespace},
            "spec": _without_nothing(spec),
        }

    def on_world(self, world: World) -> World:
        if self.holder == "ResourceClaim":
            claim = world.resource_claims.get(self.key)
            return world if claim is None else world.overlay(self._in_claim(claim))
        template = world.resource_claim_templates.get(self.key)
        return world if template is None else world.overlay(self._in_template(template))

    def _in_claim(self, claim: ResourceClaim) -> ResourceClaim:
        return msgspec.structs.replace(claim, spec=self._in_spec(claim.spec))

    def _in_template(self, template: ResourceClaimTemplate) -> ResourceClaimTemplate:
        spec = ResourceClaimTemplateSpec(spec=self._in_spec(template.spec.spec))
        return msgspec.structs.replace(template, spec=spec)

    def _in_spec(self, spec: ResourceClaimSpec) -> ResourceClaimSpec:
        requests = tuple(self._in_request(request) for request in spec.devices.requests or ())
        return ResourceClaimSpec(devices=msgspec.structs.replace(spec.devices, requests=requests))

    def _in_request(self, request: DeviceRequest) -> DeviceRequest:
        if request.exactly is not None and request.name == self.request:
            return msgspec.structs.replace(request, exactly=self.changed(request.exactly))
        alternatives = tuple(
            self.changed(one) if f"{request.name}/{one.name}" == self.request else one
            for one in request.first_available or ()
        )
        return msgspec.structs.replace(request, first_available=alternatives or None)


def _without_nothing(value: Any) -> Any:
    """Return *value* without unset fields."""
    if isinstance(value, dict):
        return {key: _without_nothing(each) for key, each in value.items() if each not in (None, "", [], {})}
    return [_without_nothing(each) for each in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class AddDeviceToleration(ChangeRequest):
    """Let one request of a claim tolerate one taint of devices besides what it tolerates already."""

    toleration: Toleration

    @property
    def cost(self) -> float:
        return 10 if self.toleration.operator == "Equal" else 15

    def say(self) -> str:
        value = "" if self.toleration.operator == "Exists" else f" {asks(self.toleration)}"
        what = f"{self.toleration.key}{value} ({self.toleration.effect})"
        return f"let {self.where} also tolerate {what} (recreate it: its spec cannot be changed)"

    def changed(self, request: DeviceSubRequest) -> DeviceSubRequest:
        return msgspec.structs.replace(request, tolerations=(*(request.tolerations or ()), self.toleration))


@dataclass(frozen=True)
class LowerCount(ChangeRequest):
    """Request fewer devices."""

    before: int
    after: int

    @property
    def cost(self) -> float:
        return 22 + 30 * (self.before - self.after) / self.before

    def say(self) -> str:
        devices = counted(self.after, "device")
        return f"let {self.where} ask for {devices} instead of {self.before} (recreate it: its spec cannot be changed)"

    def includes(self, other: Edit) -> bool:
        return isinstance(other, LowerCount) and self.where == other.where and self.after <= other.after

    def changed(self, request: DeviceSubRequest) -> DeviceSubRequest:
        return msgspec.structs.replace(request, count=self.after)


@dataclass(frozen=True)
class ChangeDeviceClass(ChangeRequest):
    """Request devices of a class that exists."""

    cost: ClassVar[float] = 20
    before: str
    after: str

    def say(self) -> str:
        return f"let {self.where} name the device class {self.after} instead of {self.before}, which does not exist"

    def changed(self, request: DeviceSubRequest) -> DeviceSubRequest:
        if request.device_class_name != self.before:
            return request
        return msgspec.structs.replace(request, device_class_name=self.after)


@dataclass(frozen=True)
class RemoveRule(Edit):
    """Take a rule's taint off all its devices, for every pod."""

    cost: ClassVar[float] = 65
    side: ClassVar[str] = "cluster"
    rule: str

    def say(self) -> str:
        return f"delete the DeviceTaintRule {self.rule}, for every pod"

    def on_world(self, world: World) -> World:
        rule = world.device_taint_rules.get(self.rule)
        return world if rule is None else world.overlay(without=[rule])

    @property
    def command(self) -> str:
        return f"kubectl delete devicetaintrule {self.rule}"


def for_devices(reason: NoDevices, pod: Pod, world: World) -> Iterator[tuple[Edit, ...]]:
    """Yield what would get the claims the devices that only taints keep from them, the fewest taints first.

    Then come fewer devices than requested.
    """
    tainted = [one for one in reason.refusals if one.refusal is Refusal.TAINTED]
    nearest = sorted(tainted, key=lambda one: len(one.taints))
    choices = [tuple(dict.fromkeys(_tolerations(one, pod))) for one in nearest]
    # Several devices may be asked for: then what keeps them all away has to go.
    everything = tuple(dict.fromkeys(edit for choice in choices for edit in choice))
    yield from dict.fromkeys(choice for choice in (*choices[:2], everything) if choice)
    rules = _rules([taint for one in tainted for taint in one.taints])
    if rules:
        yield rules
    usable = Counter((one.claim, one.request) for one in reason.refusals if one.refusal is Refusal.LEFT_OVER)
    for holder, key, request, content in _requests(pod, world):
        before = content.count or 1
        there = max((number for (_, name), number in usable.items() if name == request), default=before)
        most = min(before - 1, there)
        for count in range(most, max(most - _MOST_COUNTS, 0), -1):
            yield (LowerCount(holder, key, request, before, count),)


def for_class(pod: Pod, world: World) -> Iterator[tuple[Edit, ...]]:
    """Yield the nearest device class for every request that names one that does not exist."""
    for holder, key, request, content in _requests(pod, world):
        name = content.device_class_name
        if name and name not in world.device_classes:
            for near in get_close_matches(name, world.device_classes, n=2, cutoff=0.6):
                yield (ChangeDeviceClass(holder, key, request, name, near),)


def _requests(pod: Pod, world: World) -> Iterator[tuple[str, str, str, DeviceSubRequest]]:
    """Yield every request of the claims of *pod* that are not allocated yet, and where it is written."""
    namespace = pod.metadata.namespace or "default"
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    for entry in pod.spec.resource_claims or ():
        claim = world.resource_claims.get(
            f"{namespace}/{entry.resource_claim_name or made.get(entry.name) or ''}"
        )
        template = world.resource_claim_templates.get(f"{namespace}/{entry.resource_claim_template_name}")
        if claim is not None and claim.status.allocation is None:
            spec, holder, key = claim.spec, "ResourceClaim", claim.key
        elif claim is None and template is not None:
            spec, holder = template.spec.spec, "ResourceClaimTemplate"
            key = f"{namespace}/{entry.resource_claim_template_name}"
        else:
            continue
        for request in spec.devices.requests or ():
            if request.exactly is not None:
                yield holder, key, request.name, request.exactly
            for alternative in request.first_available or ():
                yield holder, key, f"{request.name}/{alternative.name}", alternative


def for_tied(reason: ClaimTied) -> Iterator[tuple[Edit, ...]]:
    """Yield what would let an allocated claim take pods again."""
    rules = _rules([taint for _, taint in reason.taints])
    if rules:
        yield rules


def _rules(taints: list[TrackedTaint]) -> tuple[Edit, ...]:
    origins = [taint.origin for taint in taints]
    names = [origin.name for origin in origins if isinstance(origin, RuleOrigin)]
    return tuple(RemoveRule(name) for name in dict.fromkeys(names))


def _tolerations(refusal: DeviceRefusal, pod: Pod) -> Iterator[Edit]:
    holder, key = _holder(refusal.claim, pod)
    for tracked in refusal.taints:
        taint = tracked.plain
        exact = bool(taint.value) and not check_label_value(taint.value)
        operator, value = ("Equal", taint.value) if exact else ("Exists", "")
        toleration = Toleration(taint.key, operator, value, taint.effect)
        yield AddDeviceToleration(holder, key, refusal.request, toleration)


def _holder(claim: str, pod: Pod) -> tuple[str, str]:
    """Return where the requests of a claim are written: its own spec, or the template it would be made from."""
    namespace = pod.metadata.namespace or "default"
    written = {status.name for status in pod.status.resource_claim_statuses or ()}
    for entry in pod.spec.resource_claims or ():
        made = f"{namespace}/{pod.metadata.name}-{entry.name}" == claim and entry.name not in written
        if made and entry.resource_claim_template_name is not None:
            return "ResourceClaimTemplate", f"{namespace}/{entry.resource_claim_template_name}"
    return "ResourceClaim", claim
