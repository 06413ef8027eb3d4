"""Cost rules: saturating pairs of numbers, and the static and runtime halves of a price.

Spec: cel.md 11. A `Rule` holds both halves of one price: `static_rule`, from the (min, max) sizes of the operands, and
`runtime`, from the values themselves, with one line of words for the reference page.
Sizes saturate at 2^64-1; products with a fraction go through doubles and are rounded up, so MAX·0.1 is
1844674407370955264.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict

from weir.cel.types import Node, Type
from weir.cel.values import Value

MAX: Final = 2**64 - 1


class Range(NamedTuple):
    """A (min, max) pair of unsigned 64-bit numbers: a cost or a size."""

    min: int
    max: int

    def plus(self, other: Range) -> Range:
        return Range(min(self.min + other.min, MAX), min(self.max + other.max, MAX))

    def times(self, other: Range) -> Range:
        return Range(min(self.min * other.min, MAX), min(self.max * other.max, MAX))

    def scaled(self, factor: float) -> Range:
        """Return the pair times *factor*, rounded up."""
        return Range(scaled(self.min, factor), scaled(self.max, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.min, other.min), max(self.max, other.max))


def scaled(number: int, factor: float) -> int:
    """Return ceil(number·factor) in double arithmetic, at most MAX.

    >>> scaled(MAX, 0.1)
    1844674407370955264
    """
    product = float(number) * factor
    return MAX if product >= 2.0**64 else math.ceil(product)


def fixed(number: int) -> Range:
    """Return the pair (number, number)."""
    return Range(number, number)


ZERO: Final = fixed(0)
ONE: Final = fixed(1)
UNKNOWN_SIZE: Final = Range(0, MAX)
#: What a union starts with: united with anything, it is that.
NO_UNION: Final = Range(MAX, 0)


class Operand(NamedTuple):
    """What the estimate knows about one operand of a call."""

    node: Node
    size: Range  # UNKNOWN_SIZE when nothing is known
    known: bool  # whether size was computed at all
    element_size: Range  # of a list reached through a declared variable, else UNKNOWN_SIZE

    @property
    def type(self) -> Type:
        return self.node.type


class Charge(NamedTuple):
    """The price of one call, without its operands, and the size of what it returns if that is known."""

    cost: Range
    size: Range | None = None


StaticRule = Callable[[Sequence[Operand]], Charge]


@dataclass(frozen=True, slots=True)
class StaticCost:
    """How a call is priced before evaluation; `operands` are receiver and arguments in `params` order."""

    rule: StaticRule
    words: str


@dataclass(frozen=True, slots=True)
class RuntimeCost:
    """What one call costs while evaluating, beyond its arguments (cel.md 12).

    `rule(args, result)` is the truth: args as for the implementation (receiver first), result the returned
    value, or the `EvaluationError` the call ended with; an argument may be an `EvaluationError` too when
    it failed (size 1). `inline` is the same number as a Python expression for generated code, used when the
    call is resolved and arguments are fine: `{0}` stands for argument 0, `{n0}` for its length (a number
    where the argument is a constant), e.g. `(({n0}+10)//10)*(({n1}+3)//4)`.
    Leave it None when it needs the result.
    `by_name`: applies also when a call has several candidates (dyn operands); otherwise those cost 1.
    `needs_result`: the number depends on the result, so it is charged after the call.
    """

    rule: Callable[[Sequence[Value], Value], int]
    inline: str | None = None
    by_name: bool = False
    needs_result: bool = False
    constant: int | None = None  # set: always this number; rule and inline are not looked at


class Prices(TypedDict):
    """The two cost fields of an overload."""

    cost: RuntimeCost
    static: StaticCost


@dataclass(frozen=True, slots=True)
class Rule:
    """One price: words for people, a static and a runtime half for the machine."""

    words: str
    static_rule: StaticRule
    runtime: RuntimeCost

    @property
    def prices(self) -> Prices:
        return {"cost": self.runtime, "static": StaticCost(self.static_rule, self.words)}
