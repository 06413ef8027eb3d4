"""The answer to a what-if question, computed from the history of a copy.

Evictions with time, cause and the new node; eviction loops; pending pods and their reasons; disruption budgets that are
violated or block; free room. By workload, in the order of time. Words are in weir.whatif.words, the JSON document in
weir.whatif.report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from weir.gates import Gates
from weir.objects.core import Node, Pod, ViewError, read
from weir.taints.toleration import untolerated
from weir.whatif.eviction_loops import DRIVEN, EvictionLoop, WorkloadOf
from weir.whatif.history import Cause, History, PodLife, Why, after
from weir.whatif.upgrade_order import ORDER

Document = dict[str, Any]


@dataclass(frozen=True)
class EvictedPod:
    """An evicted pod, and what becomes of it."""

    pod: str
    node: str
    after: timedelta
    cause: Cause
    owner: str  #: `ReplicaSet/web-5d4`, "" for a pod without an owner
    workload: str  #: its title: the Deployment above the ReplicaSet, the pod itself if it has no owner
    goes_to: str = ""  #: the node of what was made in its place
    again_after: timedelta | None = None  #: when that has to leave too, counted from when it got its node
    ends_on: str = ""  #: where the last one made in its place runs at the end
    why_nowhere: str = ""  #: why nothing runs in its place at the end
    wanted: bool = True  #: False for one that its owner took away: nothing should run in its place
    circles: bool = False  #: whether those made in its place are driven out again and again
    lands_after: timedelta | None = None  #: when what was made in its place got its node

    @property
    def lost(self) -> bool:
        """Whether nothing runs in its place at the end, though something should."""
        return self.wanted and not self.ends_on and not self.circles


@dataclass(frozen=True)
class SchedulabilityChange:
    """A pod that becomes schedulable by the change, or unschedulable."""

    pod: str
    node: str
    why_not: str = ""
    workload: str = ""
    waited_for: str = ""  #: what the scheduler said before the change


@dataclass(frozen=True)
class LockedOut:
    """A pod that stays on its node, though the scheduler would not put it there again."""

    pod: str
    node: str
    workload: str
    why: str


@dataclass(frozen=True)
class Workload:
    """What the change does to one workload, or to one pod without an owner."""

    name: str  #: `namespace/Kind/name`
    before: int  #: pods that ran before the change
    after: int  #: pods that run at the end
    pods: int  #: how many of those had to go
    left: int  #: how often one had to go, those made in their place counted too
    lowest: int  #: the fewest that ran at any time
    waiting: int  #: pods that wait at the end
    lost: int  #: pods in whose place nothing runs, though something should
    why: str = ""  #: why they wait or are lost
    first: timedelta = timedelta()
    moves: tuple[tuple[str, str, int], ...] = ()  #: from, to, how many
    causes: tuple[str, ...] = ()
    circle: EvictionLoop | None = None
    loops_anyway: bool = False  #: whether it is evicted in the same loop without the change
    anyway: int = 0  #: how many of `pods` leave at the same time without the change
    lost_anyway: int = 0  #: how many of `lost` are lost without the change, too

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """Worst first."""
        return (-(self.circle is not None), -self.lost, -self.left, self.name)

    @property
    def order(self) -> tuple[Any, ...]:
        """First to lose a pod first; of one moment, worst first."""
        return (self.first, *self.rank)


@dataclass(frozen=True)
class Budget:
    """A PodDisruptionBudget that is broken for a while, or that keeps pods from being evicted."""

    name: str
    desired: int
    lowest: int
    broken_for: timedelta | None = None  #: None: it was not; zero: until the end
    until_the_end: bool = False
    blocks: tuple[str, ...] = ()  #: pods whose eviction it refused to the end


@dataclass(frozen=True)
class Forecast:
    """What the change does."""

    said: tuple[str, ...]  #: the changes, as commands
    changed: tuple[str, ...]  #: what they changed, `node/n1`
    leaving: tuple[EvictedPod, ...] = ()
    circles: tuple[EvictionLoop, ...] = ()
    workloads: tuple[Workload, ...] = ()  #: in the order of time
    staying: int = 0  #: pods on the changed nodes that stay
    locked_out: tuple[LockedOut, ...] = ()
    helped: tuple[SchedulabilityChange, ...] = ()  #: waiting pods that run after the change
    hindered: tuple[SchedulabilityChange, ...] = ()  #: pods that were scheduled and are pending again
    budgets: tuple[Budget, ...] = ()
    room: Mapping[str, float] = field(
        default_factory=dict
    )  #: what the schedulable nodes have left: cpu, memory, pods
    notes: tuple[str, ...] = ()  #: what there is to say about making the changes
    not_considered: tuple[str, ...] = ()
    at: datetime | None = None
    looked: timedelta = timedelta()  #: how far the copy was run
    settled: bool = True  #: False: something still goes on there
    story: tuple[str, ...] = ()  #: what happened to the pods that were asked about
    uids: Mapping[str, str] = field(default_factory=dict)  #: of the pods that leave
    differs: tuple[
        SchedulabilityChange, ...
    ] = ()  #: pods that find a place without the change, though the cluster says otherwise

    control_plane: str = ""  #: why a copy of the whole control plane was run; "": it was not
    ended_early: bool = False  #: so much went on that what comes after `looked` was not looked at
    later: tuple[tuple[str, timedelta], ...] = ()  #: pods that are to leave after `looked`, and when
    baseline: Forecast | None = field(default=None, repr=False)  #: of the cluster without the change
    leaving_anyway: tuple[EvictedPod, ...] = ()  #: pods that go without the change, too

    @property
    def touches(self) -> bool:
        """Whether anything happens to pods or budgets."""
        return bool(
            self.leaving
            or self.later
            or self.circles
            or self.workloads
            or self.budgets
            or self.helped
            or self.hindered
        )

    @property
    def anyway(self) -> int:
        """How many pods go without the change, too."""
        return len(self.leaving_anyway)

    @property
    def lost(self) -> tuple[EvictedPod, ...]:
        return tuple(one for one in self.leaving if one.lost)

    @property
    def others_lost(self) -> int:
        """How many pods have nowhere to go beside those that leave: new ones, and ones that leave anyway."""
        return max(sum(each.lost - each.lost_anyway for each in self.workloads) - len(self.lost), 0)

    @property
    def bad(self) -> bool:
        """Whether the change should be reconsidered."""
        blocked = any(budget.blocks for budget in self.budgets)
        before = any(not note.startswith(ORDER) for note in self.notes)
        return bool(self.lost or self.others_lost or self.circles or self.hindered or blocked or before)


def evictions(
    history: History, workload_of: WorkloadOf, loops: Iterable[EvictionLoop] = ()
) -> Iterator[EvictedPod]:
    """Yield the pods that existed before the change and were evicted, in the order of eviction."""
    looping = {each.workload for each in loops}
    there = [life for life in history.there_at_the_change() if life.left is not None]
    for life in sorted(there, key=lambda each: (each.left or 0.0, each.key)):
        assert life.left is not None
        assert life.cause is not None
        if life.cause.why is Why.ENDED:
            continue
        instead, last = life.instead, life.last
        again = _again_after(history, instead) if instead is not None else None
        ends_on = last.node if last is not life and last.runs else ""
        wanted = _is_wanted(life)
        yield EvictedPod(
            life.key,
            life.node,
            after(life.left),
            life.cause,
            life.owner,
            workload_of(life),
            instead.node if instead is not None else "",
            again,
            ends_on,
            "" if ends_on else _why_nowhere(history, life, last),
            wanted,
            workload_of(life) in looping and again is not None,
            after(instead.bound) if instead is not None and instead.bound is not None else None,
        )


def _is_wanted(life: PodLife) -> bool:
    """Return whether something should run in the place of a pod that went."""
    assert life.cause is not None
    if life.cause.why is Why.OWNER:
        return life.instead is not None and life.last.left is None
    return not (life.cause.why is Why.NODE_GONE and life.owner.startswith("DaemonSet/"))


def _again_after(history: History, life: PodLife) -> timedelta | None:
    """Return how long a pod is left alone on its node, if it is evicted from there."""
    if life.bound is None:
        return None
    if life.left is None:
        due = history.due.get(life.key)
        return after(due - life.bound) if due is not None else None
    driven = life.cause is not None and life.cause.why in DRIVEN
    return after(life.left - life.bound) if driven else None


def _why_nowhere(history: History, life: PodLife, last: PodLife) -> str:
    if not life.owner:
        return "no controller makes it again"
    if (told := history.ended_owners.get(life.owner_uid)) is not None:
        return f"{life.owner} has given up: {told}"
    if last.left is not None and (told := history.refusals.get(life.owner_uid)) is not None:
        return f"{life.owner} cannot make it again: {told}"
    kind = life.owner.partition("/")[0]
    if life.cause is not None and life.cause.why is Why.OWNER and last is life:
        return "its owner does not want it any more"
    if last is life:
        if kind == "DaemonSet":
            return "its DaemonSet makes it again when the node takes it"
        if kind in ("ReplicaSet", "ReplicationController", "StatefulSet", "Job"):
            return f"{life.owner} has not made it again"
        return f"weir does not know what {life.owner} does then"
    if last.left is not None:
        return f"made again, and gone again: {last.cause.say() if last.cause else ''}"
    return last.waits or "made again, and not yet placed"


def workloads(
    history: History, workload_of: WorkloadOf, loops: list[EvictionLoop], seated: Mapping[str, int]
) -> list[Workload]:
    """Return the workloads that the change touched, by time; *seated* of an owner's pods only take room."""
    groups: dict[str, list[PodLife]] = {}
    for life in history.lives.values():
        groups.setdefault(workload_of(life), []).append(life)
    looping = {loop.workload: loop for loop in loops}
    found = []
    for name, lives in groups.items():
        gone = [life for life in lives if _had_to_go(life)]
        fresh = [life for life in lives if life.made >= 0.0]
        if not gone and not fresh:
            continue
        others = sum(seated.get(uid, 0) for uid in {life.owner_uid for life in lives})
        before = others + sum(_ran_at(life, 0.0) for life in lives)
        at_end = others + sum(life.runs for life in lives)
        waiting = [life for life in lives if life.left is None and life.running is None]
        new_waiting = [life for life in waiting if life.made >= 0.0]
        lost = [
            life
            for life in gone
            if life.made < 0.0
            and life.cause is not None
            and life.cause.why is not Why.OWNER
            and _is_wanted(life)
            and not life.last.runs
        ]
        why = next((life.waits for life in new_waiting if life.waits), "")
        if not why and lost:
            why = _why_nowhere(history, lost[0], lost[0].last)
        moves = Counter(
            (life.node, life.last.node)
            for life in gone
            if life.made < 0.0 and life.last is not life and life.last.runs
        )
        found.append(
            Workload(
                name,
                before,
                at_end,
                sum(life.made < 0.0 for life in gone),
                len(gone),
                _lowest(lives, before),
                len(new_waiting),
                max(len(lost), len(new_waiting)) if name not in looping else 0,
                why,
                min((after(life.left or 0.0) for life in gone), default=timedelta()),
                tuple((start, end, count) for (start, end), count in moves.most_common()),
                tuple(dict.fromkeys(life.cause.say(where=False) for life in gone if life.cause is not None)),
                looping.get(name),
            )
        )
    return sorted(found, key=lambda each: each.order)


