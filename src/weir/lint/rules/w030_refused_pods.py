"""W030: the API server refuses the pods of a workload that is there."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the server's answer to this workload's pods."""
    refusal = facts.troubles.refused.get(subject.key)
    if refusal is None:
        return
    times = f", {refusal.times} times so far" if refusal.times > 1 else ""
    yield Problem(
        subject.pod_spec_path or ("spec",),
        f"the API server refuses its pods{times}: {refusal.message}",
        "change the template to what the server accepts, or create what it asks for; the controller tries a new "
        "template at once",
    )


RULE = Rule(
    code="W030",
    name="refused-pods",
    severity=Severity.ERROR,
    summary="The API server refuses the pods of this workload (live clusters only).",
    help="""\
The workload was accepted, and every pod its controller tries to make is refused: by validation (a template that was
stored while a feature gate was on, or by an older server), by a quota, a missing priority class or service account, or
a webhook. `kubectl get` shows a workload that is simply not ready.

Read from the conditions ReplicaFailure and Progressing (ReplicaSetCreateError) and from FailedCreate events of the
last half hour that no success followed. weir's own controllers try such a template again after a pause that doubles,
raise one event, and count it in `weir_controllers_refused_creates_total`; Kubernetes' keep trying.""",
    check=check,
)
