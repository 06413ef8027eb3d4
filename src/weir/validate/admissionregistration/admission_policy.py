"""Validation of ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings.

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
from weir.compat.policies.expressions import Composer, Expression, environment
from weir.compat.policies.mutating import APPLY, ESCAPE, PATCH
from weir.compat.policies.validating import ANNOTATION, CONDITION, MESSAGE
from weir.fields import field
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import same, validate_generic_meta
from weir.validate.admissionregistration.webhook_configuration import (
    refusals,
    validate_match_conditions,
    validate_rule,
    validate_static_name,
)
from weir.validate.conditions import validate_conditions
from weir.validate.selectors import validate_label_selector
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
        yield field.required("spec.validations", _NEITHER)
        yield field.required("spec.auditAnnotations", _NEITHER)
    yield from field.each(_validate_validation, validations, "spec.validations", composer)
    if len(annotations) > _MOST_ANNOTATIONS:
        shown = [
            {"Key": one.get("key") or "", "ValueExpression": one.get("valueExpression") or ""}
            for one in annotations
        ]
        detail = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield field.invalid("spec.auditAnnotations", shown, detail)
    keys: set[str] = set()
    for i, annotation in enumerate(annotations):
        at, key = f"spec.auditAnnotations[{i}]", annotation.get("key") or ""
        yield from _validate_annotation(
            annotation, at, (new.get("metadata") or {}).get("name") or "", composer
        )
        yield from field.unique(key, keys, f"{at}.key")
    yield from validate_static_name(new, old)


def validate_validating_admission_policy_binding(
    new: Document, old: Document | None, context: Context
) -> Errors:
    """Yield what is wrong with a ValidatingAdmissionPolicyBinding."""
    yield from validate_generic_meta(new, old, context)
    spec = new.get("spec") or {}
    yield from validate_binding_head(spec)
    actions = spec.get("validationActions") or ()
    seen: set[str] = set()
    for i, action in enumerate(actions):
        if action not in _ACTIONS:
            yield field.not_supported(f"spec.validationActions[{i}]", action, _ACTIONS)
        yield from field.unique(action, seen, f"spec.validationActions[{i}]")
    if {"Deny", "Warn"} <= seen:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        yield field.invalid("spec.validationActions", list(actions), detail)
    yield from field.present("spec.validationActions", seen)
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
                yield field.required(f"{at}[{i}].name", "name is not specified")
            elif not _IDENTIFIER.match(name) or name in _RESERVED:
                yield field.invalid(f"{at}[{i}].name", name, "must be a valid CEL identifier")
            if not text.strip():
                yield field.required(f"{at}[{i}].expression", "expression is not specified")
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
    yield from field.one_of("spec.failurePolicy", spec.get("failurePolicy"), _FAILURE)
    params = spec.get("paramKind")
    if params is not None:
        yield from _validate_param_kind(params, "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        yield field.required("spec.matchConstraints")
    else:
        yield from validate_match_resources(match, "spec.matchConstraints")
        yield from field.present("spec.matchConstraints.resourceRules", match.get("resourceRules"))
        if more is not None:
            yield from more(match, "spec.matchConstraints")
    # Conditions that were accepted once stay good, as long as what they may name is the same.
    kept = old is not None and all(same(spec.get(f), old.get(f)) for f in ("paramKind", "matchConditions"))
    if not kept:
        conditions = spec.get("matchConditions") or ()
        yield from validate_match_conditions(conditions, "spec.matchConditions", params=params is not None)


def validate_binding_head(spec: Document) -> Errors:
    """Yield what is wrong with what bindings of both kinds have in common."""
    yield from field.required_well_formed(
        "spec.policyName", spec.get("policyName") or "", check_dns1123_subdomain
    )
    ref = spec.get("paramRef")
    if ref is not None:
        yield from _validate_param_ref(ref, "spec.paramRef")
    match = spec.get("matchResources")
    if match is not None:
        yield from validate_match_resources(match, "spec.matchResources")


def validate_match_resources(match: Document, at: str) -> Errors:
    """Yield what is wrong with rules and selectors of a policy or binding."""
    yield from field.one_of(f"{at}.matchPolicy", match.get("matchPolicy"), _MATCH)
    for member in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(match.get(member), f"{at}.{member}")
    for member in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(match.get(member) or ()):
            names: set[str] = set()
            for n, name in enumerate(rule.get("resourceNames") or ()):
                where = f"{at}.{member}[{i}].resourceNames[{n}]"
                yield from field.each_invalid(where, name, check_path_segment(name))
                yield from field.unique(name, names, where)
            yield from validate_rule(rule, f"{at}.{member}[{i}]")


def _validate_param_kind(kind: Document, at: str) -> Errors:
    text, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not text:
        yield field.required(f"{at}.apiVersion")
    elif text.count("/") > 1:
        yield field.invalid(f"{at}.apiVersion", text, f"unexpected GroupVersion string: {text}")
    else:
        group, _, version = text.rpartition("/")
        if group and (messages := check_dns1123_subdomain(group)):
            yield field.invalid(f"{at}.apiVersion", group, ",".join(messages))
        if not version:
            yield field.invalid(f"{at}.apiVersion", text, "version must be specified")
        elif messages := check_dns1035_label(version):
            yield field.invalid(f"{at}.apiVersion", version, ",".join(messages))
    if not name:
        yield field.required(f"{at}.kind")
    elif messages := check_dns1035_label(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(messages)}"
        yield field.invalid(f"{at}.kind", name, detail)


def _validate_param_ref(ref: Document, at: str) -> Errors:
    name, selector, action = ref.get("name") or "", ref.get("selector"), ref.get("parameterNotFoundAction")
    if name:
        yield from field.each_invalid(f"{at}.name", name, check_path_segment(name))
        if selector is not None:
            yield field.forbidden(f"{at}.name", _EITHER)
    if selector is not None:
        yield from validate_label_selector(selector, f"{at}.selector")
        if name:
            yield field.forbidden(f"{at}.selector", _EITHER)
    if not name and selector is None:
        yield field.required(at, "one of name or selector must be specified")
    yield from field.required_one_of(f"{at}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _validate_validation(validation: Document, at: str, compiler: PolicyCompiler) -> Errors:
    text, message = validation.get("expression") or "", validation.get("message") or ""
    spoken = validation.get("messageExpression") or ""
    if not text.strip():
        yield field.required(f"{at}.expression", "expression is not specified")
    else:
        yield from refusals(compiler.expression(text, CONDITION), f"{at}.expression")
    if spoken and not spoken.strip():
        yield field.invalid(f"{at}.messageExpression", spoken, "must be non-empty if specified")
    elif spoken:
        yield from refusals(compiler.expression(spoken, MESSAGE, False), f"{at}.messageExpression")
    if message and not message.strip():
        yield field.invalid(f"{at}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield field.invalid(f"{at}.message", message, "must not contain line breaks")
    yield from field.one_of(f"{at}.reason", validation.get("reason"), _REASONS)


def _validate_annotation(annotation: Document, at: str, policy: str, compiler: PolicyCompiler) -> Errors:
    key, given = annotation.get("key") or "", annotation.get("valueExpression") or ""
    if policy:
        name = f"{policy}/{key}"
        yield from field.each_invalid(f"{at}.key", name, check_label_key(name))
    else:
        yield field.invalid(f"{at}.key", key, "requires metadata.name be non-empty")
    text = given.strip()
    if not text:
        yield field.required(f"{at}.valueExpression", "valueExpression is not specified")
    elif len(text.encode()) > _LONGEST_ANNOTATION:
        yield field.required(
            f"{at}.valueExpression", f"must not exceed {_LONGEST_ANNOTATION} bytes in length"
        )
    else:
        yield from refusals(compiler.expression(text, ANNOTATION), f"{at}.valueExpression", given)


def _validate_status(status: Document) -> Errors:
    warnings = (status.get("typeChecking") or {}).get("expressionWarnings") or ()
    for i, warning in enumerate(warnings):
        at = f"status.typeChecking.expressionWarnings[{i}]"
        yield from field.present(f"{at}.warning", warning.get("warning"))
        if not (warning.get("fieldRef") or "").strip():
            yield field.required(f"{at}.fieldRef")
    yield from validate_conditions(status.get("conditions") or [], "status.conditions")


# ── MutatingAdmissionPolicy ───────────────────────────────────────────────────────────────────────────


_MUTABLE_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_REINVOCATION: Final = ("IfNeeded", "Never")
#: Patch type → the field that holds it, that of the other type, and what its expression makes.
_PATCHES: Final = {
    "ApplyConfiguration": ("applyConfiguration", "jsonPatch", APPLY),
    "JSONPatch": ("jsonPatch", "applyConfiguration", PATCH),
}


def validate_mutating_admission_policy(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a MutatingAdmissionPolicy."""
    yield from validate_generic_meta(new, old, context)
    spec = new.get("spec") or {}
    yield from validate_policy_head(spec, (old or {}).get("spec"), _operations)
    compiler = PolicyCompiler(spec, ESCAPE)
    yield from compiler.variables("spec.variables")
    mutations = spec.get("mutations") or ()
    yield from field.present("spec.mutations", mutations, "mutations must contain at least one item")
    yield from field.each(_validate_mutation, mutations, "spec.mutations", compiler)
    yield from field.required_one_of(
        "spec.reinvocationPolicy", spec.get("reinvocationPolicy") or "", _REINVOCATION
    )
    yield from validate_static_name(new, old)


