"""May this user give these rights away?

Nobody may write a role with more rights than they hold in the same place, nor bind one, except who has the verb
`escalate` on the role, `bind` on the role referred to, or is in `system:masters`. Otherwise "may edit roles"
would mean "may do everything".

`uncovered` breaks rules into single (verb, group, resource, name) questions and asks each of the rules held.
It compares what is written: a rule that allows the same in other words may not be seen to cover.
Not here: what a rule allows (weir.apiserver.rbac).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.authn import MASTERS
from weir.apiserver.rbac import ALL, Action, Rule, url_covers
from weir.errors import Forbidden, NotFound
from weir.objects.kinds import Kind
from weir.values.quoting import quote

if TYPE_CHECKING:
    from weir.apiserver.authz import Authorizer

GROUP = "rbac.authorization.k8s.io"
ROLES = ("Role", "ClusterRole")
BINDINGS = ("RoleBinding", "ClusterRoleBinding")
EVERYTHING: Sequence[Mapping[str, Any]] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"


def broken_down(rule: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield *rule* as rules of one verb and one resource (and name) or one URL."""
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in rule.get("verbs") or ():
                single = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames")
                if not names:
                    yield single
                for name in names or ():
                    yield {**single, "resourceNames": [name]}
    for url in rule.get("nonResourceURLs") or ():
        for verb in rule.get("verbs") or ():
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def uncovered(held: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the single rights of *wanted* that no rule of *held* covers.

    >>> uncovered([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}],
    ...           [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "secrets"]}])
    [{'apiGroups': [''], 'resources': ['secrets'], 'verbs': ['get']}]
    """
    rules = [Rule.of(rule) for rule in held]
    return [
        single
        for rule in wanted
        for single in broken_down(rule)
        if not any(_covers(own, single) for own in rules)
    ]


def _covers(own: Rule, single: Mapping[str, Any]) -> bool:
    if ALL not in own.verbs and single["verbs"][0] not in own.verbs:
        return False
    if "nonResourceURLs" in single:
        return any(url_covers(url, single["nonResourceURLs"][0]) for url in own.urls)
    if ALL not in own.groups and single["apiGroups"][0] not in own.groups:
        return False
    resource = single["resources"][0]
    if ALL not in own.resources and resource not in own.resources:
        _, slash, subresource = resource.partition("/")
        if not slash or f"*/{subresource}" not in own.resources:
            return False
    names = single.get("resourceNames")
    return not own.names or (names is not None and names[0] in own.names)


def described(rights: Iterable[Mapping[str, Any]]) -> str:
    """Return rights as a refusal lists them: one line each, verbs of the same object gathered."""
    gathered: dict[tuple[str, ...], dict[str, Any]] = {}
    lines: list[str] = []
    for right in rights:
        if "nonResourceURLs" in right:
            lines.append(_line(right))
            continue
        key = (right["apiGroups"][0], right["resources"][0], *right.get("resourceNames", ()))
        known = gathered.setdefault(key, {**right, "verbs": []})
        known["verbs"] = [*known["verbs"], *right["verbs"]]
    lines += [_line(right) for right in gathered.values()]
    return "\n".join(sorted(set(lines)))


def _line(right: Mapping[str, Any]) -> str:
    parts = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    )
    shown = [f"{called}:{_list(right[member])}" for called, member in parts if right.get(member)]
    return "{" + ", ".join(shown) + "}"


def _list(values: Iterable[str]) -> str:
    return "[" + " ".join(quote(value) for value in values) + "]"


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
        name = a.name if a.operation == UPDATE else ""  # a create is asked about before it has a name
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
                f"user {quote(a.user.name)} (groups={_list(a.user.groups)}) is attempting to grant RBAC "
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
