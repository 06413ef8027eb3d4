"""W032: the scheduler finds no node for pods of a workload that is there."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield what the scheduler says of this workload's pods."""
    waiting = facts.troubles.waiting.get(subject.key)
    if waiting is None:
        return
    kind, namespace, name = subject.key
    pods = (
        "the scheduler places it nowhere"
        if kind == "Pod"
        else f"the scheduler places {waiting.pods} of its pods nowhere"
    )
    yield Problem(
        subject.pod_spec_path or ("spec",),
        f"{pods}: {waiting.message}",
        f"`weir explain {kind.lower()}/{name} -n {namespace or 'default'}` says why, node by node, and what would help",
    )


RULE = Rule(
    code="W032",
    name="unschedulable-pods",
    severity=Severity.WARNING,
    summary="The scheduler finds no node for pods of this workload (live clusters only).",
    help="""\
A manifest without a fault can still ask for what no node has. What the cluster itself says counts here: the condition
PodScheduled (Unschedulable, SchedulerError) of the pods there are, or else their FailedScheduling events, told of the
workload a person wrote. Pods that scheduling gates hold back on purpose are not counted.

`weir explain` asks every filter of every node and proves the smallest change that would help; where its answer and the
cluster's differ it says so.""",
    check=check,
)
