"""Dispatch of MutatingAdmissionPolicies: order and reinvocation.

Spec: admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding, `reinvocationPolicy`. Policies, bindings and
parameters are matched before the first mutation; match conditions see earlier mutations. If anything changed,
admission runs once more, and policies with `IfNeeded` that ran before the change run again, never a third time.
Policies and bindings go by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weir.cel.values import Value
from weir.errors import ApiError
from weir.objects.kind import Kind
from weir.policies.dispatch import Bound, Reader, namespace_of
from weir.policies.matching import ConditionsFailed, Write, resources_match
from weir.policies.mutating import MutatingPolicy, Patcher
from weir.policies.params import NoParams, collect_params
from weir.values.quoting import quote

Document = Mapping[str, Any]


class Problem(NamedTuple):
    """Why a policy could not mutate a request; *binding* is "" when the policy itself is misconfigured."""

    policy: str
    binding: str
    message: str
    reason: str = ""

    def text(self) -> str:
        """Return the message for the client."""
        if not self.binding:
            return f"policy {quote(self.policy)} denied request: {self.message}"
        return f"policy '{self.policy}' with binding '{self.binding}' denied request: {self.message}"


class Invocation(NamedTuple):
    """A policy as one binding uses it with one parameter."""

    policy: MutatingPolicy
    binding: str
    kind: Kind
    param: Document | None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What distinguishes it from all others in the second round, too."""
        metadata = (self.param or {}).get("metadata") or {}
        return self.policy.name, self.binding, metadata.get("namespace") or "", metadata.get("name") or ""


@dataclass(slots=True)
class Rounds:
    """What is remembered of one write between the first and the second round."""

    second: bool = False
    before: set[tuple[str, str, str, str]] = field(default_factory=set)  #: ran, and may run again
    again: set[tuple[str, str, str, str]] = field(
        default_factory=set
    )  #: shall run again: something changed after
    left: Document | None = None  #: the object as the first round left it
    changed: bool = False

    def note_change(self) -> None:
        """Have those that ran before the change run again."""
        self.changed = True
        self.again |= self.before
        self.before.clear()


def find_invocations(
    found: Sequence[Bound[MutatingPolicy]], a: Write, reader: Reader
) -> tuple[list[Invocation], list[Problem]]:
    """Return what is to run, and what cannot because of how it is configured."""
    invocations: list[Invocation] = []
    problems: list[Problem] = []

    def fail(policy: MutatingPolicy, binding: str, text: str) -> None:
        if not policy.ignores_failures:
            part = "binding" if binding else "policy"
            problems.append(Problem(policy.name, binding, f"failed to configure {part}: {text}"))

    for bound in found:
        policy = bound.policy
        try:
            kind = resources_match(policy.match, a, reader)
        except ApiError as error:
            fail(policy, "", error.message)
            continue
        if kind is not None and bound.problem:
            fail(policy, "", bound.problem)
        elif kind is not None:
            for binding in bound.bindings:
                spec, name = binding.get("spec") or {}, str(binding["metadata"]["name"])
                try:
                    match = spec.get("matchResources")
                    if match is not None and resources_match(match, a, reader) is None:
                        continue
                    params = collect_params(bound.params, spec.get("paramRef"), namespace_of(a), reader)
                except NoParams as problem:
                    fail(policy, name, str(problem))
                except ApiError as error:
                    fail(policy, name, error.message)
                else:
                    invocations += [Invocation(policy, name, kind, param) for param in params]
    return invocations, problems


def run(
    invocations: Sequence[Invocation],
    rounds: Rounds,
    values: Callable[[Kind, Document | None], Mapping[str, Value]],
    patcher: Callable[[Kind], Patcher],
    changed: Callable[[Kind, Document], bool],
) -> list[Problem]:
    """Apply the mutations of one round and return the problems.

    *changed* takes the mutated object, in the version of a kind, and returns whether it differs.
    """
    problems: list[Problem] = []
    for one in invocations:
        policy = one.policy
        try:
            if not policy.wants(values(one.kind, one.param)):
                continue
        except ConditionsFailed as error:
            problems.append(Problem(policy.name, one.binding, str(error), "Invalid"))
            continue
        if rounds.second and one.key not in rounds.again:
            continue
        noted: list[bool] = []
        failed = policy.mutate(
            lambda one=one: values(one.kind, one.param),  # type: ignore[misc]
            patcher(one.kind),
            lambda document, one=one, noted=noted: noted.append(changed(one.kind, document)),  # type: ignore[misc]
        )
        if not policy.ignores_failures:
            problems += [Problem(policy.name, one.binding, text, "Invalid") for text in failed]
        if any(noted):
            rounds.note_change()
        if policy.reinvocable:
            rounds.before.add(one.key)
    return problems
