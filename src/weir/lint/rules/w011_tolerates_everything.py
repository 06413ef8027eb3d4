"""W011: no key with Exists tolerates everything."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the tolerations that name no key."""
    for path, toleration in subject.tolerations:
        if toleration.operator == "Exists" and not toleration.key and not toleration.expression:
            effect = f"every {toleration.effect} taint" if toleration.effect else "every taint"
            severity = Severity.NOTE if subject.kind == "DaemonSet" else None
            yield Problem(
                path,
                f"tolerates {effect}, node conditions too: the pod stays on nodes that are not ready or unreachable",
                "name the keys it should tolerate",
                severity,
            )


RULE = Rule(
    code="W011",
    name="tolerates-everything",
    severity=Severity.WARNING,
    summary="Exists without a key tolerates every taint, node conditions included.",
    help="""\
`operator: Exists` without a key is the wildcard. It also tolerates `node.kubernetes.io/unreachable` and
`not-ready` for ever, so the pod is not moved away from a dead node. For node agents that is meant (in a DaemonSet it
is only a note); for a workload it rarely is.""",
    check=check,
)
