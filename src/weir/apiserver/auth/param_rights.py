"""Authorization of policy parameters: who writes a policy or binding must be able to read its parameters.

Spec: upstream's strategies of admission policies and bindings: the writer of a policy needs `get` on every object of
its paramKind, the writer of a binding `get` (or `list`, with a selector) on what its paramRef names. Unchanged
references and administrators are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes, Reader
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.auth.cel_authorizer import Decide
from weir.apiserver.auth.rbac import Action
from weir.errors import Invalid
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.policies.matching import REGISTRATION
from weir.validate.field import forbidden

Document = Mapping[str, Any]


class Kinds(Protocol):
    """Where kinds are found (weir.apiserver.admission.bound_policies.BoundPolicies)."""

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
