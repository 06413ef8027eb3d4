"""Matching of webhooks and policies: rules, namespace selector, object selector.

Spec: admissionregistration.k8s.io/v1. Shared by webhooks, policies and bindings. An invalid selector or a missing
namespace is an error only if everything else matches. `matchPolicy: Equivalent` also matches rules for another served
version, or the other group of events; the request's own version is tried first. For `scope`, a Namespace object is
cluster-scoped, but a namespace selector uses its own labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from weir.cel.errors import EvaluationError
from weir.compat.customresources.served import CustomResourceKind
from weir.compat.policies.expressions import Expression, Inputs, OutOfBudget
from weir.errors import InternalError, NotFound
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS, NAMESPACES
from weir.selectors import labels


class ConditionsFailed(Exception):
    """Whether the conditions hold cannot be said, and a failure is not to be ignored."""


def conditions_hold(conditions: Iterable[Expression], inputs: Inputs, *, ignore_failures: bool) -> bool:
    """Return whether every match condition of a webhook or policy holds; raises ConditionsFailed.

    One false condition means no match, whatever the others give; an error is handled by the failurePolicy.
    """
    problems: list[str] = []
    answers: list[object] = []
    try:
        for condition in conditions:
            try:
                answers.append(inputs.evaluate(condition))
            except EvaluationError as error:
                problems.append(str(error))
    except OutOfBudget as error:
        if ignore_failures:
            return False
        raise ConditionsFailed(str(error)) from error
    if any(answer is False for answer in answers):
        return False
    if problems and not ignore_failures:
        unique = list(dict.fromkeys(problems))
        raise ConditionsFailed(unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")
    return not problems


Document = Mapping[str, Any]
CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"
REGISTRATION: Final = "admissionregistration.k8s.io"
_REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
#: Never shown to webhooks: a broken configuration could not be repaired, and a review is no write.
EXEMPT_GROUPS: Final = _REVIEWS | {REGISTRATION}


def policies_apply(kind: Kind) -> bool:
    """Return whether policies may be about this kind: not about themselves, and not about reviews."""
    return kind.group not in _REVIEWS and not (kind.group == REGISTRATION and "AdmissionPolicy" in kind.kind)


class Write(Protocol):
    """What is known of one write (weir.apiserver.admission.attributes.Attributes)."""

    @property
    def operation(self) -> str: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def requested(self) -> Kind:
        """The version that the client speaks; `kind` is that of the objects."""

    @property
    def subresource(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def object(self) -> Document | None: ...
    @property
    def old(self) -> Document | None: ...


class Namespaces(Protocol):
    """Where namespaces are found (weir.apiserver.admission.attributes.Reader)."""

    def get_now(self, kind: Kind, namespace: str, name: str, /) -> Document | None: ...


def resources_match(match: Document, a: Write, reader: Namespaces) -> Kind | None:
    """Return as which kind the MatchResources of a policy or binding cover the write, None when they do not.

    Raises when that cannot be decided.
    """
    rules, exact = match.get("resourceRules") or (), match.get("matchPolicy") == "Exact"
    if matched_kind(match.get("excludeResourceRules") or (), a, exact=exact) is not None:
        return None
    kind = matched_kind(rules, a, exact=exact) if rules else a.requested
    return kind if kind is not None and selectors_match(match, a, reader) else None


def selectors_match(wire: Document, a: Write, reader: Namespaces) -> bool:
    """Return whether both selectors match; raises when one is unusable and the other does not exclude the request."""
    failed: InternalError | NotFound | None = None
    for field, matches in (("namespaceSelector", _namespace_matches), ("objectSelector", _object_matches)):
        try:
            if not matches(_selector(wire.get(field)), a, reader):
                return False
        except (InternalError, NotFound) as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return True


def matched_kind(rules: Sequence[Document], a: Write, *, exact: bool) -> Kind | None:
    """Return the kind by which one of *rules* covers the write: its own, or the same in another version."""
    if any(rule_matches(rule, a) and _named(rule, a) for rule in rules):
        return a.requested
    if not exact:
        for rule in rules:
            for other in equivalents(a.requested, a.subresource):
                if rule_matches(rule, a, other) and _named(rule, a):
                    return other
    return None


def rule_matches(rule: Document, a: Write, kind: Kind | None = None) -> bool:
    """Return whether one rule covers the write; `*` as resource covers no subresources, `*/*` everything.

    *kind* stands for the written one: another version or group of it.
    """
    kind = kind or a.requested
    is_namespace = a.kind is NAMESPACES
    scope = rule.get("scope") or "*"
    if scope == "Namespaced" and (is_namespace or not a.namespace):
        return False
    if scope == "Cluster" and a.namespace and not is_namespace:
        return False
    return (
        _has(rule.get("operations"), a.operation)
        and _has(rule.get("apiGroups"), kind.group)
        and _has(rule.get("apiVersions"), kind.version)
        and any(_resource_matches(entry, kind, a.subresource) for entry in rule.get("resources") or ())
    )


def equivalents(kind: Kind, subresource: str = "") -> tuple[Kind, ...]:
    """Return the other versions and groups in which the same objects are served, and this subresource of them."""
    others: tuple[Kind, ...]
    if isinstance(kind, CustomResourceKind):
        others = tuple(other for other in kind.served if other.version != kind.version)
    else:
        others = _rows_of(kind)
    if not subresource:
        return others
    return tuple(other for other in others if other.subresource(subresource) is not None)


@lru_cache(1024)
def _rows_of(kind: Kind) -> tuple[Kind, ...]:
    return tuple(
        other for other in KINDS if other is not kind and other.stored and other.prefix == kind.prefix
    )


def _named(rule: Document, a: Write) -> bool:
    names = rule.get("resourceNames")
    return not names or a.name in names


def _resource_matches(entry: str, kind: Kind, asked: str) -> bool:
    resource, _, subresource = entry.partition("/")
    return resource in ("*", kind.plural) and subresource in ("*", asked)


def _has(entries: Iterable[str] | None, wanted: str) -> bool:
    return any(entry in ("*", wanted) for entry in entries or ())


def _namespace_matches(selector: labels.Selector, a: Write, reader: Namespaces) -> bool:
    if not selector or (not a.namespace and a.kind is not NAMESPACES):
        return True  # about the cluster: no namespace could exempt it
    return selector.matches(_namespace_labels(a, reader))


def _namespace_labels(a: Write, reader: Namespaces) -> Mapping[str, str]:
    """Return the labels of the write's namespace; of one being written, those it is about to have."""
    if a.kind is NAMESPACES and not a.subresource and a.operation in (CREATE, UPDATE):
        return _labels(a.object)
    name = a.namespace or a.name
    namespace = reader.get_now(NAMESPACES, "", name)
    if namespace is None:
        raise NotFound.object(NAMESPACES, name)
    return _labels(namespace)


