"""Node affinity in an annotation, which unmodified API servers store as it is written.

Spec: stock.md 8. An API server that does not know `SemverGt` refuses it in a node affinity, as it does in tolerations
(weir.lowering.annotated). The annotation `weir.dev/node-affinity` of a pod or pod template holds what else would stand
in `spec.affinity.nodeAffinity`. Where both are written a node must satisfy both. The pod of a DaemonSet is left as
its controller made it: the controller has evaluated the affinity of the template and named a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from weir.caches import bounded
from weir.fields.documents import find_unknown_fields, validate_shape
from weir.lowering.annotated import LONGEST, LONGEST_ERROR, MOST_ERRORS
from weir.lowering.names import ANNOTATED_AFFINITY, LABEL_VALUE, label_key, requirement_hash
from weir.lowering.requirements import EVERY_FORM, is_extended_requirement
from weir.objects.manifest import ManifestError, read_yaml
from weir.validate.core.affinity import validate_node_affinity

Document = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_FIELDS: Final = ("matchExpressions", "matchFields")  #: of a term
#: In the annotation, aliases followed: they make millions of a short text.
_MOST_VALUES: Final = 2048


def annotated_affinity(template: Mapping[str, Any]) -> Document:
    """Return the node affinity in the annotation; {} where there is none or it is not valid."""
    affinity, errors = _read(_text(template))
    return {} if errors else affinity


def affinity_annotation_problems(template: Mapping[str, Any], at: str = "") -> list[str]:
    """Return what is wrong with the annotation of a pod, or of the template at the path *at*."""
    place = f"{at}metadata.annotations[{ANNOTATED_AFFINITY}]"
    return [f"{place}{error}" for error in _read(_text(template))[1]]


def has_annotated_affinity(template: Mapping[str, Any]) -> bool:
    """Return whether a pod or pod template has node affinity in its annotation."""
    return bool(_text(template))


def with_annotated_affinity(template: Mapping[str, Any]) -> Document:
    """Return the template with the annotation's node affinity beside its own; what is there is not repeated."""
    written = annotated_affinity(template)
    if not written or _is_of_daemonset(template) or not _is_sound(template):
        return dict(template)
    spec: Document = template.get("spec") or {}
    affinity: Document = spec.get("affinity") or {}
    node = dict(affinity.get("nodeAffinity") or {})
    if _REQUIRED in written:
        node[_REQUIRED] = _both(node.get(_REQUIRED) or {}, written[_REQUIRED])
    if _PREFERRED in written:
        there = [_lowered_preference(each) for each in node.get(_PREFERRED) or ()]
        more = [each for each in written[_PREFERRED] if _lowered_preference(each) not in there]
        node[_PREFERRED] = [*(node.get(_PREFERRED) or ()), *more]
    return {**template, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": node}}}


def without_annotated_affinity(template: Mapping[str, Any], written: Mapping[str, Any]) -> Document:
    """Return the template without its node affinity where that is what the annotation of *written* says."""
    said = annotated_affinity(written)
    if not said or not _is_sound(template):
        return dict(template)
    spec: Document = template.get("spec") or {}
    affinity: Document = spec.get("affinity") or {}
    if _lowered(affinity.get("nodeAffinity") or {}) != _lowered(said):
        return dict(template)
    left = {name: value for name, value in affinity.items() if name != "nodeAffinity"}
    rest = {name: value for name, value in spec.items() if name != "affinity"}
    return {**template, "spec": {**rest, "affinity": left} if left else rest}


def affinity_of_now(template: Mapping[str, Any], before: Mapping[str, Any]) -> Document | None:
    """Return a DaemonSet's template with what its annotation says in place of what it said *before*.

    None where its author wrote a node affinity beside the annotation: the two could not be told apart again.
    """
    if not (has_annotated_affinity(template) or has_annotated_affinity(before)):
        return dict(template)
    plain = without_annotated_affinity(without_annotated_affinity(template, before), template)
    own = ((plain.get("spec") or {}).get("affinity") or {}).get("nodeAffinity")
    return None if own and has_annotated_affinity(template) else with_annotated_affinity(plain)


def _text(template: Mapping[str, Any]) -> str:
    metadata = template.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(ANNOTATED_AFFINITY) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""


@bounded(most=256, longest=4096)  # pods of one workload have the same
def _read(text: str) -> tuple[Document, tuple[str, ...]]:
    """Return the node affinity of the annotation's text, and what is wrong with it."""
    if len(text) > LONGEST:
        return {}, (f": Too long: may not be more than {LONGEST} bytes",)
    try:
        documents = read_yaml(text, "the annotation", _MOST_VALUES)
    except ManifestError as error:
        return {}, (f": Invalid value: {error}",)
    if not documents:
        return {}, ()
    value = documents[0].value
    if len(documents) > 1 or not isinstance(value, dict):
        return {}, (": Invalid value: must be a node affinity",)
    texts = tuple(
        text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…"
        for text in islice(_problems(value), MOST_ERRORS)
    )
    return value, texts


def _problems(affinity: Document) -> Iterator[str]:
    """Yield what an API server that knew every operator would refuse, and terms that match no node."""
    if _has_null(affinity):
        yield ": Invalid value: null"
        return
    pod = _pod_with({"nodeAffinity": affinity})
    shapes = [str(error).replace("spec.affinity.nodeAffinity", "", 1) for error in validate_shape(pod)]
    shapes += [f".{'.'.join(map(str, path[3:]))}: unknown field" for path, _ in find_unknown_fields(pod)]
    yield from shapes
    if shapes:
        return
    yield from map(str, validate_node_affinity(affinity, "", EVERY_FORM))
    terms = [*_terms(affinity), *(each.get("preference") or {} for each in affinity.get(_PREFERRED) or ())]
    if not all(map(_parts, terms)):
        yield ": Invalid value: an empty term matches no node"


def _terms(affinity: Mapping[str, Any]) -> Sequence[Document]:
    return (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()


def _pod_with(affinity: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"affinity": affinity}}


def _is_sound(template: Mapping[str, Any]) -> bool:
    """Return whether the affinity that stands in a template has its shape: objects are edited by hand."""
    spec = template.get("spec")
    affinity = spec.get("affinity") if isinstance(spec, dict) else None
    if _has_null(affinity):
        return affinity is None
    return next(validate_shape(_pod_with(affinity)), None) is None


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return value is None or (isinstance(value, list) and any(map(_has_null, value)))


def _is_of_daemonset(pod: Mapping[str, Any]) -> bool:
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("kind") == "DaemonSet" for owner in owners)


