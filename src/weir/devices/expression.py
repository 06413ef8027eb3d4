"""Device CEL selectors: compilation, validation and evaluation.

Spec: cel.md 9.3, dra.md 5 "Device CEL environment".
The variable `device` has a driver, attributes and capacity by domain and, where capacity can be shared,
`allowMultipleAllocations`. An unused domain is an empty map, not an error (but `in` is false for it); a missing id is
an error that recommends optional chaining; an attribute may be the whole result if it is a bool at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from weir.caches import bounded
from weir.cel import types
from weir.cel.cache import ProgramCache
from weir.cel.env import Env, Function, Library, ObjectType
from weir.cel.errors import CelError, CompileError
from weir.cel.library import BIND, KUBERNETES
from weir.cel.library.quantity import QUANTITY, Quantity
from weir.cel.library.semver import Semver
from weir.cel.lowering import ProgramError
from weir.cel.program import Refusal, refuse
from weir.cel.types import BOOL, STRING, map_of
from weir.cel.values import DefaultMap, Optional, Value, type_of
from weir.values.quantity import QuantityError, parse_quantity
from weir.values.semver import SemverError, parse_strict

MAX_BYTES: Final = 10_240
#: Programs a scheduler keeps: upstream's number.
CACHE_CAPACITY: Final = 10
#: Expressions whose result is cached.
_CHECKED: Final = 512
_MISSING_KEY: Final = "no such key:"
_ADVICE: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)
_EMPTY: Final[dict[str, Value]] = {}


class DeviceError(ValueError):
    """A device whose attributes or capacity cannot be parsed; the message names the attribute."""


class SelectorError(Exception):
    """A selector that does not compile or fails for a device: `CEL compile error: …`, `CEL runtime error: …`."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as selectors see it; attributes and capacity by domain, then by id."""

    driver: str
    attributes: Mapping[str, Mapping[str, Value]] = field(default_factory=lambda: DefaultMap({}, _EMPTY))
    capacity: Mapping[str, Mapping[str, Value]] = field(default_factory=lambda: DefaultMap({}, _EMPTY))
    allowMultipleAllocations: bool = False  # noqa: N815 - the name expressions use


def read_device(driver: str, document: Mapping[str, Any]) -> Device:
    """Return what selectors see of one entry of a ResourceSlice's `devices`.

    >>> read_device("gpu.example.com", {"attributes": {"model": {"string": "a100"}}}).attributes["gpu.example.com"]
    {'model': 'a100'}
    """
    return Device(
        driver,
        _by_domain(driver, document.get("attributes"), _attribute),
        _by_domain(driver, document.get("capacity"), _amount),
        bool(document.get("allowMultipleAllocations")),
    )


def _by_domain(driver: str, named: Mapping[str, Any] | None, read: Callable[[str, Any], Value]) -> DefaultMap:
    domains: dict[str, dict[str, Value]] = {}
    for name, written in (named or {}).items():
        domain, slash, identifier = name.rpartition("/")
        domains.setdefault(domain if slash else driver, {})[identifier] = read(name, written)
    return DefaultMap(domains, _EMPTY)


def _attribute(name: str, written: Mapping[str, Any]) -> Value:
    for kind, value in written.items():
        if value is None:
            continue
        if kind == "version":
            return _version(name, value)
        if kind == "versions":
            return [_version(name, each) for each in value]
        if kind in ("int", "bool", "string", "ints", "bools", "strings"):
            return value
    raise DeviceError(f"attribute {name}: no value")


def _version(name: str, text: str) -> Semver:
    try:
        return Semver(parse_strict(text))
    except SemverError as error:
        raise DeviceError(f"attribute {name}: parse semantic version: {error}") from None


def _amount(name: str, written: Any) -> Quantity:
    text = written.get("value", "0") if isinstance(written, Mapping) else written
    try:
        return Quantity(parse_quantity(str(text)))
    except QuantityError as error:
        raise DeviceError(f"capacity {name}: {error}") from None


