"""Validation of ValidatingAdmissionPolicy and its binding, and the rules shared with mutating policies.

Spec: upstream's rules of admissionregistration.k8s.io/v1. Expressions are compiled in the environment they run in; a
variable may use those before it. No cost is estimated: budgets apply at evaluation. Rules shared with webhooks are in
weir.validate.admissionregistration.webhook_configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from weir.cel.env import Library
from weir.cel.types import Type
from weir.policies.environment import environment
from weir.policies.expressions import Composer, Expression
from weir.policies.validating import ANNOTATION, CONDITION, MESSAGE
from weir.validate.admissionregistration.match_conditions import refusals
from weir.validate.admissionregistration.webhook_configuration import (
    validate_match_conditions,
    validate_rule,
    validate_static_name,
)
from weir.validate.conditions import validate_conditions
from weir.validate.field import (
    Context,
    Document,
    Errors,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from weir.validate.label_selector import validate_label_selector
from weir.validate.meta import same, validate_generic_meta
from weir.values.names import (
    check_dns1035_label,
    check_dns1123_subdomain,
    check_label_key,
    check_path_segment,
)

_FAILURE: Final = ("Fail", "Ignore")
_MATCH: Final = ("Equivalent", "Exact")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_MOST_ANNOTATIONS: Final = 20
_LONGEST_ANNOTATION: Final = 5 * 1024
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")
_RESERVED: Final = frozenset(
    word
    for words in (
        ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function"),
        ("if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
    for word in words
)
_NEITHER: Final = "validations or auditAnnotations must contain at least one item"
_EITHER: Final = "name and selector are mutually exclusive"


def validate_validating_admission_policy(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ValidatingAdmissionPolicy, or with its status."""
    if context.subresource == "status":
        yield from _validate_status(new.get("status") or {})
        return
    yield from validate_generic_meta(new, old, context)
    spec = new.get("spec") or {}
    yield from validate_policy_head(spec, (old or {}).get("spec"))
    composer = PolicyCompiler(spec)
    yield from composer.variables("spec.variables")
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        yield required("spec.validations", _NEITHER)
        yield required("spec.auditAnnotations", _NEITHER)
    for i, validation in enumerate(validations):
        yield from _validate_validation(validation, f"spec.validations[{i}]", composer)
    if len(annotations) > _MOST_ANNOTATIONS:
        shown = [
            {"Key": one.get("key") or "", "ValueExpression": one.get("valueExpression") or ""}
            for one in annotations
        ]
        detail = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield invalid("spec.auditAnnotations", shown, detail)
    keys: set[str] = set()
    for i, annotation in enumerate(annotations):
        at, key = f"spec.auditAnnotations[{i}]", annotation.get("key") or ""
        yield from _validate_annotation(
            annotation, at, (new.get("metadata") or {}).get("name") or "", composer
        )
        if key in keys:
            yield duplicate(f"{at}.key", key)
        keys.add(key)
    yield from validate_static_name(new, old)


