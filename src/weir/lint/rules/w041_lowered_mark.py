"""W041: a manifest has marks of weir's operator in it, as if it were copied from a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Path, Subject
from weir.lowering.names import DOMAIN, GATE
from weir.objects.templates import TEMPLATE_PATHS, find_template


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
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
    gates = _mapping(template.get("spec")).get("schedulingGates")
    for number, gate in enumerate(gates if isinstance(gates, list) else ()):
        if _mapping(gate).get("name") == GATE:
            yield (*root, "spec", "schedulingGates", number, "name")


def _keys(value: Any, path: Path) -> Iterator[Path]:
    for part in path:
        value = _mapping(value).get(str(part))
    for key in _mapping(value):
        if str(key).startswith(f"{DOMAIN}/"):
            yield (*path, str(key))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


RULE = Rule(
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
    check=check,
)
