"""W042: on a stock cluster a pod that is created on its node cannot be held until its entries are complete."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.lowering.originals import extended_entries
from weir.objects.templates import find_template


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield nodeName of pods with extended tolerations that are for a stock cluster."""
    if not facts.stock or subject.pod_spec_path is None or not any(extended_entries(subject.value)):
        return
    spec = (find_template(subject.value) or {}).get("spec")
    if isinstance(spec, dict) and spec.get("nodeName"):
        yield Problem(
            (*subject.pod_spec_path, "nodeName"),
            "with nodeName weir's operator cannot hold the pod until its entries are complete: a NoExecute taint that "
            "the node gets in that moment can evict it although it is tolerated",
            "select the node by nodeSelector or affinity (kubernetes.io/hostname) instead",
        )


RULE = Rule(
    code="W042",
    name="bound-at-creation",
    severity=Severity.WARNING,
    summary="With `--target stock`: a pod with extended tolerations names its node.",
    help="""\
weir's operator holds new pods by a scheduling gate until every taint that exists and that they tolerate has its entry.
A pod that is created with `spec.nodeName` passes the scheduler and cannot be held. It gets its entries when it is
created; a taint that reaches its node before the operator has seen the pod is missing among them.""",
    check=check,
)
