"""What one ResourceSlice may hold: devices or taints, and how many of them."""

from __future__ import annotations

import pytest

from weir.validate import validate

DEVICE = {"name": "gpu-0"}
TAINT = {"device": "gpu-0", "taint": {"key": "hot", "effect": "NoSchedule"}}


def errors(**content: object) -> list[str]:
    pool = {"name": "p", "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n", **content}
    slice_ = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
    return [str(error) for error in validate({**slice_, "spec": spec}, None, None)]


def devices(count: int) -> list[dict[str, str]]:
    return [{"name": f"gpu-{number}"} for number in range(count)]


@pytest.mark.proves("5055-44")
def test_an_empty_slice_is_valid() -> None:
    assert errors() == errors(devices=[]) == errors(taints=[]) == []


@pytest.mark.proves("5055-41")
def test_a_slice_holds_devices_or_taints() -> None:
    assert errors(devices=[DEVICE]) == errors(taints=[TAINT]) == []
    assert errors(devices=[DEVICE], taints=[TAINT]) == [
        'spec: Invalid value: "": only one of `devices`, `sharedCounters` or `taints` is allowed'
    ]


@pytest.mark.proves("5055-42")
@pytest.mark.parametrize("held, most", [("devices", 128), ("taints", 32)])
def test_a_slice_has_room_for_128_devices_or_32_taints(held: str, most: int) -> None:
    entries = devices(most + 1) if held == "devices" else [TAINT] * (most + 1)
    assert errors(**{held: entries[:-1]}) == []
    assert errors(**{held: entries}) == [f"spec.{held}: Too many: {most + 1}: must have at most {most} items"]


@pytest.mark.proves("5055-42")
def test_with_taints_inside_devices_there_is_room_for_64() -> None:
    tainted = {**DEVICE, "name": "hot", "taints": [TAINT["taint"]]}
    assert errors(devices=[tainted, *devices(63)]) == []
    assert errors(devices=[tainted, *devices(64)]) == [
        "spec.devices: Too many: 65: must have at most 64 items"
    ]


@pytest.mark.proves("5055-46")
@pytest.mark.parametrize("taint", [{"taint": TAINT["taint"]}, {**TAINT, "device": ""}])
def test_a_taint_of_a_slice_names_its_device(taint: dict[str, object]) -> None:
    assert errors(taints=[taint]) == ["spec.taints[0].device: Required value"]
