"""Rules about what a cluster without the extended API makes of a toleration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Path, Subject
from weir.lowering.names import DOMAIN, GATE
from weir.lowering.originals import extended_entries
from weir.objects.envelope import mapping
from weir.objects.templates import TEMPLATE_PATHS, find_template


def _expression_dropped(subject: Subject, facts: Facts) -> Iterator[Problem]:
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


W040 = Rule(
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
    check=_expression_dropped,
)


def _lowered_mark(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the places of a written manifest that name something of weir's operator."""
    if not subject.is_written:
        return  # in a cluster they are where they belong
    for path in _places(subject):
        yield Problem(
            path,
            f"{path[-1]} names a mark of weir's operator ({DOMAIN}/…), which stands for something written otherwise",
            "remove it, and write the toleration or requirement itself: the operator makes its marks anew",
        )


def _places(subject: Subject) -> Iterator[Path]:
    template = find_template(subject.value)
    root: Path = TEMPLATE_PATHS[subject.kind] if template is not None else ()
    yield from _keys(subject.value, ("metadata", "annotations"))
    yield from _keys(subject.value, ("metadata", "labels"))
    if template is None:
        return
    if root:
        yield from ((*root, *path) for path in _keys(template, ("metadata", "annotations")))
    yield from ((*root, *path) for path in _keys(template, ("spec", "nodeSelector")))
    for path, toleration in subject.tolerations:
        if toleration.key.startswith(f"{DOMAIN}/"):
            yield (*path, "key")
    for path, requirement in subject.requirements:
        if requirement.key.startswith(f"{DOMAIN}/"):
            yield (*path, "key")
    gates = mapping(template.get("spec")).get("schedulingGates")
    for number, gate in enumerate(gates if isinstance(gates, list) else ()):
        if mapping(gate).get("name") == GATE:
            yield (*root, "spec", "schedulingGates", number, "name")


def _keys(value: Any, path: Path) -> Iterator[Path]:
    for part in path:
        value = mapping(value).get(str(part))
    for key in mapping(value):
        if str(key).startswith(f"{DOMAIN}/"):
            yield (*path, str(key))


W041 = Rule(
    code="W041",
    name="lowered-mark",
    severity=Severity.WARNING,
    summary="A manifest names markers, labels or annotations that weir's operator makes.",
    help="""\
What `weir install` extends a cluster with writes marks under `lowered.weir.dev/` into objects: inert tolerations that
keep the place of an extended one, annotations that hold the original, node labels, a scheduling gate. A manifest that
was copied from such a cluster (`kubectl get -o yaml`) has them. Applied elsewhere, or after an edit, they say nothing
or the wrong thing: a marker tolerates no taint, and an entry that was made for one value knows no other.

Keep what you wrote in your manifests. `weir explain` and `weir what-if` show it for objects in a cluster.""",
    check=_lowered_mark,
)


def _bound_at_creation(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield nodeName of pods with extended tolerations that are for a stock cluster."""
    if not facts.stock or subject.pod_spec_path is None or not any(extended_entries(subject.value)):
        return
    spec = (find_template(subject.value) or {}).get("spec")
    if isinstance(spec, dict) and spec.get("nodeName"):
        yield Problem(
            (*subject.pod_spec_path, "nodeName"),
            "with nodeName weir's operator cannot hold the pod until its entries are complete: a NoExecute taint that "
            "the node gets in that moment can evict it although it is tolerated",
            "select the node by nodeSelector or affinity (kubernetes.io/hostname) instead",
        )


W042 = Rule(
    code="W042",
    name="bound-at-creation",
    severity=Severity.WARNING,
    summary="With `--target stock`: a pod with extended tolerations names its node.",
    help="""\
weir's operator holds new pods by a scheduling gate until every taint that exists and that they tolerate has its entry.
A pod that is created with `spec.nodeName` passes the scheduler and cannot be held. It gets its entries when it is
created; a taint that reaches its node before the operator has seen the pod is missing among them.""",
    check=_bound_at_creation,
)
