"""Rules about comparisons: values that are no integers or versions, limits, spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from weir.lint.rule import Edit, Problem, Rule, Severity, listed
from weir.lint.subject import Facts, Path, Subject
from weir.objects.core import Taint, Toleration
from weir.taints.operators import INTEGERS, VERSIONS, Comparison, find_comparison, find_in_affinity
from weir.taints.toleration import find_tolerating
from weir.values.integer import INT64_MAX, INT64_MIN, IntegerError, canonical_problem, parse_integer
from weir.values.semver import SemverError, find_tolerant, parse_tolerant


def _not_integers(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the numeric tolerations whose key is known to carry other values."""
    for path, toleration in subject.tolerations:
        comparison = find_comparison(toleration.operator)
        if comparison is None or comparison.scale is not INTEGERS:
            continue
        values = facts.values_by_key.get(toleration.key, ())
        unreadable = [value for value in values if INTEGERS.parse(value) is None]
        if unreadable:
            yield Problem(
                (*path, "operator"),
                f"{toleration.operator} compares integers, but nodes carry {toleration.key} with {listed(unreadable)}: "
                "such a taint is never tolerated",
                "tolerate those values with Equal, or change the taint to an integer",
            )


W003 = Rule(
    code="W003",
    name="taint-values-not-integers",
    severity=Severity.WARNING,
    summary="Lt or Gt is used with a key whose known taint values are not integers.",
    help="""\
`Lt` and `Gt` match only when both sides are canonical 64-bit integers: no leading zeros, no `+`, no fraction. A taint
with another value is legal, and simply never matches; no error is raised anywhere.

```yaml
# node:  taints: [{key: sla, value: high, effect: NoSchedule}]
tolerations:
- {key: sla, operator: Gt, value: "900"}   # never tolerates sla=high
```

Needs nodes: give them with `--cluster`, or lint them together with the pods.""",
    check=_not_integers,
)


def _not_versions(subject: Subject, facts: Facts) -> Iterator[Problem]:
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


W004 = Rule(
    code="W004",
    name="values-not-versions",
    severity=Severity.WARNING,
    summary="A Semver operator is used with a key whose known values are not versions.",
    help="""\
`SemverLt`, `SemverGt` and `SemverEq` read both sides forgivingly (`v1.2` is 1.2.0) but not everything is a version:
`containerd-2.1.4`, `V1.2.3` and `1.2.3.4` are not. Such a value never matches; no error is raised anywhere.

Needs nodes: give them with `--cluster`, or lint them together with the pods.""",
    check=_not_versions,
)


def _missing_equal(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the strict comparisons whose limit no other entry covers."""
    entries = [toleration for _, toleration in subject.tolerations]
    for path, toleration in subject.tolerations:
        comparison = find_comparison(toleration.operator)
        if comparison is not None and comparison.direction and comparison.strict and toleration.value:
            yield from _judge_limit(path, toleration, comparison, entries, facts)


def _judge_limit(
    path: Path, toleration: Toleration, comparison: Comparison, entries: Sequence[Toleration], facts: Facts
) -> Iterator[Problem]:
    effects = [toleration.effect] if toleration.effect else ["NoSchedule"]
    at_limit = [
        taint
        for taint in facts.taints_for(toleration)
        if _is_limit(taint.value, toleration.value, comparison)
    ]
    if facts.nodes and not at_limit:
        return
    taints = at_limit or [Taint(toleration.key, toleration.value, effect) for effect in effects]
    if all(find_tolerating(entries, taint, facts.gates) for taint in taints):
        return
    evidence = f"a node carries exactly {taints[0]}, and " if at_limit else ""
    yield Problem(
        (*path, "value"),
        f"{toleration.operator} {toleration.value} means strictly {comparison.bound} {toleration.value}: "
        f"{evidence}the limit itself is not tolerated",
        f"if the limit should be included, add {{key: {toleration.key}, operator: {comparison.scale.equal}, "
        f'value: "{toleration.value}"}}',
        Severity.WARNING if at_limit else Severity.NOTE,
    )


def _is_limit(value: str, limit: str, comparison: Comparison) -> bool:
    parsed = comparison.scale.parse(value)
    return parsed is not None and parsed == comparison.scale.parse(limit)


W005 = Rule(
    code="W005",
    name="limit-not-included",
    severity=Severity.WARNING,
    summary="Gt and Lt are strict: the limit itself is not tolerated.",
    help="""\
There is no `>=`. `Gt 950` does not tolerate a taint of exactly 950; "at least 950" takes two entries, or the next
integer:

```yaml
tolerations:
- {key: sla, operator: Equal, value: "950", effect: NoExecute}
- {key: sla, operator: Gt, value: "950", effect: NoExecute}
```

With nodes given, only a limit that a node really carries is reported, as a warning; without nodes it is a note.""",
    check=_missing_equal,
)


def _prerelease(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the version limits that a known value misses only because of its suffix."""
    for path, toleration in subject.tolerations:
        comparison = find_comparison(toleration.operator)
        if comparison is not None and comparison.scale is VERSIONS:
            values = facts.values_by_key.get(toleration.key, ())
            yield from _judge_prerelease((*path, "value"), comparison, toleration.value, values)
    for path, requirement in subject.requirements:
        comparison = find_in_affinity(requirement.operator)
        if comparison is not None and comparison.scale is VERSIONS and requirement.values:
            labels = sorted(facts.labels.get(requirement.key, ()))
            yield from _judge_prerelease((*path, "values", 0), comparison, requirement.values[0], labels)


def _judge_prerelease(
    path: Path, comparison: Comparison, threshold: str, values: Iterable[str]
) -> Iterator[Problem]:
    limit = find_tolerant(threshold)
    if limit is None:
        return
    core = limit.key[:3]
    if limit.prerelease:
        yield Problem(
            path,
            f"{threshold} is a prerelease of {'.'.join(map(str, core))}, so it is lower than that release",
            "compare with the plain release unless the prerelease is meant",
            Severity.NOTE,
        )
        return
    suffixed = [
        v for v in values if (version := find_tolerant(v)) and version.key[:3] == core and version.prerelease
    ]
    if not suffixed:
        return
    matches = comparison.compare_label(threshold, suffixed[0])  # as all of them: below the limit
    verdict = (
        f"{comparison.bound} {threshold} and match" if matches else f"not {comparison.bound} {threshold}"
    )
    yield Problem(
        path,
        f"nodes have {listed(suffixed)}: the part after '-' makes it a prerelease, so these are {verdict}",
        f"to include them, compare with {VERSIONS.below(str(limit))}"
        if comparison.direction > 0
        else "compare with the next release",
    )


W008 = Rule(
    code="W008",
    name="prerelease-trap",
    severity=Severity.WARNING,
    summary="A distribution's suffix counts as a prerelease: 5.15.0-78-generic is below 5.15.0.",
    help="""\
In semantic versioning everything after the first `-` is a prerelease, and a prerelease is *lower* than its release.
Kernel and distribution suffixes are written the same way, so `5.15.0-78-generic` is below `5.15.0`, and
`SemverGt 5.14.99` is the way to say "5.15 or newer, suffix or not".

Needs nodes: give them with `--cluster`, or lint them together with the pods.""",
    check=_prerelease,
)


_DIGITS: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)
_LONGEST: Final = 400


