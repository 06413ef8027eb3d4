"""Node selector matching.

Spec: KEP-5721 "Node Affinity Logic" and the node-affinity rules of the scheduler: terms are ORed, the requirements of
a term ANDed; an empty term, like an empty list of terms, matches nothing. Used for node affinity, PV affinity and
DaemonSets. The direction is *label OP requirement*. `Gt` and `Lt` accept any integer spelling here (`007`), unlike in
tolerations. An invalid requirement makes its whole term match nothing. In a PersistentVolume, matchFields are
ignored.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from weir.caches import bounded
from weir.gates import Gates
from weir.objects.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
)
from weir.objects.volumes import PersistentVolume
from weir.taints.operators import Comparison, find_in_affinity

NODE_NAME_FIELD: Final = "metadata.name"

_KEY_NAME: Final = re.compile(r"(?=.{1,63}\Z)([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z", re.ASCII)
_KEY_PREFIX: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z", re.ASCII
)
_LABEL_VALUE: Final = re.compile(r"(?=.{0,63}\Z)(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z", re.ASCII)


class Match(enum.Enum):
    """How one node met one requirement; each value is the phrase `weir explain` prints."""

    MATCHES = "matches"
    MISSING_LABEL = "the label is missing"
    HAS_LABEL = "the label must not be there"
    OTHER_VALUE = "the label has another value"
    EXCLUDED_VALUE = "the label has an excluded value"
    NOT_LESS = "the label's value is not lower"
    NOT_GREATER = "the label's value is not higher"
    NOT_AN_INTEGER = "the label's value is not an integer"
    NOT_A_VERSION = "the label's value is not a version"
    UNREADABLE = "the requirement cannot be read, so its term matches nothing"
    GATE_OFF = "the operator's feature gate is off"

    def __bool__(self) -> bool:
        return self is Match.MATCHES


def match_requirement(requirement: NodeSelectorRequirement, labels: Mapping[str, str], gates: Gates) -> Match:
    """Return how *labels* meet one matchExpressions *requirement*.

    >>> from weir.gates import ALL_FEATURES
    >>> newer = NodeSelectorRequirement("kubelet", "SemverGt", ("v1.31.99",))
    >>> match_requirement(newer, {"kubelet": "v1.32.0"}, ALL_FEATURES)
    <Match.MATCHES: 'matches'>
    """
    values = requirement.values or ()
    comparison = find_in_affinity(requirement.operator)
    if comparison is not None and not _enabled(comparison, gates):
        return Match.GATE_OFF
    if not _readable(requirement.operator, requirement.key, values):
        return Match.UNREADABLE
    found = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            if found is None:
                return Match.MISSING_LABEL
            return Match.MATCHES if found in values else Match.OTHER_VALUE
        case "NotIn":
            return Match.MATCHES if found is None or found not in values else Match.EXCLUDED_VALUE
        case "Exists":
            return Match.MISSING_LABEL if found is None else Match.MATCHES
        case "DoesNotExist":
            return Match.MATCHES if found is None else Match.HAS_LABEL
    if found is None:
        return Match.MISSING_LABEL
    assert comparison is not None  # no other operator can be read
    outcome = comparison.compare_label(values[0], found)
    return Match.MATCHES if outcome else Match[outcome.name]


def _enabled(comparison: Comparison, gates: Gates) -> bool:
    return not comparison.affinity_gate or gates.enabled(comparison.affinity_gate)


@bounded(most=4096)
def _readable(operator: str, key: str, values: tuple[str, ...]) -> bool:
    """Return whether the scheduler could parse a requirement at all."""
    comparison = find_in_affinity(operator)
    labels_only = True
    if comparison is not None:
        labels_only = comparison.scale.labels_only
        shaped = len(values) == 1 and comparison.scale.parse_label(values[0]) is not None
    elif operator in ("In", "NotIn"):
        shaped = len(values) > 0
    else:
        shaped = operator in ("Exists", "DoesNotExist") and not values
    return shaped and _is_label_key(key) and (not labels_only or all(map(_is_label_value, values)))


def _is_label_value(text: str) -> bool:
    return _LABEL_VALUE.match(text) is not None


def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    return _KEY_NAME.match(name) is not None and (not slash or _KEY_PREFIX.match(prefix) is not None)


def match_field(requirement: NodeSelectorRequirement, node_name: str) -> Match:
    """Return how the node called *node_name* meets one matchFields *requirement*."""
    values = requirement.values or ()
    if requirement.key != NODE_NAME_FIELD or requirement.operator not in ("In", "NotIn") or len(values) != 1:
        return Match.UNREADABLE
    if requirement.operator == "In":
        return Match.MATCHES if values[0] == node_name else Match.OTHER_VALUE
    return Match.EXCLUDED_VALUE if values[0] == node_name else Match.MATCHES


def match_term(
    term: NodeSelectorTerm, labels: Mapping[str, str], node_name: str | None, gates: Gates
) -> Iterator[tuple[NodeSelectorRequirement, Match]]:
    """Yield how each requirement of *term* was met; a node_name of None leaves matchFields out."""
    for requirement in term.match_expressions or ():
        yield requirement, match_requirement(requirement, labels, gates)
    if node_name is not None:
        for requirement in term.match_fields or ():
            yield requirement, match_field(requirement, node_name)


def term_matches(
    term: NodeSelectorTerm, labels: Mapping[str, str], node_name: str | None, gates: Gates
) -> bool:
    """Return whether *term* selects the node; a term that asks nothing selects nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(match for _, match in match_term(term, labels, node_name, gates))


def selects(selector: NodeSelector, labels: Mapping[str, str], node_name: str | None, gates: Gates) -> bool:
    """Return whether any term of *selector* selects the node.

    >>> term = NodeSelectorTerm((NodeSelectorRequirement("tier", "In", ("gpu",)),))
    >>> selects(NodeSelector((term,)), {"tier": "gpu"}, "n1", Gates())
    True
    """
    return any(term_matches(term, labels, node_name, gates) for term in selector.node_selector_terms or ())


def required_selector(pod: Pod) -> NodeSelector | None:
    """Return the pod's required node affinity, or None."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    return affinity.required if affinity else None


def preferred_terms(pod: Pod) -> tuple[PreferredSchedulingTerm, ...]:
    """Return the pod's preferred node affinity terms."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    return (affinity.preferred or ()) if affinity else ()


def pod_selects_node(pod: Pod, labels: Mapping[str, str], node_name: str, gates: Gates) -> bool:
    """Return whether nodeSelector and required node affinity of *pod* both accept the node."""
    wanted = pod.spec.node_selector or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    required = required_selector(pod)
    return required is None or selects(required, labels, node_name, gates)


@dataclass(frozen=True, slots=True)
class VolumeMatch:
    """Whether a volume can be used on a node."""

    volume: str
    matches: bool

    def __bool__(self) -> bool:
        return self.matches


def volume_selects_node(volume: PersistentVolume, labels: Mapping[str, str], gates: Gates) -> VolumeMatch:
    """Return whether *volume* may be used on a node with *labels*; it is judged by labels alone."""
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity else None
    matches = required is None or selects(required, labels, None, gates)
    return VolumeMatch(volume.metadata.name, matches)
