"""Reconstruction of lowered objects as their authors wrote them, from markers, labels and annotations.

Spec: stock.md 2 and 4. `explain`, `what-if` and `lint` raise what they read from a cluster, and evaluate and show that.
Raised entries say the same as the lowered ones do together, for every taint, those that no node has yet included.
Objects are edited by hand. A marker without its original stays what it is, inert, and so does everything that is not
certainly weir's: an entry behind a marker counts as weir's only if lowering would write exactly it. An entry of the
user's that says what the extended one before it already says cannot be told from weir's own, and is left out. It never
decides anything. Also here: `operator: CEL` with the expression as value, which is how expressions are spelt on a stock
cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, cast

from weir.gates import ALL_FEATURES
from weir.lowering.annotated import annotated_tolerations, has_annotated, with_annotated
from weir.lowering.annotated_affinity import (
    has_annotated_affinity,
    with_annotated_affinity,
    without_annotated_affinity,
)
from weir.lowering.grace import split_grace
from weir.lowering.key_entries import split_keys
from weir.lowering.names import (
    ANNOTATED,
    ANNOTATED_AFFINITY,
    GATE,
    KEY_ENTRIES,
    LABEL_VALUE,
    REQUIREMENTS,
    TOLERATIONS,
    is_synthetic,
    labelled_hash,
    marked_hash,
)
from weir.lowering.tolerations import CEL, entry_for, is_extended, read_entry, read_originals
from weir.lowering.triples import Triple
from weir.objects.core import ViewError
from weir.objects.envelope import mapping
from weir.objects.templates import TEMPLATE_PATHS
from weir.taints.notation import NODE_EFFECTS
from weir.taints.toleration import tolerates

Document = dict[str, Any]
T = TypeVar("T")

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
#: Where templates are, those included that DaemonSets and StatefulSets compare their own with.
_TEMPLATES: Final = {**TEMPLATE_PATHS, "ControllerRevision": ("data", "spec", "template")}
_MARKS: Final = frozenset({TOLERATIONS, REQUIREMENTS, KEY_ENTRIES})


def raised(document: Any, *, keep_gate: bool = False) -> Any:
    """Return *document* as its author wrote it; the very same object when nothing of it was lowered.

    With *keep_gate* a pod keeps weir's scheduling gate: it is held, whatever its author wrote.

    >>> raised({"kind": "Node", "metadata": {"labels": {"lowered.weir.dev/a-1f": "true", "zone": "a"}}})
    {'kind': 'Node', 'metadata': {'labels': {'zone': 'a'}}}
    """
    if not isinstance(document, dict):
        return document
    kind = document.get("kind")
    if isinstance(document.get("items"), list) and str(kind).endswith("List"):
        return _changed_items(document, lambda item: raised(item, keep_gate=keep_gate))
    if kind == "Node":
        return _without_labels(document)
    if kind == "PersistentVolume":
        return _raised_volume(document)
    if not isinstance(kind, str) or kind not in _TEMPLATES:
        return document
    return _inside(document, _TEMPLATES[kind], lambda found: _raised_template(found, kind, keep_gate))


def _changed_items(document: Document, change: Callable[[Any], Any]) -> Document:
    """Return a List with its objects changed; a typed one may leave out the kind of its items."""
    kind = str(document["kind"]).removesuffix("List")
    items = []
    for item in document["items"]:
        if isinstance(item, dict) and kind and "kind" not in item:
            found = change({"kind": kind, **item})
            items.append({name: value for name, value in found.items() if name != "kind"})
        else:
            items.append(change(item))
    return {**document, "items": items}


def _inside(document: Document, path: tuple[str, ...], change: Callable[[Document], Document]) -> Document:
    """Return *document* with the object at *path* changed; itself when there is none, or nothing changes."""
    if not path:
        return change(document)
    part = document.get(path[0])
    if not isinstance(part, dict):
        return document
    changed = _inside(part, path[1:], change)
    return document if changed is part else {**document, path[0]: changed}


# ── pods and templates ───────────────────────────────────────────────────────────────────────────


def _raised_template(template: Document, kind: str, keep_gate: bool) -> Document:
    spec, metadata = template.get("spec"), mapping(template.get("metadata"))
    if not isinstance(spec, dict):
        return template
    annotations = mapping(metadata.get("annotations"))
    originals = read_originals(annotations)
    requirements = read_originals(annotations, REQUIREMENTS)
    changed = dict(spec)
    if originals and isinstance(spec.get("tolerations"), list):
        broad = any(labelled_hash(str(key)) for key in mapping(spec.get("nodeSelector")))
        entries = raised_tolerations(spec["tolerations"], originals, values=kind == "Pod", broad=broad)
        changed["tolerations"] = _without_annotated(entries, template)
        if entries and not changed["tolerations"]:  # the author wrote the annotation and no list
            del changed["tolerations"]
    if requirements and isinstance(spec.get("affinity"), dict):
        changed["affinity"] = _raised_affinity(spec["affinity"], requirements)
    if has_annotated_affinity(template):
        changed = without_annotated_affinity({**template, "spec": changed}, template)["spec"]
    _drop(changed, "nodeSelector", lambda name: not is_synthetic(name))
    if not keep_gate and isinstance(spec.get("schedulingGates"), list):
        gates = [each for each in spec["schedulingGates"] if mapping(each).get("name") != GATE]
        changed["schedulingGates"] = gates
        if not gates:
            del changed["schedulingGates"]
    unresolved = {labelled_hash(key) for key in _selected(changed)} - {""}
    unresolved |= {marked_hash(key) for key in _keys(changed.get("tolerations"))} - {""}
    if changed == spec and not annotations.keys() & _MARKS:
        return template
    result = {**template, "spec": changed}
    if annotations and not unresolved:
        kept = dict(metadata)
        _drop(kept, "annotations", lambda name: name not in _MARKS)
        result["metadata"] = kept
    return result


def raised_tolerations(
    tolerations: list[Any], originals: Mapping[str, Document], *, values: bool, broad: bool = False
) -> list[Any]:
    """Return the tolerations with originals in place of markers and what stood behind them.

    Behind the markers of a pod stand *values*, behind those of a DaemonSet and its pods *broad* entries.
    """
    result: list[Any] = []
    behind = ""
    for entry in split_keys(split_grace(tolerations)[0])[0]:
        hash_ = marked_hash(str(mapping(entry).get("key") or ""))
        if hash_ in originals:
            behind = hash_
            result.append(originals[hash_])
        elif behind and (
            (values and _is_value(entry, originals[behind]))
            or (broad and _is_broad(entry, originals[behind]))
        ):
            continue
        else:
            behind = ""
            result.append(entry)
    return result


def _without_annotated(entries: list[Any], template: Document) -> list[Any]:
    """Return *entries* without those that stand in the annotation of the pod or template."""
    written = annotated_tolerations(template)
    return [entry for entry in entries if entry not in written]


def _is_value(entry: Any, original: Document) -> bool:
    """Return whether lowering writes exactly this entry for the taint that it names."""
    if not isinstance(entry, dict) or entry.get("operator") != "Equal":
        return False
    key, value, effect = (entry.get(name) or "" for name in ("key", "value", "effect"))
    if not all(isinstance(part, str) for part in (key, value, effect)):
        return False
    triple = Triple(key, value, effect)
    try:
        read = read_entry(original)
        return entry == entry_for(triple, read) and bool(tolerates(read, triple.taint, ALL_FEATURES))
    except (ViewError, TypeError, ValueError):  # an annotation that somebody wrote
        return False


def _is_broad(entry: Any, original: Document) -> bool:
    """Return whether the entry is one of those that stand behind a DaemonSet's marker for *original*."""
    if not isinstance(entry, dict) or entry.get("operator") != "Exists" or entry.get("value"):
        return False
    key = "" if original.get("operator") == CEL else original.get("key") or ""
    effects = (original["effect"],) if original.get("effect") else (*NODE_EFFECTS, "")
    return (entry.get("key") or "") == key and (entry.get("effect") or "") in effects


