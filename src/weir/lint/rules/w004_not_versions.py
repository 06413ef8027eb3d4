"""W004: a version comparison with a key whose taint or label values are not versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.rules.wording import listed
from weir.lint.subject import Facts, Subject
from weir.taints.operators import VERSIONS, find_comparison, find_in_affinity


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the version comparisons whose key is known to carry values that are no versions."""
    for path, toleration in subject.tolerations:
        comparison = find_comparison(toleration.operator)
        if comparison is None or comparison.scale is not VERSIONS:
            continue
        if bad := _unreadable(facts.values_by_key.get(toleration.key, ())):
            yield Problem(
                (*path, "operator"),
                f"{toleration.operator} compares versions, but nodes carry {toleration.key} with {listed(bad)}: "
                "such a taint is never tolerated",
                "put a plain version on the node, such as 2.1.4",
            )
    for path, requirement in subject.requirements:
        comparison = find_in_affinity(requirement.operator)
        if comparison is None or comparison.scale is not VERSIONS:
            continue
        if bad := _unreadable(sorted(facts.labels.get(requirement.key, ()))):
            yield Problem(
                (*path, "operator"),
                f"{requirement.operator} compares versions, but nodes have the label {requirement.key} with "
                f"{listed(bad)}: such a node never matches",
                "put a plain version in the label, such as 2.1.4",
            )


def _unreadable(values: Iterable[str]) -> list[str]:
    return [value for value in values if VERSIONS.parse(value) is None]


RULE = Rule(
    code="W004",
    name="values-not-versions",
    severity=Severity.WARNING,
    summary="A Semver operator is used with a key whose known values are not versions.",
    help="""\
`SemverLt`, `SemverGt` and `SemverEq` read both sides forgivingly (`v1.2` is 1.2.0) but not everything is a version:
`containerd-2.1.4`, `V1.2.3` and `1.2.3.4` are not. Such a value never matches; no error is raised anywhere.

Needs nodes: give them with `--cluster`, or lint them together with the pods.""",
    check=check,
)
