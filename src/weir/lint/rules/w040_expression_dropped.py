"""W040: a stock API server drops the field `expression`, and what is left may tolerate everything."""

from __future__ import annotations

import json
from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the fields `expression` of objects that are for a stock cluster."""
    if not facts.stock:
        return
    for path, toleration in subject.tolerations:
        place = (*path, "expression")
        if not toleration.expression or subject.written_path(place) != place:
            continue  # spelt as operator and value
        if toleration.operator == "Exists":
            scope = f"every taint with the key {toleration.key}" if toleration.key else "every taint"
            left = f"what is left is Exists and tolerates {scope}"
        elif not toleration.key:
            left = "what is left is an empty toleration, which is refused, or tolerates every taint without a value"
        else:
            left = f"what is left tolerates {toleration.key} whatever the expression says"
        yield Problem(
            place,
            f"a stock API server has no field expression: strict clients are refused, others lose it; {left}",
            f"write {{operator: CEL, value: {json.dumps(toleration.expression, ensure_ascii=False)}}}",
            key=True,
        )


RULE = Rule(
    code="W040",
    name="expression-dropped",
    severity=Severity.ERROR,
    summary="With `--target stock`: the field `expression` does not reach a cluster that weir extends.",
    help="""\
No release of Kubernetes has the field `expression`. Its API server takes it out before any webhook sees the object:
under strict field validation (kubectl's default) the write is refused with `unknown field`, server-side apply always
refuses it, and with `--validate=warn` or `ignore` it is silently dropped. The rest of the entry is stored, and
`{key: sla, operator: Exists, expression: …}` is then a plain Exists that tolerates everything.

On a cluster extended by `weir install` write the expression as the value of the operator `CEL`:

```yaml
tolerations:
- operator: CEL
  value: "taint.key == 'sla' && int(taint.value) > 900"
```

`weir explain`, `weir lint` and the library read both spellings.""",
    check=check,
)
