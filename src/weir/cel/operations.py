"""Meaning and cost of single operations: calls, membership, iteration and literals, on values that are already there.

Spec: cel.md 6 "Evaluation", 8, 12 "Runtime cost". The one place for what the plain evaluator (weir.cel.reference) and
generated code (weir.cel.runtime) must agree on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from weir.cel import access, ast, patch_values, wellknown
from weir.cel.dispatch import accepts, chosen, no_such_overload, priced_by_name, remember, takes_any_list
from weir.cel.env import Overload
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError, InternalError
from weir.cel.steps import Invoke
from weir.cel.types import Kind
from weir.cel.values import ABSENT, Duration, Optional, TypeValue, Value, equal, find_key, same, type_of
from weir.cel.work import spend

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
    if patch_values.is_patch_type(name):  # the checker lets them through where they are known
        return patch_values.construct(name, fields)
    if name not in wellknown.MESSAGES:
        raise EvaluationError(f"unknown type '{name}'")
    return wellknown.construct(name, fields)


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
