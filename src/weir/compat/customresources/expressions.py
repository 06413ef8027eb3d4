"""Evaluates `x-kubernetes-validations` of a custom resource.

Spec: upstream's evaluation. Rules are evaluated from the root down; a rule on an absent value is skipped. A rule that
names `oldSelf` is a transition rule: it needs an old value, or gets an empty optional if so declared. An unchanged
value that violates a rule is ratcheted, except by transition rules. All rules of an object share one budget. If a
message expression fails, the static message or the rule is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from weir.cel.ast import Ident, walk
from weir.cel.env import Env, ObjectType
from weir.cel.errors import CompileError, CostLimitExceeded, EvaluationError, InternalError
from weir.cel.lowering import ProgramError
from weir.cel.program import Checked, Program, build, check_expression
from weir.cel.values import NONE, Optional
from weir.compat.customresources.expression_types import Declared, declare, environment, escape, to_value
from weir.compat.customresources.field_paths import FieldPathError, find_field, show_steps
from weir.compat.customresources.schema import Schema, has_rules
from weir.fields.field import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    OMITTED,
    REQUIRED,
    Document,
    FieldError,
)

BUDGET: Final = 10_000_000
LONGEST_MESSAGE: Final = 5 * 1024
_TYPES: Final = {
    "FieldValueForbidden": FORBIDDEN,
    "FieldValueRequired": REQUIRED,
    "FieldValueDuplicate": DUPLICATE,
}
_SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, compiled; without a program it says why."""

    text: str
    message: str
    reason: str
    path: str  #: below the value, as it is printed
    uses_old: bool
    optional_old: bool
    program: Program | None
    told: Program | None  #: computes the message
    problem: str = ""


@dataclass(slots=True)
class RuleTree:
    """The rules of a schema by the place they stand at; places without any are left out."""

    schema: Schema
    root: bool = False
    rules: tuple[Rule, ...] = ()
    properties: dict[str, RuleTree] = field(default_factory=dict)
    additional: RuleTree | None = None
    items: RuleTree | None = None


def uses_old_self(checked: Checked) -> bool:
    """Return whether an expression names `oldSelf`."""
    return any(isinstance(node, Ident) and node.name == "oldSelf" for node in walk(checked.root))


# ── compiling ────────────────────────────────────────────────────────────────────────────────────


def compile_rules(schema: Schema, *, root: bool = True) -> RuleTree | None:
    """Return the compiled rules of *schema*, None when it has none."""
    if not has_rules(schema):
        return None
    objects: list[ObjectType] = []
    return _compile(schema, declare(schema, "selfType", objects, root=root), tuple(objects), root)


def _compile(
    schema: Schema, declared: Declared | None, objects: tuple[ObjectType, ...], root: bool
) -> RuleTree | None:
    tree = RuleTree(schema, root)
    if declared is None:
        return None
    envs: dict[bool, Env] = {}
    rules = []
    for rule in schema.rules:
        optional = bool(rule.get("optionalOldSelf"))
        if optional not in envs:
            envs[optional] = environment(declared, objects, optional_old=optional)
        rules.append(_rule(dict(rule), schema, envs[optional], optional))
    tree.rules = tuple(rules)
    for name, one in schema.properties.items():
        inner = declared.fields.get(escape(name) or "")
        if inner is None or not has_rules(one):
            continue
        if (below := _compile(one, inner, objects, one.embedded)) is not None:
            tree.properties[name] = below
    if isinstance(schema.additional, Schema) and has_rules(schema.additional):
        tree.additional = _compile(schema.additional, declared.item, objects, schema.additional.embedded)
    if schema.items is not None and has_rules(schema.items):
        tree.items = _compile(schema.items, declared.item, objects, schema.items.embedded)
    return tree


def _rule(rule: Document, schema: Schema, env: Env, optional: bool) -> Rule:
    text = rule.get("rule") or ""
    program, told, uses_old, problem = None, None, False, ""
    try:
        checked = check_expression(text, env)
        uses_old = uses_old_self(checked)
        program = build(checked)
        if rule.get("messageExpression"):
            told = build(check_expression(rule["messageExpression"], env))
    except (CompileError, ProgramError) as error:
        problem = f"compilation failed: {error}" if program is None else ""
    return Rule(
        text.strip(),
        (rule.get("message") or "").strip(),
        rule.get("reason") or "",
        _shown_path(rule.get("fieldPath") or "", schema),
        uses_old,
        optional,
        program,
        told,
        problem,
    )


def _shown_path(path: str, schema: Schema) -> str:
    if not path:
        return ""
    try:
        return show_steps(find_field(as_document(schema), path)[0])
    except FieldPathError:
        return ""


def as_document(schema: Schema) -> Document:
    """Return as much of a schema as paths are looked up in."""
    found: Document = {}
    if schema.properties:
        found["properties"] = {name: as_document(one) for name, one in schema.properties.items()}
    if isinstance(schema.additional, Schema):
        found["additionalProperties"] = as_document(schema.additional)
    return found


# ── evaluating ───────────────────────────────────────────────────────────────────────────────────


class _Spent(Exception):
    """The cost budget is exhausted; no more rules are evaluated."""


@dataclass(slots=True)
class _Evaluation:
    """One object under its rules."""

    budget: int
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldError] = field(default_factory=list)


