"""Authorization: the authorizer modes in order, and the Forbidden message.

Group `system:masters` may do everything. Then the configured modes are tried in order and the first that allows wins:
`Node` for kubelets, `RBAC`. `AlwaysAllow` is for tests. RBAC's policy is rebuilt when one of its objects changed;
decisions are cached.

Authorization of creates through patch or update. An apply or PUT of a missing object also needs the verb `create` on
that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from weir.apiserver.admission.attributes import CREATE, Attributes, Reader
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.auth.node_authorizer import NODES_GROUP, NodeAuthorizer
from weir.apiserver.auth.rbac import NO_OPINION, Action, Compiled, Decision, Policy
from weir.apiserver.auth.rule_coverage import EVERYTHING
from weir.apiserver.bootstrap.policy import node_rules
from weir.apiserver.transport.paths import RequestInfo
from weir.errors import Forbidden
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.selectors import fields
from weir.values.quoting import quote

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLE = by_kind(f"{RBAC}/v1", "ClusterRole")
ROLE = by_kind(f"{RBAC}/v1", "Role")
CLUSTER_ROLE_BINDING = by_kind(f"{RBAC}/v1", "ClusterRoleBinding")
ROLE_BINDING = by_kind(f"{RBAC}/v1", "RoleBinding")
_POLICY = (CLUSTER_ROLE, ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING)
MODES = ("AlwaysAllow", "AlwaysDeny", "Node", "RBAC")
_ALLOWED = Decision(True)


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


class ModeError(ValueError):
    """An unknown authorization mode."""


class Authorizer:
    """Decides by the configured modes."""

    def __init__(self, reader: Reader, modes: Sequence[str] = ("Node", "RBAC")) -> None:
        unknown = [mode for mode in modes if mode not in MODES]
        if unknown or not modes:
            raise ModeError(f"authorization modes are {', '.join(MODES)}; got {', '.join(unknown) or 'none'}")
        self._reader = reader
        self._policy: tuple[tuple[int, ...], Policy] | None = None
        self._compiled = Compiled()
        nodes = NodeAuthorizer(reader, node_rules())
        known: Mapping[str, Callable[[User, Action], Decision]] = {
            "AlwaysAllow": lambda user, action: _ALLOWED,
            "AlwaysDeny": lambda user, action: Decision(False, "Everything is forbidden."),
            "Node": lambda user, action: (
                nodes.authorize(user, action) if NODES_GROUP in user.groups else NO_OPINION
            ),
            "RBAC": lambda user, action: self.policy().authorize(user, action),
        }
        self._asked = tuple((mode.lower(), known[mode]) for mode in modes)
        self.uses_rbac = "RBAC" in modes
        self._allows_all = "AlwaysAllow" in modes

    def authorize(self, user: User, info: RequestInfo, field_selector: str = "") -> Decision:
        """Return whether *user* may make the request; *field_selector* is the query parameter of that name."""
        if self._allows_all or MASTERS in user.groups:
            return _ALLOWED
        return self.decide(user, action_of(info, field_selector))

    def decide(self, user: User, action: Action) -> Decision:
        """Return whether *user* may do *action*; a refusal gathers what every mode had to say."""
        if self._allows_all or MASTERS in user.groups:
            return _ALLOWED
        reasons = []
        for called, ask in self._asked:
            decision = ask(user, action)
            if decision.allowed:
                return decision
            if decision.reason:
                reasons.append(f"{called}: {decision.reason}")
        return Decision(False, "\n".join(reasons)) if reasons else NO_OPINION

    def policy(self) -> Policy:
        """Return RBAC's policy as of now."""
        read, version = self._reader.list_now, self._reader.version
        versions = tuple(map(version, _POLICY))
        if self._policy is None or self._policy[0] != versions:
            policy = Policy.build(
                read(CLUSTER_ROLE, None),
                read(ROLE, None),
                read(CLUSTER_ROLE_BINDING, None),
                read(ROLE_BINDING, None),
                self._compiled,
            )
            self._policy = (versions, policy)
        return self._policy[1]

    def rules_for(
        self, user: User, namespace: str
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]], bool]:
        """Return (resource rules, path rules, incomplete) as SelfSubjectRulesReview prints them."""
        wire = self.policy().rules_for(user, namespace) if self.uses_rbac else []
        if self._allows_all or MASTERS in user.groups:
            wire = [*EVERYTHING, *(rule for rule in wire if rule not in EVERYTHING)]
        resource = [
            {
                part: list(rule[part])
                for part in ("verbs", "apiGroups", "resources", "resourceNames")
                if rule.get(part)
            }
            for rule in wire
            if rule.get("resources")
        ]
        plain = [
            {"verbs": list(rule["verbs"]), "nonResourceURLs": list(rule["nonResourceURLs"])}
            for rule in wire
            if rule.get("nonResourceURLs")
        ]
        return resource, plain, NODES_GROUP in user.groups


_BY_SELECTOR: Final = frozenset({"list", "watch", "deletecollection"})


def action_of(info: RequestInfo, field_selector: str = "") -> Action:
    """Return a request as an action; a list or watch of one name by field selector is about that name."""
    if not info.is_resource:
        return Action(info.verb, path=info.path)
    name = info.name
    if "metadata.name" in field_selector and not name and info.verb in _BY_SELECTOR:
        try:
            name = fields.parse(field_selector).value_of("metadata.name") or ""
        except fields.SelectorError:
            name = ""  # the verb itself reports what is wrong with it
    return Action(
        info.verb,
        info.api_group,
        info.resource,
        info.subresource,
        info.namespace,
        name,
        field_selector=field_selector,
    )


def forbidden(user: User, info: RequestInfo, decision: Decision, field_selector: str = "") -> Forbidden:
    """Return the 403 for a refused request."""
    return forbidden_action(user, action_of(info, field_selector), decision.reason)


def forbidden_action(user: User, action: Action, reason: str = "") -> Forbidden:
    """Return the 403 for a refused action, in the words kubectl users know."""
    if not action.resource:
        text = f"User {quote(user.name)} cannot {action.verb} path {quote(action.path)}"
        return Forbidden(f"forbidden: {text}" + (f": {reason}" if reason else ""), details={})
    scope = f"in the namespace {quote(action.namespace)}" if action.namespace else "at the cluster scope"
    text = (
        f"User {quote(user.name)} cannot {action.verb} resource {quote(action.full_resource)} "
        f"in API group {quote(action.group)} {scope}"
    )
    shown = f"{action.resource}.{action.group}" if action.group else action.resource
    named = f"{shown} {quote(action.name)}" if action.name else shown
    details: dict[str, Any] = {"name": action.name} if action.name else {}
    if action.group:
        details["group"] = action.group
    details["kind"] = action.resource
    return Forbidden(f"{named} is forbidden: {text}" + (f": {reason}" if reason else ""), details=details)
