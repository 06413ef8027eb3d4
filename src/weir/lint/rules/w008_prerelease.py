"""W008: a suffix makes a version lower than the release it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.rules.wording import listed
from weir.lint.subject import Facts, Path, Subject
from weir.taints.operators import VERSIONS, Comparison, find_comparison, find_in_affinity
from weir.values.semver import find_tolerant


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the version limits that a known value misses only because of its suffix."""
    for path, toleration in subject.tolerations:
        comparison = find_comparison(toleration.operator)
        if comparison is not None and comparison.scale is VERSIONS:
            values = facts.values_by_key.get(toleration.key, ())
            yield from _judge((*path, "value"), comparison, toleration.value, values)
    for path, requirement in subject.requirements:
        comparison = find_in_affinity(requirement.operator)
        if comparison is not None and comparison.scale is VERSIONS and requirement.values:
            labels = sorted(facts.labels.get(requirement.key, ()))
            yield from _judge((*path, "values", 0), comparison, requirement.values[0], labels)


def _judge(path: Path, comparison: Comparison, asked: str, values: Iterable[str]) -> Iterator[Problem]:
    limit = find_tolerant(asked)
    if limit is None:
        return
    core = limit.key[:3]
    if limit.prerelease:
        yield Problem(
            path,
            f"{asked} is a prerelease of {'.'.join(map(str, core))}, so it is lower than that release",
            "compare with the plain release unless the prerelease is meant",
            Severity.NOTE,
        )
        return
    suffixed = [
        v for v in values if (found := find_tolerant(v)) and found.key[:3] == core and found.prerelease
    ]
    if not suffixed:
        return
    matches = comparison.compare_label(asked, suffixed[0])  # as all of them: below the limit
    verdict = f"{comparison.bound} {asked} and match" if matches else f"not {comparison.bound} {asked}"
    yield Problem(
        path,
        f"nodes have {listed(suffixed)}: the part after '-' makes it a prerelease, so these are {verdict}",
        f"to include them, compare with {VERSIONS.below(str(limit))}"
        if comparison.direction > 0
        else "compare with the next release",
    )


RULE = Rule(
    code="W008",
    name="prerelease-trap",
    severity=Severity.WARNING,
    summary="A distribution's suffix counts as a prerelease: 5.15.0-78-generic is below 5.15.0.",
    help="""\
In semantic versioning everything after the first `-` is a prerelease, and a prerelease is *lower* than its release.
Kernel and distribution suffixes are written the same way, so `5.15.0-78-generic` is below `5.15.0`, and
`SemverGt 5.14.99` is the way to say "5.15 or newer, suffix or not".

Needs nodes: give them with `--cluster`, or lint them together with the pods.""",
    check=check,
)
