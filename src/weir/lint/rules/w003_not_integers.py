"""W003: a numeric comparison with a key whose taint values are not integers."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.rules.wording import listed
from weir.lint.subject import Facts, Subject
from weir.taints.operators import INTEGERS, find_comparison


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
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


RULE = Rule(
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
    check=check,
)
