"""The environments CEL vectors are run in: base, toleration and device.

Spec: cel.md 9, formats: README of the conformance vectors. Types and devices are read from the vectors' own notation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from weir.cel import types, wellknown
from weir.cel.env import Env, Function, Library, ObjectType, Overload
from weir.cel.library import BIND, KUBERNETES
from weir.cel.types import Type, list_of, map_of, opaque, optional_of, param, type_of_type, wrapper
from weir.cel.values import DefaultMap, Value

_SIMPLE = {
    "bool": types.BOOL, "int": types.INT, "uint": types.UINT, "double": types.DOUBLE, "string": types.STRING,
    "bytes": types.BYTES, "null_type": types.NULL, "null": types.NULL, "dyn": types.DYN, "any": types.ANY,
    "timestamp": types.TIMESTAMP, "duration": types.DURATION, "type": types.TYPE,
    "google.protobuf.Timestamp": types.TIMESTAMP, "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Any": types.ANY,
}  # fmt: skip


def parse_type(text: str) -> Type:
    """The type a vector writes.

    >>> str(parse_type("map(string, list(int))"))
    'map(string, list(int))'
    """
    found, rest = _parse(text.strip())
    if rest:
        raise ValueError(f"type {text!r}: {rest!r} is left over")
    return found


def _parse(text: str) -> tuple[Type, str]:
    if text.startswith("<"):
        name, _, rest = text[1:].partition(">")
        return param(name), rest.lstrip()
    end = next((i for i, c in enumerate(text) if c in "(), "), len(text))
    name, rest = text[:end], text[end:].lstrip()
    args: list[Type] = []
    if rest.startswith("("):
        rest = rest[1:].lstrip()
        while True:
            arg, rest = _parse(rest)
            args.append(arg)
            closing, rest = rest[0], rest[1:].lstrip()
            if closing == ")":
                break
    return _named(name, args), rest


def _named(name: str, args: list[Type]) -> Type:
    if args:
        makers: Mapping[str, Any] = {
            "list": list_of, "map": map_of, "optional_type": optional_of, "type": type_of_type, "wrapper": wrapper,
        }  # fmt: skip
        return makers[name](*args) if name in makers else opaque(name, *args)
    if name in wellknown.MESSAGES:
        return wellknown.MESSAGES[name][0]
    return _SIMPLE.get(name) or opaque(name)


def conformance_env(test: Mapping[str, Any], kubernetes: bool) -> Env:
    """The environment of one conformance test: Kubernetes' base environment, or plain CEL."""
    variables: dict[str, Type] = {}
    functions: list[Function] = []
    for declaration in test.get("type_env", ()):
        if "overloads" in declaration:
            overloads = tuple(
                Overload(
                    o["id"],
                    tuple(map(parse_type, o["params"])),
                    parse_type(o["result"]),
                    bool(o.get("member")),
                )
                for o in declaration["overloads"]
            )
            functions.append(Function(declaration["name"], overloads))
        else:
            variables[declaration["name"]] = parse_type(declaration["type"])
    libraries = KUBERNETES if kubernetes else (*KUBERNETES, BIND)
    if functions:
        libraries = (*libraries, Library("declared by the test", tuple(functions)))
    return Env(
        libraries,
        variables,
        container=test.get("container", ""),
        homogeneous_literals=kubernetes,
        validators=kubernetes,
        macros_enabled=not test.get("disable_macros"),
    )


@dataclass(frozen=True, slots=True)
class BoundTaint:
    """A taint as the variable `taint`."""

    key: str
    value: str
    effect: str


@cache
def toleration_env() -> Env:
    """cel.md 9.2."""
    taint = ObjectType(
        "kubernetes.Taint", dict.fromkeys(("key", "value", "effect"), types.STRING), BoundTaint
    )
    sizes = {("taint",): 0, ("taint", "key"): 317, ("taint", "value"): 63, ("taint", "effect"): 16}
    return Env(KUBERNETES, {"taint": taint.type}, (taint,), sizes)


def taint_value(taint: Mapping[str, str] | None) -> BoundTaint:
    """The bound value of a taint in a vector."""
    taint = taint or {}
    return BoundTaint(taint.get("key", ""), taint.get("value", ""), taint.get("effect", ""))


@dataclass(frozen=True, slots=True)
class BoundDevice:
    """A device as the variable `device`."""

    driver: str
    attributes: dict[str, Any]
    capacity: dict[str, Any]
    allowMultipleAllocations: bool  # noqa: N815 - the name expressions use


@cache
def device_env(name: str) -> Env:
    """cel.md 9.3; the name says what is switched on: `dra`, `dra-list`, `dra-multi`, `dra-list-multi`."""
    value = types.DYN if "list" in name else types.ANY
    quantity = opaque("kubernetes.Quantity")
    fields = {
        "driver": types.STRING,
        "attributes": map_of(types.STRING, map_of(types.STRING, value)),
        "capacity": map_of(types.STRING, map_of(types.STRING, quantity)),
    }
    if "multi" in name:
        fields["allowMultipleAllocations"] = types.BOOL
    device = ObjectType("kubernetes.DRADevice", fields, BoundDevice)
    sizes = {("device",): 0, ("device", "driver"): 63, ("device", "allowMultipleAllocations"): 1}
    for part, size in (("attributes", 64), ("capacity", 0)):
        sizes |= {
            ("device", part): 32,
            ("device", part, "@keys"): 63,
            ("device", part, "@values"): 32,
            ("device", part, "@values", "@keys"): 32,
            ("device", part, "@values", "@values"): size,
        }
        sizes[("device", part, "@values", "*")] = 64
    return Env((*KUBERNETES, BIND), {"device": device.type}, (device,), sizes)


def device_value(device: Mapping[str, Any] | None) -> BoundDevice:
    """The bound value of a device in a vector."""
    device = device or {}
    driver = device.get("driver", "")
    return BoundDevice(
        driver,
        _by_domain(driver, device.get("attributes", {}), _attribute),
        _by_domain(driver, device.get("capacity", {}), lambda text: _call("quantity", text)),
        bool(device.get("allowMultipleAllocations")),
    )


def _by_domain(driver: str, flat: Mapping[str, Any], read: Any) -> DefaultMap:
    domains: dict[str, dict[str, Value]] = {}
    for name, value in flat.items():
        domain, slash, identifier = name.rpartition("/")
        domains.setdefault(domain if slash else driver, {})[identifier] = read(value)
    return DefaultMap(domains, {})


def _attribute(written: Mapping[str, Any]) -> Value:
    ((kind, value),) = written.items()
    if kind == "version":
        return _call("semver", value)
    if kind == "versions":
        return [_call("semver", v) for v in value]
    return value


def _call(function: str, text: str) -> Value:
    """A library value, made by the library's own function."""
    overloads = toleration_env().functions[function].overloads
    impl = next(o.impl for o in overloads if o.params == (types.STRING,))
    assert impl is not None
    return impl(text)
