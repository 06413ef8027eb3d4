"""W016: more tolerations than the other rules compare."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import MOST_TOLERATIONS, Facts, Subject


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the list of tolerations when it is longer than is compared."""
    if subject.pod_spec_path is not None and subject.toleration_count > MOST_TOLERATIONS:
        yield Problem(
            (*subject.pod_spec_path, "tolerations"),
            f"{subject.toleration_count} tolerations: rules look at the first {MOST_TOLERATIONS} of them",
            "tolerate a group of taints with one entry: a key with Exists, a comparison, or an expression",
        )


RULE = Rule(
    code="W016",
    name="too-many-tolerations",
    severity=Severity.WARNING,
    summary="A pod has more tolerations than rules compare with each other.",
    help=f"""\
The scheduler holds every toleration of a pod against every taint of a node, and several rules of `weir lint` compare
tolerations with each other. They look at the first {MOST_TOLERATIONS}; validation (W001) looks at all of them.""",
    check=check,
)
