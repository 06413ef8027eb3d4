"""Lowering of version requirements on nodes to labels that any scheduler understands.

Spec: stock.md 8. `{key, SemverGt, [version]}` becomes `{lowered.weir.dev/a-<hash>: In ["true"]}`, and a node carries
the label while its own labels satisfy the original, by weir.selectors' judgement. Required and preferred terms of pods
and the nodeAffinity of PersistentVolumes are treated alike; matchFields do not take these operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from weir.gates import ALL_FEATURES
from weir.lowering.names import LABEL_VALUE, REQUIREMENTS, label_key, labelled_hash, requirement_hash
from weir.lowering.requirements import is_extended_requirement, requirement_problems
from weir.lowering.tolerations import read_originals
from weir.objects.core import NodeSelectorRequirement
from weir.selectors.node import match_requirement

Document = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def mark_affinity(
    affinity: Mapping[str, Any] | None, annotations: Mapping[str, Any] | None = None
) -> tuple[Document | None, dict[str, Document]]:
    """Return a pod's *affinity* with labels in place of SemVer requirements, and these by hash."""
    node = (affinity or {}).get("nodeAffinity")
    if affinity is None or not node:
        return (None if affinity is None else dict(affinity)), {}
    known = read_originals(annotations, REQUIREMENTS)
    found: dict[str, Document] = {}
    node = dict(node)
    if node.get(_REQUIRED):
        node[_REQUIRED] = _mark_selector(node[_REQUIRED], known, found)
    if node.get(_PREFERRED):
        node[_PREFERRED] = [
            {**term, "preference": _mark_term(term.get("preference") or {}, known, found)}
            for term in node[_PREFERRED]
        ]
    return {**affinity, "nodeAffinity": node}, found


def mark_volume(volume: Mapping[str, Any]) -> tuple[Document, dict[str, Document]]:
    """Return a PersistentVolume with labels in place of SemVer requirements, and these by hash."""
    spec = dict(volume.get("spec") or {})
    affinity = spec.get("nodeAffinity") or {}
    if not affinity.get("required"):
        return dict(volume), {}
    known = read_originals((volume.get("metadata") or {}).get("annotations"), REQUIREMENTS)
    found: dict[str, Document] = {}
    spec["nodeAffinity"] = {**affinity, "required": _mark_selector(affinity["required"], known, found)}
    return {**volume, "spec": spec}, found


def _mark_selector(
    selector: Mapping[str, Any], known: Mapping[str, Document], found: dict[str, Document]
) -> Document:
    terms = [_mark_term(term, known, found) for term in selector.get("nodeSelectorTerms") or ()]
    return {**selector, "nodeSelectorTerms": terms}


def _mark_term(
    term: Mapping[str, Any], known: Mapping[str, Document], found: dict[str, Document]
) -> Document:
    if not term.get("matchExpressions"):
        return dict(term)
    expressions = []
    for requirement in term["matchExpressions"]:
        hash_ = labelled_hash(requirement.get("key") or "")
        if is_extended_requirement(requirement):
            hash_ = requirement_hash(requirement)
            found[hash_] = dict(requirement)
            requirement = {"key": label_key(hash_), "operator": "In", "values": [LABEL_VALUE]}
        elif hash_ in known:
            found[hash_] = known[hash_]
        expressions.append(dict(requirement))
    return {**term, "matchExpressions": expressions}


def affinity_problems(affinity: Mapping[str, Any] | None, at: str) -> list[str]:
    """Return what a server that knew SemVer requirements would refuse them for, in its words."""
    node = (affinity or {}).get("nodeAffinity") or {}
    required = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    found = _term_problems(required, f"{at}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[{{}}]")
    preferred = [term.get("preference") or {} for term in node.get(_PREFERRED) or ()]
    return found + _term_problems(preferred, f"{at}.nodeAffinity.{_PREFERRED}[{{}}].preference")


def volume_problems(volume: Mapping[str, Any]) -> list[str]:
    """Return what a server that knew SemVer requirements would refuse a PersistentVolume's for."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    terms = required.get("nodeSelectorTerms") or ()
    return _term_problems(terms, "spec.nodeAffinity.required.nodeSelectorTerms[{}]")


def _term_problems(terms: Any, at: str) -> list[str]:
    return [
        error
        for t, term in enumerate(terms)
        if any(is_extended_requirement(r) for r in term.get("matchExpressions") or ())
        for error in requirement_problems(term, at.format(t))
    ]


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────


def holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a node with *labels* satisfies an original requirement.

    >>> holds({"key": "v", "operator": "SemverGt", "values": ["1.2.3"]}, {"v": "v1.3.0"})
    True
    """
    values = tuple(requirement.get("values") or ())
    read = NodeSelectorRequirement(requirement.get("key") or "", requirement.get("operator") or "", values)
    return bool(match_requirement(read, labels, ALL_FEATURES))


def requirement_labels(
    requirements: Mapping[str, Mapping[str, Any]], labels: Mapping[str, str]
) -> Iterator[str]:
    """Yield the synthetic labels that a node with *labels* carries for the originals *requirements*."""
    for hash_, requirement in requirements.items():
        if holds(requirement, labels):
            yield label_key(hash_)


def relabelled(labels: Mapping[str, str], wanted: set[str], known: set[str]) -> dict[str, str]:
    """Return *labels* with exactly the *wanted* of the *known* synthetic labels; unknown ones are left alone."""
    kept = {key: value for key, value in labels.items() if key not in known or key in wanted}
    return kept | dict.fromkeys(sorted(wanted), LABEL_VALUE)
