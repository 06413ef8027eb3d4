"""RBAC authorizer: decisions from roles and bindings.

Spec: decision 12; rbac.authorization.k8s.io/v1.
A `Policy` is an immutable snapshot of roles and bindings. A ClusterRoleBinding grants everywhere, a RoleBinding in
its namespace only, also for a ClusterRole. `*` as resource covers subresources too, `*/scale` covers that subresource
of everything, `pods` does not cover `pods/log`; a rule with resource names never allows a request without a name
(create, list); `/healthz/*` is a prefix match. Aggregated ClusterRoles are resolved here, so that they work without
the controller that writes their rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec

from weir.apiserver.auth.authn import User
from weir.caches import BoundedDict
from weir.selectors import labels

Document = Mapping[str, Any]
ALL = "*"
CACHED_DECISIONS = 20_000
Made = TypeVar("Made")


class Action(NamedTuple):
    """A requested action: a verb on a resource, or (resource empty) on a path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""

    @property
    def full_resource(self) -> str:
        """The resource with its subresource, as roles write it.

        >>> Action("get", resource="pods", subresource="log").full_resource
        'pods/log'
        """
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer and why. `reason` is printed after a refusal, and in reviews after a permission."""

    allowed: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.allowed


NO_OPINION = Decision(False)


@dataclass(frozen=True, slots=True)
class Rule:
    """One PolicyRule, compiled."""

    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, wire: Document) -> Rule:
        return cls(
            frozenset(wire.get("verbs") or ()),
            frozenset(wire.get("apiGroups") or ()),
            frozenset(wire.get("resources") or ()),
            frozenset(wire.get("resourceNames") or ()),
            tuple(wire.get("nonResourceURLs") or ()),
        )

    def allows(self, action: Action) -> bool:
        """Return whether this rule alone allows *action*.

        >>> Rule.of({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}).allows(
        ...     Action("get", resource="pods", subresource="log"))
        False
        """
        if action.verb not in self.verbs and ALL not in self.verbs:
            return False
        if not action.resource:
            return any(url_covers(url, action.path) for url in self.urls)
        if action.group not in self.groups and ALL not in self.groups:
            return False
        return self._names_resource(action) and (not self.names or action.name in self.names)

    def _names_resource(self, action: Action) -> bool:
        resources = self.resources
        if ALL in resources or action.full_resource in resources:
            return True
        return bool(action.subresource) and f"*/{action.subresource}" in resources


def url_covers(pattern: str, path: str) -> bool:
    """Return whether a rule's URL stands for *path*.

    >>> url_covers("/healthz/*", "/healthz/ping"), url_covers("/healthz", "/healthz/ping")
    (True, False)
    """
    return pattern == path or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))


@dataclass(frozen=True, slots=True)
class Grant:
    """Rules that one binding gives to one subject; `namespace` is "" when they hold everywhere."""

    namespace: str
    rules: tuple[Rule, ...]
    because: str
    wire: tuple[Document, ...] = ()
    missing: str = ""  # the role the binding refers to, when there is no such role


class _Bound(NamedTuple):
    """One binding: its subjects and their names."""

    namespace: str
    role_ref: Document
    called: str
    users: dict[str, str]
    groups: dict[str, str]


class Compiled:
    """What was made of roles and bindings, kept as long as the documents are the same objects.

    After a write one document is new and all others are not: to make the policy again costs what changed.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Document, Any]] = {}
        self._used: dict[int, tuple[Document, Any]] = {}

    def of(self, document: Document, compile: Callable[[Document], Made]) -> Made:
        """Return what *compile* makes of *document*."""
        entry = self._known.get(id(document))
        if entry is None or entry[0] is not document:
            entry = (document, compile(document))
        self._used[id(document)] = entry
        made: Made = entry[1]
        return made

    def forget_unused(self) -> None:
        """Drop what was not used since the last call."""
        self._known, self._used = self._used, {}