def _raised_affinity(affinity: Document, requirements: Mapping[str, Document]) -> Document:
    def node_affinity(found: Document) -> Document:
        changed = dict(found)
        if isinstance(found.get(_REQUIRED), dict):
            changed[_REQUIRED] = _raised_selector(found[_REQUIRED], requirements)
        if isinstance(found.get(_PREFERRED), list):
            changed[_PREFERRED] = [
                _inside(each, ("preference",), lambda term: _raised_term(term, requirements))
                if isinstance(each, dict)
                else each
                for each in found[_PREFERRED]
            ]
        return changed

    return _inside(affinity, ("nodeAffinity",), node_affinity)


def _raised_selector(selector: Document, requirements: Mapping[str, Document]) -> Document:
    terms = selector.get("nodeSelectorTerms")
    if not isinstance(terms, list):
        return selector
    found = [_raised_term(term, requirements) if isinstance(term, dict) else term for term in terms]
    return {**selector, "nodeSelectorTerms": found}


def _raised_term(term: Document, requirements: Mapping[str, Document]) -> Document:
    expressions = term.get("matchExpressions")
    if not isinstance(expressions, list):
        return term
    return {**term, "matchExpressions": [_original_requirement(each, requirements) for each in expressions]}


def _original_requirement(requirement: Any, requirements: Mapping[str, Document]) -> Any:
    found = mapping(requirement)
    hash_ = labelled_hash(str(found.get("key") or ""))
    if hash_ in requirements and found.get("operator") == "In" and found.get("values") == [LABEL_VALUE]:
        return requirements[hash_]
    return requirement


# ── volumes and nodes ────────────────────────────────────────────────────────────────────────────


def _raised_volume(volume: Document) -> Document:
    metadata = mapping(volume.get("metadata"))
    requirements = read_originals(mapping(metadata.get("annotations")), REQUIREMENTS)
    if not requirements:
        return volume
    place = ("spec", "nodeAffinity", "required")
    result = dict(_inside(volume, place, lambda selector: _raised_selector(selector, requirements)))
    kept = dict(metadata)
    _drop(kept, "annotations", lambda name: name != REQUIREMENTS)
    result["metadata"] = kept
    return result


