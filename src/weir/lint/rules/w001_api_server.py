"""W001: the API server refuses this object, in its own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Path, Subject
from weir.validate import validate

_PART: Final = re.compile(r"\[([^\]]*)\]|([^.\[]+)")


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield every error the API server would answer this object with."""
    for error in validate(subject.value, gates=facts.gates):
        yield Problem(_path(error.field, subject.kind), str(error))


def _path(field: str, kind: str) -> Path:
    """Return where *field* stands in the document; some of the API server's own paths leave a part out."""
    if kind == "Node" and field.startswith("metadata.taints"):
        field = field.replace("metadata.taints", "spec.taints", 1)
    if kind == "PersistentVolume" and field.startswith("nodeAffinity"):
        field = f"spec.{field}"
    parts: list[str | int] = []
    for subscript, name in _PART.findall(field):
        parts.append(name or (int(subscript) if subscript.isdigit() else subscript))
    return tuple(parts)


RULE = Rule(
    code="W001",
    name="api-server-refuses",
    severity=Severity.ERROR,
    summary="The API server would refuse this object.",
    help="""\
The message is the one the API server answers with (HTTP 422), so `kubectl apply` would print it too. All errors of
an object are reported at once, in the API server's order. Which fields are allowed depends on the feature gates:
give the cluster's own with `--feature-gates`.

Some paths are the API server's and look odd: errors about a node's taints are reported under `metadata.taints`,
although the taints stand in `spec.taints`.""",
    check=check,
)
