"""Meaning and cost of single operations: calls, membership, iteration, optional access and literals.

Spec: cel.md 6 "Evaluation", 8, 12 "Runtime cost". The first half, on values that are already there, is what the
plain evaluator (weir.cel.reference) and generated code must agree on. The second half is what generated code calls for
the rare and the untyped: its functions take errors as values and return them as values; those that charge return
(outcome, cost).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from weir.cel import access, ast, messages
from weir.cel.dispatch import accepts, chosen, no_such_overload, priced_by_name, remember, takes_any_list
from weir.cel.env import Overload
from weir.cel.errors import NO_SUCH_OVERLOAD, CostLimitExceeded, EvaluationError, InternalError
from weir.cel.steps import Invoke
from weir.cel.types import Kind
from weir.cel.values import (
    ABSENT,
    NONE,
    Duration,
    Optional,
    TypeValue,
    Value,
    equal,
    find_key,
    new_map,
    same,
    type_of,
)
from weir.cel.work import CALL, RAISING, spend

#: A value, or the error that took its place.
Outcome = Any


def insert(target: dict[Any, Any], key: Value, value: Value) -> None:
    """`cel.@mapInsert(target, key, value)`, in place."""
    if access.contains(target, key):
        raise EvaluationError(f"insert failed: key {access.key_text(key)} already exists")
    target[key] = value


def iteration(over: Value, two: bool) -> Iterable[tuple[Value, Value]] | EvaluationError:
    """The values of the loop variables, pass by pass."""
    if isinstance(over, list | tuple):
        return enumerate(over) if two else ((value, None) for value in over)
    if isinstance(over, dict):
        return over.items()
    if two:
        return EvaluationError(f"unsupported comprehension range type: {access.go_name(over)}")
    return EvaluationError(f"got '{access.go_name(over)}', expected iterable type")


def marked(value: Outcome) -> Outcome:
    """What a part of a literal marked `?` puts in: the value of an optional, ABSENT when it has none."""
    if isinstance(value, EvaluationError):
        return value
    if not isinstance(value, Optional):
        return EvaluationError(f"cannot initialize optional list element from non-optional value {value}")
    return value.value if value.has_value else ABSENT


def new_message(name: str, fields: Mapping[str, Value]) -> Value:
    """The value of a message literal; Kubernetes knows only the well-known messages at run time."""
    if messages.is_patch_type(name):  # the checker lets them through where they are known
        return messages.construct_patch(name, fields)
    if name not in messages.MESSAGES:
        raise EvaluationError(f"unknown type '{name}'")
    return messages.construct(name, fields)


def member_of(element: Value, members: Sequence[Value]) -> bool:
    """Whether *element* equals one of the constant *members*."""
    kind = type_of(element)
    if kind.name == "kubernetes.Semver":
        raise InternalError("internal error: runtime error: hash of unhashable type cel.Semver")
    if kind.kind is Kind.BYTES:
        raise InternalError("internal error: runtime error: hash of unhashable type types.Bytes")
    spend(len(members) * 5)
    return any(equal(member, element) for member in members)


def price(overload: Overload | None, args: Sequence[Outcome], outcome: Outcome) -> int:
    """What a resolved call costs."""
    if overload is None or overload.cost is None:
        return 1
    if overload.cost.constant is not None:
        return overload.cost.constant
    return overload.cost.rule(args, outcome)


def early_price(step: Invoke, args: Sequence[Outcome]) -> int | None:
    """What a resolved call costs if that is known before it runs: what is beyond the budget never starts."""
    overload = step.resolved
    if overload is None or overload.cost is None or overload.cost.needs_result:
        return None
    return price(overload, args, None)


def call_price(step: Invoke, args: Sequence[Outcome], outcome: Outcome) -> int:
    """What a call costs: by its overload when resolved, else by name, else 1."""
    if step.resolved is not None:
        return price(step.resolved, args, outcome)
    named = priced_by_name(step, args)
    return 1 if named is None else price(named, args, outcome)


#: Units of work to look into lists and maps at every call, for each parameter.
_GUARDING: Final = 8
#: Upstream asks for the text inside the value they are called on, and a type has one: its name.
_READ_TYPES_AS_TEXT: Final = frozenset(("matches", "find", "findAll"))


def apply(step: Invoke, args: Sequence[Value], objects: access.Objects) -> Value:
    """Run the overload that takes *args*."""
    if step.function == "@in":
        return contains(args[0], args[1])
    if step.function == "type":
        return TypeValue(type_of(access.as_map(args[0], objects)).name)
    if step.function == "dyn":
        return access.as_map(args[0], objects)
    if step.function in _READ_TYPES_AS_TEXT and args[0].__class__ is TypeValue:
        args = [args[0].name, *args[1:]]
    overload = step.resolved
    if overload is None:
        overload = chosen(step, args)
        if overload is None and step.candidates and takes_any_list(step.function, args):
            overload = step.candidates[0]
        if overload is None and step.function == ast.NEGATE and args[0].__class__ is Duration:
            return Duration(-args[0].ns)  # no overload is declared, but the value knows how
        if overload is None:
            raise no_such_overload(step.function, args, declared=bool(step.overloads))
    elif not takes_any_list(step.function, args):
        for guard, arg in zip(step.guards, args, strict=True):
            if guard is not None and not accepts(guard, arg):
                raise no_such_overload(step.function, args)
        if step.guards and not remember(step, args, overload, overload):
            spend(len(step.guards) * _GUARDING)
    if overload.impl is None:
        raise no_such_overload(step.function, args)
    try:
        return overload.impl(*args)
    except (TypeError, AttributeError):
        # Dispatch looks at the first element only; a list of mixed values fails inside, as it does upstream.
        raise EvaluationError(NO_SUCH_OVERLOAD) from None


def contains(element: Value, container: Value) -> bool:
    """`element in container`."""
    if isinstance(container, list | tuple):
        spend(len(container) * 5)
        return any(same(member, element) for member in container)
    if isinstance(container, dict):
        return find_key(container, element) is not ABSENT
    raise EvaluationError(NO_SUCH_OVERLOAD)


# ── what generated code calls ──

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
    return element if element.__class__ is EvaluationError else member_of(element, members)


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


def priced_apply(call: Invoke, args: Sequence[Value], objects: access.Objects) -> tuple[Value, int]:
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
            return outcome, 1 if priced_by is None else price(priced_by, args, outcome)
    for arg in args:
        if arg.__class__ is EvaluationError:
            outcome = arg
            break
    else:
        try:
            outcome = apply(call, args, objects)
        except EvaluationError as error:
            outcome = error.with_traceback(None)
    return outcome, call_price(call, args, outcome)


def new_list(elements: Sequence[Value], optional: frozenset[int]) -> Value:
    """A list literal with `?` elements."""
    built: list[Value] = []
    for position, value in enumerate(elements):
        if position in optional:
            value = marked(value)
            if isinstance(value, EvaluationError):
                return value
        if value is not ABSENT:
            built.append(value)
    return built


def new_map_of(parts: Sequence[Value], optional: Sequence[bool]) -> Value:
    """A map literal from key, value, key, value …"""
    pairs: list[tuple[Value, Value]] = []
    for key, value, may_be_absent in zip(parts[::2], parts[1::2], optional, strict=True):
        if may_be_absent:
            value = marked(value)
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
    for (field, may_be_absent), value in zip(fields, values, strict=True):
        if may_be_absent:
            value = marked(value)
            if isinstance(value, EvaluationError):
                return value
        if value is not ABSENT:
            built[field] = value
    try:
        return new_message(name, built)
    except EvaluationError as error:
        return error.with_traceback(None)


def iterable(value: Value, two: bool) -> Value:
    """*value* if a loop can run over it, else the error."""
    if value.__class__ is EvaluationError or isinstance(value, list | tuple | dict):
        return value
    outcome = iteration(value, two)
    assert isinstance(outcome, EvaluationError)
    return outcome


def pairs(value: Value) -> Iterable[tuple[Any, Any]]:
    """The passes of a two-variable loop over a list or map."""
    return value.items() if isinstance(value, dict) else enumerate(value)


_HASHED: Final = frozenset((str, int))


def insert_outcome(target: dict[Any, Any], key: Value, value: Value) -> Value:
    """`cel.@mapInsert(target, key, value)`, in place: the map belongs to one loop."""
    if value.__class__ is EvaluationError:
        return value
    if (
        key.__class__ in _HASHED and key not in target
    ):  # Python finds more keys equal than CEL does, never fewer
        target[key] = value
        return target
    try:
        insert(target, key, value)
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
        target = insert_outcome(target, key, value)
        if target.__class__ is EvaluationError:
            return target
    return target
