"""Authorization of creates through patch or update.

An apply or PUT of a missing object also needs the verb `create` on that name.
"""

from __future__ import annotations

from weir.apiserver.admission.attributes import CREATE, Attributes
from weir.apiserver.auth.authz import Authorizer, forbidden_action
from weir.apiserver.auth.rbac import Action
from weir.objects.kind import Kind

WRITES = ("PatchOptions", "UpdateOptions")


class CreateRights:
    """Looks at every create; part of the chain, cannot be switched off."""

    name = "CreateRights"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        """Return whether an object is created."""
        return operation == CREATE and not subresource

    def validate(self, a: Attributes) -> None:
        """Raise the 403 when the create came as a patch or update and the right to create is missing."""
        if a.options.get("kind") not in WRITES:
            return
        action = Action("create", a.kind.group, a.kind.plural, "", a.namespace, a.name)
        decision = self._authorizer.decide(a.user, action)
        if not decision.allowed:
            raise forbidden_action(a.user, action, decision.reason)