def validate_mutating_admission_policy_binding(
    new: Document, old: Document | None, context: Context
) -> Errors:
    """Yield what is wrong with a MutatingAdmissionPolicyBinding."""
    yield from validate_generic_meta(new, old, context)
    spec = new.get("spec") or {}
    yield from validate_binding_head(spec)
    match = spec.get("matchResources")
    if match is not None:
        yield from _operations(match, "spec.matchResources")
    yield from validate_static_name(new, old)


def _operations(match: Document, at: str) -> Errors:
    """Yield operations without an object to mutate, such as DELETE."""
    for rule in match.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTABLE_OPERATIONS:
                yield field.not_supported(f"{at}.resourceRules.operations", operation, _MUTABLE_OPERATIONS)


def _validate_mutation(mutation: Document, at: str, compiler: PolicyCompiler) -> Errors:
    patch_type = mutation.get("patchType") or ""
    if not patch_type:
        yield field.required(f"{at}.patchType")
        return
    if patch_type not in _PATCHES:
        yield field.not_supported(f"{at}.patchType", patch_type, tuple(_PATCHES))
        return
    own, other, results = _PATCHES[patch_type]
    if mutation.get(own) is None:
        yield field.required(f"{at}.{own}", f"must be specified when patchType is {patch_type}")
    else:
        text = (mutation[own].get("expression") or "").strip()
        if not text:
            yield field.required(f"{at}.{own}.expression")
        else:
            yield from refusals(compiler.patch(text, results), f"{at}.{own}.expression")
    if mutation.get(other) is not None:
        detail = f"must not be specified when patchType is {patch_type}"
        yield field.invalid(f"{at}.{other}", f"{{{other}}}", detail)
