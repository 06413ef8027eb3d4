"""Costs of operations on lists and sets: searching, slicing, flattening, sorting, comparing each with each.

Spec: cel.md 10 to 12. Upstream's tracker takes some arguments for lists or numbers without asking; what
is neither ends in its own words for a failed conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weir.cel import ast
from weir.cel.access import go_name
from weir.cel.cost_model import MAX, ONE, Charge, Operand, Range, Rule, RuntimeCost, fixed
from weir.cel.costs import CALL, FLAT, LIST, TRAVERSAL
from weir.cel.errors import EvaluationError, InternalError
from weir.cel.types import Kind, Node
from weir.cel.values import OBJECT_FIELDS, Value, object_as_map, size_of, type_of
from weir.cel.work import spend


def literal_count(node: Node, otherwise: int) -> int:
    """Return the value of an int literal as a count (negative counts as 0), or *otherwise*."""
    if isinstance(node, ast.Literal) and node.value.__class__ is int:
        return max(int(node.value), 0)
    return otherwise


IN_LIST: Final = Rule(
    "len(L)",
    lambda operands: Charge(operands[1].size.scaled(1.0)),
    RuntimeCost(lambda args, result: size_of(args[1]), inline="{n1}"),
)
ADD_LIST: Final = Rule(
    "1; result len(a) + len(b)",
    lambda operands: Charge(ONE, operands[0].size.plus(operands[1].size)),
    FLAT.runtime,
)
#: Classes of values that cost 1 to look at.
_UNIT: Final = frozenset({int, float, bool, type(None)})


def walk_cost(value: Value) -> int:
    """Return what one walk over a value costs: strings by bytes, rounded down; lists, maps and objects recursively."""
    kind = value.__class__
    if kind is str:
        if len(value) > 64:
            spend(len(value) >> 5)
        return (len(value) if value.isascii() else len(value.encode())) // 10
    if kind is bytes:
        return len(value) // 10
    if kind is list or kind is tuple:
        spend(len(value) >> 1)
        if _UNIT.issuperset(map(type, value)):
            return len(value)
        spend(len(value) * 4)
        return sum(map(walk_cost, value))
    if kind in OBJECT_FIELDS:  # upstream binds an object as the map of its fields, and walks that
        value = object_as_map(value)
    if isinstance(value, dict):
        spend(len(value) * 8)
        return sum(walk_cost(key) + walk_cost(item) for key, item in value.items())
    return 1


def _element_walk(operands: Sequence[Operand]) -> Range | None:
    """Return the price of looking at every element of a list, or None when it is not known to be one."""
    target = operands[0]
    if not target.type.params:
        return None
    each = ONE
    if target.type.params[0].kind in (Kind.STRING, Kind.BYTES):
        each = each.plus(target.element_size.scaled(TRAVERSAL))
    return target.size.times(each)


def _scan(operands: Sequence[Operand]) -> Charge:
    walk = _element_walk(operands)
    return Charge(walk if walk is not None else operands[0].size.scaled(TRAVERSAL))


def _includes(operands: Sequence[Operand]) -> Charge:
    walk = _element_walk(operands)
    return Charge(walk if walk is not None else operands[0].size)


_WALK: Final = RuntimeCost(lambda args, result: walk_cost(args[0]), by_name=True)
SCAN: Final = Rule(
    "len(L), for strings len(L)·(1 + 0.1·element size); runtime: strings floor(0.1·bytes), other elements 1",
    _scan,
    _WALK,
)
INCLUDES: Final = Rule("as SCAN for lists, otherwise len(x)", _includes, _WALK)


def _allocate(size: Range, factor: float) -> Charge:
    """Return the price of a call that builds a list of *size* elements."""
    return Charge(size.scaled(factor).plus(fixed(CALL + LIST)), size)


_CONVERSION: Final = "internal error: interface conversion: "
_RESULT_LENGTH: Final = RuntimeCost(lambda args, result: CALL + LIST + size_of(result), needs_result=True)


def _slice(operands: Sequence[Operand]) -> Charge:
    end = literal_count(operands[2].node, operands[0].size.max)
    return _allocate(fixed((end - literal_count(operands[1].node, 0)) % (MAX + 1)), 1.0)


SLICE: Final = Rule("11 + end - start (literals, else 0 and len(L))", _slice, _RESULT_LENGTH)
RANGE: Final = Rule(
    "11 + n (n a literal, else unbounded)",
    lambda operands: _allocate(fixed(literal_count(operands[0].node, MAX)), 1.0),
    _RESULT_LENGTH,
)
REVERSE: Final = Rule("11 + len(L)", lambda operands: _allocate(operands[0].size, 1.0), _RESULT_LENGTH)


def _flatten(operands: Sequence[Operand]) -> Charge:
    depth = literal_count(operands[1].node, MAX) if len(operands) > 1 else 1
    return _allocate(operands[0].size, float(depth))


def _flatten_values(args: Sequence[Value], result: Value) -> int:
    depth = args[1] if len(args) > 1 else 1
    if depth.__class__ is not int:  # upstream's own tracker takes it for an int
        found = "*types.Err" if depth.__class__ is EvaluationError else go_name(depth)
        raise InternalError(f"{_CONVERSION}ref.Val is {found}, not types.Int")
    return CALL + LIST + (depth if depth >= 0 else 1) * size_of(args[0])


FLATTEN: Final = Rule("11 + depth·len(L)", _flatten, RuntimeCost(_flatten_values))
#: Values that know how to add, as lists do; the first method that they lack is another.
_ADDERS: Final = (Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.STRING, Kind.BYTES, Kind.DURATION, Kind.TIMESTAMP)


def _no_list(value: Value) -> str:
    if value.__class__ is EvaluationError:
        return "*types.Err is not traits.Lister: missing method Add"
    method = "Contains" if type_of(value).kind in _ADDERS else "Add"
    return f"{go_name(value)} is not traits.Lister: missing method {method}"


def _self_compare_values(value: Value) -> int:
    if (
        value.__class__ is not list and value.__class__ is not tuple
    ):  # upstream's own tracker takes it for a list
        raise InternalError(f"{_CONVERSION}{_no_list(value)}")
    size = size_of(value)
    first = value[0] if size else None
    factor = 21 if first.__class__ in (str, bytes) else 20
    return CALL + LIST + size * size * factor // 10


def _sort(position: int, factor: float) -> Rule:
    def static(operands: Sequence[Operand]) -> Charge:
        size = operands[position].size
        return _allocate(size.times(size), factor)

    of = "len(L)²" if position == 0 else "len(keys)²"
    return Rule(
        f"11 + {factor:g}·{of}; result {of}",
        static,
        RuntimeCost(lambda args, result: _self_compare_values(args[position])),
    )


SORT: Final = _sort(0, 2.0)
SORT_TEXT: Final = _sort(0, 2.0 + TRAVERSAL)
SORT_BY: Final = _sort(1, 2.0)
SORT_BY_TEXT: Final = _sort(1, 2.0 + TRAVERSAL)
DISTINCT: Final = Rule("11 + 2·len(L)² (runtime 2.1 for strings)", SORT.static_rule, SORT.runtime)


def _sets(factor: int) -> Rule:
    words = "1 + len(a)·len(b)" if factor == 1 else f"1 + {factor}·len(a)·len(b)"
    return Rule(
        words,
        lambda operands: Charge(operands[0].size.times(operands[1].size).scaled(float(factor)).plus(ONE)),
        RuntimeCost(lambda args, result: CALL + factor * size_of(args[0]) * size_of(args[1])),
    )


SETS: Final = _sets(1)
SETS_BOTH_WAYS: Final = _sets(2)
