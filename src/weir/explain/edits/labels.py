"""Edits for nodeSelector and required node affinity.

Each requirement is relaxed just enough: another value, a moved threshold, and only then removal. An empty term
matches nothing, so with its last requirement the whole affinity is removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from weir.explain.edits.edit import Edit, distance_between
from weir.explain.phrases import listed, requires
from weir.objects.core import NodeSelectorRequirement
from weir.scheduler.reasons import Unmet, UnmetTerm
from weir.selectors.node import Match
from weir.taints.operators import find_in_affinity
from weir.values.names import check_label_value

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class ChangeSelector(Edit):
    """Select another value of a label, or drop the label."""

    key: str
    wanted: str
    value: str | None

    @property
    def cost(self) -> float:
        return 30 if self.value is not None else 35

    def say(self) -> str:
        if self.value is None:
            return f"remove {self.key}={self.wanted} from nodeSelector"
        return f"select {self.key}={self.value} instead of {self.wanted}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        selector = dict(spec.get("nodeSelector") or {})
        if self.value is None:
            selector.pop(self.key, None)
        else:
            selector[self.key] = self.value
        spec["nodeSelector"] = selector
        if not selector:
            del spec["nodeSelector"]


@dataclass(frozen=True)
class ChangeRequirement(Edit):
    """Ask something else of a label in a term of the required node affinity, or nothing (values None)."""

    term: int
    unmet: Unmet
    values: tuple[str, ...] | None

    @property
    def cost(self) -> float:
        if self.values is None:
            return 35
        return 25 + 5 * distance_between(self.unmet.found or "", (self.unmet.requirement.values or ("",))[0])

    @property
    def order(self) -> tuple[int, ...]:
        return (1 if self.values is None else 0, -self.term, -self.unmet.index)

    def say(self) -> str:
        requirement = self.unmet.requirement
        what = "the node's name" if self.unmet.field == "matchFields" else f"the label {requirement.key}"
        if self.values is None:
            return f"no longer require {what}: {requires(requirement)}"
        after = requires(msgspec.structs.replace(requirement, values=self.values))
        return f"require {what}: {after}, instead of {requires(requirement)}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        affinity = spec.get("affinity") or {}
        required = (affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}
        terms = required.get("nodeSelectorTerms") or []
        if self.term >= len(terms):
            return
        term = terms[self.term]
        entries = list(term.get(self.unmet.field) or ())
        if self.unmet.index >= len(entries):
            return
        if self.values is None:
            del entries[self.unmet.index]
        else:
            entries[self.unmet.index] = {**entries[self.unmet.index], "values": list(self.values)}
        term[self.unmet.field] = entries
        if not entries:
            del term[self.unmet.field]
        if not term.get("matchExpressions") and not term.get("matchFields"):
            # A term that asks nothing matches nothing: the affinity itself has to go.
            drop_required_affinity(spec)


@dataclass(frozen=True)
class DropAffinity(Edit):
    """Require no node affinity at all."""

    cost: ClassVar[float] = 40

    def say(self) -> str:
        return "remove the required node affinity, which matches no node at all"

    def on_pod(self, spec: dict[str, Any]) -> None:
        drop_required_affinity(spec)


@dataclass(frozen=True)
class DropPreferences(Edit):
    """Drop preferences that cannot be parsed."""

    cost: ClassVar[float] = 5
    terms: tuple[int, ...]
    requirements: tuple[NodeSelectorRequirement, ...]

    def say(self) -> str:
        unreadable = listed(tuple(f"{each.key} {requires(each)}" for each in self.requirements), 3)
        return f"remove the preferred node affinity that cannot be read: {unreadable}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        kept = [term for index, term in enumerate(affinity.get(PREFERRED) or ()) if index not in self.terms]
        affinity[PREFERRED] = kept
        if not kept:
            _drop_affinity(spec, PREFERRED)


def drop_required_affinity(spec: dict[str, Any]) -> None:
    """Remove the required node affinity of a pod spec, and what is left empty by it."""
    _drop_affinity(spec, REQUIRED)


def _drop_affinity(spec: dict[str, Any], part: str) -> None:
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    node_affinity.pop(part, None)
    if not node_affinity:
        affinity.pop("nodeAffinity", None)
    if not affinity:
        spec.pop("affinity", None)


def for_term(term: UnmetTerm) -> list[Edit]:
    """Return the edits that together make one term select the node."""
    return [_for_requirement(term.index, unmet) for unmet in term.unmet]


def _for_requirement(term: int, unmet: Unmet) -> Edit:
    requirement, label = unmet.requirement, unmet.found
    values: tuple[str, ...] | None = None
    match requirement.operator, unmet.match:
        case "In", Match.OTHER_VALUE if label is not None and not check_label_value(label):
            # matchFields takes exactly one name.
            values = (label,) if unmet.field == "matchFields" else (*(requirement.values or ()), label)
        case "NotIn", Match.EXCLUDED_VALUE:
            values = tuple(value for value in requirement.values or () if value != label) or None
        case operator, Match.NOT_GREATER | Match.NOT_LESS | Match.OTHER_VALUE if label is not None:
            comparison = find_in_affinity(operator)
            limit = comparison.limit_for(label) if comparison is not None else ""
            # Affinity's own integers are label values, so a negative threshold cannot be written.
            values = (limit,) if limit and not limit.startswith("-") else None
    return ChangeRequirement(term, unmet, values)
