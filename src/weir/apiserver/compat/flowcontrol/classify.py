"""Classification of requests: flow schema, priority level, flow distinguisher and width.

Schemas are tried by matching precedence, then name; one whose level does not exist is skipped. Unmatched requests go
to `catch-all`. `pods` does not match `pods/log`; a request without a namespace needs `clusterScope`; `/logs/*` also
matches `/logs`-prefixed paths. Pure: a `Configuration` is an immutable snapshot.

Width of a request: one seat; a list one per hundred objects, up to ten. As upstream's estimate: a list by name is a
get, one with a limit reads at most twice that, one with a selector reads everything. A watch with initial events counts
like a list. Unlike upstream, writes are not wider by the watches they wake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Any, Final, NamedTuple

from weir.apiserver.auth.authn import User
from weir.apiserver.transport.paths import RequestInfo
from weir.objects.flow_control import CATCH_ALL, EXEMPT, LEVEL, SCHEMA, mandatory_spec
from weir.objects.kind import Kind

Document = Mapping[str, Any]
ALL = "*"
_ACCOUNT = "system:serviceaccount:"


OBJECTS_A_SEAT: Final = 100
MOST_SEATS: Final = 10


def width_of(
    info: RequestInfo, kind: Kind | None, name: str, params: Mapping[str, str], count: Callable[[str], int]
) -> int:
    """Return the seats of a request; *count* says how many objects there are under a prefix of the store."""
    verb = info.verb
    if (verb != "list" and verb != "watch") or kind is None or not kind.stored or name:
        return 1
    later = params.get("resourceVersion", "0") not in ("", "0")
    if verb == "watch" and later and params.get("sendInitialEvents") not in ("true", "1"):
        return 1
    under = f"{kind.prefix}{info.namespace}/" if info.namespace and kind.namespaced else kind.prefix
    found = count(under)
    looked_at = found
    limit = params.get("limit", "")
    selects = params.get("labelSelector") or params.get("fieldSelector")
    if not selects and limit.isascii() and limit.isdecimal() and len(limit) < 10 and int(limit):
        looked_at = min(found, 2 * int(limit))
    return min(max(1, ceil(looked_at / OBJECTS_A_SEAT)), MOST_SEATS)


class _Rule(NamedTuple):
    """One rule of a flow schema, compiled."""

    users: frozenset[str]
    groups: frozenset[str]
    accounts: tuple[
        str, ...
    ]  #: beginnings of the names of service accounts, `system:serviceaccount:kube-system:`
    resources: tuple[Document, ...]
    urls: tuple[Document, ...]

    @classmethod
    def of(cls, wire: Document) -> _Rule:
        users, groups, accounts = set(), set(), []
        for subject in wire.get("subjects") or ():
            kind = subject.get("kind")
            if kind == "User":
                users.add((subject.get("user") or {}).get("name") or "")
            elif kind == "Group":
                groups.add((subject.get("group") or {}).get("name") or "")
            elif kind == "ServiceAccount":
                account = subject.get("serviceAccount") or {}
                under = f"{_ACCOUNT}{account.get('namespace') or ''}:"
                if account.get("name") == ALL:
                    accounts.append(under)
                else:
                    users.add(under + (account.get("name") or ""))
        return cls(
            frozenset(users),
            frozenset(groups),
            tuple(accounts),
            tuple(wire.get("resourceRules") or ()),
            tuple(wire.get("nonResourceRules") or ()),
        )

    def matches(self, user: User, info: RequestInfo) -> bool:
        """Return whether the request is one of those the rule speaks of."""
        if not self._names(user):
            return False
        if info.is_resource:
            return any(_covers_resource(rule, info) for rule in self.resources)
        return any(_covers_path(rule, info) for rule in self.urls)

    def _names(self, user: User) -> bool:
        if user.name in self.users or ALL in self.users or ALL in self.groups:
            return True
        if self.accounts and user.name.startswith(self.accounts):
            return True
        return not self.groups.isdisjoint(user.groups)


def _has(listed: Iterable[str] | None, value: str) -> bool:
    return listed is not None and (value in listed or ALL in listed)


def _covers_resource(rule: Document, info: RequestInfo) -> bool:
    whole = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    if not (
        _has(rule.get("verbs"), info.verb)
        and _has(rule.get("resources"), whole)
        and _has(rule.get("apiGroups"), info.api_group)
    ):
        return False
    return _has(rule.get("namespaces"), info.namespace) if info.namespace else bool(rule.get("clusterScope"))


def _covers_path(rule: Document, info: RequestInfo) -> bool:
    if not _has(rule.get("verbs"), info.verb):
        return False
    for url in rule.get("nonResourceURLs") or ():
        if url in (ALL, info.path):
            return True
        under = url.removesuffix(ALL)
        if info.path.startswith(under if under.endswith("/") else f"{under}/"):
            return True
    return False


class FlowSchema(NamedTuple):
    """A flow schema, compiled."""

    name: str
    uid: str
    level: str
    precedence: int
    distinguisher: str  #: ByUser, ByNamespace, or nothing: all its requests are one flow
    rules: tuple[_Rule, ...]

    @classmethod
    def of(cls, wire: Document) -> FlowSchema:
        """Return the schema that an object describes."""
        metadata, spec = wire.get("metadata") or {}, wire.get("spec") or {}
        return cls(
            metadata.get("name") or "",
            metadata.get("uid") or "",
            (spec.get("priorityLevelConfiguration") or {}).get("name") or "",
            spec.get("matchingPrecedence") or 0,
            (spec.get("distinguisherMethod") or {}).get("type") or "",
            tuple(_Rule.of(rule) for rule in spec.get("rules") or ()),
        )

    def matches(self, user: User, info: RequestInfo) -> bool:
        """Return whether the schema speaks of this request."""
        return any(rule.matches(user, info) for rule in self.rules)

    def distinguish(self, user: User, info: RequestInfo) -> str:
        """Return the request's flow distinguisher."""
        if self.distinguisher == "ByUser":
            return user.name
        return info.namespace if self.distinguisher == "ByNamespace" else ""


