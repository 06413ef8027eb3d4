"""W013: a taint's value looks like a number or version, and no comparison can read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.values.integer import IntegerError, parse_integer
from weir.values.semver import SemverError, find_tolerant, parse_tolerant

_NUMBER_LIKE: Final = re.compile(
    r"[+-]?[0-9][0-9_]*\Z|[0-9]+\.[0-9]+%?\Z|[0-9]+(?:\.[0-9]+)?[eEkKmM%]\Z", re.ASCII
)
_VERSION_LIKE: Final = re.compile(r"(?:[a-zA-Z]+[-_]?)?[vV]?[0-9]+(?:\.[0-9]+){1,}", re.ASCII)


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
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


RULE = Rule(
    code="W013",
    name="unreadable-taint-value",
    severity=Severity.WARNING,
    summary="A taint's value looks comparable, but no comparison can read it.",
    help="""\
Taint values are never checked for being numbers or versions, so `0950`, `95.5` and `V1.2.3` are accepted on a node
and then match no `Lt`, `Gt` or Semver toleration, silently. Every pod that compares with that key stays away.""",
    check=check,
)