def _both(selector: Mapping[str, Any], other: Mapping[str, Any]) -> Document:
    """Return the selector of nodes that both select: terms are alternatives."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        return dict(other)
    joined: list[Document] = []
    for term in terms:
        if not _parts(term) or any(_parts(each) <= _parts(term) for each in other["nodeSelectorTerms"]):
            joined.append(term)  # an empty term matches no node
        else:
            joined += [_joined(term, each) for each in other["nodeSelectorTerms"]]
    return {"nodeSelectorTerms": joined}


def _joined(term: Mapping[str, Any], other: Mapping[str, Any]) -> Document:
    return {name: found for name in _FIELDS if (found := [*(term.get(name) or ()), *(other.get(name) or ())])}


# ── comparison of what was written with what it was lowered to ───────────────────────────────────

_Part = tuple[str, str, str, tuple[str, ...]]


def _parts(term: Mapping[str, Any]) -> frozenset[_Part]:
    """Return the requirements of a term as they are stored."""
    return frozenset((name, *_stored(each)) for name in _FIELDS for each in term.get(name) or ())


def _stored(requirement: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    if is_extended_requirement(requirement):
        return label_key(requirement_hash(requirement)), "In", (LABEL_VALUE,)
    return (
        requirement.get("key") or "",
        requirement.get("operator") or "",
        tuple(requirement.get("values") or ()),
    )


def _lowered_preference(preferred: Mapping[str, Any]) -> tuple[int, frozenset[_Part]]:
    return preferred.get("weight") or 0, _parts(preferred.get("preference") or {})


def _lowered(affinity: Mapping[str, Any]) -> tuple[Any, ...]:
    preferred = [_lowered_preference(each) for each in affinity.get(_PREFERRED) or ()]
    return [_parts(term) for term in _terms(affinity)], preferred
