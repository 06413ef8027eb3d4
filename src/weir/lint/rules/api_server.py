"""W001: the API server refuses this object, in its own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from weir.compat.customresources.definition import CustomKind
from weir.compat.customresources.pruning import find_unknown_fields as find_custom_unknown_fields
from weir.compat.customresources.values import NO_FIELD
from weir.fields.documents import closest, find_kind_problem, find_unknown_fields, show_path
from weir.fields.field import NOT_SUPPORTED, TYPE_INVALID, FieldError, context_for
from weir.gates import Gates
from weir.lint.rule import Edit, Problem, Rule, Severity
from weir.lint.subject import Facts, Path, Subject
from weir.lowering.annotated import annotation_problems
from weir.lowering.annotated_affinity import affinity_annotation_problems
from weir.lowering.names import ANNOTATED, ANNOTATED_AFFINITY
from weir.lowering.originals import with_expressions
from weir.objects.templates import TEMPLATE_PATHS
from weir.taints.operators import OPERATORS
from weir.validate import validate

_PART: Final = re.compile(r"\[([^\]]*)\]|([^.\[]+)")
_QUOTED: Final = re.compile(r'"([^"]*)"')
#: Words of YAML 1.1 that are not text unless quoted.
_NORWAY: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false"})
#: What finds problems in what an author's annotation says.
_ANNOTATIONS: Final = {
    ANNOTATED: annotation_problems,
    ANNOTATED_AFFINITY: affinity_annotation_problems,
}


def _api_server(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield every error the API server would answer this object with."""
    if subject.custom_kind is not None:
        yield from _custom(subject, subject.custom_kind, facts.gates)
        return
    if subject.is_written:
        yield from _undecodable(subject)
    if subject.kind and find_kind_problem(subject.api_version, subject.kind):
        return
    yield from _annotation(subject)
    for error in validate(with_expressions(subject.value), gates=facts.gates):
        path = _path(error.field, subject.kind)
        fix, edit = _fix(subject, path, error, facts.gates)
        text, place = str(error), subject.written_path(path)
        yield Problem(
            path, text if place == path else text.replace(error.field, show_path(place), 1), fix, edit=edit
        )


def _annotation(subject: Subject) -> Iterator[Problem]:
    """Yield what weir's operator refuses in tolerations and node affinity that stand in an annotation."""
    place = TEMPLATE_PATHS.get(subject.kind)
    if place is None:
        return
    template, at = _at(subject.value, place), "".join(f"{name}." for name in place)
    for name, problems in _ANNOTATIONS.items():
        for problem in problems(template, at):
            yield Problem((*place, "metadata", "annotations", name), problem)


def _at(document: Any, path: Path) -> Mapping[str, Any]:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _custom(subject: Subject, kind: CustomKind, gates: Gates) -> Iterator[Problem]:
    """Yield what the server says of a custom resource whose definition is among the files."""
    if subject.is_written:
        for path, within in find_custom_unknown_fields(subject.value, kind.schema):
            yield _unknown(path, closest(str(path[-1]), within.properties))
    for error in kind.validate(subject.value, context_for(gates, "", kind.namespaced, True)):
        path = () if error.field == NO_FIELD else _path(error.field, subject.kind)
        yield Problem(path, str(error), _fix(subject, path, error, gates)[0])


def _unknown(path: Path, meant: str) -> Problem:
    name = str(path[-1])
    return Problem(
        path,
        f'strict decoding error: unknown field "{show_path(path)}"',
        f"did you mean {meant}?" if meant else "remove it, or look for its right place",
        edit=Edit(name, meant) if meant.casefold() == name.casefold() else None,
        key=True,
    )


def _undecodable(subject: Subject) -> Iterator[Problem]:
    """Yield what strict decoding refuses; what a cluster has stored was decoded by a server that may know more."""
    if misspelt := subject.kind and find_kind_problem(subject.api_version, subject.kind):
        yield Problem((misspelt.field,), str(misspelt))
    for path, meant in find_unknown_fields(subject.value):
        yield _unknown(path, meant)


def _fix(subject: Subject, path: Path, error: FieldError, gates: Gates) -> tuple[str, Edit | None]:
    """Return what would mend an error, and the edit that does it where nothing else can have been meant."""
    if error.type == TYPE_INVALID and "must be a string, not" in error.detail:
        raw = subject.written(path)
        if not re.fullmatch(r"[\w.+-]+", raw):
            return "", None
        why = f"{raw} is a boolean in YAML" if raw.casefold() in _NORWAY else f"{raw} is a number in YAML"
        return f'{why}, not text: quote it: "{raw}"', Edit(raw, f'"{raw}"')
    if error.type == NOT_SUPPORTED and isinstance(error.value, str):
        allowed = _QUOTED.findall(error.detail)
        if path[-1:] == ("operator",) and "tolerations" in path:
            # The server lists the two oldest only, whatever its gates are.
            allowed = [each.name for each in OPERATORS.values() if not each.gate or gates.enabled(each.gate)]
        meant = closest(error.value, allowed)
        if not meant or meant == error.value:
            return "", None
        same = meant.casefold() == error.value.casefold() and subject.written(path) == error.value
        return f"did you mean {meant}? (one of {', '.join(allowed)})", Edit(
            error.value, meant
        ) if same else None
    return "", None


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


W001 = Rule(
    code="W001",
    name="api-server-refuses",
    severity=Severity.ERROR,
    summary="The API server would refuse this object.",
    help="""\
The message is the one the API server answers with, so `kubectl apply` would print it too: for fields the kind does not
have (`strict decoding error: unknown field`), for a kind it does not serve (`no matches for kind`), and for values
(HTTP 422). All errors of an object are reported at once, in the API server's order. Which values are allowed depends on
the feature gates: a live cluster is asked for its own, for files give them with `--feature-gates`.

A value that must be text and is not (`name: y`, `value: 950`) is what YAML makes of it: quote it, or let `--fix` do so.

Some paths are the API server's and look odd: errors about a node's taints are reported under `metadata.taints`,
although the taints stand in `spec.taints`. For an operator nobody knows it lists `Equal` and `Exists` only, whatever
its gates are; the fix names all that the gates allow. An expression may be spelt `operator: CEL` with the expression
as value, as clusters extended by `weir install` need it; it is judged like the field `expression`. Tolerations in the
annotation `weir.dev/tolerations`, and node affinity in `weir.dev/node-affinity`, are judged as weir's operator does.

Custom resources are checked where their CustomResourceDefinition is among the files, or in the dump given with
`--cluster`: fields and values by its schema, in the server's words. Rules of `x-kubernetes-validations` are not run
yet.""",
    check=_api_server,
)
