"""Small devices, rules, claims and pods for tests of weir.devices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from weir.objects.core import Pod, read
from weir.objects.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice

T0 = datetime(2026, 1, 1, 12, tzinfo=UTC)
DRIVER = "gpu.example.com"


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def taint(text: str, **more: Any) -> dict[str, Any]:
    """Return the taint that `key=value:Effect@N` means, added N seconds after T0."""
    what, _, delay = text.partition("@")
    body, _, effect = what.rpartition(":")
    key, _, value = body.partition("=")
    added = after(int(delay or 0)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"key": key, "value": value, "effect": effect, "timeAdded": added, **more}


def device(name: str = "gpu-0", *taints: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "taints": [taint(text) for text in taints], **more}


def slice_of(
    name: str,
    *devices: dict[str, Any],
    driver: str = DRIVER,
    pool: str = "node-1",
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> ResourceSlice:
    body = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "nodeName": pool,
        "devices": list(devices),
        **spec,
    }
    return read(ResourceSlice, {"metadata": {"name": name}, "spec": body})


def taint_slice(name: str, taints: dict[str, list[str]], **more: Any) -> ResourceSlice:
    entries = [{"device": of, "taint": taint(text)} for of, texts in taints.items() for text in texts]
    return slice_of(name, taints=entries, **more)


def rule(name: str, selector: dict[str, Any] | None, text: str, **more: Any) -> DeviceTaintRule:
    spec: dict[str, Any] = {"taint": taint(text, **more)}
    if selector is not None:
        spec["deviceSelector"] = selector
    return read(DeviceTaintRule, {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec})


def device_class(name: str, *expressions: str) -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": text}} for text in expressions]}
    return read(DeviceClass, {"metadata": {"name": name}, "spec": spec})


def allocated(
    name: str,
    tolerations: list[dict[str, Any]],
    *devices: str,
    reserved: tuple[str, ...] = ("pod-uid",),
    **at: str,
) -> ResourceClaim:
    """Return a claim that holds *devices*, allocated with *tolerations*, reserved for pods by UID."""
    place = {"driver": DRIVER, "pool": "node-1", **at}
    results = [{"request": "r", **place, "device": one, "tolerations": tolerations} for one in devices]
    return read(
        ResourceClaim,
        {
            "metadata": {"name": name, "namespace": "default"},
            "status": {
                "allocation": {"devices": {"results": results}},
                "reservedFor": [{"resource": "pods", "name": "p", "uid": uid} for uid in reserved],
            },
        },
    )


def pod(*claims: str, node: str = "node-1", **more: Any) -> Pod:
    return read(
        Pod,
        {
            "metadata": {"name": "p", "namespace": "default", "uid": "pod-uid"},
            "spec": {
                "nodeName": node,
                "resourceClaims": [{"name": name, "resourceClaimName": name} for name in claims],
                **more,
            },
        },
    )