def evaluate_rules(
    tree: RuleTree, new: Any, old: Any = None, *, ratchets: bool = False, budget: int = BUDGET, at: str = ""
) -> tuple[list[FieldError], list[FieldError]]:
    """Return the rules that *new* breaks, and those it may break because *old* did.

    With *ratchets* this is an update of *old*: errors of unchanged values are not reported.
    """
    evaluation = _Evaluation(budget)
    try:
        same = ratchets and old is not None and bool(new == old)
        _look(evaluation, tree, new, old, at, same if ratchets else None, same)
    except _Spent:
        pass
    return evaluation.errors, evaluation.warnings


def _look(
    evaluation: _Evaluation, tree: RuleTree, new: Any, old: Any, at: str, same: bool | None, parent: bool
) -> None:
    """Ask the rules of one value and of those below it.

    *same* is whether the value is as it was, None where it cannot be compared; then *parent* counts, which is whether
    the closest value above that can be compared is as it was.
    """
    if new is None:
        return
    if tree.rules:
        _ask(evaluation, tree, new, old, at, parent if same is None else same)
    if isinstance(new, dict):
        before = old if isinstance(old, dict) else {}
        for key, item in new.items():
            inner, where = tree.properties.get(key), f"{at}.{key}" if at else key
            if inner is None and tree.additional is not None and key not in tree.schema.properties:
                inner, where = tree.additional, f"{at}[{key}]"
            if inner is None:
                continue
            was = before.get(key)
            below = None if same is None else (key in before and bool(item == was))
            _look(evaluation, inner, item, was, where, below, parent if same is None else same)
    elif isinstance(new, list) and tree.items is not None:
        keyed = _keyed(old, tree.schema)
        for i, item in enumerate(new):
            was = keyed.get(_key_of(item, tree.schema), _NOTHING) if keyed is not None else _NOTHING
            there = was is not _NOTHING
            below = None if same is None or keyed is None else (there and bool(item == was))
            _look(
                evaluation,
                tree.items,
                item,
                was if there else None,
                f"{at}[{i}]",
                below,
                parent if same is None else same,
            )


def _keyed(old: Any, schema: Schema) -> dict[Any, Any] | None:
    """Return the items of a list that is a map, by their keys; None for other lists, which have no places."""
    if schema.list_type != "map":
        return None
    return {_key_of(item, schema): item for item in old if isinstance(item, dict)} if old else {}


def _key_of(item: Any, schema: Schema) -> Any:
    return tuple(str(item.get(key)) for key in schema.map_keys) if isinstance(item, dict) else None


def _ask(evaluation: _Evaluation, tree: RuleTree, new: Any, old: Any, at: str, unchanged: bool) -> None:
    kind = tree.schema.types[0] if tree.schema.types else ""
    field_name = at or "<nil>"

    def refuse(detail: str) -> None:
        evaluation.errors.append(FieldError(INVALID, field_name, kind, detail))

    value = to_value(new, tree.schema, root=tree.root)
    before = None if old is None else to_value(old, tree.schema, root=tree.root)
    for rule in tree.rules:
        if rule.program is None:
            if rule.text:
                refuse(f"rule compile error: {rule.problem}")
            continue
        if rule.uses_old and before is None and not rule.optional_old:
            continue
        variables = {"self": value}
        if rule.uses_old:
            variables["oldSelf"] = (
                (NONE if before is None else Optional(before)) if rule.optional_old else before
            )
        message = rule.message or rule.text
        try:
            holds, cost = rule.program.run(variables)
        except CostLimitExceeded as error:
            _spend(evaluation, error.cost, refuse)
            refuse(
                f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {message}"
            )
            raise _Spent from None
        except (EvaluationError, InternalError) as error:
            _spend(evaluation, error.cost, refuse)
            if str(error).startswith("no such overload"):
                refuse(
                    f"'{error}': call arguments did not match a supported operator, function or macro signature "
                    f"for rule: {message}"
                )
            else:
                refuse(f"{error} evaluating rule: {message}")
            continue
        _spend(evaluation, cost, refuse)
        if holds is True:
            continue
        detail = _message(evaluation, rule, variables) or rule.message or f"failed rule: {message}"
        where = (f"{at}.{rule.path}" if at else rule.path) if rule.path else field_name
        shown = OMITTED if kind in ("object", "array") else new
        error_type = _TYPES.get(rule.reason, INVALID)
        if error_type == DUPLICATE:
            detail = ""
        found = FieldError(error_type, where, shown, detail)
        (evaluation.warnings if unchanged and not rule.uses_old else evaluation.errors).append(found)


def _spend(evaluation: _Evaluation, cost: int, refuse: Any) -> None:
    if cost > evaluation.budget:
        refuse(_SPENT)
        raise _Spent
    evaluation.budget -= cost


def _message(evaluation: _Evaluation, rule: Rule, variables: dict[str, Any]) -> str:
    """Return the message expression's result; None if it fails or is unusable."""
    if rule.told is None:
        return ""
    try:
        text, cost = rule.told.run(variables)
    except (EvaluationError, CostLimitExceeded, InternalError) as error:
        evaluation.budget -= min(error.cost, evaluation.budget)
        return ""
    if cost > evaluation.budget:
        raise _Spent
    evaluation.budget -= cost
    trimmed = text.strip() if isinstance(text, str) else ""
    return "" if len(trimmed.encode()) > LONGEST_MESSAGE or "\n" in trimmed else trimmed
