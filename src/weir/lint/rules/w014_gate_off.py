"""W014: a feature is used whose gate is off, and what that does."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Path, Subject
from weir.taints.operators import find_in_affinity
from weir.taints.toleration import gate_of


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield every use of a gated feature whose gate is off; with it on, which workloads depend on it."""
    seen: set[str] = set()
    for path, word, gate in gated_uses(subject):
        if not facts.gates.enabled(gate):
            yield Problem(path, _off(subject, word, gate), f"turn it on with --feature-gates={gate}=true")
        elif subject.owns_pods and gate not in seen:
            seen.add(gate)
            yield Problem(
                path,
                f"{subject.name} would loop if {gate} were turned off: every pod its controller creates would be "
                "refused, again and again",
                f"rewrite it before turning {gate} off",
                Severity.NOTE,
            )


def gated_uses(subject: Subject) -> Iterator[tuple[Path, str, str]]:
    """Yield the path, the word and the gate of every gated feature *subject* uses."""
    for path, toleration in subject.tolerations:
        if gate := gate_of(toleration):
            field = "expression" if toleration.expression else "operator"
            yield (*path, field), "expression" if toleration.expression else toleration.operator, gate
    for path, requirement in subject.requirements:
        comparison = find_in_affinity(requirement.operator)
        if comparison is not None and comparison.affinity_gate:
            yield (*path, "operator"), requirement.operator, comparison.affinity_gate


def _off(subject: Subject, word: str, gate: str) -> str:
    effect = f"{word} needs the feature gate {gate}, which is off: it is refused when new and matches nothing"
    if subject.owns_pods:
        return f"{effect}; {subject.name} would loop, its controller creating pods that are refused"
    return effect


RULE = Rule(
    code="W014",
    name="gate-off",
    severity=Severity.WARNING,
    summary="A gated feature is used while its gate is off.",
    help="""\
With a gate off the API server refuses new objects that use the feature, while objects stored earlier stay and may be
updated. Matching treats such a toleration as absent: pending pods stay pending, and pods that rely on it for a
NoExecute taint are evicted.

The worst case is a Deployment, Job or DaemonSet stored while the gate was on: its controller creates pods that are
refused, for ever. Such workloads are named, as a note even while the gate is on, because they must be rewritten
before it is turned off.""",
    check=check,
)
