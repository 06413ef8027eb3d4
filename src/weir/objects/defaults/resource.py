"""Defaults of resource.k8s.io that are not constants: device requests, tolerations and the times of taints.

Spec: dra.md 1.14 (device requests, tolerations).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

RESOURCE_GROUP: Final = "resource.k8s.io"
#: Fields whose default in the field table depends on something else; a rule below sets them.
CONDITIONAL: Final = frozenset({("DeviceToleration", "operator")})


def device_request(request: dict[str, Any]) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1


def flattened_device_request(request: dict[str, Any]) -> None:
    """In v1beta1 the request holds the fields itself, and none are set when it only lists alternatives."""
    if request.get("deviceClassName"):
        device_request(request)


def device_toleration(toleration: dict[str, Any]) -> None:
    """An expression stands alone: it has no operator."""
    if not toleration.get("operator") and not toleration.get("expression"):
        toleration["operator"] = "Equal"


def device_taints(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the device taints of a rule or slice, whatever its version."""
    spec = document.get("spec") or {}
    if isinstance(spec.get("taint"), dict):
        yield spec["taint"]
    devices = spec.get("devices")
    for device in devices if isinstance(devices, list) else ():
        yield from device.get("taints") or ()
        yield from (device.get("basic") or {}).get("taints") or ()
    for entry in spec.get("taints") or ():
        yield entry["taint"]


RULES: Final = {
    "resource.v1.ExactDeviceRequest": device_request,
    "resource.v1.DeviceSubRequest": device_request,
    "resource.v1beta2.ExactDeviceRequest": device_request,
    "resource.v1beta2.DeviceSubRequest": device_request,
    "resource.v1beta1.DeviceRequest": flattened_device_request,
    "resource.v1beta1.DeviceSubRequest": device_request,
    **{f"resource.{version}.DeviceToleration": device_toleration for version in ("v1", "v1beta1", "v1beta2")},
}
