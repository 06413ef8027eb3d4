"""The plan document, `weir.plan/v1`: what people review, `weir plan run` carries out and `weir what-if verify` reads.

A plan is a list of waves. Each has its changes in the words of `weir what-if changes`, what undoes them, the pods it is
foreseen to evict, and the state of the cluster to wait for before the next one. Times are seconds after the plan's
start and foreseen, never waited for. Reference: docs/reference/plan.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

SCHEMA: Final = "weir.plan/v1"
#: What `weir what-if -o plan` wrote before plans had waves.
OLD_SCHEMA: Final = "weir.what-if-plan/v1"
#: Begins the note of a wave that was changed by hand and breaks a goal.
BREAKS: Final = "breaks a goal: "


class PlanError(ValueError):
    """A document that is no plan; says where and why."""


class _Part(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename="camel",
    forbid_unknown_fields=True,
):
    """A part of the document: unknown fields are refused, since a plan is carried out by what it says."""


class Made(_Part, frozen=True, kw_only=True):
    """When the plan was made, and from what."""

    at: str
    command: str
    cluster: str = ""  #: the files or the context that were read
    nodes: int = 0
    pods: int = 0
    seed: int = 0
    feature_gates: str = ""


class Goals(_Part, frozen=True, kw_only=True):
    """What every wave keeps."""

    max_pending_seconds: float = 0.0  #: how long a pod may wait for a node
    max_unavailable: str = "25%"  #: of a workload's pods at once: a number, or a share that is rounded up
    spare_seconds: float | None = (
        None  #: no job with devices is evicted that has run longer; None: any may be
    )
    within_seconds: float | None = None  #: the whole plan is done in this time; None: whenever
    keep_budgets: bool = True
    allow_loops: bool = False
    allow_lost: bool = False  #: pods that no controller makes again may be evicted


class Eviction(_Part, frozen=True, kw_only=True):
    """A pod that the wave is foreseen to evict."""

    pod: str  #: namespace/name
    node: str
    workload: str  #: namespace/Kind/name
    after_seconds: float  #: after the wave's start
    uid: str = ""  #: "" where the cluster's dump has none
    cause: str = ""
    goes_to: str = ""  #: where what is made in its place is foreseen to run; "": nowhere


class Move(_Part, frozen=True, kw_only=True):
    """Pods of a workload that are foreseen to go from one node to another."""

    workload: str
    source: str = msgspec.field(name="from")
    to: str
    pods: int


class WorkloadState(_Part, frozen=True, kw_only=True):
    """How a workload is once the wave is over."""

    workload: str  #: namespace/Kind/name
    running: int  #: pods that run
    lowest: int  #: the fewest that are foreseen to run during the wave
    nodes: dict[str, int] = {}  #: nodes on which at least so many of them run
    unready: int = 0  #: of those that run, pods that were not ready before the wave, and stay

    @property
    def ready(self) -> int:
        """How many pods are waited for to be ready."""
        return self.running - self.unready


class BudgetState(_Part, frozen=True, kw_only=True):
    """What a disruption budget says once the wave is over."""

    budget: str  #: namespace/name
    healthy: int  #: status.currentHealthy, at least
    allowed: int  #: status.disruptionsAllowed, at least


class Condition(_Part, frozen=True, kw_only=True):
    """The state to wait for: all evictions done, and what is said here."""

    workloads: tuple[WorkloadState, ...] = ()
    budgets: tuple[BudgetState, ...] = ()
    pods_gone: bool = True  #: the pods of `evictions` are gone


class Wave(_Part, frozen=True, kw_only=True):
    """Changes that are made together."""

    number: int
    nodes: tuple[str, ...]  #: those that the changes are made to
    changes: tuple[str, ...]  #: lines of `weir what-if changes`; `apply` applies `manifests`
    undo: tuple[str, ...] = ()  #: the same, in the order to make them; `delete KIND/NAME` beside
    manifests: tuple[dict[str, Any], ...] = ()
    undo_manifests: tuple[dict[str, Any], ...] = ()  #: what a line `apply` of `undo` applies
    starts_after_seconds: float = 0.0
    ends_after_seconds: float = 0.0
    evictions: tuple[Eviction, ...] = ()
    moves: tuple[Move, ...] = ()
    wait_for: Condition = Condition()
    room: dict[str, float] = {}  #: what schedulable nodes have left at the end: cpu, memory, pods
    notes: tuple[str, ...] = ()

    @property
    def limit_seconds(self) -> float:
        """How long its state is waited for before it has failed: twice as long as foreseen, and ten minutes."""
        return 2 * (self.ends_after_seconds - self.starts_after_seconds) + 600.0


class Totals(_Part, frozen=True, kw_only=True):
    """The plan in numbers."""

    waves: int
    nodes: int
    moved_pods: int
    expensive_moves: int = 0  #: of these, pods that have devices or have run for more than a day
    seconds: float = 0.0


class Search(_Part, frozen=True, kw_only=True):
    """How the plan was found."""

    forecasts: int
    tried: tuple[str, ...] = ()
    fewest_moves: int = 0  #: no plan moves fewer pods
    fewest_waves: int = 0  #: no plan that keeps the goals has fewer waves
    bound: str = ""  #: the same in words


class Plan(_Part, frozen=True, kw_only=True):
    """A change made in waves."""

    schema: str
    made: Made
    goals: Goals | None = None  #: None: made by `weir what-if`, which searches for nothing
    waves: tuple[Wave, ...]
    totals: Totals
    not_known: tuple[str, ...] = ()
    searched: Search | None = None


def totals(waves: tuple[Wave, ...], expensive: int = 0) -> Totals:
    """Return the numbers of *waves*; *expensive* is how many of their moves are."""
    return Totals(
        waves=len(waves),
        nodes=len({node for wave in waves for node in wave.nodes}),
        moved_pods=sum(len(wave.evictions) for wave in waves),
        expensive_moves=expensive,
        seconds=waves[-1].ends_after_seconds if waves else 0.0,
    )


def write(plan: Plan) -> dict[str, Any]:
    """Return *plan* as a document; what is as it is by default is left out."""
    written: dict[str, Any] = msgspec.to_builtins(plan)
    return written


def read(document: Any) -> Plan:
    """Return the plan that *document* is; raises PlanError with the place of what is wrong."""
    schema = document.get("schema") if isinstance(document, Mapping) else None
    if schema == OLD_SCHEMA:
        raise PlanError(
            f"a plan of an earlier weir ({OLD_SCHEMA}): make it again with `weir what-if … -o plan`"
        )
    if schema != SCHEMA:
        raise PlanError(
            f"no plan: its schema is {schema!r}, not {SCHEMA!r} (`weir plan … -o yaml` writes one)"
        )
    try:
        plan = msgspec.convert(document, Plan)
    except msgspec.ValidationError as error:
        raise PlanError(_with_place(str(error))) from None
    _check(plan)
    return plan


def _with_place(message: str) -> str:
    """Return a message with its place in front.

    >>> _with_place("Expected `int`, got `str` - at `$.waves[0].number`")
    'waves[0].number: expected `int`, got `str`'
    """
    what, _, path = message.partition(" - at ")
    place = re.sub(r"^`\$\.?|`$", "", path)
    what = f"{what[:1].lower()}{what[1:]}"
    return f"{place}: {what}" if place else what


def _check(plan: Plan) -> None:
    """Raise PlanError for what is of the right types and yet no plan."""
    if not plan.waves:
        raise PlanError("waves: none, so there is nothing to carry out")
    clock = 0.0
    for place, wave in enumerate(plan.waves):
        where = f"waves[{place}]"
        if wave.number != place + 1:
            raise PlanError(
                f"{where}.number: {wave.number}, though it is wave {place + 1}: waves go in order"
            )
        if not wave.changes:
            raise PlanError(f"{where}.changes: none, so there is nothing to carry out")
        if wave.starts_after_seconds < clock or wave.ends_after_seconds < wave.starts_after_seconds:
            raise PlanError(f"{where}: begins before the wave in front of it ends, or ends before it begins")
        clock = wave.ends_after_seconds
        for name, lines, manifests in (
            ("changes", wave.changes, wave.manifests),
            ("undo", wave.undo, wave.undo_manifests),
        ):
            if ("apply" in lines) != bool(manifests):
                lacks = "manifests to apply" if "apply" in lines else "line `apply` for the manifests"
                raise PlanError(f"{where}.{name}: has no {lacks}")
        for number, one in enumerate(wave.evictions):
            if "/" not in one.pod:
                raise PlanError(f"{where}.evictions[{number}].pod: {one.pod!r}: write NAMESPACE/NAME")
