"""W006: no known taint can ever be tolerated by this entry."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.rules.wording import listed
from weir.lint.subject import Facts, Subject
from weir.objects.core import Toleration
from weir.taints.toleration import tolerates

#: Kubernetes itself sets these on nodes in trouble, so tolerating them is sensible though no node has them now.
_BY_KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the tolerations that tolerate none of the known taints."""
    if not facts.taints:
        return
    for path, toleration in subject.tolerations:
        if toleration.key.startswith(_BY_KUBERNETES) or not (toleration.key or toleration.expression):
            continue
        if not any(tolerates(toleration, taint, facts.gates) for taint in facts.taints):
            yield Problem(path, _why(toleration, facts), "remove it, or correct its key, value or effect")


def _why(toleration: Toleration, facts: Facts) -> str:
    if toleration.expression:
        return f"the expression tolerates none of the {len(facts.taints)} taints on the {facts.nodes} given nodes"
    same_key = [taint for taint in facts.taints if taint.key == toleration.key]
    if not same_key:
        return f"no given node has a taint with the key {toleration.key}"
    effects = sorted({taint.effect for taint in same_key})
    if toleration.effect and toleration.effect not in effects:
        return (
            f"{toleration.key} is on given nodes only with {' and '.join(effects)}, not {toleration.effect}"
        )
    values = list(dict.fromkeys(taint.value for taint in same_key))
    return f"no given node has {toleration.key} with a value this tolerates; the values are {listed(values)}"


RULE = Rule(
    code="W006",
    name="never-matches",
    severity=Severity.WARNING,
    summary="A toleration matches no taint of the given nodes.",
    help="""\
Every taint of the given nodes was held against this toleration, and none is tolerated by it. A misspelt key, a wrong
effect or an impossible value does no harm that anyone sees: the pod just stays pending.

Taints that Kubernetes sets by itself (`node.kubernetes.io/…`) are left out: they come and go.
Needs nodes: give them with `--cluster`, or lint them together with the pods.""",
    check=check,
)
