"""Validation of tolerations, on create and update.

Spec: core.md 2.3 "Toleration validation", 2.4 "Operator switch", 2.5 "Expression validation", 2.6 "Pod update";
KEP-5471, KEP-5721, KEP-5500, each "API Validation". A bad value of `Equal` or `Exists` is reported on `operator`; the
list of supported operators never depends on gates, and for a gated `Lt` it even names `Lt`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from weir.fields.field import (
    Document,
    Enum,
    Errors,
    each_invalid,
    forbidden,
    internal,
    invalid,
    not_supported,
    too_long,
)
from weir.gates import TOLERATION_CEL
from weir.taints.notation import NODE_EFFECTS
from weir.taints.operators import OPERATORS, find_comparison, names_of
from weir.validate.ratchet import Options
from weir.values.names import byte_length, check_label_key, check_label_value

_EFFECTS_OR_NONE: Final = frozenset({"", *NODE_EFFECTS})

EMPTY_KEY: Final = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
SECONDS_NEED_NO_EXECUTE: Final = "effect must be 'NoExecute' when `tolerationSeconds` is set"
EXISTS_WITH_VALUE: Final = "value must be empty when `operator` is 'Exists'"
MIXED: Final = "expression cannot be used with key, value, operator, or effect fields"
CEL_OFF: Final = "may not be set when the TaintTolerationCEL feature gate is disabled"
NEVER: Final = "may not be set here, whatever the feature gates: operators Equal and Exists only"
ONLY_ADDITIONS: Final = "existing toleration can not be modified except its tolerationSeconds"

EXPRESSION_MAX_BYTES: Final = 10240


def validate_tolerations(tolerations: list[Document], at: str, options: Options) -> Errors:
    """Yield what is wrong with each toleration of the list at the path *at*."""
    for i, toleration in enumerate(tolerations):
        if toleration.get("expression"):
            yield from validate_expression(toleration, f"{at}[{i}]", options)
        elif not _is_valid_fast(toleration):
            yield from _validate_toleration(toleration, f"{at}[{i}]", options)


def _is_valid_fast(toleration: Document) -> bool:
    """Return whether this is the commonest valid form: a key that exists, for one effect.

    Every pod carries two of them; this answers without building a path.
    """
    get = toleration.get
    return (
        get("operator") == "Exists"
        and not get("value")
        and bool(get("key"))
        and not check_label_key(toleration["key"])
        and (
            get("effect") == "NoExecute"
            or (get("tolerationSeconds") is None and (get("effect") or "") in _EFFECTS_OR_NONE)
        )
    )


def _validate_toleration(toleration: Document, at: str, options: Options) -> Errors:
    """Yield what is wrong with one toleration that has no expression, in the order of core.md 2.3."""
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    effect = toleration.get("effect") or ""
    if key:
        yield from each_invalid(f"{at}.key", key, check_label_key(key))
    elif operator != "Exists":
        yield invalid(f"{at}.operator", Enum(operator), EMPTY_KEY)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{at}.effect", Enum(effect), SECONDS_NEED_NO_EXECUTE)
    yield from validate_operator(operator, toleration.get("value") or "", at, options)
    if effect not in _EFFECTS_OR_NONE:
        yield not_supported(f"{at}.effect", effect, NODE_EFFECTS)


def validate_operator(operator: str, value: str, at: str, options: Options) -> Errors:
    """Yield what is wrong with the operator, or with a value the operator cannot read."""
    if operator in ("", "Equal"):
        if messages := check_label_value(value):
            yield invalid(f"{at}.operator", value, ";".join(messages))
    elif operator == "Exists":
        if value:
            yield invalid(f"{at}.operator", value, EXISTS_WITH_VALUE)
    else:
        yield from validate_comparison(operator, value, at, options)


def validate_comparison(operator: str, value: str, at: str, options: Options) -> Errors:
    """Yield what is wrong with an operator that compares; also the way to refuse an unknown one."""
    comparison = find_comparison(operator)
    if comparison is not None and options.allows(comparison.gate):
        for problem in comparison.scale.problems(value):
            yield invalid(f"{at}.value", value, problem)
        return
    # What the message names does not depend on the gates.
    supported = [each.name for each in OPERATORS.values() if not each.gate]
    if comparison is not None and comparison.scale.named_when_off:
        supported += names_of(comparison.scale)
    yield not_supported(f"{at}.operator", operator, supported)


def validate_expression(toleration: Document, at: str, options: Options) -> Errors:
    """Yield what is wrong with a toleration that is an expression (KEP-5500)."""
    expression: str = toleration["expression"]
    where = f"{at}.expression"
    if not options.allows(TOLERATION_CEL):
        yield forbidden(where, NEVER if options.never else CEL_OFF)
        return
    if any(toleration.get(field) for field in ("key", "value", "operator", "effect")):
        yield invalid(where, expression, MIXED)
    if byte_length(expression) > EXPRESSION_MAX_BYTES:
        yield too_long(where, EXPRESSION_MAX_BYTES)
        return
    # The language is heavy to load and most writes carry no expression.
    language = import_module("weir.taints.expression")
    yield from expression_errors(where, expression, language.check_expression(expression))


def expression_errors(at: str, expression: str, problem: tuple[str, str] | None) -> Errors:
    """Yield what the CEL compiler found: an invalid text, a forbidden cost, or a failure of its own."""
    if problem is None:
        return
    kind, text = problem
    if kind == "forbidden":
        yield forbidden(at, text)
    elif kind == "internal":
        yield internal(at, text)
    else:
        yield invalid(at, expression, text)


def validate_tolerations_update(
    new: list[Document], old: list[Document], at: str, options: Options
) -> Errors:
    """Yield what is wrong with replacing *old* by *new* in a pod: entries may only be added.

    `tolerationSeconds` is free; everything else of an old entry must be found again, in any order.
    """
    kept = [_identity(toleration) for toleration in new]
    if any(_identity(toleration) not in kept for toleration in old):
        yield forbidden(at, ONLY_ADDITIONS)
    else:
        yield from validate_tolerations(new, at, options)


def _identity(toleration: Document) -> dict[str, Any]:
    """Return a toleration without what an update may change; an empty field is an absent one."""
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds" and value}
