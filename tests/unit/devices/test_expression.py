"""Device selectors: the variable, its quirks, and the words of failures."""

from __future__ import annotations

from typing import Any

import pytest

from weir.cel.errors import CompileError
from weir.cel.program import check_expression as check_text
from weir.devices.expression import (
    CACHE_CAPACITY,
    MAX_BYTES,
    Device,
    DeviceError,
    SelectorError,
    Selectors,
    check_expression,
    environment,
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


def test_the_limits_are_those_of_the_api_and_the_cache_is_as_large_as_upstreams() -> None:
    assert (MAX_BYTES, environment().cost_limit, CACHE_CAPACITY) == (10 * 1024, 1_000_000, 10)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ({"string": None, "int": 3}, 3),
        ({"strings": ["a", "b"]}, ["a", "b"]),
        ({"bool": False}, False),
    ],
)
def test_an_attribute_has_the_one_value_that_is_written(written: dict[str, Any], value: Any) -> None:
    assert read_device("d", {"attributes": {"x": written}}).attributes["d"]["x"] == value


def test_versions_are_read_one_by_one() -> None:
    device = read_device("d", {"attributes": {"v": {"versions": ["1.2.3", "2.0.0"]}}})
    assert ALL.selects("device.attributes['d'].v.includes(semver('2.0.0'))", device)
    with pytest.raises(DeviceError, match="attribute v: parse semantic version"):
        read_device("d", {"attributes": {"v": {"versions": ["1.2.3", "2"]}}})


@pytest.mark.parametrize("written", [{}, {"int": None}, {"other": 1}])
def test_an_attribute_without_a_value_is_reported(written: dict[str, Any]) -> None:
    with pytest.raises(DeviceError, match="attribute x: no value"):
        read_device("d", {"attributes": {"x": written}})


def test_an_amount_that_is_none_is_reported_with_its_name() -> None:
    with pytest.raises(DeviceError, match="capacity memory: "):
        read_device("d", {"capacity": {"memory": {"value": "much"}}})


def test_without_features_there_are_neither_lists_nor_shared_devices() -> None:
    assert Device("d").allowMultipleAllocations is False
    for expression in ("device.allowMultipleAllocations", "device.attributes['a'].b.includes(1)"):
        with pytest.raises(SelectorError, match="CEL compile error"):
            Selectors().selects(expression, GPU)
        with pytest.raises(CompileError):
            check_text(expression, environment())


def test_a_device_without_anything_has_empty_maps() -> None:
    assert PLAIN.selects("device.attributes['x'].size() == 0 && !device.driver.contains('x')", Device("d"))


def test_a_driver_of_several_parts_keeps_its_slashes_as_domain() -> None:
    device = read_device("a.example/b.example", {"attributes": {"x": {"int": 1}}})
    assert PLAIN.selects("device.attributes['a.example/b.example'].x == 1", device)


LETTERS = "split('').all(letter, true)"


@pytest.mark.parametrize("features", [{}, {"list_attributes": True, "multiple_allocations": True}])
@pytest.mark.parametrize(
    ("expression", "most"),
    [
        (f"device.driver.{LETTERS}", 205),  # 63 characters
        ("device.attributes.all(domain, true)", 99),  # 32 domains
        (f"device.attributes.all(domain, domain.{LETTERS})", 6627),  # of 63 characters
        ("device.attributes.all(domain, device.attributes[domain].all(id, true))", 3331),  # with 32 ids
        (f"device.attributes['a'].all(id, id.{LETTERS})", 3460),  # of 32 characters
        (f"device.attributes['a'].all(id, device.attributes['a'][id].{LETTERS})", 6852),  # with texts of 64
        (f"device.attributes['a'].b.{LETTERS}", 210),
        ("device.capacity.all(domain, true)", 99),
        (f"device.capacity.all(domain, domain.{LETTERS})", 6627),
        ("device.capacity.all(domain, device.capacity[domain].all(id, true))", 3331),
        (f"device.capacity['a'].all(id, id.{LETTERS})", 3460),
        ("device.capacity['a'].all(id, dyn(device.capacity['a'][id]) == 1)", 292),
        ("dyn(device) == device", 3),  # itself has no size
    ],
)
def test_everything_of_a_device_is_estimated_at_its_longest(
    expression: str, most: int, features: dict[str, bool]
) -> None:
    assert check_text(expression, environment(**features)).estimate.max == most


def test_whether_a_device_may_be_shared_has_a_size_where_it_is_known() -> None:
    shared = "device.allowMultipleAllocations == device.allowMultipleAllocations"
    assert check_text(shared, environment(multiple_allocations=True)).estimate == (5, 5)
    assert "undefined field" in check_expression(shared).message


def test_includes_is_known_where_attributes_may_be_lists_and_everything_else_either_way() -> None:
    lists = "device.attributes['a'].b.includes(1)"
    assert check_expression(lists, list_attributes=True) is None
    assert "undeclared reference to 'includes'" in check_expression(lists).message
    assert check_expression("[1, 2].isSorted()") is None


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("device.attributes['gpu.example.com'].driverVersion", "from 'Semver' to 'bool'"),
        ("device.attributes['gpu.example.com'].?nope", "optional.none() dereference"),
        (
            "device.attributes['gpu.example.com'].?model",
            "unsupported native conversion from string to 'bool'",
        ),
    ],
)
def test_what_is_no_bool_says_so_in_its_own_words(expression: str, why: str) -> None:
    with pytest.raises(SelectorError) as error:
        PLAIN.selects(expression, GPU)
    assert str(error.value).endswith(why)
