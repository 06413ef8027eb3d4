"""Rules about pods that are refused, evicted in a loop, or cannot be scheduled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject


def _refused_pods(subject: Subject, facts: Facts) -> Iterator[Problem]:
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


W030 = Rule(
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
    check=_refused_pods,
)


_WHY: Final = {
    "TaintToleration": "kubelets reject them because of a taint the scheduler thought tolerated",
    "TaintManagerEviction": "they are placed on nodes with NoExecute taints and evicted again",
    "DeviceTaintManagerEviction": "they get devices with NoExecute taints and are evicted again",
    "NodeAffinity": "kubelets reject them because the node's labels do not match",
}


def _hot_loop(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the loop this workload's pods are in."""
    loop = facts.troubles.loops.get(subject.key)
    if loop is None:
        return
    why = _WHY.get(loop.reason, "they do not stay")
    message = f" ({loop.message})" if loop.message else ""
    yield Problem(
        subject.pod_spec_path or ("spec",),
        f"{loop.pods} of its pods were lost within the hour, reason {loop.reason}: {why}{message}",
        "look for a component whose feature gates differ from the others', or tolerate the taint everywhere",
    )


W031 = Rule(
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
    check=_hot_loop,
)


def _unschedulable_pods(subject: Subject, facts: Facts) -> Iterator[Problem]:
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


W032 = Rule(
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
    check=_unschedulable_pods,
)
