"""Validation of `x-kubernetes-validations` in a schema: compilation and cost estimates.

Spec: upstream's checks of `x-kubernetes-validations` when a definition is written. The estimated cost of a rule times
its maximum number of occurrences is limited, and so is the sum over a schema. An expression is not compiled where the
schema at or below it is already invalid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from weir.cel.env import Env, ObjectType
from weir.cel.errors import CompileError
from weir.cel.lowering import ProgramError
from weir.cel.program import build, check_expression
from weir.cel.types import BOOL, STRING
from weir.compat.customresources.expression_types import REQUEST_BYTES, Declared, declare, environment, escape
from weir.compat.customresources.expressions import uses_old_self
from weir.compat.customresources.internal_form import go_rule
from weir.compat.customresources.schema import Schema, read_schema
from weir.fields.field import Document, FieldError, forbidden, invalid

PER_EXPRESSION: Final = 10_000_000
PER_SCHEMA: Final = 100_000_000
_MOST: Final = 2**64 - 1


@dataclass(slots=True)
class _Total:
    """What all rules of a schema cost together, and which contribute most."""

    cost: int = 0
    dearest: list[tuple[int, str]] = field(default_factory=list)

    def add(self, at: str, cost: int) -> None:
        self.cost = min(self.cost + cost, _MOST)
        if cost >= PER_SCHEMA // 100:
            self.dearest = sorted([*self.dearest, (cost, at)], key=lambda one: -one[0])[:4]


@dataclass(frozen=True, slots=True)
class _Place:
    schema: Schema
    at: str
    declared: Declared | None
    cardinality: int | None  #: how often it can occur; None: as often as a request has room for
    uncorrelated: str = ""  #: the closest ancestor whose parts are not correlatable
    root: bool = False


def validate_expressions(found: Document, at: str) -> list[FieldError]:
    """Return what is wrong with the expressions of a schema that is sound otherwise."""
    schema = read_schema(found)
    objects: list[ObjectType] = []
    declared = declare(schema, "selfType", objects, root=True)
    total = _Total()
    errors = _walk(_Place(schema, at, declared, 1, root=True), tuple(objects), total)
    if total.cost > PER_SCHEMA:
        detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        errors += [forbidden(place, detail) for _, place in total.dearest]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        errors.append(forbidden(at, _too_dear(what, total.cost, PER_SCHEMA)))
    return errors


def _walk(place: _Place, objects: tuple[ObjectType, ...], total: _Total) -> list[FieldError]:
    schema, at, declared = place.schema, place.at, place.declared
    errors: list[FieldError] = []
    repeats = _repeats(schema)
    below = None if place.cardinality is None or repeats is None else min(place.cardinality * repeats, _MOST)
    if isinstance(schema.additional, Schema):
        inner = None if declared is None else declared.item
        errors += _walk(
            _Place(schema.additional, f"{at}.additionalProperties", inner, below, place.uncorrelated),
            objects,
            total,
        )
    for name, one in schema.properties.items():
        part = None if declared is None else declared.fields.get(escape(name) or "")
        errors += _walk(
            _Place(one, f"{at}.properties[{name}]", part, below, place.uncorrelated), objects, total
        )
    if schema.items is not None:
        apart = place.uncorrelated or ("" if schema.list_type == "map" else at)
        inner = None if declared is None else declared.item
        errors += _walk(_Place(schema.items, f"{at}.items", inner, below, apart), objects, total)
    if not errors:
        errors += _check(place, objects, total)
    return errors


def _repeats(schema: Schema) -> int | None:
    """Return how many parts one value has at most; None: any number."""
    kind = schema.types[0] if len(schema.types) == 1 else ""
    if kind == "object" and schema.additional is not None:
        most = schema.bounds.get("maxProperties")
    elif kind == "array":
        most = schema.bounds.get("maxItems")
    else:
        return 1
    return None if most is None else max(most, 0)


def _check(place: _Place, objects: tuple[ObjectType, ...], total: _Total) -> list[FieldError]:
    declared = place.declared
    if not place.schema.rules or declared is None:
        return []
    envs: dict[bool, Env] = {}
    often = place.cardinality
    if often is None:
        often = REQUEST_BYTES // (declared.least + 1)
    errors: list[FieldError] = []
    for i, given in enumerate(place.schema.rules):
        rule = dict(given)
        optional = bool(rule.get("optionalOldSelf"))
        if optional not in envs:
            envs[optional] = environment(declared, objects, optional_old=optional)
        errors += _rule(
            rule, f"{place.at}.x-kubernetes-validations[{i}]", place, envs[optional], often, total
        )
    return errors


def _rule(rule: Document, at: str, place: _Place, env: Env, often: int, total: _Total) -> list[FieldError]:
    try:
        checked = check_expression(rule["rule"], env)
    except CompileError as error:
        return [invalid(f"{at}.rule", go_rule(rule), f"compilation failed: {error}")]
    if checked.type != BOOL:
        return [invalid(f"{at}.rule", go_rule(rule), "cel expression must evaluate to a bool")]
    try:
        build(checked)
    except ProgramError as error:
        return [invalid(f"{at}.rule", go_rule(rule), f"program instantiation failed: {error}")]
    errors: list[FieldError] = []
    cost = min(checked.estimate.max * often, _MOST)
    if cost > PER_EXPRESSION:
        errors.append(forbidden(f"{at}.rule", _too_dear("estimated rule cost", cost, PER_EXPRESSION)))
    total.add(f"{at}.rule", cost)
    errors += _message(rule, at, env, total)
    if uses_old_self(checked):
        if place.uncorrelated:
            detail = (
                "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                f"{place.uncorrelated}"
            )
            errors.append(invalid(f"{at}.rule", rule["rule"], detail))
    elif rule.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        errors.append(invalid(f"{at}.optionalOldSelf", rule["optionalOldSelf"], detail))
    return errors


def _message(rule: Document, at: str, env: Env, total: _Total) -> list[FieldError]:
    text = rule.get("messageExpression") or ""
    if not text:
        return []
    place = f"{at}.messageExpression"
    try:
        checked = check_expression(text, env)
    except CompileError as error:
        return [invalid(place, go_rule(rule), f"messageExpression compilation failed: {error}")]
    if checked.type != STRING:
        return [invalid(place, go_rule(rule), "messageExpression must evaluate to a string")]
    try:
        build(checked)
    except ProgramError as error:
        return [invalid(place, go_rule(rule), f"messageExpression instantiation failed: {error}")]
    cost = checked.estimate.max
    total.add(place, cost)
    if cost > PER_EXPRESSION:
        return [forbidden(place, _too_dear("estimated messageExpression cost", cost, PER_EXPRESSION))]
    return []


def _too_dear(what: str, cost: int, limit: int) -> str:
    """Return that something costs too much, and by which factor.

    >>> _too_dear("estimated rule cost", 25_000_000, 10_000_000)[:52]
    'estimated rule cost exceeds budget by factor of 2.5x'
    """
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