def _had_to_go(life: PodLife) -> bool:
    return (
        life.left is not None
        and life.left >= 0.0
        and life.cause is not None
        and life.cause.why is not Why.ENDED
    )


def _ran_at(life: PodLife, at: float) -> bool:
    return life.running is not None and life.running < at and (life.left is None or life.left >= at)


def _lowest(lives: list[PodLife], before: int) -> int:
    """Return the fewest of *lives* that ran at any one time after the change."""
    steps = []
    for life in lives:
        if life.left is not None and life.left >= 0.0 and life.running is not None:
            steps.append((life.left, -1))
        if life.running is not None and life.running >= 0.0:
            steps.append((life.running, 1))
    running = lowest = before
    for _, step in sorted(steps):  # of one moment those that go come first
        running += step
        lowest = min(lowest, running)
    return lowest


def budgets(history: History, blocked: Mapping[str, str], ended: float) -> Iterator[Budget]:
    """Yield the budgets that the change breaks, or breaks further, and those that keep pods from being evicted."""
    by_budget: dict[str, list[str]] = {}
    for pod, budget in blocked.items():
        by_budget.setdefault(budget, []).append(pod)
    for name, steps in sorted({**{name: [] for name in by_budget}, **history.budgets}.items()):
        later = [step for step in steps if step[0] >= 0.0]
        was_broken = any(healthy < desired for at, healthy, desired in steps if at < 0.0)
        had = next((healthy for at, healthy, _ in reversed(steps) if at < 0.0), 0)
        broken, since, lowest, desired = 0.0, None, None, 0
        for at, healthy, wanted in later:
            lowest = healthy if lowest is None else min(lowest, healthy)
            desired = max(desired, wanted)
            if since is not None:
                broken += at - since
            since = at if healthy < wanted else None
        at_end = since is not None
        if since is not None:
            broken += ended - since
        blocks = tuple(sorted(by_budget.get(name, ())))
        further = was_broken and lowest is not None and lowest < min(had, desired)
        if blocks or further or (not was_broken and (broken or at_end)):
            yield Budget(
                name, desired, lowest or 0, after(broken) if broken or at_end else None, at_end, blocks
            )


