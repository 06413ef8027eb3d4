"""A plan in a story of `weir demo`: searched in the story's cluster and carried out wave by wave.

As `weir plan run` does, each wave is forecast anew before it is made, and its state is waited for afterwards.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from weir.cli._what_if_changes import read_line
from weir.client.snapshot import WHAT_IF
from weir.errors import NotFound
from weir.explain.phrases import counted
from weir.gates import Gates
from weir.objects.times import format_time
from weir.plan.document import Made, Plan, Wave
from weir.plan.goals import GoalError, read_goals
from weir.plan.relax import find
from weir.plan.search import NoPlan, plan_of
from weir.plan.state import ClusterState
from weir.plan.verify import differences, unmet
from weir.simulation.cluster import Cluster
from weir.simulation.demo.play import Played
from weir.simulation.demo.story import PlanOf, StoryError
from weir.simulation.named_kinds import kind_called
from weir.whatif.changes import Change
from weir.whatif.run import HOUR, WhatIfOptions

Document = dict[str, Any]
_OPTIONS: Final = ("max-pending", "max-unavailable", "spare", "within")


def story_plan(cluster: Played, asked: PlanOf, gates: Gates) -> StoryPlan:
    """Search the plan that a step asks for; make its first wave, where there is one."""
    assert isinstance(cluster, Cluster)
    if unknown := sorted(asked.goals.keys() - set(_OPTIONS)):
        raise StoryError(f"plan {asked.name}: goals: {unknown[0]!r} is none of {', '.join(_OPTIONS)}")
    options: Document = {name.replace("-", "_"): text for name, text in asked.goals.items()}
    try:
        goals = read_goals(**options)
    except GoalError as error:
        raise StoryError(f"plan {asked.name}: goals: {error}") from None
    state = _state(cluster, gates, goals.within_seconds or HOUR)
    search, outcome = find([read_line(asked.change, asked.name)], state, goals, lambda *_: None)
    found = StoryPlan(cluster, gates)
    if isinstance(outcome, NoPlan):
        found.refused = outcome.breaches[0].text if outcome.breaches else "no plan was found"
        found.said = [f"would help: {each}" for each in outcome.relaxations]
        return found
    made = Made(at=format_time(cluster.now), command=f"weir plan {asked.change}")
    found.plan = plan_of(outcome, search, goals, made)
    found.left.extend(found.plan.waves)
    found.make_next()
    return found


@dataclass
class StoryPlan:
    """A plan that is carried out in a story's cluster."""

    cluster: Cluster
    gates: Gates
    plan: Plan | None = None
    left: deque[Wave] = field(default_factory=deque)
    waves: int = 0
    refused: str = ""
    said: list[str] = field(default_factory=list)
    _current: Wave | None = None

    @property
    def goes_on(self) -> bool:
        return self._current is not None

    def lines(self) -> list[str]:
        return self.said

    def look(self) -> None:
        """Make the next wave, if the last one has reached its state."""
        if self._current is not None and not unmet(self._current, _documents(self.cluster)):
            self.waves += 1
            self.make_next()

    def make_next(self) -> None:
        """Make the next wave, unless it would do more harm to the cluster than foreseen."""
        self._current = self.left.popleft() if self.left else None
        if self._current is None or self.plan is None:
            return
        wave = self._current
        changes: list[Change] = [read_line(line, f"wave {wave.number}") for line in wave.changes]
        if found := differences(self.plan, wave, changes, _state(self.cluster, self.gates, HOUR)):
            self.refused = f"{found[0].about}: foreseen: {found[0].foreseen}; found: {found[0].found}"
            self._current = None
            return
        for change in changes:
            change.make(self.cluster)
        evicted = counted(len(wave.evictions), "pod")
        self.said.append(f"wave {wave.number}: {'; '.join(wave.changes)}: evicts {evicted}")


def _state(cluster: Cluster, gates: Gates, until: float) -> ClusterState:
    return ClusterState.of(_documents(cluster), (), WhatIfOptions(gates, cluster.now, until))


def _documents(cluster: Cluster) -> list[Document]:
    documents = []
    for kind in WHAT_IF:
        try:
            listed = cluster.list(kind)
        except NotFound:  # an older release does not serve it
            continue
        documents += [{"apiVersion": kind_called(kind).api_version, "kind": kind, **each} for each in listed]
    return documents
