"""What does type checking say of each ValidatingAdmissionPolicy? Its status, once for every generation.

Spec: upstream's validatingadmissionpolicy-status controller.
Not here: the checks (weir.policies.type_checking).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from weir.client.api import APPLY_PATCH
from weir.controllers.runtime.actions import Action, Patch
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.listers import Listers
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind

POLICIES: Final = by_kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")


class PolicyKey(msgspec.Struct, frozen=True):
    """One policy."""

    name: str


class PolicyStatus(Controller):
    """The controller that type-checks policies."""

    name = "validatingadmissionpolicy-status"
    kinds: Sequence[Kind] = (POLICIES,)

    def __init__(self, gates: Gates) -> None:
        pass

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[PolicyKey]:
        """Yield the policy that was written."""
        if kind is POLICIES and new is not None:
            yield PolicyKey(new["metadata"]["name"])

    def reconcile(self, key: PolicyKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the status of a policy whose spec has not been looked at."""
        policy = listers.get(POLICIES, key.name)
        if policy is None:
            return
        generation = policy["metadata"].get("generation") or 0
        if generation <= ((policy.get("status") or {}).get("observedGeneration") or 0):
            return
        from weir.policies.type_checking import expression_warnings  # CEL is loaded by the first policy

        warnings = expression_warnings(policy)
        checking = {"expressionWarnings": warnings} if warnings else {}
        document = {
            "apiVersion": POLICIES.api_version,
            "kind": POLICIES.kind,
            "metadata": {"name": key.name},
            "status": {"observedGeneration": generation, "typeChecking": checking},
        }
        yield Patch(
            POLICIES, key.name, "", document, APPLY_PATCH, "status", field_manager=self.name, force=True
        )
