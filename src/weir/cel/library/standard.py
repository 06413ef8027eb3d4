"""The operators of the language and the functions every environment has.

Spec: cel.md 3.2, 3.3 and 5. `int` and `uint` never mix in arithmetic but do in ordering; integer
division cuts towards zero and `%` takes the sign of the dividend, unlike Python; NaN cannot be ordered; an
integer is rounded to a double before it is ordered against one, so 2^63-1 is not below 2.0^63.
What the evaluator does itself is declared here without implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from weir.cel import costs, types
from weir.cel.ast import (
    ADD,
    AND,
    CONDITIONAL,
    DIVIDE,
    EQUALS,
    GREATER,
    GREATER_EQUALS,
    IN,
    INDEX,
    LESS,
    LESS_EQUALS,
    MODULO,
    MULTIPLY,
    NEGATE,
    NOT,
    NOT_EQUALS,
    NOT_STRICTLY_FALSE,
    OR,
    SUBTRACT,
)
from weir.cel.errors import EvaluationError
from weir.cel.library.declare import Row, functions, method, plain
from weir.cel.library.times import DIFFERENCES, SUMS
from weir.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    LIST_OF_A,
    MAP_OF_A_B,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    B,
)
from weir.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt, Value
from weir.cel.work import MOST_ELEMENTS, grow, search, spend

INTEGER_OVERFLOW: Final = "integer overflow"
UNSIGNED_OVERFLOW: Final = "unsigned integer overflow"
NOT_ORDERED: Final = "NaN values cannot be ordered"


def int64(number: int) -> int:
    """Return *number* if it is an int, else the overflow error."""
    if INT_MIN <= number <= INT_MAX:
        return number
    raise EvaluationError(INTEGER_OVERFLOW)


def uint64(number: int) -> UInt:
    """Return *number* as an unsigned integer, or the overflow error."""
    if 0 <= number <= UINT_MAX:
        return UInt(number)
    raise EvaluationError(UNSIGNED_OVERFLOW)


# -- arithmetic ---------------------------------------------------------------------------------------------


def divide_towards_zero(a: int, b: int) -> int:
    """Return a / b without its fraction.

    >>> divide_towards_zero(-7, 2)
    -3
    """
    if b == 0:
        raise EvaluationError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder(a: int, b: int) -> int:
    """Return what is left of a / b, with the sign of a.

    >>> remainder(-7, 3)
    -1
    """
    if b == 0:
        raise EvaluationError("modulus by zero")
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _modulo_int(a: int, b: int) -> int:
    if b == -1 and a == INT_MIN:
        raise EvaluationError(INTEGER_OVERFLOW)
    return remainder(a, b)


def join_lists(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
    """Return both lists as one; upstream makes a view of them, whatever their size, for the price of one."""
    length = len(a) + len(b)
    grow(length, MOST_ELEMENTS)
    spend(length >> 3)
    return [*a, *b]


def _join_texts(a: Value, b: Value) -> Value:
    """Return both strings, or both bytes, as one."""
    length = len(a) + len(b)
    if length > 256:
        grow(length)
        spend(length >> 5)
    return a + b


def _contains(text: str, part: str) -> bool:
    search(len(text), len(part))
    return part in text


def _divide_double(a: float, b: float) -> float:
    if b:
        return a / b
    if a != a or a == 0 or b != b:
        return float("nan")
    negative = (a < 0) != (str(b)[0] == "-")
    return float("-inf") if negative else float("inf")


_ARITHMETIC: Final = (
    plain(ADD, "add_bytes", (BYTES, BYTES), BYTES, _join_texts, costs.CONCATENATE),
    plain(ADD, "add_double", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a + b, inline="({0}+{1})"),
    *SUMS,
    plain(ADD, "add_int64", (INT, INT), INT, lambda a, b: int64(a + b), fails=True),
    plain(ADD, "add_list", (LIST_OF_A, LIST_OF_A), LIST_OF_A, join_lists, costs.ADD_LIST),
    plain(ADD, "add_string", (STRING, STRING), STRING, _join_texts, costs.CONCATENATE),
    plain(ADD, "add_uint64", (UINT, UINT), UINT, lambda a, b: uint64(int(a) + int(b)), fails=True),
    plain(SUBTRACT, "subtract_double", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a - b, inline="({0}-{1})"),
    *DIFFERENCES,
    plain(SUBTRACT, "subtract_int64", (INT, INT), INT, lambda a, b: int64(a - b), fails=True),
    plain(SUBTRACT, "subtract_uint64", (UINT, UINT), UINT, lambda a, b: uint64(int(a) - int(b)), fails=True),
    plain(MULTIPLY, "multiply_double", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a * b, inline="({0}*{1})"),
    plain(MULTIPLY, "multiply_int64", (INT, INT), INT, lambda a, b: int64(a * b), fails=True),
    plain(MULTIPLY, "multiply_uint64", (UINT, UINT), UINT, lambda a, b: uint64(int(a) * int(b)), fails=True),
    plain(DIVIDE, "divide_double", (DOUBLE, DOUBLE), DOUBLE, _divide_double),
    plain(DIVIDE, "divide_int64", (INT, INT), INT, lambda a, b: int64(divide_towards_zero(a, b)), fails=True),
    plain(DIVIDE, "divide_uint64", (UINT, UINT), UINT, lambda a, b: UInt(divide_towards_zero(int(a), int(b))),
          fails=True),
    plain(MODULO, "modulo_int64", (INT, INT), INT, _modulo_int, fails=True),
    plain(MODULO, "modulo_uint64", (UINT, UINT), UINT, lambda a, b: UInt(remainder(int(a), int(b))), fails=True),
    plain(NEGATE, "negate_double", (DOUBLE,), DOUBLE, lambda a: -a, inline="(-{0})"),
    plain(NEGATE, "negate_int64", (INT,), INT, lambda a: int64(-a), fails=True),
)  # fmt: skip


# -- ordering -----------------------------------------------------------------------------------------------

#: Operand types in declaration order, with the id suffix.
_ORDERED: Final = (
    (BOOL, BOOL, "bool"),
    (INT, INT, "int64"),
    (INT, DOUBLE, "int64_double"),
    (INT, UINT, "int64_uint64"),
    (UINT, UINT, "uint64"),
    (UINT, DOUBLE, "uint64_double"),
    (UINT, INT, "uint64_int64"),
    (DOUBLE, DOUBLE, "double"),
    (DOUBLE, INT, "double_int64"),
    (DOUBLE, UINT, "double_uint64"),
    (STRING, STRING, "string"),
    (BYTES, BYTES, "bytes"),
    (TIMESTAMP, TIMESTAMP, "timestamp"),
    (DURATION, DURATION, "duration"),
)
_COMPARISONS: Final[dict[str, tuple[str, str, Callable[[Value, Value], bool]]]] = {
    LESS: ("less", "<", lambda a, b: bool(a < b)),
    LESS_EQUALS: ("less_equals", "<=", lambda a, b: bool(a <= b)),
    GREATER: ("greater", ">", lambda a, b: bool(a > b)),
    GREATER_EQUALS: ("greater_equals", ">=", lambda a, b: bool(a >= b)),
}


def _ordering(name: str) -> Iterator[Row]:
    id, symbol, compare = _COMPARISONS[name]

    def of_doubles(a: float, b: float) -> bool:
        if a != a or b != b:
            raise EvaluationError(NOT_ORDERED)
        return compare(float(a), float(b))  # an integer is rounded first, as upstream does

    for left, right, suffix in _ORDERED:
        floating = DOUBLE in (left, right)
        yield plain(
            name,
            f"{id}_{suffix}",
            (left, right),
            BOOL,
            of_doubles if floating else compare,
            costs.COMPARE if left in (STRING, BYTES) else costs.FLAT,
            fails=floating,
            inline=None if floating else f"({{0}}{symbol}{{1}})",
        )


# -- what the evaluator does itself, and sizes --------------------------------------------------------------

_LOGIC: Final = (
    plain(AND, "logical_and", (BOOL, BOOL), BOOL, None, costs.flat(0), fails=True),
    plain(OR, "logical_or", (BOOL, BOOL), BOOL, None, costs.flat(0), fails=True),
    plain(NOT, "logical_not", (BOOL,), BOOL, lambda a: not a, inline="(not {0})"),
    plain(CONDITIONAL, "conditional", (BOOL, A, A), A, None, costs.flat(0), fails=True),
    plain(NOT_STRICTLY_FALSE, "not_strictly_false", (BOOL,), BOOL, None),
    plain(EQUALS, "equals", (A, A), BOOL, None, costs.EQUALS, fails=True),
    plain(NOT_EQUALS, "not_equals", (A, A), BOOL, None, costs.NOT_EQUALS, fails=True),
    plain(IN, "in_list", (A, LIST_OF_A), BOOL, None, costs.IN_LIST, fails=True),
    plain(IN, "in_map", (A, MAP_OF_A_B), BOOL, None, fails=True),
    plain(INDEX, "index_list", (LIST_OF_A, INT), A, None, fails=True),
    plain(INDEX, "index_map", (MAP_OF_A_B, A), B, None, fails=True),
)

_SIZED: Final = ((BYTES, "bytes"), (LIST_OF_A, "list"), (MAP_OF_A_B, "map"), (STRING, "string"))
_SIZE: Final = [
    row
    for of, name in _SIZED
    for row in (
        plain("size", f"size_{name}", (of,), INT, len, inline="len({0})"),
        method("size", f"{name}_size", (of,), INT, len, inline="len({0})"),
    )
]

_TEXT: Final = (
    method("contains", "contains_string", (STRING, STRING), BOOL, _contains, costs.CONTAINS,
           inline="(({n0}<64 or search({n0},{n1})) and {1} in {0})"),
    method("endsWith", "ends_with_string", (STRING, STRING), BOOL, lambda s, t: s.endswith(t),
           costs.TRAVERSE_ARGUMENT, inline="{0}.endswith({1})"),
    method("startsWith", "starts_with_string", (STRING, STRING), BOOL, lambda s, t: s.startswith(t),
           costs.TRAVERSE_ARGUMENT, inline="{0}.startswith({1})"),
)  # fmt: skip

_ORDERINGS: Final = [row for name in _COMPARISONS for row in _ordering(name)]

FUNCTIONS: Final = functions(*_LOGIC, *_ARITHMETIC, *_ORDERINGS, *_SIZE, *_TEXT)

#: Types whose names are identifiers.
TYPES: Final = (
    BOOL,
    INT,
    UINT,
    DOUBLE,
    STRING,
    BYTES,
    types.LIST_OF_DYN,
    types.MAP_OF_DYN,
    types.NULL,
    types.TYPE,
    DURATION,
    TIMESTAMP,
)

#: Short names that upstream's checker takes for types but its programs do not know.
UNDEFINED: Final = {"duration": DURATION, "timestamp": TIMESTAMP}
