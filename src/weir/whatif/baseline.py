"""The effect of a change alone: its forecast without what happens in the same cluster without the change.

A pod that leaves at the same time without the change, a workload that is evicted in a loop for the same reason already,
a budget that is broken anyway: none of that is news about the change. It is counted, and shown on request.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from weir.whatif.circles import Circle
from weir.whatif.forecast import Budget, Forecast, Workload

#: Two runs that differ by a change elsewhere may differ by this much in when a pod leaves.
_SAME_TIME: Final = timedelta(seconds=1.5)


def only_the_change(forecast: Forecast, baseline: Forecast) -> Forecast:
    """Return *forecast* without what *baseline*, of the cluster without the change, says as well."""
    looping = {each.workload: each for each in baseline.circles}
    departures = {one.pod: one.after for one in baseline.leaving}
    rows = {each.name: each for each in baseline.workloads}
    budgets = set(map(_budget_key, baseline.budgets))
    leaving = tuple(
        one
        for one in forecast.leaving
        if one.pod not in departures or abs(one.after - departures[one.pod]) > _SAME_TIME
    )
    return replace(
        forecast,
        leaving=leaving,
        circles=tuple(each for each in forecast.circles if not _same_loop(each, looping.get(each.workload))),
        workloads=tuple(each for each in forecast.workloads if not _same_row(each, rows.get(each.name))),
        helped=tuple(turn for turn in forecast.helped if turn not in baseline.helped),
        hindered=tuple(turn for turn in forecast.hindered if turn not in baseline.hindered),
        budgets=tuple(each for each in forecast.budgets if _budget_key(each) not in budgets),
        anyway=len(forecast.leaving) - len(leaving),
        settled=forecast.settled or (not forecast.ended_early and _only_loops(forecast, baseline)),
        baseline=baseline,
    )


def without_a_change(forecast: Forecast) -> Forecast:
    """Return the forecast of time that passes: pods that a taint drives out, which was there, leave anyway."""
    leaving = tuple(one for one in forecast.leaving if not one.cause.anyway)
    return replace(forecast, leaving=leaving, anyway=len(forecast.leaving) - len(leaving))


def _only_loops(forecast: Forecast, baseline: Forecast) -> bool:
    """Return whether nothing goes on at the end but loops that go on without the change, too."""
    looping = {each.workload: each for each in baseline.circles}
    loops = forecast.circles
    return bool(loops) and all(_same_loop(each, looping.get(each.workload)) for each in loops)


def _same_loop(one: Circle, other: Circle | None) -> bool:
    return other is not None and one.cause.say(where=False) == other.cause.say(where=False)


def _same_row(one: Workload, other: Workload | None) -> bool:
    if other is None:
        return False
    if one.circle is not None and _same_loop(one.circle, other.circle):
        return True
    first = (one.before, one.after, one.pods, one.waiting, one.lost, one.circle is None, one.causes)
    return first == (
        other.before,
        other.after,
        other.pods,
        other.waiting,
        other.lost,
        other.circle is None,
        other.causes,
    )


def _budget_key(budget: Budget) -> tuple[object, ...]:
    return budget.name, budget.desired, budget.lowest, budget.until_the_end, budget.blocks
