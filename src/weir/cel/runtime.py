"""Helpers of generated code for the rare and the untyped: optional access, dispatch by values, literals with options.

Spec: cel.md 6, 8, 12. Every function takes errors as values and returns them as values; those that charge return
(outcome, cost).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from weir.cel import access, operations
from weir.cel.errors import NO_SUCH_OVERLOAD, CostLimitExceeded, EvaluationError
from weir.cel.steps import Invoke
from weir.cel.values import ABSENT, NONE, Optional, Value, equal, new_map
from weir.cel.work import CALL, RAISING, spend

get = access.get
missing = access.missing
#: Stands where there is nothing yet.
ELSE: Final = ABSENT


def over(cost: int) -> CostLimitExceeded:
    """The budget is used up."""
    return CostLimitExceeded(cost)


def failed(error: EvaluationError, cost: int) -> EvaluationError:
    """The error of a whole evaluation."""
    error.cost = cost
    return error


def as_error(value: Value) -> EvaluationError:
    """What a condition that is no boolean means."""
    return value if value.__class__ is EvaluationError else EvaluationError(NO_SUCH_OVERLOAD)


def both(left: Value, right: Value, decisive: bool) -> Value:
    """`&&` or `||` when either side may be an error or no boolean; *left* did not decide."""
    if right is decisive:
        return decisive
    if left.__class__ is not bool:
        return as_error(left)
    if right.__class__ is not bool:
        return as_error(right)
    return not decisive


def equals(left: Value, right: Value, negated: bool) -> Value:
    """`==` or `!=` of anything."""
    if left.__class__ is EvaluationError:
        return left
    if right.__class__ is EvaluationError:
        return right
    try:
        return equal(left, right) is not negated
    except EvaluationError as error:
        spend(RAISING)
        return True if negated else error.with_traceback(None)


def member(element: Value, members: Sequence[Value]) -> Value:
    """`element in [constants]`."""
    return element if element.__class__ is EvaluationError else operations.member_of(element, members)


def or_else(left: Value, unwrap: bool) -> Value:
    """The value of `left.or(…)`, or ELSE when the right side must say."""
    if left.__class__ is Optional:
        if not left.has_value:
            return ELSE
        return left.value if unwrap else left
    return as_error(left)


_Key = tuple[Value, bool, bool]


def walk(
    value: Value, keys: Sequence[_Key], test: bool, root_optional: bool, objects: access.Objects
) -> tuple[Value, int]:
    """Apply constant qualifiers (key, optional, test), stopping where an optional one finds nothing."""
    optional = root_optional and value.__class__ is Optional
    if optional:
        if not value.has_value:
            return (False if test else value), 0
        value = value.value
    charged = 0
    try:
        for key, marked, tested in keys:
            optional = optional or marked
            if not optional and not tested:
                charged += 1
                value = access.get(value, key, objects)
                continue
            charged += not optional  # an optional step is paid for when it found something
            found = access.find(value, key, objects)
            if found is ABSENT:
                return (False if test else NONE), charged
            charged += optional
            value = found
    except EvaluationError as error:
        spend(RAISING)
        return error.with_traceback(None), charged
    if test:
        return True, charged
    return (Optional(value) if optional else value), charged


def step(
    value: Value, key: Value, optional: bool, test: bool, charge: int, objects: access.Objects
) -> tuple[Value, int]:
    """Apply one qualifier: the part, an error, or ABSENT where nothing is fine."""
    if key.__class__ is EvaluationError:
        return key, 0 if optional else charge
    try:
        if not optional and not test:
            return access.get(value, key, objects), charge
        found = access.find(value, key, objects)
    except EvaluationError as error:
        spend(RAISING)
        return error.with_traceback(None), 0 if optional else charge
    return found, 0 if found is ABSENT and optional else charge


def apply(call: Invoke, args: Sequence[Value], objects: access.Objects) -> tuple[Value, int]:
    """Call by values: the outcome and its price."""
    outcome: Value = None
    pair = call.by_classes.get(tuple([arg.__class__ for arg in args]))
    if pair is not None:
        overload, priced_by = pair
        if overload is not None and overload.impl is not None:
            if call.resolved is None and overload.effort > CALL:
                spend(overload.effort // 10)
            try:
                outcome = overload.impl(*args)
            except EvaluationError as error:
                outcome = error.with_traceback(None)
            return outcome, 1 if priced_by is None else operations.price(priced_by, args, outcome)
    for arg in args:
        if arg.__class__ is EvaluationError:
            outcome = arg
            break
    else:
        try:
            outcome = operations.apply(call, args, objects)
        except EvaluationError as error:
            outcome = error.with_traceback(None)
    return outcome, operations.call_price(call, args, outcome)


def new_list(elements: Sequence[Value], optional: frozenset[int]) -> Value:
    """A list literal with `?` elements."""
    built: list[Value] = []
    for position, value in enumerate(elements):
        if position in optional:
            value = operations.marked(value)
            if isinstance(value, EvaluationError):
                return value
        if value is not ABSENT:
            built.append(value)
    return built


def new_map_of(parts: Sequence[Value], optional: Sequence[bool]) -> Value:
    """A map literal from key, value, key, value …"""
    pairs: list[tuple[Value, Value]] = []
    for key, value, marked in zip(parts[::2], parts[1::2], optional, strict=True):
        if marked:
            value = operations.marked(value)
            if isinstance(value, EvaluationError):
                return value
        if value is not ABSENT:
            pairs.append((key, value))
    try:
        return new_map(pairs)
    except TypeError:
        return EvaluationError("unsupported key type")


def new_struct(name: str, fields: Sequence[tuple[str, bool]], values: Sequence[Value]) -> Value:
    """A message literal."""
    built: dict[str, Value] = {}
    for (field, marked), value in zip(fields, values, strict=True):
        if marked:
            value = operations.marked(value)
            if isinstance(value, EvaluationError):
                return value
        if value is not ABSENT:
            built[field] = value
    try:
        return operations.new_message(name, built)
    except EvaluationError as error:
        return error.with_traceback(None)


def iterable(value: Value, two: bool) -> Value:
    """*value* if a loop can run over it, else the error."""
    if value.__class__ is EvaluationError or isinstance(value, list | tuple | dict):
        return value
    outcome = operations.iteration(value, two)
    assert isinstance(outcome, EvaluationError)
    return outcome


def pairs(value: Value) -> Iterable[tuple[Any, Any]]:
    """The passes of a two-variable loop over a list or map."""
    return value.items() if isinstance(value, dict) else enumerate(value)


_HASHED: Final = frozenset((str, int))


def insert(target: dict[Any, Any], key: Value, value: Value) -> Value:
    """`cel.@mapInsert(target, key, value)`, in place: the map belongs to one loop."""
    if value.__class__ is EvaluationError:
        return value
    if (
        key.__class__ in _HASHED and key not in target
    ):  # Python finds more keys equal than CEL does, never fewer
        target[key] = value
        return target
    try:
        operations.insert(target, key, value)
    except EvaluationError as error:
        return error.with_traceback(None)
    return target


def insert_all(target: Value, entries: Value) -> Value:
    """`cel.@mapInsert(target, entries)`, in place; the first error wins."""
    if target.__class__ is EvaluationError:
        return target
    if entries.__class__ is EvaluationError:
        return entries
    spend(len(entries) * 8)
    for key, value in entries.items():
        target = insert(target, key, value)
        if target.__class__ is EvaluationError:
            return target
    return target
