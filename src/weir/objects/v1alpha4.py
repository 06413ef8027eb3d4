"""Converts manifests in the style of KEP-5471's stories to v1.

Spec: dra.md 1.13 "Relaxed input dialect" (D-17). The stories use `resource.k8s.io/v1alpha4`, which never existed:
bodies under `basic` with `taints` beside it, plain values for attributes, claims without `devices`, pools without
numbers. `relax` changes only these and rejects nothing; the rest is the decoder's.
"""

from __future__ import annotations

from typing import Any

from weir.objects.versions import lift_basic

VERSION = "v1alpha4"

Document = dict[str, Any]

_IN_DEVICES = ("requests", "constraints", "config")
_REQUEST_OWN = frozenset({"name", "exactly", "firstAvailable"})


def relax(kind: str, document: Any, *, partial: bool = False) -> Any:
    """Return *document* of *kind* in the layout of v1; a *partial* one (a patch) gains nothing it did not say.

    >>> relax("ResourceClaim", {"spec": {"requests": [{"name": "gpu", "deviceClassName": "a100"}]}})
    {'spec': {'devices': {'requests': [{'name': 'gpu', 'exactly': {'deviceClassName': 'a100'}}]}}}
    """
    if not isinstance(document, dict) or not isinstance(document.get("spec"), dict):
        return document
    spec = document["spec"]
    if kind == "ResourceSlice":
        metadata = document.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        return {**document, "spec": _contents(spec) if partial else _contents(_placed(spec, name))}
    if kind == "ResourceClaim":
        return {**document, "spec": _claim(spec)}
    if kind == "ResourceClaimTemplate" and isinstance(spec.get("spec"), dict):
        return {**document, "spec": {**spec, "spec": _claim(spec["spec"])}}
    return document


def _placed(spec: Document, name: str) -> Document:
    """Return the spec with a whole pool and a place, as far as they were left out."""
    pool = spec.get("pool")
    if pool is not None and not isinstance(pool, dict):
        return spec
    named = (pool or {}).get("name")
    whole = {"name": name, "generation": 1, "resourceSliceCount": 1}
    whole.update({key: value for key, value in (pool or {}).items() if value is not None})
    if not whole["name"]:
        whole["name"] = name
    changed = {**spec, "pool": whole}
    placed = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
    if not any(spec.get(key) is not None for key in placed):
        changed.update({"nodeName": named} if named else {"allNodes": True})
    return changed


def _contents(spec: Document) -> Document:
    if not isinstance(spec.get("devices"), list):
        return spec
    return {**spec, "devices": [_device(one) for one in spec["devices"]]}


def _device(device: Any) -> Any:
    if not isinstance(device, dict):
        return device
    basic = device.get("basic")
    if isinstance(basic, dict):
        beside, inside = device.get("taints"), basic.get("taints")
        device = lift_basic(device)
        if isinstance(beside, list):
            device["taints"] = [*(inside if isinstance(inside, list) else ()), *beside]
    changed = dict(device)
    for part, read in (("attributes", _attribute), ("capacity", _amount)):
        if isinstance(device.get(part), dict):
            changed[part] = {key: read(value) for key, value in device[part].items()}
    return changed


def _attribute(value: Any) -> Any:
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    return {"string": value} if isinstance(value, str) else value


def _amount(value: Any) -> Any:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return {"value": str(value)}
    return value


def _claim(spec: Document) -> Document:
    devices = spec.get("devices")
    moved = {name: spec[name] for name in _IN_DEVICES if name in spec}
    if devices is not None and not isinstance(devices, dict):
        return spec
    if not moved and not devices:
        return spec
    changed = {name: value for name, value in spec.items() if name not in _IN_DEVICES}
    inside = {**(devices or {}), **moved}
    for name in moved:  # what stands in both places is asked for together
        before = (devices or {}).get(name)
        if isinstance(before, list) and isinstance(moved[name], list):
            inside[name] = [*before, *moved[name]]
    if isinstance(inside.get("requests"), list):
        inside["requests"] = [_request(one) for one in inside["requests"]]
    changed["devices"] = inside
    return changed


def _request(request: Any) -> Any:
    if not isinstance(request, dict):
        return request
    exactly = {name: value for name, value in request.items() if name not in _REQUEST_OWN}
    if not exactly:
        return request
    kept = {name: value for name, value in request.items() if name in _REQUEST_OWN}
    written = kept.get("exactly")
    return {**kept, "exactly": {**(written if isinstance(written, dict) else {}), **exactly}}