@dataclass(slots=True)
class Policy:
    """The roles and bindings of one moment."""

    _bindings: list[_Bound] = field(default_factory=list)
    _of_user: BoundedDict[tuple[Grant, ...]] = field(default_factory=lambda: BoundedDict(CACHED_DECISIONS))
    _decided: BoundedDict[Decision] = field(default_factory=lambda: BoundedDict(CACHED_DECISIONS))
    _cluster_roles: dict[str, tuple[Document, ...]] = field(default_factory=dict)
    _roles: dict[tuple[str, str], tuple[Document, ...]] = field(default_factory=dict)
    _rules: dict[tuple[str, str, str], tuple[Rule, ...]] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        cluster_roles: Iterable[Document] = (),
        roles: Iterable[Document] = (),
        cluster_role_bindings: Iterable[Document] = (),
        role_bindings: Iterable[Document] = (),
        compiled: Compiled | None = None,
    ) -> Policy:
        compiled = compiled or Compiled()
        policy = cls()
        policy._cluster_roles = aggregated(cluster_roles)
        policy._roles = {
            (r["metadata"].get("namespace", ""), r["metadata"]["name"]): tuple(r.get("rules") or ())
            for r in roles
        }
        policy._bindings = [compiled.of(binding, _bound) for binding in cluster_role_bindings]
        policy._bindings += [compiled.of(binding, _bound) for binding in role_bindings]
        compiled.forget_unused()
        return policy

    def authorize(self, user: User, action: Action) -> Decision:
        """Return whether *user* may, with the binding that allows it."""
        key = (user.name, user.groups, action)
        decision = self._decided.get(key)
        if decision is None:
            decision = self._decide(user, action)
            self._decided.keep(key, decision, decision.reason)
        return decision

    def rules_for(self, user: User, namespace: str) -> list[Document]:
        """Return every rule *user* has in *namespace* ("" for those that hold everywhere only)."""
        return [rule for grant in self._granted(user, namespace) for rule in grant.wire]

    def role_rules(self, role_ref: Document, namespace: str) -> tuple[Document, ...] | None:
        """Return the rules of the role a binding in *namespace* refers to, None when there is none."""
        name = role_ref.get("name", "")
        if role_ref.get("kind") == "ClusterRole":
            return self._cluster_roles.get(name)
        return self._roles.get((namespace, name))

    def _decide(self, user: User, action: Action) -> Decision:
        grants = list(self._granted(user, action.namespace))
        for grant in grants:
            for rule in grant.rules:
                if rule.allows(action):
                    return Decision(True, f"RBAC: allowed by {grant.because}")
        missing = list(dict.fromkeys(grant.missing for grant in grants if grant.missing))
        if not missing:
            return NO_OPINION
        text = missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"
        return Decision(False, f"RBAC: {text}")

    def _granted(self, user: User, namespace: str) -> Iterator[Grant]:
        """Yield the grants that hold in *namespace*: those for everywhere first."""
        key = (user.name, user.groups)
        grants = self._of_user.get(key)
        if grants is None:
            grants = self._grants_of(user)
            self._of_user.keep(key, grants, *((grant.because, grant.missing) for grant in grants))
        for grant in grants:
            if not grant.namespace or grant.namespace == namespace:
                yield grant

    def _grants_of(self, user: User) -> tuple[Grant, ...]:
        """Return what all bindings give to *user*: what holds everywhere first, then in the order of subjects."""
        places = {name: place for place, name in reversed(tuple(enumerate(user.groups, 1)))}
        found = []
        for number, bound in enumerate(self._bindings):
            apart, named = bool(bound.namespace), bound.groups
            if user.name in bound.users:
                found.append((apart, 0, number, ("User", user.name)))
                continue
            # Whichever are fewer: a review may ask about fifty thousand groups, and a binding name as many.
            fewer, more = (named, places) if len(named) < len(places) else (places, named)
            first = min((places[name] for name in fewer if name in more), default=0)
            if first:  # to others of its subjects a binding gives the same
                found.append((apart, first, number, ("Group", user.groups[first - 1])))
        return tuple(self._grant(self._bindings[number], subject) for _, _, number, subject in sorted(found))

    def _grant(self, bound: _Bound, subject: tuple[str, str]) -> Grant:
        kind, name = bound.role_ref.get("kind", ""), bound.role_ref.get("name", "")
        wire = self.role_rules(bound.role_ref, bound.namespace)
        key = (kind, "" if kind == "ClusterRole" else bound.namespace, name)
        if key not in self._rules:
            self._rules[key] = tuple(Rule.of(rule) for rule in wire or ())
        missing = f'{kind.lower()}.rbac.authorization.k8s.io "{name}" not found' if wire is None else ""
        described = (bound.users if subject[0] == "User" else bound.groups)[subject[1]]
        because = f'{bound.called} of {kind} "{name}" to {described}'
        return Grant(bound.namespace, self._rules[key], because, wire or (), missing)


