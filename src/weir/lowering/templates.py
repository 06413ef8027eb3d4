"""Lowering of workload templates: markers and annotations, never values.

Spec: stock.md 4. A new taint must not cause a rollout, so the template says only what the user wrote, in words that a
stock cluster accepts; its pods get their entries when they are created. The same original gives the same template, so
that re-applying it changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from weir.lowering.affinity import affinity_problems, mark_affinity
from weir.lowering.names import REQUIREMENTS, TOLERATIONS
from weir.lowering.tolerations import mark, problems, write_originals

Document = dict[str, Any]

#: Where the pod template is, by kind; every other workload has it at spec.template.
_PLACES: Final = {"CronJob": ("spec", "jobTemplate", "spec", "template")}
_PLACE: Final = ("spec", "template")


def template_place(kind: str) -> tuple[str, ...]:
    """Return the path of the pod template in a workload of this *kind*."""
    return _PLACES.get(kind, _PLACE)


def template_of(workload: Mapping[str, Any], kind: str) -> Document:
    """Return the pod template of a workload, {} when it has none."""
    found: Any = workload
    for name in template_place(kind):
        found = (found or {}).get(name)
    return found or {}


def with_template(workload: Mapping[str, Any], kind: str, template: Document) -> Document:
    """Return the workload with another pod template."""
    return _replaced(workload, template_place(kind), template)


def _replaced(document: Mapping[str, Any], place: tuple[str, ...], value: Document) -> Document:
    name, *rest = place
    if not rest:
        return {**document, name: value}
    return {**document, name: _replaced(document.get(name) or {}, tuple(rest), value)}


def template_problems(template: Mapping[str, Any], at: str) -> list[str]:
    """Return what is wrong with the extended parts of a pod, or of a pod template at the path *at*."""
    spec = template.get("spec") or {}
    found = problems(spec.get("tolerations") or (), f"{at}spec.tolerations")
    return found + affinity_problems(spec.get("affinity"), f"{at}spec.affinity")


def mark_template(template: Mapping[str, Any], native_numeric: bool = False) -> Document:
    """Return a pod, or a pod template, with markers and labels in place of what is extended, originals annotated.

    >>> marked = mark_template({"spec": {"tolerations": [{"key": "a", "operator": "Lt", "value": "5"}]}})
    >>> marked["metadata"]["annotations"]
    {'lowered.weir.dev/tolerations': '{"ef70600c52c07c7a49ef":{"key":"a","operator":"Lt","value":"5"}}'}
    """
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    annotations = metadata.get("annotations")
    marked = mark(spec.get("tolerations") or (), annotations, native_numeric)
    if "tolerations" in spec:
        spec["tolerations"] = marked.tolerations
    affinity, requirements = mark_affinity(spec.get("affinity"), annotations)
    if affinity is not None:
        spec["affinity"] = affinity
    originals = {TOLERATIONS: marked.originals, REQUIREMENTS: requirements}
    if (changed := annotated(annotations, originals)) is not None:
        metadata["annotations"] = changed
    else:
        metadata.pop("annotations", None)
    result = {**template, "spec": spec}
    if metadata or "metadata" in template:
        result["metadata"] = metadata
    return result


def annotated(
    annotations: Mapping[str, Any] | None, originals: Mapping[str, Mapping[str, Document]]
) -> dict[str, Any] | None:
    """Return *annotations* with those of *originals* that are not empty, without those that are."""
    result = {key: value for key, value in (annotations or {}).items() if key not in originals}
    result |= {name: write_originals(found) for name, found in originals.items() if found}
    return result or None
