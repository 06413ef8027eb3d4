"""W043: on a stock cluster the pods of a DaemonSet with an expression tolerate node conditions, too."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the expressions of DaemonSets that are for a stock cluster."""
    if not facts.stock or subject.kind != "DaemonSet":
        return
    for path, toleration in subject.tolerations:
        if toleration.expression:
            yield Problem(
                (*path, "expression"),
                "an expression names no key, so on a stock cluster the DaemonSet's pods tolerate every taint of the "
                "nodes it selects, node conditions too; which nodes those are is still decided by the expression",
                "use Gt, Lt or a Semver operator with a key where that is enough",
            )


RULE = Rule(
    code="W043",
    name="expression-in-daemonset",
    severity=Severity.NOTE,
    summary="With `--target stock`: a DaemonSet's expression is lowered to Exists without a key.",
    help="""\
The DaemonSet controller judges nodes by the template, in which values would cause a rollout for each new taint. weir's
operator therefore lowers an extended toleration of a DaemonSet to `Exists` on its key and selects the nodes by a label
that it keeps. An expression has no key: what is left is `Exists` alone. Daemon pods tolerate node conditions anyway
(`not-ready`, `unreachable`, pressure, `unschedulable`), so this rarely matters; an `out-of-service` taint is tolerated
as well.""",
    check=check,
)
