"""Conversion to and from the hub version, per group.

A kind whose row names a hub (weir.objects.kinds) is stored, validated and reasoned about in the hub's layout.
Autoscalers are in weir.objects.autoscaler_versions; the rest is resource.k8s.io. Spec: KEP-4381 "API versions",
dra.md 1.12 "Differences between served versions". v1 is the hub: v1beta2 and v1alpha3 have its layout, v1beta1 keeps a
device's fields under `basic` and those of `exactly` in the request itself. In v1beta1 an empty node name and
`allNodes: false` mean "not set"; in v1 they are invalid. Fields that a version does not have are kept in place, so
nothing is lost. The relaxed dialect v1alpha4 is in weir.objects.v1alpha4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weir.objects import autoscaler_versions

Document = dict[str, Any]
Convert = Callable[[Document], Document]
#: What stays in the request when the rest of it is `exactly`.
_REQUEST_OWN: Final = frozenset({"name", "exactly", "firstAvailable"})


def to_v1(version: str, kind: str, document: Document) -> Document:
    """Return a document written in *version* as v1; parts that do not change are shared.

    >>> to_v1("v1beta1", "ResourceSlice", {"spec": {"devices": [{"name": "a", "basic": {"allNodes": True}}]}})
    {'spec': {'devices': [{'name': 'a', 'allNodes': True}]}}
    """
    if version != "v1beta1":
        return document
    if kind == "ResourceSlice":
        return _in_spec(document, _slice_to_v1)
    return _in_claim_spec(kind, document, _wrap_request)


def from_v1(version: str, kind: str, document: Document) -> Document:
    """Return a v1 document as *version* shows it.

    >>> claim = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}
    >>> from_v1("v1beta1", "ResourceClaim", claim)
    {'spec': {'devices': {'requests': [{'name': 'r', 'deviceClassName': 'gpu'}]}}}
    """
    if version != "v1beta1":
        return document
    if kind == "ResourceSlice":
        return _in_spec(document, _slice_from_v1)
    return _in_claim_spec(kind, document, _flatten_request)


def _in_spec(document: Document, convert: Convert) -> Document:
    spec = document.get("spec")
    return {**document, "spec": convert(spec)} if isinstance(spec, dict) else document


def _in_claim_spec(kind: str, document: Document, convert: Convert) -> Document:
    def spec_of_claim(spec: Document) -> Document:
        devices = spec.get("devices")
        if not isinstance(devices, dict) or not devices.get("requests"):
            return spec
        return {**spec, "devices": {**devices, "requests": [convert(one) for one in devices["requests"]]}}

    if kind == "ResourceClaim":
        return _in_spec(document, spec_of_claim)
    if kind == "ResourceClaimTemplate":
        return _in_spec(document, lambda spec: _in_spec(spec, spec_of_claim))
    return document


def _slice_to_v1(spec: Document) -> Document:
    spec = dict(spec)
    for name in ("nodeName", "allNodes"):
        if name in spec and not spec[name]:
            del spec[name]
    if spec.get("devices"):
        spec["devices"] = [lift_basic(device) for device in spec["devices"]]
    return spec


def lift_basic(device: Document) -> Document:
    """Return a device with what stood under `basic` in the device itself."""
    rest = {name: value for name, value in device.items() if name != "basic"}
    return {**rest, **(device.get("basic") or {})}


def _slice_from_v1(spec: Document) -> Document:
    if not spec.get("devices"):
        return spec
    return {**spec, "devices": [_lower_basic(device) for device in spec["devices"]]}


def _lower_basic(device: Document) -> Document:
    return {
        "name": device.get("name", ""),
        "basic": {name: value for name, value in device.items() if name != "name"},
    }


def _wrap_request(request: Document) -> Document:
    """`exactly` exists as soon as one of its fields is set."""
    exactly = {name: value for name, value in request.items() if name not in _REQUEST_OWN}
    kept = {name: value for name, value in request.items() if name in _REQUEST_OWN}
    if not any(map(_is_set, exactly.values())):
        return kept
    return {"name": kept.pop("name", ""), "exactly": exactly, **kept}


def _is_set(value: Any) -> bool:
    """`adminAccess: false` and `capacity: {}` are said; an empty class name and a count of zero are not."""
    return value is False or isinstance(value, dict) or bool(value)


def _flatten_request(request: Document) -> Document:
    """The class is always set, also of a request that has alternatives instead."""
    rest = {name: value for name, value in request.items() if name not in ("name", "exactly")}
    exactly = request.get("exactly") or {}
    return {"name": request.get("name", ""), "deviceClassName": "", **exactly, **rest}


def to_hub(group: str, version: str, kind: str, document: Document) -> Document:
    """Return a document written in *version* in the layout it is stored in; parts that do not change are shared."""
    if group == "autoscaling":
        return autoscaler_versions.to_v2(version, document)
    return to_v1(version, kind, document)


def from_hub(group: str, version: str, kind: str, document: Document) -> Document:
    """Return a stored document as *version* shows it."""
    if group == "autoscaling":
        return autoscaler_versions.from_v2(version, document)
    return from_v1(version, kind, document)
