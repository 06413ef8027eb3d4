"""The environments CEL vectors are run in: base, toleration and device.

Spec: cel.md 9, formats: README of the conformance vectors. Types and devices are read from the vectors' own notation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.cel import messages, types
from weir.cel.env import Env, Function, Library, Overload
from weir.cel.library import BIND, KUBERNETES
from weir.cel.types import Type, list_of, map_of, opaque, optional_of, param, type_of_type, wrapper
from weir.devices.expression import Device, environment, read_device
from weir.objects.core import Taint
from weir.taints.expression import ENV

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
    if name in messages.MESSAGES:
        return messages.MESSAGES[name][0]
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


def toleration_env() -> Env:
    """cel.md 9.2."""
    return ENV


#: The class bound to `taint`.
BoundTaint = Taint


def taint_value(taint: Mapping[str, str] | None) -> Taint:
    """The bound value of a taint in a vector."""
    taint = taint or {}
    return Taint(taint.get("key", ""), taint.get("value", ""), taint.get("effect", ""))


def device_env(name: str) -> Env:
    """cel.md 9.3; the name says what is switched on: `dra`, `dra-list`, `dra-multi`, `dra-list-multi`."""
    return environment(list_attributes="list" in name, multiple_allocations="multi" in name)


def device_value(device: Mapping[str, Any] | None) -> Device:
    """The bound value of a device in a vector."""
    device = device or {}
    return read_device(device.get("driver", ""), device)


def object_fields(value: Any) -> dict[str, Any] | None:
    """The fields of a bound object, as upstream prints one; None for anything else."""
    for declared in (*ENV.objects, *device_env("dra-list-multi").objects):
        if declared.python_class is not None and isinstance(value, declared.python_class):
            return {name: getattr(value, name) for name in declared.fields}
    return None
