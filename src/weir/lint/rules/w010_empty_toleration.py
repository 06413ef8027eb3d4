"""W010: an empty toleration is not nothing."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.objects.core import Toleration


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the tolerations without any content."""
    for path, toleration in subject.tolerations:
        if toleration == Toleration():
            yield Problem(
                path,
                "an empty toleration matches every taint that has no value, node conditions included; "
                "the API server refuses it, a component that dropped `expression` is left with it",
                "remove it, or write what it should tolerate",
            )


RULE = Rule(
    code="W010",
    name="empty-toleration",
    severity=Severity.WARNING,
    summary="The toleration {} tolerates every taint with an empty value.",
    help="""\
No operator means `Equal`, no key means every key, no effect every effect: `{}` is "any taint whose value is empty",
which includes `node.kubernetes.io/not-ready` and all its kin. The API server refuses it on creation. It appears all
the same where an old component drops the `expression` field it does not know: what remains is `{}`.""",
    check=check,
)