def validate_validating_admission_policy_binding(
    new: Document, old: Document | None, context: Context
) -> Errors:
    """Yield what is wrong with a ValidatingAdmissionPolicyBinding."""
    yield from validate_generic_meta(new, old, context)
    spec = new.get("spec") or {}
    yield from validate_binding_head(spec)
    actions, seen = spec.get("validationActions") or (), set()
    for i, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"spec.validationActions[{i}]", action, _ACTIONS)
        if action in seen:
            yield duplicate(f"spec.validationActions[{i}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        yield invalid("spec.validationActions", list(actions), detail)
    if not seen:
        yield required("spec.validationActions")
    yield from validate_static_name(new, old)


class PolicyCompiler:
    """Compiles the expressions of a policy as validation does: without variables there is no `variables`."""

    def __init__(self, spec: Document, patches: Library | None = None) -> None:
        self._params = spec.get("paramKind") is not None
        self._given = spec.get("variables") or ()
        self._composer = Composer((), params=self._params, patches=patches)

    def variables(self, at: str) -> Errors:
        """Yield what is wrong with the variables; those after one may use it."""
        for i, variable in enumerate(self._given):
            name, text = variable.get("name") or "", variable.get("expression") or ""
            if not name.strip():
                yield required(f"{at}[{i}].name", "name is not specified")
            elif not _IDENTIFIER.match(name) or name in _RESERVED:
                yield invalid(f"{at}[{i}].name", name, "must be a valid CEL identifier")
            if not text.strip():
                yield required(f"{at}[{i}].expression", "expression is not specified")
            else:
                yield from refusals(self._composer.add(name, text), f"{at}[{i}].expression")

    def expression(self, text: str, results: Sequence[Type], authorizer: bool = True) -> Expression:
        """Return a compiled expression, or why it is none."""
        if self._given:
            return self._composer.expression(text, results, authorizer)
        return Expression(text, environment(self._params, authorizer), results)

    def patch(self, text: str, results: Sequence[Type]) -> Expression:
        """Return a compiled expression that builds a patch, or why it is none."""
        return self._composer.expression(text, results, patching=True)


def validate_policy_head(
    spec: Document, old: Document | None, more: Callable[[Document, str], Errors] | None = None
) -> Errors:
    """Yield what is wrong with what policies of both kinds have in common, but for variables.

    *more* finds what else is wrong with the constraints of one of them.
    """
    yield from _one_of("spec.failurePolicy", spec.get("failurePolicy"), _FAILURE)
    params = spec.get("paramKind")
    if params is not None:
        yield from _validate_param_kind(params, "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        yield required("spec.matchConstraints")
    else:
        yield from validate_match_resources(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
        if more is not None:
            yield from more(match, "spec.matchConstraints")
    # Conditions that were accepted once stay good, as long as what they may name is the same.
    kept = old is not None and all(same(spec.get(f), old.get(f)) for f in ("paramKind", "matchConditions"))
    if not kept:
        conditions = spec.get("matchConditions") or ()
        yield from validate_match_conditions(conditions, "spec.matchConditions", params=params is not None)


def validate_binding_head(spec: Document) -> Errors:
    """Yield what is wrong with what bindings of both kinds have in common."""
    name = spec.get("policyName") or ""
    if not name:
        yield required("spec.policyName")
    else:
        yield from each_invalid("spec.policyName", name, check_dns1123_subdomain(name))
    ref = spec.get("paramRef")
    if ref is not None:
        yield from _validate_param_ref(ref, "spec.paramRef")
    match = spec.get("matchResources")
    if match is not None:
        yield from validate_match_resources(match, "spec.matchResources")


def validate_match_resources(match: Document, at: str) -> Errors:
    """Yield what is wrong with rules and selectors of a policy or binding."""
    yield from _one_of(f"{at}.matchPolicy", match.get("matchPolicy"), _MATCH)
    for field in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(match.get(field), f"{at}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(match.get(field) or ()):
            names: set[str] = set()
            for n, name in enumerate(rule.get("resourceNames") or ()):
                where = f"{at}.{field}[{i}].resourceNames[{n}]"
                yield from each_invalid(where, name, check_path_segment(name))
                if name in names:
                    yield duplicate(where, name)
                names.add(name)
            yield from validate_rule(rule, f"{at}.{field}[{i}]")


def _one_of(at: str, value: str | None, allowed: Sequence[str]) -> Errors:
    """Yield that a value is not allowed; an absent one means its default."""
    if value is not None and value not in allowed:
        yield not_supported(at, value, allowed)


def _validate_param_kind(kind: Document, at: str) -> Errors:
    text, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not text:
        yield required(f"{at}.apiVersion")
    elif text.count("/") > 1:
        yield invalid(f"{at}.apiVersion", text, f"unexpected GroupVersion string: {text}")
    else:
        group, _, version = text.rpartition("/")
        if group and (messages := check_dns1123_subdomain(group)):
            yield invalid(f"{at}.apiVersion", group, ",".join(messages))
        if not version:
            yield invalid(f"{at}.apiVersion", text, "version must be specified")
        elif messages := check_dns1035_label(version):
            yield invalid(f"{at}.apiVersion", version, ",".join(messages))
    if not name:
        yield required(f"{at}.kind")
    elif messages := check_dns1035_label(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(messages)}"
        yield invalid(f"{at}.kind", name, detail)


def _validate_param_ref(ref: Document, at: str) -> Errors:
    name, selector, action = ref.get("name") or "", ref.get("selector"), ref.get("parameterNotFoundAction")
    if name:
        yield from each_invalid(f"{at}.name", name, check_path_segment(name))
        if selector is not None:
            yield forbidden(f"{at}.name", _EITHER)
    if selector is not None:
        yield from validate_label_selector(selector, f"{at}.selector")
        if name:
            yield forbidden(f"{at}.selector", _EITHER)
    if not name and selector is None:
        yield required(at, "one of name or selector must be specified")
    if not action:
        yield required(f"{at}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        yield not_supported(f"{at}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _validate_validation(validation: Document, at: str, compiler: PolicyCompiler) -> Errors:
    text, message = validation.get("expression") or "", validation.get("message") or ""
    spoken = validation.get("messageExpression") or ""
    if not text.strip():
        yield required(f"{at}.expression", "expression is not specified")
    else:
        yield from refusals(compiler.expression(text, CONDITION), f"{at}.expression")
    if spoken and not spoken.strip():
        yield invalid(f"{at}.messageExpression", spoken, "must be non-empty if specified")
    elif spoken:
        yield from refusals(compiler.expression(spoken, MESSAGE, False), f"{at}.messageExpression")
    if message and not message.strip():
        yield invalid(f"{at}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield invalid(f"{at}.message", message, "must not contain line breaks")
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{at}.reason", reason, _REASONS)


def _validate_annotation(annotation: Document, at: str, policy: str, compiler: PolicyCompiler) -> Errors:
    key, given = annotation.get("key") or "", annotation.get("valueExpression") or ""
    if policy:
        name = f"{policy}/{key}"
        yield from each_invalid(f"{at}.key", name, check_label_key(name))
    else:
        yield invalid(f"{at}.key", key, "requires metadata.name be non-empty")
    text = given.strip()
    if not text:
        yield required(f"{at}.valueExpression", "valueExpression is not specified")
    elif len(text.encode()) > _LONGEST_ANNOTATION:
        yield required(f"{at}.valueExpression", f"must not exceed {_LONGEST_ANNOTATION} bytes in length")
    else:
        yield from refusals(compiler.expression(text, ANNOTATION), f"{at}.valueExpression", given)


def _validate_status(status: Document) -> Errors:
    warnings = (status.get("typeChecking") or {}).get("expressionWarnings") or ()
    for i, warning in enumerate(warnings):
        at = f"status.typeChecking.expressionWarnings[{i}]"
        if not warning.get("warning"):
            yield required(f"{at}.warning")
        if not (warning.get("fieldRef") or "").strip():
            yield required(f"{at}.fieldRef")
    yield from validate_conditions(status.get("conditions") or [], "status.conditions")