def _without_labels(node: Document) -> Document:
    def metadata(found: Document) -> Document:
        changed = dict(found)
        _drop(changed, "labels", lambda name: not is_synthetic(name))
        return found if changed == found else changed

    return _inside(node, ("metadata",), metadata)


# ── the stock spelling of expressions ────────────────────────────────────────────────────────────


def with_expression(entry: Any) -> Any:
    """Return a toleration with the field `expression` where it is spelt `operator: CEL`; others as they are.

    >>> with_expression({"operator": "CEL", "value": "taint.key == 'a'", "tolerationSeconds": 30})
    {'expression': "taint.key == 'a'", 'tolerationSeconds': 30}
    """
    if not isinstance(entry, Mapping) or entry.get("operator") != CEL:
        return entry
    expression = entry.get("value")
    if not isinstance(expression, str) or not expression:
        return entry
    rest = {name: value for name, value in entry.items() if name not in ("operator", "value")}
    return {"expression": expression, **rest}


def with_expressions(document: T) -> T:
    """Return a pod, a workload or a List of them with every toleration in `spec`, and as `with_expression` has it.

    A pod or workload in which none changes is returned itself.
    """
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(kind, str):
        return document
    if isinstance(document.get("items"), list) and kind.endswith("List"):
        return cast(T, _changed_items(document, with_expressions))
    if kind not in _TEMPLATES:
        return document

    return cast(T, _inside(document, _TEMPLATES[kind], _template_with_expressions))


def _template_with_expressions(template: Document) -> Document:
    if _has_annotations(template) and isinstance(template.get("spec"), dict):
        metadata = dict(template["metadata"])
        _drop(metadata, "annotations", lambda name: name not in (ANNOTATED, ANNOTATED_AFFINITY))
        template = {**with_annotated_affinity(with_annotated(template)), "metadata": metadata}
    return _inside(template, ("spec",), _spec_with_expressions)


def _spec_with_expressions(spec: Document) -> Document:
    entries = spec.get("tolerations")
    if not isinstance(entries, list) or not any(_is_stock_spelling(each) for each in entries):
        return spec
    return {**spec, "tolerations": [with_expression(each) for each in entries]}


def evaluated(document: T, *, keep_gate: bool = False) -> T:
    """Return *document* as weir's components read it: raised, with expressions in their own field."""
    return with_expressions(cast(T, raised(document, keep_gate=keep_gate)))


def _is_stock_spelling(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("operator") == CEL


# ── what is extended ─────────────────────────────────────────────────────────────────────────────


def extended_entries(document: Any) -> Iterator[Document]:
    """Yield the extended tolerations of a pod or workload as it was written, in any spelling."""
    template = _template(document)
    entries = mapping(template.get("spec")).get("tolerations")
    for entry in (*annotated_tolerations(template), *(entries if isinstance(entries, list) else ())):
        if isinstance(entry, dict) and (entry.get("expression") or is_extended(entry)):
            yield entry


def is_lowered(document: Any) -> bool:
    """Return whether weir's operator has had a hand in *document*, or will have in its pods."""
    return raised(document) is not document or _has_annotations(_template(document))


def _has_annotations(template: Mapping[str, Any]) -> bool:
    """Return whether the author of a pod or pod template wrote tolerations or node affinity as annotations."""
    return has_annotated(template) or has_annotated_affinity(template)


def _template(document: Any) -> Mapping[str, Any]:
    """Return the pod, or the pod template of a workload; {} for anything else."""
    kind = document.get("kind") if isinstance(document, dict) else None
    found: Any = document if isinstance(kind, str) and kind in TEMPLATE_PATHS else None
    for name in TEMPLATE_PATHS.get(str(kind), ()):
        found = mapping(found).get(name)
    return mapping(found)


# ── shapes that people may have broken ───────────────────────────────────────────────────────────


def _drop(holder: Document, name: str, keep: Callable[[str], bool]) -> None:
    """Keep only some entries of the mapping *name* in *holder*; one that is then empty goes."""
    found = holder.get(name)
    if not isinstance(found, dict) or all(keep(str(key)) for key in found):
        return
    kept = {key: value for key, value in found.items() if keep(str(key))}
    if kept:
        holder[name] = kept
    else:
        del holder[name]


def _keys(entries: Any) -> Iterator[str]:
    for entry in entries if isinstance(entries, list) else ():
        yield str(mapping(entry).get("key") or "")


def _selected(spec: Document) -> Iterator[str]:
    """Yield the label keys that the node affinity of a pod spec asks for."""
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    terms = mapping(affinity.get(_REQUIRED)).get("nodeSelectorTerms")
    preferred = affinity.get(_PREFERRED)
    for term in terms if isinstance(terms, list) else ():
        yield from _keys(mapping(term).get("matchExpressions"))
    for each in preferred if isinstance(preferred, list) else ():
        yield from _keys(mapping(mapping(each).get("preference")).get("matchExpressions"))
