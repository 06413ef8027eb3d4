"""Type-checks ValidatingAdmissionPolicies and writes the result to their status, once per generation.

Spec: upstream's validatingadmissionpolicy-status controller. Definitions are read at check time: one that is added or
changed later is considered with the policy's next generation. The checks are in weir.compat.policies.type_checking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.client.api import APPLY_PATCH
from weir.client.cache import ObjectKey
from weir.compat.policies.type_checking import expression_warnings, may_name_custom_kinds
from weir.controllers.runtime.controller import Action, ActionContext, Controller, Patch, Steps
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.errors import NotFound
from weir.objects.kind import Kind
from weir.objects.kinds import CUSTOM_RESOURCE_DEFINITIONS, by_kind

POLICIES: Final = by_kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")


class PolicyStatus(Controller):
    """The controller that type-checks policies."""

    name = "validatingadmissionpolicy-status"
    kinds: Sequence[Kind] = (POLICIES, CUSTOM_RESOURCE_DEFINITIONS)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the policy that was written."""
        if kind is POLICIES and new is not None:
            yield key_of(new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the status of a policy whose generation has not been checked."""
        policy = listers.get(POLICIES, key.name)
        if policy is None:
            return
        generation = policy["metadata"].get("generation") or 0
        if generation <= ((policy.get("status") or {}).get("observedGeneration") or 0):
            return
        if may_name_custom_kinds(policy["spec"]):
            yield CheckWithDefinitions(policy)
        else:
            yield _status(
                policy,
                listers.all(CUSTOM_RESOURCE_DEFINITIONS)
                if listers.serves(CUSTOM_RESOURCE_DEFINITIONS)
                else (),
            )


@dataclass(frozen=True)
class CheckWithDefinitions(Steps):
    """Read the CustomResourceDefinitions live (the informer may lag), then write the status."""

    policy: Mapping[str, Any]

    async def carry_out(self, context: ActionContext) -> None:
        try:
            listed = await context.client.list(CUSTOM_RESOURCE_DEFINITIONS)
            patch = _status(self.policy, listed.documents())
            await context.client.patch(
                patch.kind,
                patch.name,
                dict(patch.patch),
                patch_type=patch.patch_type,
                subresource=patch.subresource,
                field_manager=patch.field_manager,
                force=patch.force,
            )
        except NotFound:
            return  # the policy is gone


def _status(policy: Mapping[str, Any], definitions: Iterable[Mapping[str, Any]] = ()) -> Patch:
    warnings = expression_warnings(policy, definitions)
    document = {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": policy["metadata"]["name"]},
        "status": {
            "observedGeneration": policy["metadata"].get("generation") or 0,
            "typeChecking": {"expressionWarnings": warnings} if warnings else {},
        },
    }
    name = policy["metadata"]["name"]
    manager = PolicyStatus.name
    return Patch(POLICIES, name, "", document, APPLY_PATCH, "status", field_manager=manager, force=True)
