"""The smallest relaxation that makes a plan possible: each is searched like the plan itself before it is named.

Goals are loosened by as much as the breach needs, and again while another one stands in the way; nodes like one that is
there are added until all pods have room; nodes that break goals keep a value that their pods tolerate, or are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from weir.explain.phrases import counted, listed
from weir.objects.core import Node, Pod, read
from weir.objects.requests import node_allocatable
from weir.plan.document import Goals
from weir.plan.goals import Breach
from weir.plan.rewrite import without_features
from weir.plan.search import Found, NoPlan, Searcher, Tick, most_forecasts
from weir.plan.state import ClusterState
from weir.plan.task import Task, task_of
from weir.taints.operators import find_operator
from weir.taints.toleration import untolerated
from weir.whatif.changes import AddNodes, Change, Drain, Nodes, SetGates, Taint

Document = dict[str, Any]
#: So many goals are loosened together.
MOST_LOOSENED: Final = 5
#: So many nodes are added at most, and so many kinds of nodes and values tried.
MOST_NODES: Final = 64
MOST_KINDS: Final = 3
#: A search that only has to show that there is a plan.
_FORECASTS: Final = 8
#: All relaxations together take as many forecasts as this many thorough searches.
_SEARCHES: Final = 5


def find(
    changes: Sequence[Change], state: ClusterState, goals: Goals, tick: Tick, task: Task | None = None
) -> tuple[Searcher, Found | NoPlan]:
    """Search for the plan that makes *changes*; where there is none, also for what would make one possible.

    *task* is theirs, where it is another one than they have by themselves.
    """
    task = task or task_of(changes, state.objects)
    search = Searcher(task, state, goals, tick)
    outcome = search.search()
    if isinstance(outcome, NoPlan):
        outcome.relaxations = _relaxations(task, state, goals, outcome, changes[0], tick)
    return search, outcome


def _relaxations(
    task: Task, state: ClusterState, goals: Goals, none: NoPlan, change: Change, tick: Tick
) -> list[str]:
    """Return what would make a plan possible, each proven by a search."""
    relaxer = _Relaxer(task, state, goals, change, tick)
    found = [
        relaxer.drained_first(),
        relaxer.loosened(none),
        relaxer.other_value(none),
        relaxer.without_nodes(none),
    ]
    return [each for each in found if each]


class _Relaxer:
    def __init__(self, task: Task, state: ClusterState, goals: Goals, change: Change, tick: Tick) -> None:
        self._task, self._state, self._goals, self._change, self._tick = task, state, goals, change, tick
        self._left = _SEARCHES * most_forecasts(len(state.pods))

    def _search(self, task: Task, state: ClusterState, goals: Goals) -> Found | NoPlan:
        """Search for a plan while forecasts are left for all relaxations together."""
        if self._left <= 0:
            return NoPlan((), "")
        search = Searcher(task, state, goals, self._tick, _FORECASTS)
        outcome = search.search()
        self._left -= search.forecasts
        return outcome

    def drained_first(self) -> str:
        """Return how to empty the nodes one pod after the other before they are tainted."""
        if not isinstance(self._change, Taint) or not self._task.prepare:
            return ""
        drain = task_of([Drain(self._change.nodes)], self._state.objects)
        if isinstance(self._search(drain, self._state, self._goals), Found):
            return f"drain the nodes first, which asks budgets: `weir plan drain {self._change.nodes}`"
        return ""

    def loosened(self, none: NoPlan) -> str:
        """Return which goals to loosen, and what to add, "" if that does not help."""
        words: dict[str, str] = {}  # by what is loosened: a later value takes the place of an earlier one
        task, state, goals = self._task, self._state, self._goals
        for _ in range(MOST_LOOSENED):
            if not none.breaches:
                return ""
            breach = none.breaches[0]
            if breach.goal == "room":
                return self._with_nodes(task, state, goals, list(words.values()))
            loose = _loosen(breach, task, state, goals, self._change)
            if loose is None:
                return ""
            words[breach.goal + loose.about] = loose.words
            task, state, goals = loose.task, loose.state, loose.goals
            outcome = self._search(task, state, goals)
            if isinstance(outcome, Found):
                return " and ".join(words.values())
            none = outcome
        return ""

    def _with_nodes(self, task: Task, state: ClusterState, goals: Goals, words: list[str]) -> str:
        """Return how many nodes of a class to add so that all pods have room."""
        for model in _models(state, task):
            enough = self._enough_nodes(model, task, state, goals)
            if enough:
                command = f"weir what-if add-nodes {enough} --like {model}"
                added = f"{counted(enough, 'more node')} like {model} (`{command}`)"
                return " and ".join([*words, added])
        return ""

    def _enough_nodes(self, model: str, task: Task, state: ClusterState, goals: Goals) -> int:
        """Return the least number of nodes like *model* with which there is a plan, 0 if none is."""

        def helps(count: int) -> bool:
            larger = state.forecast([AddNodes(count, model)]).after
            return isinstance(self._search(task, larger, goals), Found)

        count = 1
        while not helps(count):
            count *= 2
            if count > min(MOST_NODES, 2 * len(state.pods)):
                return 0
        low = count // 2
        while count - low > 1:
            middle = (low + count) // 2
            low, count = (low, middle) if helps(middle) else (middle, count)
        return count

    def other_value(self, none: NoPlan) -> str:
        """Return which nodes could have another value of the taint, one that their pods tolerate."""
        change, blamed = self._change, self._blamed(none)
        if not isinstance(change, Taint) or len(change.edits) != 1 or not blamed:
            return ""
        taint = change.edits[0].taint
        for value in self._values(change, blamed)[:MOST_KINDS]:
            edit = replace(change.edits[0], taint=msgspec.structs.replace(taint, value=value))

            def changes(
                items: tuple[str, ...], other: Taint = replace(change, edits=(edit,))
            ) -> list[Change]:
                rest = tuple(each for each in items if each not in blamed)
                own = tuple(each for each in items if each in blamed)
                found: list[Change] = [replace(change, nodes=Nodes(rest))] if rest else []
                return [*found, *([replace(other, nodes=Nodes(own))] if own else [])]

            if isinstance(
                self._search(replace(self._task, changes=changes), self._state, self._goals), Found
            ):
                many = counted(len(blamed), "node")
                return f"{taint.key}={value}:{taint.effect} instead on {many} ({listed(sorted(blamed), 3)})"
        return ""

    def _values(self, change: Taint, nodes: set[str]) -> list[str]:
        """Return values of the taint that the pods of some nodes tolerate, the nearest to the asked one first."""
        taint, gates = change.edits[0].taint, self._state.options.gates
        tolerations = {
            read(Pod, self._state.pod(key)).tolerations for key, node in self._state.placed() if node in nodes
        }
        limits = {
            operator.value_for(each.value)
            for some in tolerations
            for each in some
            if each.key == taint.key and (operator := find_operator(each.operator)) is not None and each.value
        }

        def keeps(value: str) -> int:
            other = msgspec.structs.replace(taint, value=value)
            return sum(not untolerated((other,), some, gates) for some in tolerations)

        def distance(value: str) -> float:
            try:
                return abs(float(value) - float(taint.value))
            except ValueError:
                return math.inf

        helping = [value for value in limits if value != taint.value and keeps(value)]
        return sorted(helping, key=lambda value: (-keeps(value), distance(value), value))

    def without_nodes(self, none: NoPlan) -> str:
        """Return which nodes to leave out."""
        left, outcome = set[str](), none
        if self._task.ordered:
            return ""
        while blamed := self._blamed(outcome) - left:
            left |= blamed
            task = self._task.without(tuple(left))
            if not task.items:
                return ""
            tried = self._search(task, self._state, self._goals)
            if isinstance(tried, Found):
                return f"leave out {counted(len(left), 'node')}: {listed(sorted(left), 5)}"
            outcome = tried
        return ""

    def _blamed(self, none: NoPlan) -> set[str]:
        """Return the items that the first breach is about."""
        return set(none.breaches[0].nodes if none.breaches else ()) & set(self._task.items)


@dataclass(frozen=True)
class _Loose:
    """A question that asks for less."""

    words: str
    task: Task
    state: ClusterState
    goals: Goals
    about: str = ""


def _loosen(breach: Breach, task: Task, state: ClusterState, goals: Goals, change: Change) -> _Loose | None:
    """Return the question with the goal of *breach* loosened by as much as it needs, None if it cannot be."""
    set_to = msgspec.structs.replace
    match breach.goal:
        case "--max-unavailable":
            share = math.floor((breach.needs - 1) * 100 / max(breach.of, 1)) + 1
            relative = goals.max_unavailable.endswith("%")
            value = f"{min(share, 100)}%" if relative else f"{breach.needs:g}"
            return _Loose(f"--max-unavailable {value}", task, state, set_to(goals, max_unavailable=value))
        case "--max-pending" | "--within" | "--spare":
            hours, seconds = math.ceil(breach.needs / 3600), math.ceil(breach.needs)
            seconds, told = (hours * 3600, f"{hours}h") if hours > 1 else (seconds, f"{seconds}s")
            name = breach.goal.removeprefix("--").replace("-", "_") + "_seconds"
            return _Loose(f"{breach.goal} {told}", task, state, set_to(goals, **{name: float(seconds)}))
        case "--force":
            if isinstance(change, Drain):
                task = replace(task, changes=lambda items: [replace(change, nodes=Nodes(items), force=True)])
            return _Loose("--force", task, state, set_to(goals, allow_lost=True))
        case "budgets":
            return _budget_loosened(breach, task, state, goals)
        case "first":
            return _without_lost_features(task, state, goals)
    return None


def _without_lost_features(task: Task, state: ClusterState, goals: Goals) -> _Loose | None:
    """Return the question about a cluster in which nothing uses what components lose, None if nothing does already."""
    restarts = [each for item in task.items for each in task.changes((item,)) if isinstance(each, SetGates)]
    lost = frozenset(name for each in restarts for name in each.lost())
    words, after = without_features(state, lost, is_older=any(each.to for each in restarts))
    return _Loose(" and ".join(words), task, after, goals) if words else None


def _budget_loosened(breach: Breach, task: Task, state: ClusterState, goals: Goals) -> _Loose | None:
    """Return the question with a budget that allows one more disruption, or as many as one node needs."""
    namespace, _, name = breach.about.partition("/")
    for place, each in enumerate(state.objects):
        metadata = each["metadata"]
        if each.get("kind") == "PodDisruptionBudget" and (
            metadata.get("namespace") or "default",
            metadata["name"],
        ) == (
            namespace,
            name,
        ):
            spec = {
                key: value
                for key, value in each["spec"].items()
                if key not in ("minAvailable", "maxUnavailable")
            }
            now = each["spec"].get("maxUnavailable")
            most = max(int(breach.needs), (now if isinstance(now, int) else 0) + 1)
            objects = [*state.objects]
            objects[place] = {**each, "spec": {**spec, "maxUnavailable": most}}
            loose = ClusterState(objects, state.pods, state.options)
            told = f"let the budget {breach.about} allow {most} (spec.maxUnavailable: {most})"
            return _Loose(told, task, loose, goals, about=breach.about)
    return None


def _models(state: ClusterState, task: Task) -> list[str]:
    """Return a node of each class that could be added, those with the most room first."""
    classes: dict[Any, str] = {}
    sizes: dict[str, tuple[int, ...]] = {}
    for each in state.objects:
        name = each["metadata"]["name"]
        if each.get("kind") != "Node" or name in task.items or (each.get("spec") or {}).get("unschedulable"):
            continue
        allocatable = node_allocatable(read(Node, each)) or {}
        labels = {k: v for k, v in (each["metadata"].get("labels") or {}).items() if v != name}
        taints = str((each.get("spec") or {}).get("taints") or "")
        classes.setdefault((tuple(sorted(labels.items())), taints, tuple(sorted(allocatable.items()))), name)
        sizes[name] = (not taints, *(allocatable.get(key, 0) for key in ("cpu", "memory", "pods")))
    return sorted(classes.values(), key=lambda name: sizes[name], reverse=True)[:MOST_KINDS]
