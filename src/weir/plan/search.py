"""The search for a plan: which items go together, wave by wave, each forecast from the state the last one leaves.

All at once is forecast first: it tells which pods each node loses. Where that breaks a goal, nodes are put into waves
by first fit, so that no workload and no budget loses more pods in one than it may, and the waves are forecast in order.
One that breaks a goal is halved; a node that breaks one by itself is tried again at the end. Other orders follow, and
on few nodes every division into waves, so that "none" is proven. Waves are joined where that breaks nothing.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from weir.explain.phrases import counted, listed
from weir.plan.document import BREAKS, SCHEMA, Goals, Made, Plan, Search, Wave, totals
from weir.plan.goals import Breach, is_expensive, size, unavailable
from weir.plan.state import ClusterState, Step
from weir.plan.task import Task
from weir.plan.unknowns import unknowns
from weir.plan.waves import wave
from weir.selectors.labels import Selector, from_object
from weir.whatif.changes import Change
from weir.whatif.words import title

Tick = Callable[[str, int, int], None]
Items = tuple[str, ...]
Document = dict[str, Any]
#: Of so few items every division into waves is tried before it is said that there is none.
FEW: Final = 4
#: So many forecasts are made to make a plan better, or to find one in another order; of large clusters fewer.
MOST_FORECASTS: Final = 60
FEWEST_FORECASTS: Final = 10
_PODS_FORECAST: Final = 300_000


@dataclass(frozen=True)
class Placed:
    """A wave that keeps all goals."""

    items: Items
    changes: Sequence[Change]
    before: ClusterState
    step: Step


@dataclass(frozen=True)
class Found:
    """Waves that keep all goals, from first to last."""

    waves: tuple[Placed, ...]
    prepared: bool

    @property
    def groups(self) -> list[Items]:
        return [each.items for each in self.waves]

    @property
    def moved(self) -> int:
        return sum(len(each.step.forecast.leaving) for each in self.waves)

    @property
    def expensive(self) -> int:
        return sum(
            is_expensive(one, pods, each.before.options.now)
            for each in self.waves
            for pods in (each.before.evicted(each.step.forecast),)
            for one in each.step.forecast.leaving
        )

    @property
    def seconds(self) -> float:
        return sum(each.step.seconds for each in self.waves)

    @property
    def harm(self) -> tuple[int, int, float, int]:
        """Least first: pods moved, expensive ones of them, time, waves."""
        return self.moved, self.expensive, self.seconds, len(self.waves)


@dataclass
class NoPlan:
    """That there is no plan, or none was found, and why."""

    breaches: tuple[Breach, ...]
    proven: str  #: why there is none; "": only that none was found
    tried: tuple[str, ...] = ()
    forecasts: int = 0
    relaxations: list[str] = field(default_factory=list)  #: each proven by a forecast, as it is written

    def document(self) -> Document:
        """Return it as `weir.no-plan/v1`."""
        return {
            "schema": "weir.no-plan/v1",
            "proven": self.proven,
            "breaks": [{"goal": each.goal, "about": each.about, "text": each.text} for each in self.breaches],
            "relaxations": list(self.relaxations),
            "tried": list(self.tried),
            "forecasts": self.forecasts,
        }


class Searcher:
    """The search for the waves of one task under one set of goals."""

    def __init__(
        self, task: Task, state: ClusterState, goals: Goals, tick: Tick, most: int = MOST_FORECASTS
    ) -> None:
        """After *most* forecasts, fewer in a large cluster, nothing is tried that only makes a plan better."""
        self.task, self._state, self._goals, self._tick = task, state, goals, tick
        self._most = min(most, most_forecasts(len(state.pods)))
        self._rng = random.Random(state.options.seed)
        self.forecasts = 0
        self.tried: list[str] = []
        self.best: Found | None = None
        self._stuck: tuple[Breach, ...] = ()
        self._stage: tuple[str, int, int] | None = None  #: how far the search is; None: in its first forecast
        #: item → workload or budget, and the second in which it loses pods of the item → how many
        self._evicted: dict[str, Counter[tuple[str, int]]] = {}
        self._sizes: dict[str, int] = {}  #: workload → pods
        self._allowed: dict[str, int] = {}  #: what counts in common → how many pods at once
        self.fewest_moves, self.fewest_waves, self.bound = 0, 1, ""

    def search(self) -> Found | NoPlan:
        """Return the best plan that is found."""
        task = self.task
        at_once, broken = self._forecast(
            self._state, task.wave(task.items, first=True, last=True, prepared=True)
        )
        self._weigh(at_once)
        if task.together or len(task.items) == 1:
            self._note("all at once", broken)
            if not broken and not self._too_long(at_once.seconds):
                changes = task.wave(task.items, first=True, last=True, prepared=False)
                if task.prepare and len(changes) > 0:
                    return self._simplest(at_once)
                return Found((Placed(task.items, changes, self._state, at_once),), prepared=False)
        if proof := self._proof(broken):
            return NoPlan(tuple(self._blamed), proof, tuple(self.tried), self.forecasts)
        for words, groups, prepared in self._orders():
            if self._done() or (self.forecasts > self._most and self.tried[1:]):
                break
            if self._is_no_better(groups):
                self.tried.append(f"{words}: no fewer than {counted(len(groups), 'wave')}, not forecast")
            else:
                self._attempt(words, groups, prepared)
        if self.best is None and len(task.items) <= FEW and not task.ordered:
            self._try_all()
            if self.best is None:
                return NoPlan(
                    self._stuck or tuple(broken),
                    f"every division of {counted(len(task.items), 'node')} into waves was forecast",
                    tuple(self.tried),
                    self.forecasts,
                )
        if self.best is None:
            return NoPlan(self._stuck or tuple(broken), "", tuple(self.tried), self.forecasts)
        self._join_waves()
        return self.best

    # ── one wave, one sequence ──

    def _forecast(self, state: ClusterState, changes: Sequence[Change]) -> tuple[Step, list[Breach]]:
        self.forecasts += 1
        step = state.forecast(changes, self._beat)
        return step, state.breaches(self._goals, step)

    def _beat(self, done: int, total: int) -> None:
        """Tick within a forecast, so that a long one can be ended."""
        self._tick(*(self._stage or ("everything at once, seconds:", done, total)))

    def follow(self, groups: Sequence[Items]) -> tuple[Found, list[list[Breach]]]:
        """Forecast waves that are given, one after the other; return them, and what each breaks."""
        placed: list[Placed] = []
        broken: list[list[Breach]] = []
        state, prepared = self._state, len(groups) > 1
        for number, items in enumerate(groups):
            self._stage = ("forecasting waves:", number, len(groups))
            last = number + 1 == len(groups)
            changes = self.task.wave(items, first=not number, last=last, prepared=prepared)
            step, wrong = self._forecast(state, changes)
            placed.append(Placed(items, changes, state, step))
            broken.append(wrong)
            state = step.after
        found = Found(tuple(placed), prepared)
        if self._too_long(found.seconds):
            broken[-1].append(_late(found))
        return found, broken

    def _too_long(self, seconds: float) -> bool:
        return self._goals.within_seconds is not None and seconds > self._goals.within_seconds

    def _is_no_better(self, groups: Sequence[Items]) -> bool:
        """Return whether waves are not forecast, since neither pods nor waves would be fewer.

        In a small cluster others of as many may still be shorter, unless the order of the items is given.
        """
        best = self.best
        return (
            (self._most < MOST_FORECASTS or self.task.ordered)
            and best is not None
            and best.moved <= self.fewest_moves
            and len(groups) >= len(best.waves)
        )

    def _attempt(
        self, words: str, groups: Sequence[Items], prepared: bool, behind: Sequence[Placed] = ()
    ) -> Found | None:
        """Forecast waves one after the other, *behind* others; keep them when they are better than the best.

        They are given up when there is a best and no forecast is left, or when more pods are moved than in it.
        """
        placed = list(behind)
        state = placed[-1].step.after if placed else self._state
        queue, postponed = deque(groups), deque[Items]()
        stuck: list[Breach] = []
        while queue:
            items = queue.popleft()
            done = sum(len(each.items) for each in placed)
            self._stage = (f"{words}, nodes:", done, len(self.task.items))
            self._beat(0, 0)
            last = not queue and not postponed
            changes = self.task.wave(items, first=not placed, last=last, prepared=prepared)
            step, broken = self._forecast(state, changes)
            if not broken:
                placed.append(Placed(items, changes, state, step))
                state = step.after
                if self._gives_up(placed, queue, postponed):
                    self.tried.append(f"{words}: given up after {counted(len(placed), 'wave')}")
                    return None
                if postponed:
                    queue.extendleft(reversed(postponed))
                    postponed.clear()
            elif len(items) > 1:
                half = len(items) // 2
                queue.extendleft((items[half:], items[:half]))
            elif self.task.ordered:
                stuck = broken
                break
            else:
                stuck = broken
                postponed.append(items)
        if postponed or (self.task.ordered and stuck):
            self._stuck = tuple(stuck)
            self._note(words, stuck)
            return None
        found = Found(tuple(placed), prepared)
        if self._too_long(found.seconds):
            self._stuck = (_late(found),)
            self._note(words, self._stuck)
            return None
        self.tried.append(f"{words}: {counted(len(placed), 'wave')}, {counted(found.moved, 'pod')} moved")
        if self.best is None or found.harm < self.best.harm:
            self.best = found
        return found

    def _gives_up(self, placed: Sequence[Placed], *left: Sequence[Items]) -> bool:
        best = self.best
        if best is None or not any(left):
            return False
        moved = sum(len(each.step.forecast.leaving) for each in placed)
        return moved > best.moved or self.forecasts > self._most

    def _note(self, words: str, broken: Sequence[Breach]) -> None:
        self.tried.append(f"{words}: {broken[0].text}" if broken else f"{words}: keeps all goals")

    def _done(self) -> bool:
        best = self.best
        return best is not None and best.moved <= self.fewest_moves and len(best.waves) <= self.fewest_waves

    def _simplest(self, at_once: Step) -> Found:
        """Return one wave, without closing the nodes first where that moves no more pods."""
        task = self.task
        plain = task.wave(task.items, first=True, last=True, prepared=False)
        step, broken = self._forecast(self._state, plain)
        if not broken and len(step.forecast.leaving) <= len(at_once.forecast.leaving):
            return Found((Placed(task.items, plain, self._state, step),), prepared=False)
        changes = task.wave(task.items, first=True, last=True, prepared=True)
        return Found((Placed(task.items, changes, self._state, at_once),), prepared=True)

    # ── which items go together ──

    def _weigh(self, at_once: Step) -> None:
        """Work out what each item costs each workload and budget, and from that what any plan needs."""
        forecast, task, goals = at_once.forecast, self.task, self._goals
        items = set(task.items)
        pods = self._state.evicted(forecast)
        covers = self._budgets(at_once) if goals.keep_budgets else []
        for each in forecast.workloads:
            if "/DaemonSet/" not in each.name and "/Pod/" not in each.name:
                down = self._state.unready.get(each.name, {})
                self._sizes[each.name] = size(each, down)
                self._allowed[each.name] = max(unavailable(goals, self._sizes[each.name]) - len(down), 0)
        moved, one_by_one = 0, set[str]()  # workloads whose pods a budget lets go one by one
        for one in forecast.leaving:
            if one.node not in items:
                continue
            moved += 1
            shared, second = self._evicted.setdefault(one.node, Counter()), int(one.after.total_seconds())
            if one.workload in self._allowed and one.pod not in self._state.unready.get(one.workload, ()):
                shared[one.workload, second] += 1
            for name, covered in covers:
                if covered(pods.get(one.pod) or {}):
                    if task.asks_budgets:
                        one_by_one.add(one.workload)
                    else:
                        shared[name, second] += 1
        if task.evicts_alike:
            moved = len(forecast.leaving)
        elif task.ordered:
            return  # what a manifest or a component moves is not told apart
        self.fewest_moves = moved
        needed = _sum(self._evicted.values())
        waves = {
            name: (math.ceil(count / self._allowed[name]), count)
            for (name, _), count in needed.items()
            if self._allowed[name] and name not in one_by_one
        }
        words = (
            f"no plan moves fewer than {counted(moved, 'pod')}: so many do not stay where the change is made"
        )
        if waves and waves[most := max(waves, key=waves.__getitem__)][0] > 1:
            self.fewest_waves, count = waves[most]
            words += (
                f"; none has fewer than {self.fewest_waves} waves: {_subject(most)} may lose "
                f"{self._allowed[most]} at once, and {count} have to move"
            )
        self.bound = words

    def _budgets(self, at_once: Step) -> list[tuple[str, Callable[[Document], bool]]]:
        """Return the budgets, each with what says whether it counts a pod; note how many pods each may lose."""
        allowed = at_once.losable
        found: list[tuple[str, Callable[[Document], bool]]] = []
        for each in self._state.objects:
            if each.get("kind") == "PodDisruptionBudget":
                name = f"{each['metadata'].get('namespace') or 'default'}/{each['metadata']['name']}"
                selector = from_object((each.get("spec") or {}).get("selector"))
                if name in allowed and selector is not None:
                    self._allowed[name] = allowed[name]
                    found.append((name, partial(_covers, name.partition("/")[0], selector)))
        return found

    def _proof(self, broken: Sequence[Breach]) -> str:
        """Return why no division into waves helps, "" where one may."""
        items = set(self.task.items)
        self._blamed = [
            each for each in broken if each.goal in ("--force", "--spare") and set(each.nodes) <= items
        ]
        if self._blamed:
            return "whatever the waves, the pod is evicted"
        for item, shared in sorted(self._evicted.items()):
            for (name, _), count in shared.items():
                if count > self._allowed[name] and self._breaks_alone(item):
                    most, goal = self._allowed[name], "--max-unavailable" if _is_workload(name) else "budgets"
                    text = f"{item} has {counted(count, 'pod')} of {_subject(name)}, which may lose {most} at once"
                    self._blamed = [Breach(goal, name, text, (item,), count, self._sizes.get(name, 0))]
                    return "whatever the waves, a node loses all its pods at once"
        return ""

    def _breaks_alone(self, item: str) -> bool:
        """Return whether an item breaks a goal when it is all that is changed, with the others closed."""
        changes = self.task.wave((item,), first=True, last=False, prepared=True)
        return bool(self._forecast(self._state, changes)[1])

    def _orders(self) -> Iterator[tuple[str, list[Items], bool]]:
        """Yield divisions into waves, the most promising first."""
        task = self.task
        if task.ordered:
            if task.together and len(task.items) > 1:
                yield "as few waves as keep the order", [task.items], False
            yield "one by one", [(each,) for each in task.items], False
            return
        weight = {each: self._shared(each).total() for each in task.items}
        heavy = sorted(task.items, key=lambda each: (-weight[each], each))
        light = heavy[::-1]
        for words, order in (("by shared workloads, most pods first", heavy), ("fewest pods first", light)):
            yield words, self._first_fit(order), bool(task.prepare)
        if task.prepare:
            yield "without closing the nodes first", self._first_fit(heavy), False
        for number in (1, 2):
            mixed = list(task.items)
            self._rng.shuffle(mixed)
            yield f"in random order {number}", self._first_fit(mixed), bool(task.prepare)

    def _first_fit(self, order: Sequence[str]) -> list[Items]:
        """Put each item into the first wave in which nothing loses more pods than it may."""
        waves: list[tuple[list[str], Counter[tuple[str, int]]]] = []
        for item in order:
            shared = self._shared(item)
            for names, used in waves:
                if all(used[key] + count <= self._allowed[key[0]] for key, count in shared.items()):
                    names.append(item)
                    used.update(shared)
                    break
            else:
                waves.append(([item], Counter(shared)))
        return [tuple(names) for names, _ in waves]

    # ── thorough ──

    def _try_all(self) -> None:
        """Try every division of the items into waves, in every order."""
        for prepared in (True, False) if self.task.prepare else (False,):
            self._extend([], self._state, frozenset(self.task.items), prepared)
        self.tried.append(
            f"every division into waves: {'one keeps' if self.best else 'none keeps'} all goals"
        )

    def _extend(
        self, placed: list[Placed], state: ClusterState, left: frozenset[str], prepared: bool
    ) -> None:
        if not left:
            found = Found(tuple(placed), prepared)
            if not self._too_long(found.seconds) and (self.best is None or found.harm < self.best.harm):
                self.best = found
            return
        for count in range(len(left), 0, -1):
            for items in itertools.combinations(sorted(left), count):
                rest = left - set(items)
                changes = self.task.wave(items, first=not placed, last=not rest, prepared=prepared)
                step, broken = self._forecast(state, changes)
                if not broken:
                    self._extend([*placed, Placed(items, changes, state, step)], step.after, rest, prepared)
                elif count == 1:
                    self._stuck = self._stuck or tuple(broken)

    def _join_waves(self) -> None:
        """Join waves next to each other while that breaks nothing and the search is not too long."""
        assert self.best is not None
        place = 0
        while not self.task.ordered and place + 1 < len(self.best.waves):
            if self._done() or self.forecasts > self._most:
                return
            groups = self.best.groups
            joined = [*groups[:place], (*groups[place], *groups[place + 1]), *groups[place + 2 :]]
            if not self._fits(joined[place]):
                place += 1
                continue
            before = self.best
            words = f"waves {place + 1} and {place + 2} joined"
            self._attempt(words, joined[place:], before.prepared, before.waves[:place])
            if self.best is before:
                place += 1

    def _fits(self, items: Items) -> bool:
        used = _sum(map(self._shared, items))
        return all(count <= self._allowed[name] for (name, _), count in used.items())

    def _shared(self, item: str) -> Counter[tuple[str, int]]:
        return self._evicted.get(item, Counter())


def most_forecasts(pods: int) -> int:
    """Return how many forecasts of a cluster of so many pods are worth their time, after the first plan.

    >>> [most_forecasts(pods) for pods in (10, 10_000, 30_000, 150_000)]
    [60, 30, 10, 10]
    """
    return min(max(_PODS_FORECAST // max(pods, 1), FEWEST_FORECASTS), MOST_FORECASTS)


def _late(found: Found) -> Breach:
    needs = found.seconds
    return Breach("--within", "", f"{counted(len(found.waves), 'wave')} take {needs:.0f} s", needs=needs)


def _sum(counters: Iterable[Counter[tuple[str, int]]]) -> Counter[tuple[str, int]]:
    total = Counter[tuple[str, int]]()
    for each in counters:
        total.update(each)
    return total


def _is_workload(name: str) -> bool:
    return name.count("/") == 2


def _subject(name: str) -> str:
    return title(name) if _is_workload(name) else f"the budget {name}"


def _covers(namespace: str, selector: Selector, pod: Document) -> bool:
    """Return whether the selector of a budget in a namespace counts a pod."""
    metadata = pod.get("metadata") or {}
    own = (metadata.get("namespace") or "default") == namespace
    return own and selector.matches(metadata.get("labels") or {})


def plan_of(
    found: Found, search: Searcher, goals: Goals, made: Made, broken: Sequence[Sequence[Breach]] = ()
) -> Plan:
    """Return the document of waves that the *search* found; or that it followed: with what each of them breaks."""
    waves: list[Wave] = []
    starts = 0.0
    for number, each in enumerate(found.waves, 1):
        step = each.step
        waves.append(
            wave(
                each.changes,
                step.forecast,
                each.before.objects,
                number=number,
                starts=starts,
                seconds=step.seconds,
                budgets=step.budgets,
                unready=each.before.unready,
                nodes=each.items if set(each.items) <= each.before.node_names else None,
            )
        )
        if broken:
            wrong = (f"{BREAKS}{breach.text}" for breach in broken[number - 1])
            waves[-1] = msgspec.structs.replace(waves[-1], notes=(*waves[-1].notes, *wrong))
        starts = waves[-1].ends_after_seconds
    evicted = [pod for each in found.waves for pod in each.before.evicted(each.step.forecast).values()]
    moved = {one.workload for each in found.waves for one in each.step.forecast.leaving}
    not_known = unknowns(evicted, moved, found.waves[0].before.objects)
    later = [pod for each in found.waves for pod, _ in each.step.forecast.later]
    after = [f"{listed(later, 3)} leave after the time that was looked at"] if later else []
    return Plan(
        schema=SCHEMA,
        made=made,
        goals=goals,
        waves=tuple(waves),
        totals=totals(tuple(waves), found.expensive),
        not_known=(*not_known, *after),
        searched=None
        if broken
        else Search(
            forecasts=search.forecasts,
            tried=tuple(search.tried),
            fewest_moves=search.fewest_moves,
            fewest_waves=search.fewest_waves,
            bound=search.bound,
        ),
    )
