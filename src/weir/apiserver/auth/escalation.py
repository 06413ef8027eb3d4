"""RBAC privilege escalation check.

A user may not write or bind a role with permissions beyond their own in the same scope, without the verb `escalate`
on the role or `bind` on the referenced role, unless in `system:masters`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.auth.authn import MASTERS
from weir.apiserver.auth.authz import Authorizer
from weir.apiserver.auth.rbac import Action
from weir.apiserver.auth.rule_coverage import EVERYTHING, described, quoted_list, uncovered
from weir.errors import Forbidden, NotFound
from weir.objects.kind import Kind
from weir.values.quoting import quote

GROUP = "rbac.authorization.k8s.io"
ROLES = ("Role", "ClusterRole")
BINDINGS = ("RoleBinding", "ClusterRoleBinding")
AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"


class EscalationCheck:
    """Looks at every write of a role or binding; part of the chain, cannot be switched off."""

    name = "RBACEscalation"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation in (CREATE, UPDATE) and kind.group == GROUP and not subresource

    def validate(self, a: Attributes) -> None:
        if MASTERS in a.user.groups or _only_releases(a):
            return
        if a.kind.kind in ROLES:
            self._check_role(a)
        else:
            self._check_binding(a)

    def _check_role(self, a: Attributes) -> None:
        name = a.name if a.operation == UPDATE else ""  # none yet on create
        escalate = Action("escalate", GROUP, a.kind.plural, "", a.namespace, name)
        if self._authorizer.decide(a.user, escalate).allowed:
            return
        assert a.object is not None
        self._confirm(a, a.object.get("rules") or ())
        if _aggregates(a.object) or _aggregates(a.old):
            held = self._authorizer.policy().rules_for(a.user, a.namespace)
            if uncovered(held, EVERYTHING):
                raise self._refusal(a, AGGREGATION)

    def _check_binding(self, a: Attributes) -> None:
        assert a.object is not None
        role_ref = a.object.get("roleRef") or {}
        kind, name = role_ref.get("kind", ""), role_ref.get("name", "")
        plural = {"ClusterRole": "clusterroles", "Role": "roles"}.get(kind)
        if plural is None:
            return  # validation refuses it
        bind = Action("bind", role_ref.get("apiGroup", ""), plural, "", a.namespace, name)
        if self._authorizer.decide(a.user, bind).allowed:
            return
        rules = self._authorizer.policy().role_rules(role_ref, a.namespace)
        if rules is None:
            raise NotFound.object(a.kind, name)  # upstream names the binding's resource, not the role's
        self._confirm(a, rules)

    def _confirm(self, a: Attributes, rules: Iterable[Mapping[str, Any]]) -> None:
        missing = uncovered(self._authorizer.policy().rules_for(a.user, a.namespace), rules)
        if missing:
            raise self._refusal(
                a,
                f"user {quote(a.user.name)} (groups={quoted_list(a.user.groups)}) is attempting to grant RBAC "
                f"permissions not currently held:\n{described(missing)}",
            )

    @staticmethod
    def _refusal(a: Attributes, text: str) -> Forbidden:
        return a.forbidden(text)


def _aggregates(role: Mapping[str, Any] | None) -> bool:
    return bool(((role or {}).get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_releases(a: Attributes) -> bool:
    """Return whether the write changes nothing but what garbage collection needs changed."""
    if a.operation != UPDATE or a.object is None or a.old is None:
        return False

    def rest(document: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {
            name: value
            for name, value in (document.get("metadata") or {}).items()
            if name not in ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
        }
        return {**document, "metadata": metadata}

    return rest(a.object) == rest(a.old)
