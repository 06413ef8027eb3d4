"""W005: the comparison is strict, and the limit itself is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Path, Subject
from weir.objects.core import Taint, Toleration
from weir.taints.operators import Comparison, find_comparison
from weir.taints.toleration import find_tolerating


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the strict comparisons whose limit no other entry covers."""
    entries = [toleration for _, toleration in subject.tolerations]
    for path, toleration in subject.tolerations:
        comparison = find_comparison(toleration.operator)
        if comparison is not None and comparison.direction and comparison.strict and toleration.value:
            yield from _judge(path, toleration, comparison, entries, facts)


def _judge(
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
    known = f"a node carries exactly {taints[0]}, and " if at_limit else ""
    yield Problem(
        (*path, "value"),
        f"{toleration.operator} {toleration.value} means strictly {comparison.bound} {toleration.value}: "
        f"{known}the limit itself is not tolerated",
        f"if the limit should be included, add {{key: {toleration.key}, operator: {comparison.scale.equal}, "
        f'value: "{toleration.value}"}}',
        Severity.WARNING if at_limit else Severity.NOTE,
    )


def _is_limit(value: str, limit: str, comparison: Comparison) -> bool:
    parsed = comparison.scale.parse(value)
    return parsed is not None and parsed == comparison.scale.parse(limit)


RULE = Rule(
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
    check=check,
)
