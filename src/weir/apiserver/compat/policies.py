"""The plugins ValidatingAdmissionPolicy and MutatingAdmissionPolicy; each runs before the webhooks of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

from weir.apiserver.admission.attributes import DELETE, Attributes, Reader
from weir.apiserver.admission.versions import InVersion, seen_as, spoken_kind, taken_from
from weir.apiserver.auth.cel_authorizer import CelAuthorizer, Decide, ResourceCheck, no_opinion
from weir.apiserver.auth.rbac import Action
from weir.apiserver.compat.webhooks.review import printed, request_of
from weir.apiserver.patches.compare import overlay
from weir.apiserver.patches.custom_structure import fitting_problems, node_of
from weir.apiserver.patches.json import patch_of_policy
from weir.apiserver.patches.structure import Node, Relation
from weir.apiserver.registry.scale import SCALE
from weir.compat.customresources.served import CustomResourceKind
from weir.compat.policies.dispatch import (
    CODES,
    Bound,
    Problem,
    Refusal,
    Rounds,
    bound_policies,
    find_invocations,
    judge,
    may_match,
    run,
)
from weir.compat.policies.matching import REGISTRATION, policies_apply
from weir.compat.policies.mutating import MutatingPolicy, MutationFailed
from weir.compat.policies.validating import ValidatingPolicy
from weir.errors import ApiError, Forbidden, InternalError, NotFound
from weir.objects import kinds
from weir.objects.document import copied
from weir.objects.kind import Kind
from weir.objects.kinds import NAMESPACES, by_kind
from weir.objects.served_kinds import ServedKinds

# ── cache of compiled policies with their bindings, by kind of write ──
# Rebuilt when a policy or binding changes; an unchanged policy keeps its compiled expressions.


P = TypeVar("P")
_NONE: tuple[Any, ...] = ()


class BoundPolicies(Generic[P]):
    """The policies of one kind that bindings put to use, by the sort of write."""

    def __init__(
        self, reader: Reader, policy: Kind, binding: Kind, compile: Callable[[Mapping[str, Any]], P]
    ) -> None:
        self._reader, self._policy, self._binding, self._compile = reader, policy, binding, compile
        self.served: ServedKinds | None = None  #: custom kinds, which parameters may be of
        self._versions = (-1, -1, -1)
        self._bound: tuple[Bound[P], ...] = ()
        self._by_write: dict[tuple[str, Kind, str, bool], tuple[Bound[P], ...]] = {}

    def about(self, a: Attributes) -> tuple[Bound[P], ...]:
        """Return the policies whose rules could cover the write."""
        version = self._reader.version
        versions = (
            version(self._binding),
            version(self._policy),
            0 if self.served is None else self.served.version,
        )
        if versions != self._versions:
            self._read(versions)
        if not self._bound:
            return _NONE
        key = (a.operation, a.requested, a.subresource, bool(a.namespace))
        found = self._by_write.get(key)
        if found is None:
            found = tuple(bound for bound in self._bound if may_match(bound.policy.match, a))  # type: ignore[attr-defined]
            self._by_write[key] = found
        return found

    def _read(self, versions: tuple[int, int, int]) -> None:
        self._versions = versions
        self._by_write = {}
        bindings = self._reader.list_now(self._binding, None)
        if not bindings:
            self._bound = ()
            return
        policies = self._reader.list_now(self._policy, None)
        self._bound = bound_policies(policies, bindings, self.find_kind, self._compile, self._bound)

    def find_kind(self, api_version: str, kind: str) -> Kind | None:
        """Return the row of a kind, of the table or of a definition."""
        found = kinds.find_kind(api_version, kind)
        if found is None and self.served is not None:
            named = (
                one for one in self.served.joined() if (one.api_version, one.kind) == (api_version, kind)
            )
            found = next(named, None)
        return found


# ── CEL variables of webhook and policy expressions for one write ──
# Spec: admissionregistration.k8s.io/v1; cel.md 9.1. `object` and `oldObject` are documents in the version of the
# matched rule; `request` is that of an AdmissionReview without the two.


Document = Mapping[str, Any]


def expression_values(
    a: Attributes, decide: Decide | None, kind: Kind | None = None, namespace: Document | None = None
) -> dict[str, Any]:
    """Return what expressions may name; *kind* is the version that the rule names."""
    asker = CelAuthorizer(decide or no_opinion, a.user)
    asked = Action("", a.requested.group, a.requested.plural, a.subresource, a.namespace, a.name)
    kind = kind or a.requested
    return {
        "object": seen_as(a, kind, printed(a)),
        "oldObject": seen_as(a, kind, a.old),
        "namespaceObject": namespace,
        "request": request_of(a, "", kind),
        "authorizer": asker,
        "authorizer.requestResource": ResourceCheck(asker, asked),
    }


def namespace_object(a: Attributes, reader: Reader) -> Document | None:
    """Return the namespace of a write as expressions see it, None for one about the cluster; raises NotFound."""
    if not a.namespace or a.kind is NAMESPACES:
        return None
    found = reader.get_now(NAMESPACES, "", a.namespace)
    if found is None:
        raise NotFound.object(NAMESPACES, a.namespace)
    metadata = {
        name: value
        for name, value in found["metadata"].items()
        if name not in ("managedFields", "ownerReferences", "selfLink")
    }
    return {"metadata": metadata, "spec": found.get("spec") or {}, "status": found.get("status") or {}}


# ── validatingAdmissionPolicy admission: runs before validating webhooks ──
# Spec: admissionregistration.k8s.io/v1. Without policies a write costs two version comparisons; with policies about
# other kinds, a dict lookup.


VALIDATING_POLICY = by_kind(f"{REGISTRATION}/v1", "ValidatingAdmissionPolicy")
VALIDATING_BINDING = by_kind(f"{REGISTRATION}/v1", "ValidatingAdmissionPolicyBinding")


class ValidatingPolicies:
    """Asks the policies that are bound."""

    name = "ValidatingAdmissionPolicy"

    def __init__(self, reader: Reader, decide: Decide | None = None) -> None:
        """*decide* answers what expressions ask about rights."""
        self._reader, self._decide = reader, decide
        self.bound = BoundPolicies(reader, VALIDATING_POLICY, VALIDATING_BINDING, ValidatingPolicy)

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return policies_apply(kind)

    def validate(self, a: Attributes) -> None:
        """Refuse what a policy refuses, and pass on its warnings and annotations."""
        found = self.bound.about(a)
        if found:
            self._ask(found, a)

    def _ask(self, found: tuple[Bound[ValidatingPolicy], ...], a: Attributes) -> None:
        @cache
        def values(kind: Kind) -> Mapping[str, Any]:
            return expression_values(a, self._decide, kind, namespace_object(a, self._reader))

        outcome = judge(found, a, InVersion(self._reader, a), values)
        a.warnings.extend(outcome.warnings)
        a.annotate(outcome.audit_annotations())
        if outcome.refusals:
            raise refused(a, outcome.refusals[0])


def refused(a: Attributes, refusal: Refusal) -> Forbidden:
    """Return the error for the client: worded as forbidden, with the reason and code that the policy names."""
    text = refusal.text()
    error = a.forbidden(text)
    error.reason = refusal.reason or "Invalid"
    error.code = CODES.get(error.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": text}]}
    return error


# ── mutatingAdmissionPolicy admission: runs before mutating webhooks ──
# Spec: admissionregistration.k8s.io/v1. A mutated object is decoded and defaulted again; in-tree plugins, webhooks and
# policies with reinvocation then run once more (weir.apiserver.admission.chain). Without policies a write costs two
# version comparisons.


MUTATING_POLICY = by_kind(f"{REGISTRATION}/v1", "MutatingAdmissionPolicy")
MUTATING_BINDING = by_kind(f"{REGISTRATION}/v1", "MutatingAdmissionPolicyBinding")
Settle = Callable[[dict[str, Any], Kind], dict[str, Any]]
"""Makes a patched document a good one of its kind again: unknown fields refused, defaults filled in."""


class MutatingPolicies:
    """Lets the policies that are bound change a write."""

    name = "MutatingAdmissionPolicy"

    def __init__(self, reader: Reader, settle: Settle, decide: Decide | None = None) -> None:
        """*decide* answers what expressions ask about rights."""
        self._reader, self._settle, self._decide = reader, settle, decide
        self.bound = BoundPolicies(reader, MUTATING_POLICY, MUTATING_BINDING, MutatingPolicy)

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation != DELETE and policies_apply(kind)

    def wants(self, a: Attributes) -> bool:
        """Return whether a policy could be about the write."""
        return bool(self.bound.about(a))

    def admit(self, a: Attributes) -> None:
        """Apply the mutations of the first round, or of the second when called again for the same write."""
        found = self.bound.about(a)
        if not found:
            return
        rounds = a.rounds
        if rounds is None:
            rounds = a.rounds = Rounds()
        else:
            rounds.second = True
            if rounds.left != a.object:
                rounds.note_change()
        invocations, problems = find_invocations(found, a, InVersion(self._reader, a))
        if invocations:
            namespace = namespace_object(a, self._reader)

            def values(kind: Kind, param: Document | None) -> Mapping[str, Any]:
                return {**expression_values(a, self._decide, kind, namespace), "params": param}

            def patcher(kind: Kind) -> _Patcher:
                return _Patcher(spoken_kind(a, kind))

            problems += run(invocations, rounds, values, patcher, lambda kind, new: self._take(a, kind, new))
        rounds.left = None if a.object is None else copied(a.object)
        if problems:
            raise refused_mutation(a, problems)

    def _take(self, a: Attributes, kind: Kind, document: Document) -> bool:
        """Take the object as a policy left it; return whether it is another one now."""
        assert a.object is not None
        spoken = spoken_kind(a, kind)
        if spoken is SCALE and isinstance(kind, CustomResourceKind):
            raise MutationFailed(f"request to convert CR to an invalid group/version: {SCALE.api_version}")
        if spoken is kind and kind is not a.requested and not isinstance(kind, CustomResourceKind):
            # A real server takes what a policy changed for the version of the request, and finds that it is not.
            was, wanted = f"{kind.version}.{kind.kind}", f"{a.requested.version}.{a.requested.kind}"
            raise MutationFailed(f"converting ({was}) to ({wanted}): unknown conversion")
        new = dict(taken_from(a, kind, document) or {})
        try:
            new = self._settle(new, a.kind)
        except ApiError as error:
            raise InternalError(
                f"Internal error occurred: {error.message}",
                reason="InternalError",
                details={"causes": [{"message": error.message}]},
            ) from error
        if new == a.object:
            return False
        a.object.clear()  # the same dict: others hold it too
        a.object.update(new)
        return True


class _Patcher:
    """How objects of one kind are merged and patched (weir.compat.policies.mutating.Patcher)."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def merged(self, document: Document, configuration: Document) -> Document:
        """Return the object with an apply configuration laid over it."""
        if self._kind is SCALE:
            raise MutationFailed(
                "error applying patch: failed to convert patch object to typed object: no corresponding type for "
                "autoscaling/v1, Kind=Scale"
            )
        named = {**configuration, "apiVersion": self._kind.api_version, "kind": self._kind.kind}
        problems = fitting_problems(_without_nulls(named), self._kind) or list(_nulls(named, ""))
        if problems:
            text = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
            raise MutationFailed(
                f"error applying patch: failed to convert patch object to typed object: {text}"
            )
        node = node_of(self._kind)
        atomic = list(_atomic_parts(named, node, ""))
        if atomic:
            raise MutationFailed(
                "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
                + ", ".join(atomic)
            )
        made = overlay(dict(document), named, node)
        return made if isinstance(made, dict) else {}

    def patched(self, document: Document, operations: Sequence[Document]) -> Document:
        """Return the object after the operations of a JSON patch; as it was when a test fails."""
        try:
            made = patch_of_policy(dict(document), [dict(one) for one in operations])
        except InternalError as error:
            raise MutationFailed(f"JSON Patch: {error.message}") from error
        return made if isinstance(made, dict) else {}