def _bound(binding: Document) -> _Bound:
    own = binding["metadata"]["name"]
    namespace = binding["metadata"].get("namespace", "")
    called = f'RoleBinding "{own}/{namespace}"' if namespace else f'ClusterRoleBinding "{own}"'
    users: dict[str, str] = {}
    groups: dict[str, str] = {}
    for subject in binding.get("subjects") or ():
        named = _subject(subject, namespace)
        if named is not None:
            (kind, name), described = named
            (users if kind == "User" else groups)[name] = described
    return _Bound(namespace, binding.get("roleRef") or {}, called, users, groups)


def _subject(subject: Document, namespace: str) -> tuple[tuple[str, str], str] | None:
    """Return which user or group a subject is, and what to call it."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind in ("User", "Group"):
        return (kind, name), f'{kind} "{name}"'
    where = subject.get("namespace") or namespace
    if kind != "ServiceAccount" or not where:
        return None
    return ("User", f"system:serviceaccount:{where}:{name}"), f'ServiceAccount "{name}/{where}"'


def aggregated(cluster_roles: Iterable[Document]) -> dict[str, tuple[Document, ...]]:
    """Return the rules of every ClusterRole, those of aggregated ones gathered from what they select.

    Roles may select each other, in circles too: what a role gathers comes from every role it reaches.
    """
    by_name = {role["metadata"]["name"]: role for role in cluster_roles}
    selected = {name: _selected(role, by_name) for name, role in by_name.items()}
    found: dict[str, tuple[Document, ...]] = {}
    for name, role in by_name.items():
        if not selected[name]:
            found[name] = tuple(role.get("rules") or ())
            continue
        reached, left = {name: None}, [name]
        while left:
            for other in selected[left.pop()]:
                if other not in reached:
                    reached[other] = None
                    left.append(other)
        gathered = [
            rule
            for each in (name, *sorted(reached.keys() - {name}))
            for rule in by_name[each].get("rules") or ()
        ]
        found[name] = tuple(_unique(gathered))
    return found


def _selected(role: Document, by_name: Mapping[str, Document]) -> tuple[str, ...]:
    """Return the names of the roles that an aggregated role selects."""
    wire = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    selectors = [selector for selector in map(_selector, wire) if selector is not None]
    if not selectors:
        return ()
    return tuple(
        other
        for other in sorted(by_name)
        if any(selector.matches(by_name[other]["metadata"].get("labels") or {}) for selector in selectors)
    )


def _selector(wire: Document) -> labels.Selector | None:
    """Return a selector, None for one that cannot be read: it gathers nothing."""
    try:
        return labels.from_object(wire)
    except labels.SelectorError:
        return None


def _unique(rules: Sequence[Document]) -> Iterator[Document]:
    seen: set[bytes] = set()
    for rule in rules:
        key = msgspec.json.encode(rule, order="sorted")
        if key not in seen:
            seen.add(key)
            yield rule
