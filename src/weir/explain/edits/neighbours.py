"""Edits for topology spread constraints and pod affinity.

maxSkew is raised to what the node needs; a required term becomes a preferred one. Only where neither is possible the
constraint is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from weir.explain.edits.edit import Edit
from weir.explain.edits.labels import PREFERRED, REQUIRED
from weir.scheduler.reasons import AvoidedPodNear, NoPodNear, NoTopologyDomain, TooSkewed


@dataclass(frozen=True)
class RaiseSkew(Edit):
    """Allow a larger difference between the domains of a spread constraint."""

    constraint: int
    topology_key: str
    before: int
    after: int

    @property
    def cost(self) -> float:
        return 25 + min(self.after - self.before, 10)

    def say(self) -> str:
        return f"allow maxSkew {self.after} instead of {self.before} over {self.topology_key}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        constraints = [dict(each) for each in spec.get("topologySpreadConstraints") or ()]
        if self.constraint < len(constraints):
            constraints[self.constraint]["maxSkew"] = self.after
        spec["topologySpreadConstraints"] = constraints


@dataclass(frozen=True)
class PreferSpread(Edit):
    """Spread as far as possible, instead of waiting."""

    cost: ClassVar[float] = 37
    constraint: int
    topology_key: str

    @property
    def order(self) -> tuple[int, ...]:
        return (1, -self.constraint)

    def say(self) -> str:
        return f"spread over {self.topology_key} as far as possible: whenUnsatisfiable ScheduleAnyway"

    def on_pod(self, spec: dict[str, Any]) -> None:
        constraints = [dict(each) for each in spec.get("topologySpreadConstraints") or ()]
        if self.constraint >= len(constraints):
            return
        changed = constraints[self.constraint]
        changed["whenUnsatisfiable"] = "ScheduleAnyway"
        changed.pop("minDomains", None)
        soft = [
            each
            for each in constraints
            if each.get("whenUnsatisfiable") == "ScheduleAnyway" and each is not changed
        ]
        if any(each.get("topologyKey") == changed.get("topologyKey") for each in soft):
            del constraints[self.constraint]  # one for each key and action: the other one says it already
        spec["topologySpreadConstraints"] = constraints


@dataclass(frozen=True)
class PreferTerm(Edit):
    """Prefer what a term of the affinity between pods requires."""

    cost: ClassVar[float] = 36
    part: str  #: podAffinity or podAntiAffinity
    term: int
    topology_key: str

    @property
    def order(self) -> tuple[int, ...]:
        return (1, -self.term)

    def say(self) -> str:
        what = "affinity" if self.part == "podAffinity" else "anti-affinity"
        return f"prefer instead of require the pod {what} over {self.topology_key}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        part = (spec.get("affinity") or {}).get(self.part) or {}
        required = list(part.get(REQUIRED) or ())
        if self.term >= len(required):
            return
        moved = required.pop(self.term)
        part[PREFERRED] = [*(part.get(PREFERRED) or ()), {"weight": 100, "podAffinityTerm": moved}]
        part[REQUIRED] = required
        if not required:
            del part[REQUIRED]


def for_neighbours(
    reason: TooSkewed | NoTopologyDomain | NoPodNear | AvoidedPodNear,
) -> Iterator[tuple[Edit, ...]]:
    """Yield what would let the pod in beside the others."""
    match reason:
        case TooSkewed(index, key, _, here, least, max_skew) if index >= 0:
            yield (RaiseSkew(index, key, max_skew, here - least),)
            yield (PreferSpread(index, key),)
        case NoTopologyDomain(index, key) if index >= 0:
            yield (PreferSpread(index, key),)
        case NoPodNear(term, key):
            yield (PreferTerm("podAffinity", term, key),)
        case AvoidedPodNear(term, key):
            yield (PreferTerm("podAntiAffinity", term, key),)