def _without_nulls(value: Any) -> Any:
    """Return a configuration with the number that upstream takes null for, which no text field accepts."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return 0 if value is None else value


def _nulls(value: Any, path: str) -> Iterator[str]:
    """Yield where a configuration has null, which sets no field."""
    if value is None:
        yield f"{path}: null sets no field: leave it out, or remove it with a JSON patch"
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from _nulls(inner, f"{path}.{key}")
    for index, inner in enumerate(value if isinstance(value, list) else ()):
        yield from _nulls(inner, f"{path}[{index}]")


def _atomic_parts(value: Any, node: Node, path: str) -> list[str]:
    """Return where a configuration names lists or objects that are owned whole."""
    if node.atomic and isinstance(value, dict | list):
        return [path]
    found: list[str] = []
    if isinstance(value, dict) and node.relation is Relation.STRUCT:
        for name, inner in value.items():
            child = node.child(name)
            if child is not None:
                found += _atomic_parts(inner, child, f"{path}.{name}")
    elif isinstance(value, list) and node.item is not None:
        for index, inner in enumerate(value):
            found += _atomic_parts(inner, node.item, f"{path}[{index}]")
    return found


def refused_mutation(a: Attributes, problems: Sequence[Problem]) -> Forbidden:
    """Return the error for the client: the first problem's words and reason, all of them among the causes."""
    error = a.forbidden("")
    first = problems[0]
    if first.reason:
        error.reason = first.reason
    causes = [{"message": one.text()} for one in problems]
    return Forbidden(first.text(), reason=error.reason, details={**(error.details or {}), "causes": causes})
