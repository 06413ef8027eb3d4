"""ValidatingAdmissionPolicy admission: runs before validating webhooks.

Spec: admissionregistration.k8s.io/v1. Without policies a write costs two version comparisons; with policies about
other kinds, a dict lookup. The CEL packages are imported with the first binding.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from weir.apiserver.admission.attributes import Attributes, Reader
from weir.apiserver.admission.bound_policies import BoundPolicies
from weir.apiserver.admission.expression_values import expression_values, namespace_object
from weir.apiserver.admission.versions import InVersion
from weir.apiserver.auth.cel_authorizer import Decide
from weir.errors import Forbidden
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.policies.dispatch import CODES, judge
from weir.policies.matching import REGISTRATION, policies_apply
from weir.policies.validating import ValidatingPolicy

if TYPE_CHECKING:
    from weir.policies.dispatch import Bound, Refusal
    from weir.policies.validating import ValidatingPolicy

POLICY = by_kind(f"{REGISTRATION}/v1", "ValidatingAdmissionPolicy")
BINDING = by_kind(f"{REGISTRATION}/v1", "ValidatingAdmissionPolicyBinding")


def _compiled(document: Mapping[str, Any]) -> ValidatingPolicy:
    return ValidatingPolicy(document)


class ValidatingPolicies:
    """Asks the policies that are bound."""

    name = "ValidatingAdmissionPolicy"

    def __init__(self, reader: Reader, decide: Decide | None = None) -> None:
        """*decide* answers what expressions ask about rights."""
        self._reader, self._decide = reader, decide
        self.bound = BoundPolicies(reader, POLICY, BINDING, _compiled)

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return policies_apply(kind)

    def validate(self, a: Attributes) -> None:
        """Refuse what a policy refuses, and pass on its warnings and annotations."""
        found = self.bound.about(a)
        if found:
            self._ask(found, a)

    def _ask(self, found: tuple[Bound[ValidatingPolicy], ...], a: Attributes) -> None:
        @cache
        def values(kind: Kind) -> Mapping[str, Any]:
            return expression_values(a, self._decide, kind, namespace_object(a, self._reader))

        outcome = judge(found, a, InVersion(self._reader, a), values)
        a.warnings.extend(outcome.warnings)
        a.annotate(outcome.audit_annotations())
        if outcome.refusals:
            raise refused(a, outcome.refusals[0])


def refused(a: Attributes, refusal: Refusal) -> Forbidden:
    """Return the error for the client: worded as forbidden, with the reason and code that the policy names."""
    text = refusal.text()
    error = a.forbidden(text)
    error.reason = refusal.reason or "Invalid"
    error.code = CODES.get(error.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": text}]}
    return error
