"""Device selectors: the variable, its quirks, and the words of failures."""

from __future__ import annotations

from typing import Any

import pytest

from weir.devices.expression import (
    Device,
    DeviceError,
    SelectorError,
    Selectors,
    check_expression,
    read_device,
)

GPU = read_device(
    "gpu.example.com",
    {
        "attributes": {
            "model": {"string": "a100"},
            "gpu.example.com/memGen": {"int": 3},
            "other.example.com/ready": {"bool": True},
            "driverVersion": {"version": "1.2.3"},
            "ports": {"ints": [1, 2]},
        },
        "capacity": {"memory": {"value": "80Gi"}},
        "allowMultipleAllocations": True,
    },
)
PLAIN = Selectors()
ALL = Selectors(list_attributes=True, multiple_allocations=True)


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'gpu.example.com'",
        "device.attributes['gpu.example.com'].model == 'a100'",
        "device.attributes['gpu.example.com']['memGen'] == 3",
        "device.attributes['other.example.com'].ready",
        "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('1.0.0'))",
        "device.attributes['gpu.example.com'].driverVersion == semver('1.2.3')",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0",
        "device.attributes['nope'].size() == 0",
        "!('nope' in device.attributes)",
        "device.attributes['nope'].?id.orValue('none') == 'none'",
        "!has(device.attributes['gpu.example.com'].serial)",
        "has(device.attributes.nope)",
        "device.attributes.size() == 2",
        "cel.bind(d, device.attributes['gpu.example.com'], has(d.model) && d.model.startsWith('a'))",
    ],
)
def test_selectors_that_select(expression: str) -> None:
    assert PLAIN.selects(expression, GPU)


def test_features_add_lists_and_shared_allocation() -> None:
    expression = "device.allowMultipleAllocations && device.attributes['gpu.example.com'].ports.includes(2)"
    assert ALL.selects(expression, GPU) and check_expression(expression) is not None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "device.attributes['gpu.example.com'].serial == 'x'",
            "CEL runtime error: no such key: serial. consider using CEL optional chaining (.? followed by orValue()) "
            "or guarding the check with has() for optional fields",
        ),
        (
            "device.attributes['gpu.example.com'].driverVersion == '1.2.3'",
            "CEL runtime error: no such overload",
        ),
        (
            "device.attributes['gpu.example.com'].memGen",
            "CEL runtime error: CEL result of type int could not be converted to bool: "
            "unsupported type conversion from 'int' to bool",
        ),
        (
            "device.foo",
            "CEL compile error: ERROR: <input>:1:7: undefined field 'foo'\n | device.foo\n | ......^",
        ),
    ],
)
def test_failures_are_worded_as_upstream(expression: str, message: str) -> None:
    with pytest.raises(SelectorError) as error:
        PLAIN.selects(expression, GPU)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("expression", "refusal"),
    [
        ("device.driver == 'x'", None),
        ("device.attributes['x'].y", None),
        ("device.driver", ("invalid", "must evaluate to bool or the unknown type, not string")),
        (
            "device.capacity['x'].y",
            ("invalid", "must evaluate to bool or the unknown type, not kubernetes.Quantity"),
        ),
        ("device.capacity['x'].y != quantity('1')", ("forbidden", "too complex, exceeds cost limit")),
    ],
)
def test_the_api_accepts_or_refuses(expression: str, refusal: Any) -> None:
    assert check_expression(expression) == refusal


def test_a_version_that_is_none_is_reported_with_its_attribute() -> None:
    with pytest.raises(DeviceError, match="attribute v: parse semantic version: No Major"):
        read_device("d", {"attributes": {"v": {"version": "1"}}})


def test_a_device_without_anything_has_empty_maps() -> None:
    assert PLAIN.selects("device.attributes['x'].size() == 0 && !device.driver.contains('x')", Device("d"))


def test_a_driver_of_several_parts_keeps_its_slashes_as_domain() -> None:
    device = read_device("a.example/b.example", {"attributes": {"x": {"int": 1}}})
    assert PLAIN.selects("device.attributes['a.example/b.example'].x == 1", device)