@cache
def environment(*, list_attributes: bool = False, multiple_allocations: bool = False) -> Env:
    """Return the device environment with the given features on.

    list_attributes: DRAListTypeAttributes, attributes may be lists and `includes` exists.
    multiple_allocations: DRAConsumableCapacity, `device.allowMultipleAllocations` exists.
    """
    value = types.DYN if list_attributes else types.ANY
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, value)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    sizes = {
        ("device",): 0,
        ("device", "driver"): 63,
        ("device", "attributes", "@values", "@values"): 64,
        ("device", "attributes", "@values", "*"): 64,
        ("device", "capacity", "@values", "@values"): 0,
    }
    for part in ("attributes", "capacity"):
        sizes[("device", part)] = 32
        sizes[("device", part, "@keys")] = 63
        sizes[("device", part, "@values")] = 32
        sizes[("device", part, "@values", "@keys")] = 32
    if multiple_allocations:
        fields["allowMultipleAllocations"] = BOOL
        sizes[("device", "allowMultipleAllocations")] = 1
    device = ObjectType("kubernetes.DRADevice", fields, Device)
    libraries = KUBERNETES if list_attributes else tuple(map(_without_includes, KUBERNETES))
    return Env((*libraries, BIND), {"device": device.type}, (device,), sizes)


def _without_includes(library: Library) -> Library:
    kept: tuple[Function, ...] = tuple(f for f in library.functions if f.name != "includes")
    if len(kept) == len(library.functions):
        return library
    return Library(library.name, kept, library.types, library.macros, library.check_format)


@bounded(_CHECKED, longest=10_240)  # claims of one template all bring the same selector
def check_expression(
    expression: str, *, list_attributes: bool = False, multiple_allocations: bool = False
) -> Refusal | None:
    """Return why the API refuses a selector, as (kind, message), or None.

    >>> check_expression("device.driver == 'gpu.example.com'")
    >>> check_expression("device.driver")
    Refusal(kind='invalid', message='must evaluate to bool or the unknown type, not string')
    """
    env = environment(list_attributes=list_attributes, multiple_allocations=multiple_allocations)
    return refuse(expression, env, (BOOL, types.DYN if list_attributes else types.ANY))


class Selectors:
    """The compiled selectors of one component; safe to share between threads."""

    def __init__(
        self,
        *,
        list_attributes: bool = False,
        multiple_allocations: bool = False,
        capacity: int = CACHE_CAPACITY,
    ) -> None:
        self.env: Final = environment(
            list_attributes=list_attributes, multiple_allocations=multiple_allocations
        )
        self.programs: Final = ProgramCache(capacity)

    def selects(self, expression: str, device: Device) -> bool:
        """Return whether *expression* is true for *device*; raises SelectorError when it cannot say.

        >>> Selectors().selects("device.driver.startsWith('gpu')", Device("gpu.example.com"))
        True
        """
        try:
            value = self.programs.compile(expression, self.env).evaluate({"device": device})
        except (CompileError, ProgramError) as error:
            raise SelectorError(f"CEL compile error: {error}") from None
        except CelError as error:
            advice = _ADVICE if str(error).startswith(_MISSING_KEY) else ""
            raise SelectorError(f"CEL runtime error: {error}{advice}") from None
        if value.__class__ is bool:
            return bool(value)
        name = type_of(value).name
        raise SelectorError(
            f"CEL runtime error: CEL result of type {name} could not be converted to bool: {_why_no_bool(value)}"
        )


def _why_no_bool(value: Value) -> str:
    """Return how upstream's representation of *value* refuses to become a bool."""
    if isinstance(value, Optional):
        return _why_no_bool(value.value) if value.has_value else "optional.none() dereference"
    name = type_of(value).name
    return _NO_BOOL.get(name) or f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'"


#: What upstream's values say that do not say it in the common way.
_NO_BOOL: Final = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "type": "type conversion not supported for 'type'",
    "kubernetes.NamedFormat": "type conversion error from 'Format' to 'bool'",
}
