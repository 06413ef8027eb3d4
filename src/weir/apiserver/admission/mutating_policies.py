"""MutatingAdmissionPolicy admission: runs before mutating webhooks.

Spec: admissionregistration.k8s.io/v1. A mutated object is decoded and defaulted again; in-tree plugins, webhooks and
policies with reinvocation then run once more (weir.apiserver.admission.chain). Without policies a write costs two
version comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weir.apiserver.admission.attributes import DELETE, Attributes, Reader
from weir.apiserver.admission.bound_policies import BoundPolicies
from weir.apiserver.admission.expression_values import expression_values, namespace_object
from weir.apiserver.admission.versions import InVersion, spoken_kind, taken_from
from weir.apiserver.auth.cel_authorizer import Decide
from weir.apiserver.patches.custom_structure import fitting_problems, node_of
from weir.apiserver.patches.json import patch_of_policy
from weir.apiserver.patches.overlay import overlay
from weir.apiserver.patches.structure import Node, Relation
from weir.apiserver.registry.scale_objects import SCALE
from weir.customresources.served import CustomResourceKind
from weir.errors import ApiError, Forbidden, InternalError
from weir.objects.document import copied
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.policies.matching import REGISTRATION, policies_apply
from weir.policies.mutating import MutatingPolicy, MutationFailed
from weir.policies.mutating_dispatch import Rounds, find_invocations, run

if TYPE_CHECKING:
    from weir.policies.mutating import MutatingPolicy
    from weir.policies.mutating_dispatch import Problem

Document = Mapping[str, Any]
POLICY = by_kind(f"{REGISTRATION}/v1", "MutatingAdmissionPolicy")
BINDING = by_kind(f"{REGISTRATION}/v1", "MutatingAdmissionPolicyBinding")
Settle = Callable[[dict[str, Any], Kind], dict[str, Any]]
"""Makes a patched document a good one of its kind again: unknown fields refused, defaults filled in."""


def _compiled(document: Document) -> MutatingPolicy:
    return MutatingPolicy(document)


class MutatingPolicies:
    """Lets the policies that are bound change a write."""

    name = "MutatingAdmissionPolicy"

    def __init__(self, reader: Reader, settle: Settle, decide: Decide | None = None) -> None:
        """*decide* answers what expressions ask about rights."""
        self._reader, self._settle, self._decide = reader, settle, decide
        self.bound = BoundPolicies(reader, POLICY, BINDING, _compiled)

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
            raise refused(a, problems)

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
    """How objects of one kind are merged and patched (weir.policies.mutating.Patcher)."""

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


def refused(a: Attributes, problems: Sequence[Problem]) -> Forbidden:
    """Return the error for the client: the first problem's words and reason, all of them among the causes."""
    error = a.forbidden("")
    first = problems[0]
    if first.reason:
        error.reason = first.reason
    causes = [{"message": one.text()} for one in problems]
    return Forbidden(first.text(), reason=error.reason, details={**(error.details or {}), "causes": causes})