def _integer_spelling(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the tolerations whose number has leading zeros, a plus sign, or is out of range."""
    for path, toleration in subject.tolerations:
        value = toleration.value
        if not _DIGITS.match(value) or len(value) > _LONGEST:
            continue
        number = int(value)
        comparison = find_comparison(toleration.operator)
        compares_integers = comparison is not None and comparison.scale is INTEGERS
        if compares_integers and not INT64_MIN <= number <= INT64_MAX:
            yield Problem(
                (*path, "value"),
                f"{value} does not fit a signed 64-bit integer, so nothing can be compared with it",
                f"the limits are {INT64_MIN} and {INT64_MAX}",
            )
        elif canonical_problem(value) and compares_integers:
            yield Problem(
                (*path, "value"),
                f"{value} is not written canonically, and comparisons take no other form",
                f'write "{number}"',
                edit=_spelling_edit(subject, (*path, "value"), number),
            )
        elif canonical_problem(value) and str(number) in facts.values_by_key.get(toleration.key, ()):
            yield Problem(
                (*path, "value"),
                f"Equal compares text: {value} does not tolerate {toleration.key}={number}",
                f'write "{number}"',
            )


def _spelling_edit(subject: Subject, path: Path, number: int) -> Edit | None:
    """Return the edit of a quoted number; an unquoted one is none of a toleration's values."""
    written = subject.written(path)
    return Edit(written, f'"{number}"') if written[:1] in ("'", '"') else None


W012 = Rule(
    code="W012",
    name="integer-spelling",
    severity=Severity.WARNING,
    summary="A number has leading zeros, a plus sign, or does not fit 64 bits.",
    help="""\
`Lt` and `Gt` accept only canonical decimal integers between -9223372036854775808 and 9223372036854775807: `0950`,
`+5` and `-0` are refused. `Equal` accepts them, but compares text: `0950` does not tolerate a taint of `950`.""",
    check=_integer_spelling,
)


_NUMBER_LIKE: Final = re.compile(
    r"[+-]?[0-9][0-9_]*\Z|[0-9]+\.[0-9]+%?\Z|[0-9]+(?:\.[0-9]+)?[eEkKmM%]\Z", re.ASCII
)
_VERSION_LIKE: Final = re.compile(r"(?:[a-zA-Z]+[-_]?)?[vV]?[0-9]+(?:\.[0-9]+){1,}", re.ASCII)


def _unreadable_taint(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the taints whose value is meant to be compared and never can be."""
    for path, taint in subject.taints:
        value = taint.value
        if _NUMBER_LIKE.match(value) and (problem := _integer_problem(value)):
            also = " (as a version it can be)" if find_tolerant(value) else ""
            yield Problem(
                (*path, "value"),
                f"{taint.key}={value} looks like a number, but Lt and Gt cannot read it{also}: {problem}",
                "write a plain integer; scale fractions, such as 955 for 95.5",
            )
        elif _VERSION_LIKE.match(value) and find_tolerant(value) is None:
            yield Problem(
                (*path, "value"),
                f"{taint.key}={value} looks like a version, but Semver operators cannot read it: "
                f"{_semver_problem(value)}",
                "write a plain version, such as 2.1.4",
            )


def _integer_problem(value: str) -> str:
    try:
        parse_integer(value)
    except IntegerError as error:
        return str(error)
    return ""


def _semver_problem(value: str) -> str:
    try:
        parse_tolerant(value)
    except SemverError as error:
        return str(error)
    return ""


W013 = Rule(
    code="W013",
    name="unreadable-taint-value",
    severity=Severity.WARNING,
    summary="A taint's value looks comparable, but no comparison can read it.",
    help="""\
Taint values are never checked for being numbers or versions, so `0950`, `95.5` and `V1.2.3` are accepted on a node
and then match no `Lt`, `Gt` or Semver toleration, silently. Every pod that compares with that key stays away.""",
    check=_unreadable_taint,
)
