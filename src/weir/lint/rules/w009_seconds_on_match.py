"""W009: tolerationSeconds evicts the pod although the value is good."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.taints.toleration import compares


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the comparisons that carry a time limit."""
    for path, toleration in subject.tolerations:
        if toleration.toleration_seconds is None:
            continue
        if compares(toleration):
            seconds = max(0, toleration.toleration_seconds)
            yield Problem(
                (*path, "tolerationSeconds"),
                f"the pod is evicted after {seconds} s even while the value is good, and at once when it turns bad",
                "leave tolerationSeconds out: the comparison alone keeps the pod while the value is good",
            )


RULE = Rule(
    code="W009",
    name="seconds-on-match",
    severity=Severity.WARNING,
    summary="tolerationSeconds limits a toleration that matches; it is no grace after the value degrades.",
    help="""\
`tolerationSeconds` says how long a *matching* toleration lasts. A pod with `Lt 5` and 30 seconds on a node at 2 is
evicted 30 seconds after it arrives; its controller puts a new one there, and so on. When the value rises to 5 the
toleration no longer matches and the pod is deleted at once: there is no grace either way beyond
`terminationGracePeriodSeconds`.""",
    check=check,
)
