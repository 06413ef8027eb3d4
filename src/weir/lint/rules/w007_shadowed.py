"""W007: another entry already tolerates everything this one does."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.objects.core import Toleration
from weir.taints.operators import find_operator


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
    operator, other = find_operator(broad.operator), find_operator(narrow.operator)
    if operator is None or other is None:
        return broad.operator == narrow.operator and broad.value == narrow.value
    if not broad.key and operator.takes_value:
        return False
    return operator.covers(broad.value, other, narrow.value)


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
