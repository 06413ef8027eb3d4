"""The effect of a change alone: its forecast without what happens in the same cluster without the change.

A pod that is evicted at the same time without the change, or earlier for the same reason, a workload that is in an
eviction loop for the same reason already, a budget that is violated anyway: none of that is news about the change. It
is counted, and shown on request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from weir.whatif.forecast import Budget, EvictedPod, Forecast, Workload

#: Two runs that differ by a change elsewhere may differ by this much in when a pod leaves.
_SAME_TIME: Final = timedelta(seconds=1.5)


def only_the_change(forecast: Forecast, baseline: Forecast) -> Forecast:
    """Return *forecast* without what *baseline*, of the cluster without the change, says as well."""
    loops = _same_loops(forecast, baseline)
    departures = {one.pod: one for one in baseline.leaving}
    budgets = set(map(_budget_key, baseline.budgets))
    helped, hindered = ({turn.pod for turn in turns} for turns in (baseline.helped, baseline.hindered))

    def is_new(one: EvictedPod) -> bool:
        if one.workload in loops and one.cause.say(where=False) in loops[one.workload]:
            return False
        before = departures.get(one.pod)
        if before is None or one.after < before.after - _SAME_TIME:
            return True
        same_cause = one.cause.say(where=False) == before.cause.say(where=False)
        return one.after > before.after + _SAME_TIME and not same_cause

    leaving = tuple(filter(is_new, forecast.leaving))
    later = dict(baseline.later)
    loops = {**loops, **_loops_anyway(forecast, baseline, leaving)}
    return replace(
        forecast,
        leaving=leaving,
        circles=tuple(each for each in forecast.circles if each.workload not in loops),
        workloads=tuple(_own_rows(forecast, baseline, leaving, loops)),
        helped=tuple(turn for turn in forecast.helped if turn.pod not in helped),
        hindered=tuple(turn for turn in forecast.hindered if turn.pod not in hindered),
        budgets=tuple(each for each in forecast.budgets if _budget_key(each) not in budgets),
        leaving_anyway=tuple(one for one in forecast.leaving if not is_new(one)),
        later=tuple(
            (pod, at) for pod, at in forecast.later if pod not in later or abs(at - later[pod]) > _SAME_TIME
        ),
        settled=forecast.settled or (not forecast.ended_early and _only_loops(forecast, loops)),
        baseline=baseline,
    )


def without_a_change(forecast: Forecast) -> Forecast:
    """Return the forecast of time that passes: pods that a taint drives out, which was there, leave anyway."""
    own: list[EvictedPod] = []
    anyway: list[EvictedPod] = []
    for one in forecast.leaving:
        (anyway if one.cause.anyway else own).append(one)
    return replace(forecast, leaving=tuple(own), leaving_anyway=tuple(anyway))


def _only_loops(forecast: Forecast, loops: Collection[str]) -> bool:
    """Return whether nothing goes on at the end but *loops*, which go on without the change, too."""
    return bool(forecast.circles) and all(each.workload in loops for each in forecast.circles)


def _loops_anyway(
    forecast: Forecast, baseline: Forecast, leaving: Sequence[EvictedPod]
) -> dict[str, frozenset[str]]:
    """Return the workloads that loop anyway, if for another value, and none of whose pods is among *leaving*."""
    before, own = {each.workload for each in baseline.circles}, {one.workload for one in leaving}
    return {each.workload: frozenset() for each in forecast.circles if each.workload in before - own}


def _same_loops(forecast: Forecast, baseline: Forecast) -> dict[str, frozenset[str]]:
    """Return the workloads that loop for the same reason without the change, with why their pods leave there."""
    before = {each.workload: each.cause.say(where=False) for each in baseline.circles}
    causes = {each.name: each.causes for each in baseline.workloads}
    return {
        each.workload: frozenset((before[each.workload], *causes.get(each.workload, ())))
        for each in forecast.circles
        if before.get(each.workload) == each.cause.say(where=False)
    }


def _own_rows(
    forecast: Forecast, baseline: Forecast, leaving: Sequence[EvictedPod], loops: Collection[str]
) -> Iterator[Workload]:
    """Yield the rows of workloads that fare otherwise with the change, with what of each happens anyway.

    Their pods that do not leave anyway are *leaving*: rows and headline count the same.
    """
    before = {each.name: each for each in baseline.workloads}
    own = Counter(one.workload for one in leaving)
    own_lost = Counter(one.workload for one in leaving if one.lost)
    for row in forecast.workloads:
        other = before.get(row.name)
        if not own[row.name] and (
            row.name in loops or (other is not None and _outcome(row) == _outcome(other))
        ):
            continue
        goes_on = row.circle is not None and row.name in loops
        yield replace(
            row,
            circle=None if goes_on else row.circle,
            loops_anyway=goes_on,
            anyway=row.pods - own[row.name],
            lost_anyway=min(other.lost, max(row.lost - own_lost[row.name], 0)) if other else 0,
        )


def _outcome(row: Workload) -> tuple[object, ...]:
    return row.before, row.after, row.pods, row.waiting, row.lost, row.circle is None


def _budget_key(budget: Budget) -> tuple[object, ...]:
    return budget.name, budget.desired, budget.lowest, budget.until_the_end, budget.blocks
