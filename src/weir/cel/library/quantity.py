"""Quantities: `quantity('1.5Gi')`, arithmetic and comparison.

Spec: cel.md 10.6 and 17. `isInteger` depends on how the amount is held, not on its value
(`2000m` is none); `sign` has no method form; the result of `add` or `sub` on the right of `==` is an error
upstream, and the same error here, so that an expression behaves alike on both.
"""

from __future__ import annotations

from typing import ClassVar, Final

from weir.cel import costs, types
from weir.cel.env import Library
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from weir.cel.library.declare import functions, method, plain
from weir.cel.types import BOOL, DOUBLE, INT, STRING, Type
from weir.cel.work import spend
from weir.values.quantity import Format, QuantityError, find_quantity, parse_quantity
from weir.values.quantity import Quantity as Amount

QUANTITY: Final = types.opaque("kubernetes.Quantity")


class Quantity:
    """An amount as a CEL value. `computed`: made by `add` or `sub`."""

    __slots__ = ("amount", "computed")
    cel_type: ClassVar[Type] = QUANTITY

    def __init__(self, amount: Amount, computed: bool = False) -> None:
        self.amount: Final = amount
        self.computed: Final = computed

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not Quantity:
            return False
        if other.computed:
            raise EvaluationError(NO_SUCH_OVERLOAD)
        return compare(self, other) == 0

    def __hash__(self) -> int:
        return hash(self.amount)

    def __str__(self) -> str:
        return str(self.amount)

    def __repr__(self) -> str:
        return f"Quantity({str(self.amount)!r})"


def parse(text: str) -> Quantity:
    """Return the amount *text* writes, as an evaluation error when it writes none."""
    spend(_reading(text))
    try:
        return Quantity(parse_quantity(text))
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def is_quantity(text: str) -> bool:
    """Return whether *text* writes an amount."""
    spend(_reading(text))
    return find_quantity(text) is not None


def _reading(text: str) -> int:
    """Return the units of reading *text*: Python's int() takes the square of the digits, up to 4,300 of them."""
    return len(text) + (min(len(text), 5_000) ** 2 >> 11)


def _align(a: Amount, b: Amount) -> None:
    """Charge for writing both amounts with the same exponent: 10^n is long to compute, and to work with."""
    shift = min(abs(a.scale - b.scale), 110_000)  # those further apart are refused or told apart without it
    digits = (a.unscaled.bit_length() + b.unscaled.bit_length()) >> 2
    if shift + digits > 100:
        spend((shift * shift >> 15) + (shift * digits >> 18) + (shift + digits >> 5))


def compare(a: Quantity, b: Quantity) -> int:
    """Return -1, 0 or 1 as *a* is below, equal to or above *b*."""
    _align(a.amount, b.amount)
    return a.amount.compare(b.amount)


def _as_integer(of: Quantity) -> int:
    number = of.amount.as_int64()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _plain(number: int) -> Amount:
    """Return an int as an amount; zero plus an int is therefore printed with an exponent."""
    return Amount(number, 0, Format.DECIMAL_EXPONENT)


def _add(a: Quantity, b: Quantity | int) -> Quantity:
    addend = b.amount if isinstance(b, Quantity) else _plain(b)
    _align(a.amount, addend)
    try:
        return Quantity(a.amount + addend, computed=True)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _subtract(a: Quantity, b: Quantity | int) -> Quantity:
    subtrahend = b.amount if isinstance(b, Quantity) else _plain(b)
    _align(a.amount, subtrahend)
    try:
        return Quantity(a.amount - subtrahend, computed=True)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


_BOTH: Final = (QUANTITY, QUANTITY)

LIBRARY: Final = Library(
    "quantity",
    functions(
        plain("quantity", "string_to_quantity", (STRING,), QUANTITY, parse, costs.READ, fails=True),
        plain("isQuantity", "is_quantity_string", (STRING,), BOOL, is_quantity, costs.READ),
        plain("sign", "quantity_sign", (QUANTITY,), INT, lambda q: q.amount.sign, costs.NAMED_FLAT),
        method("isGreaterThan", "quantity_is_greater_than", _BOTH, BOOL, lambda a, b: compare(a, b) > 0,
               costs.NAMED_FLAT),
        method("isLessThan", "quantity_is_less_than", _BOTH, BOOL, lambda a, b: compare(a, b) < 0, costs.NAMED_FLAT),
        method("compareTo", "quantity_compare_to", _BOTH, INT, compare, costs.NAMED_FLAT),
        method("asApproximateFloat", "quantity_get_float", (QUANTITY,), DOUBLE, lambda q: q.amount.as_float(),
               costs.NAMED_FLAT),
        method("asInteger", "quantity_get_int", (QUANTITY,), INT, _as_integer, costs.NAMED_FLAT, fails=True),
        method("isInteger", "quantity_is_integer", (QUANTITY,), BOOL, lambda q: q.amount.as_int64() is not None,
               costs.NAMED_FLAT),
        method("add", "quantity_add", _BOTH, QUANTITY, _add, costs.NAMED_FLAT, fails=True),
        method("add", "quantity_add_int", (QUANTITY, INT), QUANTITY, _add, costs.NAMED_FLAT, fails=True),
        method("sub", "quantity_sub", _BOTH, QUANTITY, _subtract, costs.NAMED_FLAT, fails=True),
        method("sub", "quantity_sub_int", (QUANTITY, INT), QUANTITY, _subtract, costs.NAMED_FLAT, fails=True),
    ),
)  # fmt: skip
