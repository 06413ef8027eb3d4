"""How a library writes down a function: short forms of the records in weir.cel.env.

A declaration reads like its row in cel.md 10: id, parameters, result, implementation, price.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weir.cel.cost_model import Rule
from weir.cel.env import Function, Overload, Specialized
from weir.cel.library.efforts import effort_of
from weir.cel.types import Type
from weir.cel.values import Value

Impl = Callable[..., Value] | None


def method(
    id: str,
    params: tuple[Type, ...],
    result: Type,
    impl: Impl,
    price: Rule,
    *,
    fails: bool = False,
    inline: str | None = None,
    specialize: Callable[[Sequence[Value]], Specialized | None] | None = None,
) -> Overload:
    """Return the overload of a method: `params[0]` is the receiver."""
    effort = effort_of(id, inline)
    return Overload(id, params, result, True, impl, fails, inline, specialize, **price.prices, effort=effort)


def plain(
    id: str,
    params: tuple[Type, ...],
    result: Type,
    impl: Impl,
    price: Rule,
    *,
    fails: bool = False,
    inline: str | None = None,
    specialize: Callable[[Sequence[Value]], Specialized | None] | None = None,
) -> Overload:
    """Return the overload of a global function."""
    effort = effort_of(id, inline)
    return Overload(id, params, result, False, impl, fails, inline, specialize, **price.prices, effort=effort)


def function(name: str, *overloads: Overload, fold: bool = False) -> Function:
    """Return a function with its overloads in declaration order."""
    return Function(name, overloads, fold)
