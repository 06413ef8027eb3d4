"""Types that values certainly have at run time.

The checker's types are not enough to generate code by: what passes through dyn gets whatever type its use suggests
(`dyn({'a': 1})['a'] + 'x'` is well typed, and its first operand a string). Here types are computed from what
values are made of; where nothing is certain the answer is dyn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weir.cel import types
from weir.cel.env import Env, Overload
from weir.cel.types import DYN, Kind, Type, list_of, map_of, optional_of
from weir.cel.unify import instantiate
from weir.cel.values import Value, type_of


def of_value(value: Value) -> Type:
    """The type of a constant, as precise as its parts are alike.

    >>> str(of_value([1, 2])), str(of_value([1, "a"]))
    ('list(int)', 'list(dyn)')
    """
    if isinstance(value, list | tuple):
        return list_of(alike(of_value(part) for part in value))
    if isinstance(value, dict):
        return map_of(alike(map(of_value, value)), alike(map(of_value, value.values())))
    return type_of(value)


def alike(parts: Iterable[Type]) -> Type:
    """The type all *parts* have, or dyn."""
    found: Type | None = None
    for part in parts:
        if found is not None and part is not found:
            return DYN
        found = part
    return found or DYN


def of_part(container: Type, key: Value, env: Env, optional: bool) -> Type:
    """The type of `container.key` or `container[key]`."""
    if container.kind is Kind.OPTIONAL:
        container, optional = container.params[0], True
    part = DYN
    if container.kind is Kind.MAP:
        part = container.params[1]
    elif container.kind is Kind.LIST:
        part = container.params[0]
    elif container.kind is Kind.OBJECT and isinstance(key, str):
        declared = env.object_types.get(container.name)
        part = declared.fields.get(key, DYN) if declared and not declared.mapped else DYN
    # Through dyn the container itself may have been an optional, and then the part is one as well.
    return optional_of(part) if optional else part


def of_result(candidates: Sequence[Overload], actual: Sequence[Type]) -> Type:
    """The type of what a call returns, whichever of *candidates* runs."""
    return alike(_result(overload, actual) for overload in candidates)


def _result(overload: Overload, actual: Sequence[Type]) -> Type:
    if overload.result.closed:
        return overload.result
    bound: dict[Type, Type] = {}
    for formal, given in zip(overload.params, actual, strict=True):
        _bind(formal, given, bound)
    return _without_free(instantiate(overload.result, bound))


def _bind(formal: Type, given: Type, bound: dict[Type, Type]) -> None:
    if formal.closed:
        return
    if formal.kind is Kind.PARAM:
        known = bound.get(formal)
        bound[formal] = given if known is None or known is given else DYN
        return
    same = given.kind is formal.kind and len(given.params) == len(formal.params)
    for index, part in enumerate(formal.params):
        _bind(part, given.params[index] if same else DYN, bound)


def _without_free(t: Type) -> Type:
    if t.closed:
        return t
    if t.kind is Kind.PARAM:
        return DYN
    return Type(t.kind, t.name, tuple(map(_without_free, t.params)))


def of_iteration(over: Type, two: bool) -> tuple[Type, Type]:
    """The types of the loop variables."""
    if over.kind is Kind.LIST:
        return (types.INT, over.params[0]) if two else (over.params[0], DYN)
    if over.kind is Kind.MAP:
        return over.params[0], over.params[1]
    return DYN, DYN