def _object_matches(selector: labels.Selector, a: Write, reader: Namespaces) -> bool:
    if not selector:
        return True
    if a.subresource == "scale":  # what is written is a Scale, which has no labels
        return selector.matches({})
    return any(one is not None and selector.matches(_labels(one)) for one in (a.object, a.old))


def _labels(document: Document | None) -> Mapping[str, str]:
    return ((document or {}).get("metadata") or {}).get("labels") or {}


def _selector(wire: Document | None) -> labels.Selector:
    try:
        return labels.from_object(wire or {}) or labels.EVERYTHING
    except labels.SelectorError as error:
        raise InternalError(f"Internal error occurred: {error}", reason="InternalError") from error


# ── parameters of a policy binding ──
# Spec: admissionregistration.k8s.io/v1 `paramKind`, `paramRef`. A policy without a paramKind is evaluated once without
# parameters; with several parameters, once for each.


FindKind = Callable[[str, str], Kind | None]
"""(apiVersion, kind) → its row, None when it is not served."""


class Objects(Protocol):
    """Where parameters are found (weir.apiserver.admission.attributes.Reader)."""

    def get_now(self, kind: Kind, namespace: str, name: str, /) -> Document | None: ...

    def list_now(self, kind: Kind, namespace: str | None, /) -> Sequence[Document]: ...


class NoParams(Exception):
    """The parameters cannot be had, and why."""


class UnknownParamKind(NoParams):
    """The policy's paramKind is not served."""


def param_kind(policy: Document, find: FindKind) -> Kind | None:
    """Return the kind of a policy's parameters, None when it has none; raises UnknownParamKind."""
    wanted = policy.get("spec", {}).get("paramKind")
    if wanted is None:
        return None
    api_version, kind = wanted.get("apiVersion") or "", wanted.get("kind") or ""
    found = find(api_version, kind)
    if found is None:
        group, _, version = api_version.rpartition("/")
        shown = f"{group}/{version}, Kind={kind}"
        raise UnknownParamKind(f"failed to find resource referenced by paramKind: '{shown}'")
    return found


def collect_params(
    kind: Kind | None, ref: Document | None, namespace: str, objects: Objects
) -> Sequence[Document | None]:
    """Return what the policy is evaluated with, None for "without"; raises NoParams.

    *namespace* is that of the write; parameters of a kind that has namespaces are looked for there, unless *ref*
    names another.
    """
    if kind is None or ref is None:
        return (None,)
    where = ref.get("namespace") or ""
    if kind.namespaced:
        where = where or namespace
        if not where:
            raise NoParams(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif where:
        raise NoParams("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    name = ref.get("name")
    if name:
        one = objects.get_now(kind, where, name)
        found = [] if one is None else [one]
    else:
        found = _selected(
            ref.get("selector") or {}, objects.list_now(kind, where if kind.namespaced else None)
        )
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise NoParams("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _selected(selector: Document, candidates: Sequence[Document]) -> list[Document]:
    try:
        wanted = labels.from_object(selector) or labels.EVERYTHING
    except labels.SelectorError as error:
        raise NoParams(str(error)) from error
    selected = [one for one in candidates if wanted.matches((one.get("metadata") or {}).get("labels") or {})]
    return sorted(selected, key=lambda one: str(one["metadata"].get("name")))
