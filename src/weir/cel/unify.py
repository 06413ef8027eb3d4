"""Assignability of types, and substitution of type variables.

Spec: cel.md 4.4 "Assignability". A substitution maps type variables to types; it only changes when a whole list of
types fits. Both directions are tried, dyn fits everything, and a variable that met two
compatible types stands for the more general one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from weir.cel.types import DYN, Kind, Type

Substitution = dict[Type, Type]
#: What a trial changed: variable and what it stood for before.
Trail = list[tuple[Type, Type | None]]

_WILD: Final = frozenset((Kind.DYN, Kind.ANY, Kind.ERROR))
_NULLABLE: Final = frozenset(
    (
        Kind.NULL,
        Kind.OBJECT,
        Kind.OPAQUE,
        Kind.DURATION,
        Kind.TIMESTAMP,
        Kind.ANY,
        Kind.OPTIONAL,
        Kind.WRAPPER,
    )
)
_PARAMETRIC: Final = frozenset((Kind.LIST, Kind.MAP, Kind.OPAQUE, Kind.OPTIONAL))


def is_dyn(t: Type) -> bool:
    """Whether *t* says nothing about the value."""
    return t.kind is Kind.DYN or t.kind is Kind.ANY


def assign(known: Substitution, pairs: Iterable[tuple[Type, Type]]) -> bool:
    """Whether every pair of types fits; *known* is then extended so that they do, and otherwise left alone."""
    trail: Trail = []
    for left, right in pairs:
        if not _fits(known, left, right, trail):
            for variable, before in reversed(trail):
                if before is None:
                    del known[variable]
                else:
                    known[variable] = before
            return False
    return True


def _fits(known: Substitution, left: Type, right: Type, trail: Trail) -> bool:
    if left is right:
        return True
    if right.kind is Kind.PARAM:
        valid, bound = _bind(known, left, right, trail)
        if valid or bound:
            return valid
    if left.kind is Kind.PARAM:
        return _bind(known, right, left, trail)[0]
    if left.kind in _WILD or right.kind in _WILD:
        return True
    if left.kind is Kind.NULL:
        return right.kind in _NULLABLE
    if right.kind is Kind.NULL:
        return left.kind in _NULLABLE
    if left.kind is Kind.WRAPPER:
        return _fits(known, left.params[0], right, trail)
    if right.kind is Kind.WRAPPER:
        return _fits(known, left, right.params[0], trail)
    if left.kind is not right.kind:
        return False
    if left.kind is Kind.TYPE:
        return True
    if left.kind in _PARAMETRIC:
        return (
            left.name == right.name
            and len(left.params) == len(right.params)
            and all(_fits(known, a, b, trail) for a, b in zip(left.params, right.params, strict=True))
        )
    return left.name == right.name


def _bind(known: Substitution, to: Type, variable: Type, trail: Trail) -> tuple[bool, bool]:
    """Whether *variable* may stand for *to*, and whether it stood for something already."""
    if to == variable:
        return True, True
    bound = known.get(variable)
    if bound is not None:
        if to == bound:
            return True, True
        if not _fits(known, to, bound, trail):
            return False, True
        general = most_general(to, bound)
        if general is not bound and not _occurs(known, variable, general):
            trail.append((variable, bound))
            known[variable] = general
        return True, True
    if _occurs(known, variable, to):
        return False, False
    trail.append((variable, None))
    known[variable] = to
    return True, False


def _occurs(known: Substitution, variable: Type, inside: Type) -> bool:
    if inside.closed:
        return False
    if inside == variable:
        return True
    if inside.kind is Kind.PARAM:
        bound = known.get(inside)
        return bound is not None and _occurs(known, variable, bound)
    return any(_occurs(known, variable, part) for part in inside.params)


def most_general(left: Type, right: Type) -> Type:
    """The one of two compatible types that says less."""
    return left if _says_less(left, right) else right


def _unwrapped(t: Type) -> Type:
    return t.params[0] if t.kind is Kind.WRAPPER else t


def _says_less(left: Type, right: Type) -> bool:
    if is_dyn(left) or left.kind is Kind.PARAM:
        return True
    if is_dyn(right) or right.kind is Kind.PARAM:
        return False
    if Kind.WRAPPER in (left.kind, right.kind):
        return _unwrapped(left) == _unwrapped(right)
    if left.kind is not right.kind:
        return False
    if left.kind is Kind.TYPE:
        return True
    if left.kind in _PARAMETRIC:
        return (
            left.name == right.name
            and len(left.params) == len(right.params)
            and all(_says_less(a, b) for a, b in zip(left.params, right.params, strict=True))
        )
    return left == right


def substitute(known: Substitution, t: Type, free_to_dyn: bool = False) -> Type:
    """*t* with its variables replaced by what they stand for; free ones become dyn if asked."""
    if t.closed:
        return t
    bound = known.get(t)
    if bound is not None:
        return substitute(known, bound, free_to_dyn)
    if t.kind is Kind.PARAM:
        return DYN if free_to_dyn else t
    return Type(t.kind, t.name, tuple(substitute(known, part, free_to_dyn) for part in t.params))


def instantiate(t: Type, fresh: Substitution) -> Type:
    """*t* with its parameters replaced by the fresh variables of *fresh*."""
    if t.closed:
        return t
    if t.kind is Kind.PARAM:
        return fresh.get(t, t)
    return Type(t.kind, t.name, tuple(instantiate(part, fresh) for part in t.params))


def parameters(*parts: Type) -> tuple[Type, ...]:
    """The type parameters in *parts*, each once."""
    found: dict[Type, None] = {}
    stack = list(parts)
    while stack:
        t = stack.pop()
        if t.kind is Kind.PARAM:
            found[t] = None
        elif not t.closed:
            stack.extend(t.params)
    return tuple(found)
