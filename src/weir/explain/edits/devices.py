"""What gets a claim past the taints of devices?

A toleration in the request, or, where somebody put the taint there by a rule, the end of that rule. Claims and
templates cannot be edited once they are made: the change is for the next one.
What surprises: a claim that exists and its template are different objects; a pod that waits keeps the claim it has.
Not here: which devices are in the way (weir.explain.devices).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.devices.outcome import DeviceRefusal, Refusal
from weir.explain.edits.edit import Edit
from weir.explain.phrases import asks
from weir.objects.core import Pod, Toleration
from weir.objects.resource import (
    DeviceRequest,
    DeviceSubRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from weir.scheduler.device_reasons import ClaimTied, NoDevices
from weir.values.names import check_label_value
from weir.world import World


@dataclass(frozen=True)
class AddDeviceToleration(Edit):
    """Let one request of a claim tolerate one taint of devices besides what it tolerates already."""

    side: ClassVar[str] = "claim"
    holder: str  #: `ResourceClaim` or `ResourceClaimTemplate`
    key: str  #: `namespace/name` of it
    request: str  #: `req` or `req/sub`
    toleration: Toleration

    @property
    def cost(self) -> float:
        return 10 if self.toleration.operator == "Equal" else 15

    def say(self) -> str:
        value = "" if self.toleration.operator == "Exists" else f" {asks(self.toleration)}"
        what = f"{self.toleration.key}{value} ({self.toleration.effect})"
        where = f"request {self.request} of {self.holder} {self.key}"
        return f"let {where} also tolerate {what} (recreate it: its spec cannot be changed)"

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
            return msgspec.structs.replace(request, exactly=self._tolerating(request.exactly))
        alternatives = tuple(
            self._tolerating(one) if f"{request.name}/{one.name}" == self.request else one
            for one in request.first_available or ()
        )
        return msgspec.structs.replace(request, first_available=alternatives or None)

    def _tolerating(self, asked: DeviceSubRequest) -> DeviceSubRequest:
        return msgspec.structs.replace(asked, tolerations=(*(asked.tolerations or ()), self.toleration))


@dataclass(frozen=True)
class RemoveRule(Edit):
    """Take a rule's taint off all its devices, for every pod."""

    side: ClassVar[str] = "cluster"
    rule: str

    @property
    def cost(self) -> float:
        return 65

    def say(self) -> str:
        return f"delete the DeviceTaintRule {self.rule}, for every pod"

    def on_world(self, world: World) -> World:
        rule = world.device_taint_rules.get(self.rule)
        return world if rule is None else world.overlay(without=[rule])

    @property
    def command(self) -> str:
        return f"kubectl delete devicetaintrule {self.rule}"


def for_devices(reason: NoDevices, pod: Pod) -> Iterator[tuple[Edit, ...]]:
    """Yield what would get the claims the devices that only taints keep from them, the fewest taints first."""
    tainted = [one for one in reason.refusals if one.refusal is Refusal.TAINTED]
    nearest = sorted(tainted, key=lambda one: len(one.taints))
    choices = [tuple(dict.fromkeys(_tolerations(one, pod))) for one in nearest]
    # Several devices may be asked for: then what keeps them all away has to go.
    everything = tuple(dict.fromkeys(edit for choice in choices for edit in choice))
    yield from dict.fromkeys(choice for choice in (*choices[:2], everything) if choice)
    rules = _rules([taint for one in tainted for taint in one.taints])
    if rules:
        yield rules


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
