"""W007: another entry already tolerates everything this one does."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.objects.core import Toleration
from weir.taints.operators import NUMERIC, SEMVER
from weir.values.integer import IntegerError, parse_integer
from weir.values.semver import find_tolerant


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield each toleration that an earlier, or an equally lasting later one makes useless."""
    entries = subject.tolerations
    for index, (path, toleration) in enumerate(entries):
        for other_index, (_, other) in enumerate(entries):
            if other_index == index or not covers(other, toleration):
                continue
            if other_index > index and (covers(toleration, other) or not _same_stay(toleration, other)):
                continue  # equal entries are reported once; a first entry with other seconds still decides
            yield Problem(
                path,
                f"this entry changes nothing: entry {other_index} ({_show(other)}) tolerates all that it does"
                + (" and comes first" if other_index < index else ""),
                "remove it",
            )
            break


def covers(broad: Toleration, narrow: Toleration) -> bool:
    """Return whether *broad* surely tolerates every taint that *narrow* tolerates.

    >>> covers(Toleration("sla", "Gt", "100"), Toleration("sla", "Gt", "900"))
    True
    """
    if broad.expression or narrow.expression:
        return broad.expression == narrow.expression
    if broad.key and broad.key != narrow.key:
        return False
    if broad.effect and broad.effect != narrow.effect:
        return False
    if broad.operator == "Exists":
        return True
    if not broad.key:
        return False
    return _values_cover(broad.operator or "Equal", broad.value, narrow.operator or "Equal", narrow.value)


def _values_cover(operator: str, value: str, narrow_operator: str, narrow_value: str) -> bool:
    if (operator, value) == (narrow_operator, narrow_value):
        return True
    for family, read, equal in ((NUMERIC, _integer, "Equal"), (SEMVER, find_tolerant, "SemverEq")):
        if operator not in family or narrow_operator not in (*family, equal):
            continue
        limit, inner = read(value), read(narrow_value)
        if limit is None or inner is None:
            return False
        if narrow_operator == equal:
            return bool(inner > limit if operator.endswith("Gt") else inner < limit)  # type: ignore[operator]
        if narrow_operator != operator:
            return False
        return bool(inner >= limit if operator.endswith("Gt") else inner <= limit)  # type: ignore[operator]
    return False


def _integer(text: str) -> int | None:
    try:
        return parse_integer(text)
    except IntegerError:
        return None


def _same_stay(first: Toleration, second: Toleration) -> bool:
    return first.toleration_seconds == second.toleration_seconds


def _show(toleration: Toleration) -> str:
    if toleration.expression:
        return f"expression {toleration.expression}"
    words = [toleration.key or "any key", toleration.operator or "Equal"]
    return " ".join(words + ([toleration.value] if toleration.value else []))


RULE = Rule(
    code="W007",
    name="shadowed",
    severity=Severity.WARNING,
    summary="A toleration is covered by a broader one and changes nothing.",
    help="""\
Tolerations are ORed, and for each taint the first entry that tolerates it decides, its `tolerationSeconds` included.
An entry behind a broader one is therefore never used.

```yaml
tolerations:
- {key: sla, operator: Exists}
- {key: sla, operator: Gt, value: "900"}   # never used
```

A range cannot be written either: `Gt 100` together with `Lt 200` tolerates everything but nothing in between is
excluded, because either entry is enough.""",
    check=check,
)
