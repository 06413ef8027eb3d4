"""Validation of MutatingAdmissionPolicy and its binding.

Spec: upstream's rules of admissionregistration.k8s.io/v1 MutatingAdmissionPolicy.
"""

from __future__ import annotations

from typing import Final

from weir.policies.mutating import APPLY, ESCAPE, PATCH
from weir.validate.admissionregistration.match_conditions import refusals
from weir.validate.admissionregistration.validating_admission_policy import (
    PolicyCompiler,
    validate_binding_head,
    validate_policy_head,
)
from weir.validate.admissionregistration.webhook_configuration import validate_static_name
from weir.validate.field import Context, Document, Errors, invalid, not_supported, required
from weir.validate.meta import validate_generic_meta

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
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
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for i, mutation in enumerate(mutations):
        yield from _validate_mutation(mutation, f"spec.mutations[{i}]", compiler)
    policy = spec.get("reinvocationPolicy") or ""
    if not policy:
        yield required("spec.reinvocationPolicy")
    elif policy not in _REINVOCATION:
        yield not_supported("spec.reinvocationPolicy", policy, _REINVOCATION)
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
            if operation not in _OPERATIONS:
                yield not_supported(f"{at}.resourceRules.operations", operation, _OPERATIONS)


def _validate_mutation(mutation: Document, at: str, compiler: PolicyCompiler) -> Errors:
    patch_type = mutation.get("patchType") or ""
    if not patch_type:
        yield required(f"{at}.patchType")
        return
    if patch_type not in _PATCHES:
        yield not_supported(f"{at}.patchType", patch_type, tuple(_PATCHES))
        return
    own, other, results = _PATCHES[patch_type]
    if mutation.get(own) is None:
        yield required(f"{at}.{own}", f"must be specified when patchType is {patch_type}")
    else:
        text = (mutation[own].get("expression") or "").strip()
        if not text:
            yield required(f"{at}.{own}.expression")
        else:
            yield from refusals(compiler.patch(text, results), f"{at}.{own}.expression")
    if mutation.get(other) is not None:
        detail = f"must not be specified when patchType is {patch_type}"
        yield invalid(f"{at}.{other}", f"{{{other}}}", detail)
