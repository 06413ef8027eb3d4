"""W031: pods of a workload are made, lost and made again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject

_WHY: Final = {
    "TaintToleration": "kubelets reject them because of a taint the scheduler thought tolerated",
    "TaintManagerEviction": "they are placed on nodes with NoExecute taints and evicted again",
    "DeviceTaintManagerEviction": "they get devices with NoExecute taints and are evicted again",
    "NodeAffinity": "kubelets reject them because the node's labels do not match",
}


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the loop this workload's pods are in."""
    loop = facts.troubles.loops.get(subject.key)
    if loop is None:
        return
    why = _WHY.get(loop.reason, "they do not stay")
    said = f" ({loop.message})" if loop.message else ""
    yield Problem(
        subject.pod_spec_path or ("spec",),
        f"{loop.pods} of its pods were lost within the hour, reason {loop.reason}: {why}{said}",
        "look for a component whose feature gates differ from the others', or tolerate the taint everywhere",
    )


RULE = Rule(
    code="W031",
    name="hot-loop",
    severity=Severity.WARNING,
    summary="Pods of this workload are made, rejected or evicted, and made again (live clusters only).",
    help="""\
The controller makes a pod, somebody rejects or evicts it, the controller makes the next. This happens when components
disagree, above all about tolerations: the scheduler's feature gates are on and the kubelet's or the controller
manager's are off, so that a pod that was placed correctly is rejected (reason TaintToleration) or evicted
(TaintManagerEviction) at once.

Read from pods that failed and from events of the last hour; three lost pods are a loop. Pods that are gone already are
counted by their events. Pods that were evicted once each, as a deliberate taint does, are no loop; and a workload that
has been ready for five minutes is in none any more.""",
    check=check,
)
