"""Rights that a write needs beyond its verb: RBAC escalation, policy parameters, ResourceClaim status fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes, Reader
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.auth.authz import Authorizer, forbidden_action
from weir.apiserver.auth.cel_authorizer import Decide
from weir.apiserver.auth.rbac import Action
from weir.apiserver.auth.rule_coverage import EVERYTHING, described, quoted_list, uncovered
from weir.compat.policies.matching import REGISTRATION
from weir.errors import Forbidden, Invalid, NotFound
from weir.fields.field import FieldError, forbidden
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.values.quoting import quote

# ── RBAC privilege escalation check ──
# A user may not write or bind a role with permissions beyond their own in the same scope, without the verb `escalate`
# on the role or `bind` on the referenced role, unless in `system:masters`.


GROUP = "rbac.authorization.k8s.io"
ROLES = ("Role", "ClusterRole")
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


# ── authorization of policy parameters: who writes a policy or binding must be able to read its parameters ──
# Spec: upstream's strategies of admission policies and bindings: the writer of a policy needs `get` on every object of
# its paramKind, the writer of a binding `get` (or `list`, with a selector) on what its paramRef names. Unchanged
# references and administrators are not checked.


Document = Mapping[str, Any]


class Kinds(Protocol):
    """Where kinds are found (weir.apiserver.compat.policies.BoundPolicies)."""

    def find_kind(self, api_version: str, kind: str) -> Kind | None: ...


class ParamRights:
    """Looks at every write of a policy or binding with parameters; part of the chain, cannot be switched off."""

    name = "AdmissionPolicyParams"

    def __init__(self, reader: Reader, decide: Decide, kinds: Kinds) -> None:
        self._reader, self._decide, self._kinds = reader, decide, kinds

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        named = kind.group == REGISTRATION and "AdmissionPolicy" in kind.kind
        return named and operation in (CREATE, UPDATE) and not subresource

    def validate(self, a: Attributes) -> None:
        """Refuse parameters that the user may not read."""
        if MASTERS in a.user.groups:
            return
        spec, old = (((one or {}).get("spec") or {}) for one in (a.object, a.old))
        if a.kind.kind.endswith("Binding"):
            field, problem = "paramRef", self._binding_problem(a, spec, old)
        else:
            field, problem = "paramKind", self._policy_problem(a, spec, old)
        if problem:
            raise Invalid.from_field_errors(a.kind, a.name, [forbidden(f"spec.{field}", problem)])

    def _policy_problem(self, a: Attributes, spec: Document, old: Document) -> str:
        wanted = spec.get("paramKind")
        if wanted is None or wanted == old.get("paramKind"):
            return ""
        group, resource = self._resource(wanted)
        if self._decide(a.user, Action("get", group, resource, "", "*", "*")).allowed:
            return ""
        return (
            f'user {_shown(a.user)} must have "get" permission on all objects of the referenced paramKind '
            f"(kind={wanted.get('kind') or ''}, apiVersion={wanted.get('apiVersion') or ''})"
        )

    def _binding_problem(self, a: Attributes, spec: Document, old: Document) -> str:
        ref, name = spec.get("paramRef"), spec.get("policyName") or ""
        if ref is None or (ref, name) == (old.get("paramRef"), old.get("policyName") or ""):
            return ""
        policy = self._reader.get_now(
            by_kind(f"{REGISTRATION}/v1", a.kind.kind.removesuffix("Binding")), "", name
        )
        wanted = ((policy or {}).get("spec") or {}).get("paramKind")
        group, resource = ("*", "*") if wanted is None else self._resource(wanted)
        verb = "get" if ref.get("name") else "list"
        action = Action(verb, group, resource, "", ref.get("namespace") or "", ref.get("name") or "")
        if self._decide(a.user, action).allowed:
            return ""
        unknown = f'and user {_shown(a.user)} does not have "{verb}" permission for all groups, versions and resources'
        if policy is None:
            return f"unable to get policy {name} to determine minimum required permissions {unknown}"
        if wanted is not None and resource == "*":
            shown = f"&ParamKind{{APIVersion:{wanted.get('apiVersion')},Kind:{wanted.get('kind')},}}"
            return f"unable to resolve paramKind {shown} to determine minimum required permissions {unknown}"
        return f'user {_shown(a.user)} does not have "{verb}" permission on the object referenced by paramRef'

    def _resource(self, wanted: Document) -> tuple[str, str]:
        """Return group and resource of a paramKind; every resource when it is not served."""
        api_version = wanted.get("apiVersion") or ""
        kind = self._kinds.find_kind(api_version, wanted.get("kind") or "")
        return api_version.rpartition("/")[0], "*" if kind is None else kind.plural


def _shown(user: User) -> str:
    """Return a user as Go prints one.

    >>> _shown(User("jane", groups=("dev", "ops")))
    '&{jane  [dev ops] map[]}'
    """
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"


# ── authorization of ResourceClaim status fields ──
# `resourceclaims/status` alone allows neither `status.allocation` and `status.reservedFor` nor `status.devices`. The
# first need the request's verb on `resourceclaims/binding`, cluster-wide; the second, per changed driver, the prefixed
# verb on `resourceclaims/driver` with the driver's name: `arbitrary-node:`, or `associated-node:` for a service account
# whose token is bound to a pod on the claim's node. A denial is a 422 on the field, with the 403's text.


RESOURCE_GROUP = "resource.k8s.io"
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
            and kind.group == RESOURCE_GROUP
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
        refusal = self._refusal(user, Action(verb, RESOURCE_GROUP, "resourceclaims", "binding"))
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
            asked = (
                Action(each, RESOURCE_GROUP, "resourceclaims", "driver", namespace, driver) for each in verbs
            )
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
