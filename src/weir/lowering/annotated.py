"""Tolerations in an annotation, which unmodified API servers store as it is written.

Spec: stock.md 4. `operator: Gt` in a pod template is refused by an API server that does not know it, so what is stored
must differ from what was applied, and tools that compare the two report a difference for ever. In the annotation
`weir.dev/tolerations` of a pod template stands the same list, and nothing has to be changed: weir lowers the pods that
are made of it, and adds fields that nobody owns to DaemonSets. The list may use every operator and the field
`expression`. Its entries stand before those in `spec.tolerations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from weir.caches import bounded
from weir.lowering.names import ANNOTATED, marker_key, toleration_hash
from weir.lowering.tolerations import CEL, ENTRY_FIELDS, EVERY_FORM, MOST_ORIGINALS, is_extended
from weir.objects.manifest import ManifestError, read_values
from weir.validate.core.tolerations import validate_tolerations

Document = dict[str, Any]

#: The text of the annotation: a webhook reads it.
LONGEST: Final = 16 * 1024
#: What is said of the annotation: each entry may be wrong in some ways, and every error repeats what it is about.
MOST_ERRORS: Final = 10
LONGEST_ERROR: Final = 300
_FIELDS: Final = ENTRY_FIELDS | {"expression"}


def has_annotated(template: Mapping[str, Any]) -> bool:
    """Return whether a pod or pod template has tolerations in its annotation."""
    return bool(_text(template))


def annotated_tolerations(template: Mapping[str, Any]) -> list[Document]:
    """Return the tolerations in the annotation, expressions as `operator: CEL`; none where it is not valid.

    >>> metadata = {"annotations": {"weir.dev/tolerations": '[{expression: "taint.key == \\'a\\'"}]'}}
    >>> annotated_tolerations({"metadata": metadata})
    [{'operator': 'CEL', 'value': "taint.key == 'a'"}]
    """
    entries, errors = _read(_text(template))
    return [] if errors else [dict(entry) for entry in entries]


def annotation_problems(template: Mapping[str, Any], at: str = "") -> list[str]:
    """Return what is wrong with the annotation of a pod, or of the template at the path *at*."""
    place = f"{at}metadata.annotations[{ANNOTATED}]"
    return [f"{place}{error}" for error in _read(_text(template))[1]]


def with_annotated(template: Mapping[str, Any]) -> Document:
    """Return the template with the annotation's entries in its tolerations; those that are there are not repeated."""
    spec: Document = template.get("spec") or {}
    stored: Sequence[Document] = spec.get("tolerations") or ()
    markers = {entry.get("key") for entry in stored if isinstance(entry, dict)}
    missing = [
        entry
        for entry in annotated_tolerations(template)
        if entry not in stored and not (is_extended(entry) and marker_key(toleration_hash(entry)) in markers)
    ]
    return {**template, "spec": {**spec, "tolerations": [*missing, *stored]}} if missing else dict(template)


def _text(template: Mapping[str, Any]) -> str:
    metadata = template.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(ANNOTATED) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""


@bounded(most=256, longest=4096)  # pods of one workload have the same
def _read(text: str) -> tuple[tuple[Document, ...], tuple[str, ...]]:
    """Return the entries of the annotation's text, and what is wrong with them."""
    if len(text) > LONGEST:
        return (), (f": Too long: may not be more than {LONGEST} bytes",)
    try:
        values = read_values(text, "the annotation")
    except ManifestError as error:
        return (), (f": Invalid value: {error}",)
    if not values:
        return (), ()
    entries = values[0]
    if len(values) != 1 or not isinstance(entries, list) or not all(map(_is_entry, entries)):
        return (), (": Invalid value: must be a list of tolerations",)
    if len(entries) > MOST_ORIGINALS:  # aliases make thousands of a short text
        return (), (f": Too many: must have at most {MOST_ORIGINALS} items",)
    spelt = [_in_own_field(entry) for entry in entries]
    found = map(str, islice(validate_tolerations(spelt, "", EVERY_FORM), MOST_ERRORS))
    errors = tuple(text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…" for text in found)
    return tuple(map(_as_operator, entries)), errors


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not entry.keys() <= _FIELDS:
        return False
    seconds = entry.get("tolerationSeconds")
    texts = (entry.get(name, "") for name in _FIELDS - {"tolerationSeconds"})
    return all(isinstance(text, str) for text in texts) and (
        seconds is None or (type(seconds) is int and abs(seconds) < 1 << 63)
    )


def _in_own_field(entry: Document) -> Document:
    if entry.get("operator") != CEL:
        return entry
    rest = {name: value for name, value in entry.items() if name not in ("operator", "value")}
    return {**rest, "expression": entry.get("value") or ""}


def _as_operator(entry: Document) -> Document:
    if not entry.get("expression"):
        return entry
    rest = {name: value for name, value in entry.items() if name not in ("operator", "expression")}
    return {**rest, "operator": CEL, "value": entry["expression"]}
