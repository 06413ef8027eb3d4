"""W012: a number is spelt in a way that no comparison accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weir.lint.rule import Edit, Problem, Rule, Severity
from weir.lint.subject import Facts, Path, Subject
from weir.taints.operators import INTEGERS, find_comparison
from weir.values.integer import INT64_MAX, INT64_MIN, canonical_problem

_DIGITS: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)
_LONGEST: Final = 400


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
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
                edit=_edit(subject, (*path, "value"), number),
            )
        elif canonical_problem(value) and str(number) in facts.values_by_key.get(toleration.key, ()):
            yield Problem(
                (*path, "value"),
                f"Equal compares text: {value} does not tolerate {toleration.key}={number}",
                f'write "{number}"',
            )


def _edit(subject: Subject, path: Path, number: int) -> Edit | None:
    """Return the edit of a quoted number; an unquoted one is none of a toleration's values."""
    written = subject.written(path)
    return Edit(written, f'"{number}"') if written[:1] in ("'", '"') else None


RULE = Rule(
    code="W012",
    name="integer-spelling",
    severity=Severity.WARNING,
    summary="A number has leading zeros, a plus sign, or does not fit 64 bits.",
    help="""\
`Lt` and `Gt` accept only canonical decimal integers between -9223372036854775808 and 9223372036854775807: `0950`,
`+5` and `-0` are refused. `Equal` accepts them, but compares text: `0950` does not tolerate a taint of `950`.""",
    check=check,
)
