"""Cost table of operations, for the static estimate and the runtime meter.

Spec: cel.md 10 to 12. A library gives each overload a rule from here: `Overload(…, **READ.prices)`.

Some runtime prices are rounded down where the static ones are rounded up; prices keyed by a function's
name upstream (`by_name`) are also asked when the overload is not resolved. The inline forms use integers: (n+9)//10
equals ceil(n·0.1) for every size that can occur (a test says so). Upstream's tracker takes some arguments for lists or
numbers without asking; what is neither ends in its own words for a failed conversion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from weir.cel import ast
from weir.cel.access import go_name
from weir.cel.cost_model import MAX, ONE, ZERO, Charge, Operand, Range, Rule, RuntimeCost, fixed
from weir.cel.errors import EvaluationError, InternalError
from weir.cel.types import Kind, Node
from weir.cel.values import (
    OBJECT_FIELDS,
    Value,
    object_as_map,
    size_of,
    type_of,
)
from weir.cel.work import spend

LITERAL: Final = 0
NAME: Final = 1
SELECT: Final = 1
LIST: Final = 10
MAP: Final = 30
STRUCT: Final = 40
CALL: Final = 1
TRAVERSAL: Final = 0.1
REGEX_LENGTH: Final = 0.25


def tenth(number: int) -> int:
    """Return ceil(0.1·number)."""
    return (number + 9) // 10


def fifth(number: int) -> int:
    """Return ceil(0.2·number)."""
    return (number + 4) // 5


def quarter(number: int) -> int:
    """Return ceil(0.25·number)."""
    return (number + 3) // 4


# -- flat prices --------------------------------------------------------------------------------------------


def flat(number: int, *, by_name: bool = False) -> Rule:
    """Return a rule that always asks *number*."""
    return Rule(
        str(number),
        lambda operands: Charge(fixed(number)),
        RuntimeCost(lambda args, result: number, inline=str(number), by_name=by_name, constant=number),
    )


FLAT: Final = flat(1)
#: The same price, but keyed by the function's name upstream: also asked when the overload is not resolved.
NAMED_FLAT: Final = flat(1, by_name=True)


# -- strings ------------------------------------------------------------------------------------------------


def _traverse(position: int, *, sized: bool, by_name: bool, words: str) -> Rule:
    def static(operands: Sequence[Operand]) -> Charge:
        size = operands[position].size
        return Charge(size.scaled(TRAVERSAL), size if sized else None)

    return Rule(
        words,
        static,
        RuntimeCost(
            lambda args, result: tenth(size_of(args[position])),
            inline=f"(({{n{position}}}+9)//10)",
            by_name=by_name,
        ),
    )


#: One pass over the first operand, keyed by name: `quantity(s)`, `semver(s)`, `isIP(s)` …
READ: Final = _traverse(0, sized=False, by_name=True, words="0.1·len(s)")
#: The same, and the result is as long as the operand: `lowerAscii`, `substring`, `trim`, `url`.
REWRITE: Final = _traverse(0, sized=True, by_name=True, words="0.1·len(s); result len(s)")
#: One pass over the argument: `startsWith`, `endsWith`.
TRAVERSE_ARGUMENT: Final = _traverse(1, sized=False, by_name=False, words="0.1·len(argument)")
#: One pass over the receiver, keyed by overload: `format`.
TRAVERSE_RECEIVER: Final = _traverse(0, sized=False, by_name=False, words="0.1·len(s)")


def _string_to_bytes(operands: Sequence[Operand]) -> Charge:
    size = operands[0].size
    return Charge(size.scaled(TRAVERSAL), Range(size.min, size.max * 4 % (MAX + 1)))


def _bytes_to_string(operands: Sequence[Operand]) -> Charge:
    size = operands[0].size
    return Charge(size.scaled(TRAVERSAL), Range(size.min // 4, size.max))


def _quote(operands: Sequence[Operand]) -> Charge:
    size = operands[0].size
    return Charge(size.scaled(TRAVERSAL), Range((size.min + 2) % (MAX + 1), (size.max * 2 + 2) % (MAX + 1)))


_TRAVERSE_FIRST: Final = TRAVERSE_RECEIVER.runtime
STRING_TO_BYTES: Final = Rule("0.1·len(s); result up to 4·len(s)", _string_to_bytes, _TRAVERSE_FIRST)
BYTES_TO_STRING: Final = Rule("0.1·len(b); result len(b)/4 to len(b)", _bytes_to_string, _TRAVERSE_FIRST)
QUOTE: Final = Rule("0.1·len(s); result len(s)+2 to 2·len(s)+2", _quote, _TRAVERSE_FIRST)

#: Two passes: parse, then compare with what was written.
READ_TWICE: Final = Rule(
    "0.2·len(s)",
    lambda operands: Charge(operands[0].size.scaled(2 * TRAVERSAL)),
    RuntimeCost(lambda args, result: fifth(size_of(args[0])), inline="(({n0}+4)//5)", by_name=True),
)


def _concatenate(operands: Sequence[Operand]) -> Charge:
    size = operands[0].size.plus(operands[1].size)
    return Charge(size.scaled(TRAVERSAL), size)


CONCATENATE: Final = Rule(
    "0.1·(len(a) + len(b)); result len(a) + len(b)",
    _concatenate,
    RuntimeCost(
        lambda args, result: tenth(size_of(args[0]) + size_of(args[1])), inline="(({n0}+{n1}+9)//10)"
    ),
)

CONTAINS: Final = Rule(
    "0.1·len(s) × 0.1·len(t)",
    lambda operands: Charge(operands[0].size.scaled(TRAVERSAL).times(operands[1].size.scaled(TRAVERSAL))),
    RuntimeCost(
        lambda args, result: tenth(size_of(args[0])) * tenth(size_of(args[1])),
        inline="(({n0}+9)//10)*(({n1}+9)//10)",
    ),
)


def _regex_cost(operands: Sequence[Operand]) -> Range:
    text = operands[0].size.plus(ONE).scaled(TRAVERSAL)
    return text.times(operands[1].size.scaled(REGEX_LENGTH))


_REGEX_RULE: Final = RuntimeCost(
    lambda args, result: tenth(size_of(args[0]) + 1) * quarter(size_of(args[1])),
    inline="(({n0}+10)//10)*(({n1}+3)//4)",
)
_REGEX_RULE_BY_NAME: Final = RuntimeCost(_REGEX_RULE.rule, inline=_REGEX_RULE.inline, by_name=True)

REGEX: Final = Rule(
    "0.1·(len(s)+1) × 0.25·len(re)", lambda operands: Charge(_regex_cost(operands)), _REGEX_RULE
)
REGEX_FIND: Final = Rule(
    "0.1·(len(s)+1) × 0.25·len(re); result 0 to len(s)",
    lambda operands: Charge(_regex_cost(operands), Range(0, operands[0].size.max)),
    _REGEX_RULE_BY_NAME,
)


def _replace(operands: Sequence[Operand]) -> Charge:
    text, old, new = (operand.size for operand in operands[:3])
    # Longest result: what is replaced is as short, its replacement as long and as frequent as can be.
    if old.min == 0:
        count_max, kept_max = min(text.max + 1, MAX), text.max
    elif new.max <= old.min:
        count_max, kept_max = 0, text.max
    else:
        count_max, kept_max = math.ceil(float(text.max) / float(old.min)), 0
    if old.max == 0:
        count_min, kept_min = min(text.min + 1, MAX), text.min
    elif old.max <= new.min:
        count_min, kept_min = 0, text.min
    else:
        count_min, kept_min = math.ceil(float(text.min) / float(old.max)), 0
    size = Range(count_min, min(count_max, MAX)).times(new).plus(Range(kept_min, kept_max))
    return Charge(text.scaled(2 * TRAVERSAL), size)


_REWRITE_TWICE: Final = READ_TWICE.runtime
REPLACE: Final = Rule("0.2·len(s); result by the sizes of both arguments", _replace, _REWRITE_TWICE)


def _split(operands: Sequence[Operand]) -> Charge:
    size = operands[0].size
    most = size.max
    if len(operands) > 2 and isinstance(node := operands[2].node, ast.Literal):
        most = int(node.value) % (MAX + 1)  # a negative limit wraps around upstream: no limit
    return Charge(size.scaled(2 * TRAVERSAL), Range(0, most))


SPLIT: Final = Rule("0.2·len(s); result 0 to len(s), or the literal limit", _split, _REWRITE_TWICE)


def _join(operands: Sequence[Operand]) -> Charge:
    count = operands[0].size
    size = ZERO
    if operands[0].type.params:
        size = count.times(operands[0].element_size)
    if len(operands) > 1:
        separators = Range(max(count.min - 1, 0), max(count.max - 1, 0))
        size = size.plus(operands[1].size.times(separators))
    return Charge(size.scaled(TRAVERSAL), size)


JOIN: Final = Rule(
    "static 0.1·size of the result, from len(L), element size and separator; runtime 0.2·len(result)",
    _join,
    RuntimeCost(lambda args, result: fifth(size_of(result)), by_name=True, needs_result=True),
)


# -- comparisons --------------------------------------------------------------------------------------------


def _compare(operands: Sequence[Operand]) -> Charge:
    smaller = min(operands[0].size.max, operands[1].size.max)
    return Charge(Range(1 if smaller > 0 else 0, smaller).scaled(TRAVERSAL))


def _compare_values(args: Sequence[Value], result: Value) -> int:
    return tenth(min(size_of(args[0]), size_of(args[1])))


COMPARE: Final = Rule(
    "0.1·min(len(a), len(b))",
    _compare,
    RuntimeCost(_compare_values, inline="((min({n0},{n1})+9)//10)"),
)

#: Types whose `==` has a price of its own; the longest name of a format is 64 characters.
_FORMAT_NAME_SIZE: Final = 64
_UNIT_EQUALITY: Final = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"})
_LIBRARY_TYPES: Final = _UNIT_EQUALITY | {"kubernetes.NamedFormat", "kubernetes.URL"}


def _equals(operands: Sequence[Operand]) -> Charge:
    left, right = operands[0], operands[1]
    if left.type == right.type and left.type.kind is Kind.OPAQUE:
        name = left.type.name
        if name in _UNIT_EQUALITY:
            return Charge(ONE)
        if name == "kubernetes.NamedFormat":
            return Charge(Range(1, _FORMAT_NAME_SIZE).scaled(TRAVERSAL))
        if name == "kubernetes.URL":
            return Charge(Range(1, right.size.max if right.known else 1).scaled(TRAVERSAL))
    return _compare(operands)


def _equals_values(args: Sequence[Value], result: Value) -> int:
    declared = getattr(args[0], "cel_type", None)
    if declared is not None and declared.name in _LIBRARY_TYPES:
        return 1
    return _compare_values(args, result)


EQUALS: Final = Rule(
    "0.1·min(len(a), len(b)); library types 1",
    _equals,
    RuntimeCost(_equals_values, by_name=True),
)
NOT_EQUALS: Final = Rule("0.1·min(len(a), len(b))", _compare, RuntimeCost(_compare_values))


# -- network and formats ------------------------------------------------------------------------------------

#: An address has 4 or 16 bytes.
_ADDRESS: Final = Range(4, 16)


def _contains_address(*, whole_network: bool, text: bool) -> Rule:
    def static(operands: Sequence[Operand]) -> Charge:
        cost = _ADDRESS.plus(_ADDRESS).scaled(TRAVERSAL)
        if whole_network:
            cost = cost.plus(_ADDRESS.scaled(TRAVERSAL)).plus(ONE)
        if text:
            cost = cost.plus(operands[1].size.scaled(TRAVERSAL))
        return Charge(cost)

    def runtime(args: Sequence[Value], result: Value) -> int:
        prefix = size_of(args[0])
        cost = tenth(2 * prefix)
        if whole_network:
            cost += tenth(prefix) + 1
        if text:
            cost += tenth(size_of(args[1]))
        return cost

    words = "(1, 4)" + (" + (1, 2) + 1" if whole_network else "") + (" + 0.1·len(x)" if text else "")
    # A call that is not resolved is priced by its name alone, without the reading of a text.
    return Rule(
        f"{words}; runtime by the bytes of the prefix", static, RuntimeCost(runtime, by_name=not text)
    )


CONTAINS_IP: Final = _contains_address(whole_network=False, text=False)
CONTAINS_IP_TEXT: Final = _contains_address(whole_network=False, text=True)
CONTAINS_CIDR: Final = _contains_address(whole_network=True, text=False)
CONTAINS_CIDR_TEXT: Final = _contains_address(whole_network=True, text=True)

#: Longest regular expression of a named format, times the regex factor.
_FORMAT_FACTOR: Final = 32.0


def _validate_values(args: Sequence[Value], result: Value) -> int:
    regex = getattr(args[0], "regex_size", None)
    return CALL if regex is None else tenth(size_of(args[1]) + 1) * quarter(regex)


VALIDATE: Final = Rule(
    "static 32·0.1·len(s); runtime 0.1·(len(s)+1) × 0.25·(regex of the format)",
    lambda operands: Charge(operands[1].size.scaled(TRAVERSAL).scaled(_FORMAT_FACTOR)),
    RuntimeCost(_validate_values, by_name=True),
)


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
