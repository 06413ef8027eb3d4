"""The CEL variable `authorizer`: authorization checks for the requesting user or a service account.

Spec: cel.md 9.1. Each value has the methods that CEL calls on it (weir.compat.policies.expressions); only `check` calls
the authorizer. A denial is "no opinion", as from the authorizer itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir.apiserver.auth.authn import User
from weir.apiserver.auth.rbac import NO_OPINION, Action, Decision
from weir.compat.policies.expressions import authorization_type

if TYPE_CHECKING:
    from weir.cel.types import Type

Decide = Callable[[User, Action], Decision]


def no_opinion(user: User, action: Action) -> Decision:
    """Have no opinion on anything."""
    return NO_OPINION


@dataclass(frozen=True, slots=True)
class CelAuthorizer:
    """`authorizer`: authorization checks for one user."""

    decide: Decide
    user: User

    @property
    def cel_type(self) -> Type:
        return authorization_type("Authorizer")

    def path(self, path: str) -> PathCheck:
        return PathCheck(self, path)

    def group(self, group: str) -> GroupCheck:
        return GroupCheck(self, group)

    def serviceAccount(self, namespace: str, name: str) -> CelAuthorizer:  # noqa: N802 - CEL's name
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return CelAuthorizer(self.decide, User(f"system:serviceaccount:{namespace}:{name}", groups=groups))


@dataclass(frozen=True, slots=True)
class PathCheck:
    authorizer: CelAuthorizer
    url: str

    @property
    def cel_type(self) -> Type:
        return authorization_type("PathCheck")

    def check(self, verb: str) -> Verdict:
        return Verdict(self.authorizer.decide(self.authorizer.user, Action(verb, path=self.url)))


@dataclass(frozen=True, slots=True)
class GroupCheck:
    authorizer: CelAuthorizer
    group: str

    @property
    def cel_type(self) -> Type:
        return authorization_type("GroupCheck")

    def resource(self, resource: str) -> ResourceCheck:
        return ResourceCheck(self.authorizer, Action("", self.group, resource))


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    authorizer: CelAuthorizer
    action: Action

    @property
    def cel_type(self) -> Type:
        return authorization_type("ResourceCheck")

    def subresource(self, subresource: str) -> ResourceCheck:
        return ResourceCheck(self.authorizer, self.action._replace(subresource=subresource))

    def namespace(self, namespace: str) -> ResourceCheck:
        return ResourceCheck(self.authorizer, self.action._replace(namespace=namespace))

    def name(self, name: str) -> ResourceCheck:
        return ResourceCheck(self.authorizer, self.action._replace(name=name))

    def fieldSelector(self, selector: str) -> ResourceCheck:  # noqa: N802 - CEL's name
        return ResourceCheck(self.authorizer, self.action._replace(field_selector=selector))

    def labelSelector(self, selector: str) -> ResourceCheck:  # noqa: N802 - no authorizer here reads labels
        return self

    def check(self, verb: str) -> Verdict:
        return Verdict(self.authorizer.decide(self.authorizer.user, self.action._replace(verb=verb)))


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision

    @property
    def cel_type(self) -> Type:
        return authorization_type("Decision")

    def allowed(self) -> bool:
        return self.decision.allowed

    def reason(self) -> str:
        return self.decision.reason

    def errored(self) -> bool:
        return False

    def error(self) -> str:
        return ""