def unaffected(
    history: History, changed: Collection[str], workload_of: WorkloadOf, before: Gates, gates: Gates
) -> tuple[int, list[LockedOut]]:
    """Return how many pods stay on the changed nodes, and the pods that stay but could not be scheduled there again.

    *before* and *gates* are the scheduler's before and after the change.
    """
    stay, locked = 0, []
    for life in history.there_at_the_change():
        if life.left is not None or life.node not in history.nodes:
            continue
        if life.node in changed:
            stay += 1
        elif gates == before:
            continue
        try:
            pod = read(Pod, life.document)
            now, old = (
                read(Node, history.nodes[life.node]),
                read(Node, history.nodes_before.get(life.node) or {}),
            )
        except ViewError:
            continue
        refused = untolerated(now.taints, pod.tolerations, gates)
        if refused and not untolerated(old.taints, pod.tolerations, before):
            why = f"nothing tolerates {', '.join(map(str, refused))}"
            locked.append(LockedOut(life.key, life.node, workload_of(life), why))
    return stay, sorted(locked, key=lambda each: each.pod)


def schedulability_changes(
    history: History, waited: set[str], workload_of: WorkloadOf
) -> tuple[list[SchedulabilityChange], list[SchedulabilityChange]]:
    """Return the pods of *waited* that are newly schedulable, and those that are newly unschedulable."""
    newly_schedulable, newly_unschedulable = [], []
    for life in history.lives.values():
        if life.uid not in waited:
            continue
        last = life.last
        if life.bound is not None and life.bound >= 0.0 and last.runs:
            before = history.waited_for.get(life.uid, "")
            newly_schedulable.append(SchedulabilityChange(life.key, last.node, "", workload_of(life), before))
        elif life.bound is not None and life.bound < 0.0 and not last.runs:
            why = _why_nowhere(history, life, last)
            newly_unschedulable.append(SchedulabilityChange(life.key, life.node, why, workload_of(life)))
    return newly_schedulable, newly_unschedulable
