"""Waves from forecasts: what a what-if answer says, as the part of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weir.plan.document import (
    SCHEMA,
    BudgetState,
    Condition,
    Eviction,
    Made,
    Move,
    Plan,
    Wave,
    WorkloadState,
    totals,
)
from weir.plan.goals import Unready
from weir.plan.undo import nodes_of, undo
from weir.whatif.changes import Apply, Change
from weir.whatif.changes.change import ChangedCluster
from weir.whatif.forecast import EvictedPod, Forecast

Document = dict[str, Any]


def words_of(changes: Iterable[Change]) -> tuple[tuple[str, ...], tuple[Document, ...]]:
    """Return the lines of *changes* and the manifests that their `apply` lines apply."""
    lines: list[str] = []
    manifests: list[Document] = []
    for change in changes:
        if isinstance(change, Apply):
            manifests += change.documents
            lines += [] if "apply" in lines else ["apply"]
        else:
            lines.append(change.say())
    return tuple(lines), tuple(manifests)


def budgets_at_the_end(cluster: ChangedCluster) -> tuple[BudgetState, ...]:
    """Return what the disruption budgets of a copy say now."""
    found = []
    for each in cluster.list("PodDisruptionBudget"):
        status, metadata = each.get("status") or {}, each["metadata"]
        if "desiredHealthy" in status:
            healthy = min(status.get("currentHealthy", 0), status["desiredHealthy"])
            name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
            found.append(
                BudgetState(budget=name, healthy=healthy, allowed=status.get("disruptionsAllowed", 0))
            )
    return tuple(found)


def wave(
    changes: Sequence[Change],
    forecast: Forecast,
    objects: Sequence[Document],
    *,
    number: int = 1,
    starts: float = 0.0,
    seconds: float | None = None,
    budgets: Sequence[BudgetState] = (),
    nodes: Sequence[str] | None = None,
    unready: Unready | None = None,
) -> Wave:
    """Return the wave that makes *changes* and does what *forecast* says; *objects* are those before it, but pods.

    It takes so many *seconds*, else until what it evicts has new nodes. *nodes* are the ones it is about, if not all
    that the changes name. *unready* are pods that were not ready before it.
    """
    lines, manifests = words_of(changes)
    back = undo(changes, objects)
    evictions = tuple(_eviction(one, forecast.uids) for one in forecast.leaving)
    moves = Counter((one.workload, one.node, one.ends_on) for one in forecast.leaving if one.ends_on)
    gone = {one.pod for one in forecast.leaving}
    workloads = []
    for each in forecast.workloads:
        if each.circle is None and not each.loops_anyway:  # where a loop is at this moment is chance
            on = Counter[str]()
            for _, end, count in each.moves:
                on[end] += count
            stay = [
                key for key, node in (unready or {}).get(each.name, {}).items() if node and key not in gone
            ]
            workloads.append(
                WorkloadState(
                    workload=each.name,
                    running=each.after,
                    lowest=each.lowest,
                    nodes=dict(sorted(on.items())),
                    unready=len(stay),
                )
            )
    return Wave(
        number=number,
        nodes=tuple(nodes_of(changes, objects) if nodes is None else sorted(nodes)),
        changes=lines,
        manifests=manifests,
        undo=back.lines,
        undo_manifests=back.manifests,
        starts_after_seconds=starts,
        ends_after_seconds=starts + (busy_seconds(forecast) if seconds is None else seconds),
        evictions=evictions,
        moves=tuple(
            Move(workload=workload, source=start, to=end, pods=count)
            for (workload, start, end), count in sorted(moves.items())
        ),
        wait_for=Condition(workloads=tuple(workloads), budgets=tuple(budgets)),
        room=dict(forecast.room),
        notes=forecast.notes,
    )


def busy_seconds(forecast: Forecast) -> float:
    """Return when the last eviction was over and the last pod made for it had a node."""
    moments = [one.lands_after or one.after for one in (*forecast.leaving, *forecast.leaving_anyway)]
    return max((each.total_seconds() for each in moments), default=0.0)


def _eviction(one: EvictedPod, uids: Mapping[str, str]) -> Eviction:
    return Eviction(
        pod=one.pod,
        uid=uids.get(one.pod, ""),
        node=one.node,
        workload=one.workload,
        after_seconds=round(one.after.total_seconds(), 3),
        cause=one.cause.say(),
        goes_to=one.ends_on,
    )


def one_wave(
    changes: Sequence[Change],
    forecast: Forecast,
    objects: Sequence[Document],
    made: Made,
    not_known: Sequence[str] = (),
    budgets: Sequence[BudgetState] = (),
) -> Plan:
    """Return the plan that makes *changes* at once, as `weir what-if` foresees it."""
    only = (wave(changes, forecast, objects, budgets=budgets),)
    return Plan(schema=SCHEMA, made=made, waves=only, totals=totals(only), not_known=tuple(not_known))
