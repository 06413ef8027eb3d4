"""What both passes say about objects of resource.k8s.io, in the order a real server tells it (recorded from 1.37)."""

from __future__ import annotations

from typing import Any

import pytest

from weir.gates import Gates
from weir.validate import validate

GATES = Gates.parse("")
DRIVER = "gpu.example.com"


def told(kind: str, spec: dict[str, Any]) -> list[str]:
    document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "f", **({"namespace": "default"} if kind == "ResourceClaim" else {})},
        "spec": spec,
    }
    return [str(error) for error in validate(document, None, GATES)]


def slice_spec(*devices: dict[str, Any], **more: Any) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": list(devices), **more}


def policy(capacity: str, **rules: Any) -> list[str]:
    amounts = {"m": {"value": capacity, "requestPolicy": rules}}
    found = told(
        "ResourceSlice", slice_spec({"name": "a", "allowMultipleAllocations": True, "capacity": amounts})
    )
    return [text.removeprefix("spec.devices[0].capacity[m].requestPolicy.") for text in found]


def test_limits_of_conditions_come_after_everything_else_about_the_device() -> None:
    conditions = {"bindingConditions": ["a"], "bindingFailureConditions": ["a", "b", "b", "b", "a", "c"]}
    at = "spec.devices[0].bindingFailureConditions"
    overlap = 'Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions'
    assert told("ResourceSlice", slice_spec({"name": "a", **conditions})) == [
        f"{at}[0]: {overlap}",
        f'{at}[2]: Duplicate value: "b"',
        f'{at}[3]: Duplicate value: "b"',
        f'{at}[4]: Duplicate value: "a"',
        f"{at}[4]: {overlap}",
        f"{at}: Too many: 6: must have at most 4 items",
    ]


def test_counters_are_told_in_bytes_and_last() -> None:
    counters = [{"name": "x" * 64, "counters": {"m": {"value": "1"}}}]
    spec = slice_spec(sharedCounters=counters, driver="Bad_Value!")
    del spec["devices"]
    found = told("ResourceSlice", spec)
    assert found[0].startswith("spec.driver: Invalid value")
    assert found[-1].endswith(": must be no more than 63 bytes")


def test_a_driver_too_long_in_bytes_alone_is_told_by_hand_first() -> None:
    config = [{"opaque": {"driver": "é" * 40, "parameters": {}}}]
    first, second = told("DeviceClass", {"config": config})
    assert first == "spec.config[0].opaque.driver: Too long: may not be more than 63 bytes"
    assert "an RFC 1123 subdomain must consist of" in second


def test_a_long_name_of_an_attribute_makes_both_passes_speak() -> None:
    device = {"name": "a", "attributes": {"x" * 120: {"int": 5, "string": "s"}}}
    found = told("ResourceSlice", slice_spec(device))
    assert [text.rpartition(": ")[2] for text in found if "exactly one" in text] == [
        "exactly one value must be specified",
        "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`",
    ]


def test_a_request_may_be_named_with_one_of_its_alternatives_but_no_deeper() -> None:
    requests = [{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}]
    names = ["r", "r/s", "r/t", "r/s/u", "q"]
    constraints = [{"requests": names, "matchAttribute": f"{DRIVER}/x"}]
    found = told("ResourceClaim", {"devices": {"requests": requests, "constraints": constraints}})
    assert [text.partition(":")[0][-2] for text in found] == ["2", "3", "4"]


def test_a_repeated_request_prints_whole_in_its_wire_form() -> None:
    tolerations = [{"effect": "NoSchedule", "key": "k", "operator": "Exists"}]
    request = {"name": "r", "exactly": {"tolerations": tolerations, "deviceClassName": "c"}}
    assert told("ResourceClaim", {"devices": {"requests": [request, request]}}) == [
        'spec.devices.requests[1]: Duplicate value: {"name":"r","exactly":{"deviceClassName":"c","allocationMode":'
        '"ExactCount","count":1,"tolerations":[{"key":"k","operator":"Exists","effect":"NoSchedule"}]}}'
    ]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (
            {"default": "1", "validValues": ["500m", "1"]},
            ['validValues[1]: Duplicate value: "1"'],  # told apart in whole numbers, rounded up
        ),
        (
            {"default": "10", "validValues": ["20", "5", "10"]},
            ['validValues[1]: Invalid value: "5": values must be sorted in ascending order'],
        ),
        (
            {"default": "5", "validRange": {"min": "1", "max": "9223372036854775808", "step": "1"}},
            [
                'validRange.max: Invalid value: "9223372036854775808": max is larger than capacity value: 100',
                'validRange.max: Invalid value: "9223372036854775808": must not be larger than 9223372036854775807',
            ],
        ),
        (
            {"default": "4", "validRange": {"min": "1", "step": "2"}},
            ['validRange.step: Invalid value: "4": value is not a multiple of a given step (2) from (1)'],
        ),
    ],
)
def test_policies_of_shares_are_refused_as_upstream_does(rules: dict[str, Any], said: list[str]) -> None:
    assert policy("100", **rules) == said