class PriorityLevel(NamedTuple):
    """A priority level as its object describes it."""

    name: str
    uid: str
    exempt: bool
    shares: int
    lendable_percent: int
    borrowing_percent: int | None  #: of its own seats that it may borrow at most; None: as many as there are
    queues: int  #: 0: what finds no seat is refused
    hand_size: int
    queue_length: int

    @classmethod
    def of(cls, wire: Document) -> PriorityLevel:
        """Return the level that an object describes."""
        metadata, spec = wire.get("metadata") or {}, wire.get("spec") or {}
        exempt = spec.get("type") == "Exempt"
        found = spec.get("exempt" if exempt else "limited") or {}
        response = found.get("limitResponse") or {}
        queuing = (response.get("queuing") or {}) if response.get("type") == "Queue" else {}
        return cls(
            metadata.get("name") or "",
            metadata.get("uid") or "",
            exempt,
            found.get("nominalConcurrencyShares") or 0,
            found.get("lendablePercent") or 0,
            found.get("borrowingLimitPercent"),
            queuing.get("queues") or 0,
            queuing.get("handSize") or 0,
            queuing.get("queueLengthLimit") or 0,
        )


def _mandatory(kind: str, name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": mandatory_spec(kind, name)}


class Configuration:
    """The schemas and levels of one moment."""

    def __init__(self, schemas: Iterable[Document] = (), levels: Iterable[Document] = ()) -> None:
        """The mandatory objects are there even where they are deleted: something has to take every request."""
        found = {level.name: level for level in map(PriorityLevel.of, levels)}
        for name in (EXEMPT, CATCH_ALL):
            found.setdefault(name, PriorityLevel.of(_mandatory(LEVEL, name)))
        self.levels: Mapping[str, PriorityLevel] = found
        known = {schema.name: schema for schema in map(FlowSchema.of, schemas)}
        for name in (EXEMPT, CATCH_ALL):
            known.setdefault(name, FlowSchema.of(_mandatory(SCHEMA, name)))
        self._last = known[CATCH_ALL]
        order: Callable[[FlowSchema], tuple[int, str]] = lambda schema: (schema.precedence, schema.name)  # noqa: E731
        self.schemas = tuple(sorted((each for each in known.values() if each.level in found), key=order))

    def classify(self, user: User, info: RequestInfo) -> FlowSchema:
        """Return the schema of a request."""
        for schema in self.schemas:
            if schema.matches(user, info):
                return schema
        return self._last
