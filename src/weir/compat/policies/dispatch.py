"""Dispatch of ValidatingAdmissionPolicies: matching bindings, evaluation, enforcement actions.

Spec: admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding. A policy without a binding has no effect. Each
matching binding is evaluated once per parameter; its validationActions say what a denial does. All are evaluated, and
the first denial is reported. Policies and bindings go by name (upstream's order is random).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from weir.cel.values import Value
from weir.compat.policies.matching import (
    ConditionsFailed,
    FindKind,
    Namespaces,
    NoParams,
    Objects,
    Write,
    collect_params,
    matched_kind,
    param_kind,
    resources_match,
)
from weir.compat.policies.mutating import MutatingPolicy, Patcher
from weir.compat.policies.validating import ValidatingPolicy, Verdict
from weir.errors import ApiError
from weir.objects.kind import Kind
from weir.objects.kinds import NAMESPACES
from weir.values.quoting import quote

Document = Mapping[str, Any]
CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
_MOST_FAILURES: Final = 50
_LONGEST_ANNOTATION: Final = 10 * 1024


class Reader(Namespaces, Objects, Protocol):
    """Where namespaces and parameters are found."""


Values = Callable[[Kind], Mapping[str, Value]]
"""What expressions may name, the objects in the version of the given kind."""


P = TypeVar("P")


class Bound(NamedTuple, Generic[P]):
    """A policy with its bindings, the kind of its parameters, or why that is not known."""

    policy: P
    bindings: tuple[Document, ...]
    params: Kind | None
    problem: str
    name: str
    spec: Any


class Refusal(NamedTuple):
    """Why a request is denied, and by which policy; *binding* is "" when the policy itself is misconfigured."""

    policy: str
    binding: str
    message: str
    reason: str

    def text(self, kind: str = "ValidatingAdmissionPolicy") -> str:
        """Return the message for the client."""
        bound = f" with binding '{self.binding}'" if self.binding else ""
        return f"{kind} '{self.policy}'{bound} denied request: {self.message}"


@dataclass(slots=True)
class Outcome:
    """What all policies said of one write."""

    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)

    def audit_annotations(self) -> dict[str, str]:
        """Return the annotations for the audit log."""
        annotations = dict(self.annotations)
        if self.failures:
            annotations[FAILURES] = json.dumps(self.failures[:_MOST_FAILURES], separators=(",", ":"))
        return annotations


def bound_policies(
    policies: Iterable[Document],
    bindings: Iterable[Document],
    find: FindKind,
    compile: Callable[[Document], P],
    before: Sequence[Bound[P]] = (),
) -> tuple[Bound[P], ...]:
    """Return every policy that a binding puts to use, compiled; an unchanged one of *before* as it was."""
    known = {one["metadata"]["name"]: one for one in policies}
    by_policy: dict[str, list[Document]] = {}
    for binding in sorted(bindings, key=lambda one: str(one["metadata"]["name"])):
        by_policy.setdefault((binding.get("spec") or {}).get("policyName") or "", []).append(binding)
    compiled = {bound.name: bound for bound in before}
    found = []
    for name in sorted(by_policy.keys() & known.keys()):
        kind, problem = None, ""
        try:
            kind = param_kind(known[name], find)
        except NoParams as error:
            problem = str(error)
        spec, old = known[name].get("spec"), compiled.get(name)
        policy = compile(known[name]) if old is None or old.spec != spec else old.policy
        found.append(Bound(policy, tuple(by_policy[name]), kind, problem, name, spec))
    return tuple(found)


def may_match(match: Document, a: Write) -> bool:
    """Return whether rules could cover a write like this one, whatever its name and labels are."""
    rules = [{**rule, "resourceNames": []} for rule in match.get("resourceRules") or ()]
    return not rules or matched_kind(rules, a, exact=match.get("matchPolicy") == "Exact") is not None


def judge(found: Sequence[Bound[ValidatingPolicy]], a: Write, reader: Reader, values: Values) -> Outcome:
    """Return what *found* say of the write."""
    outcome = Outcome()
    for bound in found:
        kind = None
        try:
            kind = resources_match(bound.policy.match, a, reader)
        except ApiError as error:
            _misconfigured(outcome, bound.policy, "", error.message)
        if kind is None:
            continue
        if bound.problem:
            _misconfigured(outcome, bound.policy, "", bound.problem)
            continue
        published: dict[str, list[str]] = {}
        for binding in bound.bindings:
            _ask(outcome, bound, binding, a, reader, partial(values, kind), published)
        for key, texts in published.items():
            outcome.annotations[f"{bound.policy.name}/{key}"] = ", ".join(texts)
    return outcome


def _ask(
    outcome: Outcome,
    bound: Bound[ValidatingPolicy],
    binding: Document,
    a: Write,
    reader: Reader,
    values: Callable[[], Mapping[str, Value]],
    published: dict[str, list[str]],
) -> None:
    """Ask a policy as one binding uses it."""
    spec, name = binding.get("spec") or {}, str(binding["metadata"]["name"])
    try:
        match = spec.get("matchResources")
        if match is not None and resources_match(match, a, reader) is None:
            return
        params = collect_params(bound.params, spec.get("paramRef"), namespace_of(a), reader)
    except NoParams as error:
        _misconfigured(outcome, bound.policy, name, str(error))
        return
    except ApiError as error:
        _misconfigured(outcome, bound.policy, name, error.message)
        return
    for param in params:
        verdict = bound.policy.judge({**values(), "params": param})
        _act(outcome, bound.policy.name, name, spec.get("validationActions") or (), verdict)
        for key, value in verdict.annotations:
            short = value.encode()[:_LONGEST_ANNOTATION].decode(errors="ignore")
            if short not in published.setdefault(key, []):
                published[key].append(short)
        outcome.refusals += [
            Refusal(bound.policy.name, name, text, "") for text in verdict.failed_annotations
        ]


def namespace_of(a: Write) -> str:
    """Return where parameters of a write are looked for; a namespace lies in itself."""
    return a.namespace or (a.name if a.kind is NAMESPACES else "")


def _act(outcome: Outcome, policy: str, binding: str, actions: Sequence[str], verdict: Verdict) -> None:
    """Do what a binding wants done about refusals."""
    for denial in verdict.denials:
        for action in actions:
            if action == "Deny":
                outcome.refusals.append(Refusal(policy, binding, denial.message, denial.reason))
            elif action == "Warn":
                outcome.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': "
                    f"{denial.message}"
                )
            else:
                outcome.failures.append(
                    {
                        "message": denial.message,
                        "policy": policy,
                        "binding": binding,
                        "expressionIndex": denial.index,
                        "validationActions": list(actions),
                    }
                )


def _misconfigured(outcome: Outcome, policy: ValidatingPolicy, binding: str, problem: str) -> None:
    if not policy.ignores_failures:
        part = "binding" if binding else "policy"
        outcome.refusals.append(Refusal(policy.name, binding, f"failed to configure {part}: {problem}", ""))


# ── dispatch of MutatingAdmissionPolicies: order and reinvocation ──
# Spec: admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding, `reinvocationPolicy`. Policies, bindings and
# parameters are matched before the first mutation; match conditions see earlier mutations. If anything changed,
# admission runs once more, and policies with `IfNeeded` that ran before the change run again, never a third time.
# Policies and bindings go by name.


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
