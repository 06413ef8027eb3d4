"""Authorization of ResourceClaim status fields.

`resourceclaims/status` alone allows neither `status.allocation` and `status.reservedFor` nor `status.devices`. The
first need the request's verb on `resourceclaims/binding`, cluster-wide; the second, per changed driver, the prefixed
verb on `resourceclaims/driver` with the driver's name: `arbitrary-node:`, or `associated-node:` for a service account
whose token is bound to a pod on the claim's node. A denial is a 422 on the field, with the 403's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weir.apiserver.admission.attributes import UPDATE, Attributes
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.authz import Authorizer, forbidden_action
from weir.apiserver.auth.rbac import Action
from weir.errors import Invalid
from weir.objects.kind import Kind
from weir.validate.field import FieldError, forbidden

Document = Mapping[str, Any]
GROUP = "resource.k8s.io"
NODE_EXTRA = "authentication.kubernetes.io/node-name"


class ClaimStatusRights:
    """Looks at every write of a claim's status; part of the chain, cannot be switched off."""

    name = "ResourceClaimStatusRights"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        """Return whether it is a write of a claim's status."""
        return (
            operation == UPDATE
            and subresource == "status"
            and kind.kind == "ResourceClaim"
            and kind.group == GROUP
        )

    def validate(self, a: Attributes) -> None:
        """Raise the 422 when rights are missing."""
        verb = "patch" if a.options.get("kind") == "PatchOptions" else "update"
        new, old = ((document or {}).get("status") or {} for document in (a.object, a.old))
        problems = [*self._binding(a.user, verb, new, old)]
        if new.get("allocation"):  # the status of devices goes with them
            problems += self._drivers(a.user, verb, a.namespace, new, old)
        if problems:
            raise Invalid.from_field_errors(a.kind, a.name, problems)

    def _binding(self, user: User, verb: str, new: Document, old: Document) -> Iterator[FieldError]:
        if all((new.get(part) or None) == (old.get(part) or None) for part in ("allocation", "reservedFor")):
            return
        refusal = self._refusal(user, Action(verb, GROUP, "resourceclaims", "binding"))
        if refusal:
            text = (
                "changing status.allocation or status.reservedFor requires "
                f'resource="resourceclaims/binding", verb="{verb}" permission: {refusal}'
            )
            yield forbidden("status.allocation", text)

    def _drivers(
        self, user: User, verb: str, namespace: str, new: Document, old: Document
    ) -> Iterator[FieldError]:
        verbs = [f"arbitrary-node:{verb}"]
        if on_node(user, node_of(new.get("allocation") or {})):
            verbs.insert(0, f"associated-node:{verb}")
        for driver in changed_drivers(new, old):
            asked = (Action(each, GROUP, "resourceclaims", "driver", namespace, driver) for each in verbs)
            refusals = [self._refusal(user, action) for action in asked]
            if all(refusals):
                text = (
                    'changing status.devices requires resource="resourceclaims/driver", '
                    f'verb="[{" ".join(verbs)}]" permission: {refusals[0]}'
                )
                yield forbidden("status.devices", text)

    def _refusal(self, user: User, action: Action) -> str:
        """Return how the refusal of *action* reads; "" when it is allowed."""
        decision = self._authorizer.decide(user, action)
        return "" if decision.allowed else forbidden_action(user, action, decision.reason).message


def changed_drivers(new: Document, old: Document) -> list[str]:
    """Return the drivers of which entries in `devices` came, went or changed, sorted.

    >>> changed_drivers({"devices": [{"driver": "a"}, {"driver": "c"}]}, {"devices": [{"driver": "c"}]})
    ['a']
    """
    before, after = (_by_device(status) for status in (old, new))
    return sorted({key[0] for key in {*before, *after} if before.get(key) != after.get(key)})


def _by_device(status: Document) -> dict[tuple[str, ...], Document]:
    return {
        tuple(device.get(part) or "" for part in ("driver", "pool", "device", "shareID")): device
        for device in status.get("devices") or ()
    }


def node_of(allocation: Document) -> str:
    """Return the one node an allocation is for, "" when it is not for exactly one.

    >>> field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    >>> node_of({"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}})
    'n1'
    """
    terms: list[Document] = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    named: list[Document] = terms[0].get("matchFields") or []
    if len(named) != 1 or (named[0].get("key"), named[0].get("operator")) != ("metadata.name", "In"):
        return ""
    values: list[str] = named[0].get("values") or []
    return str(values[0]) if len(values) == 1 else ""


def on_node(user: User, node: str) -> bool:
    """Return whether *user* is a service account whose token says it runs on *node*."""
    is_account = user.name.startswith("system:serviceaccount:") and user.name.count(":") == 3
    return bool(node) and is_account and tuple(user.extra.get(NODE_EXTRA) or ()) == (node,)
