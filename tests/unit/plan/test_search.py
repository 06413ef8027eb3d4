"""How many forecasts a search makes: none whose answer cannot be better, and few in large clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.property.plan_clusters import NOW, state_of
from weir.plan.document import Goals
from weir.plan.search import MOST_FORECASTS, Found, Searcher
from weir.plan.task import task_of
from weir.taints.notation import parse_taint
from weir.whatif.changes import Nodes, Taint, TaintEdit

POOL = yaml.safe_load((Path(__file__).parents[3] / "examples" / "spot-pool.yaml").read_text())["items"]
ONE_BY_ONE = [("spot-1",), ("spot-2",), ("spot-3",)]
TWO = [("spot-1", "spot-3"), ("spot-2",)]


def search(most: int, *orders: Sequence[tuple[str, ...]]) -> tuple[Searcher, Found]:
    """Return the search that tries *orders*, and what it finds; two waves are the fewest."""
    change = Taint(Nodes((), "pool=spot"), (TaintEdit(parse_taint("sla=650:NoExecute")),))
    goals = Goals(max_unavailable="2", within_seconds=7200.0)
    state = state_of(POOL, NOW, goals, 0)
    searcher = Searcher(task_of([change], state.objects), state, goals, lambda *_: None, most)
    searcher._orders = lambda: ((f"order {n}", groups, True) for n, groups in enumerate(orders))  # type: ignore[method-assign,misc,assignment]
    found = searcher.search()
    assert isinstance(found, Found)
    return searcher, found


@pytest.mark.parametrize(
    "most, orders, waves, tried",
    [
        (MOST_FORECASTS, (ONE_BY_ONE, TWO), 2, "order 1: 2 waves, 4 pods moved"),
        (3, (ONE_BY_ONE, TWO), 3, "order 0: 3 waves, 4 pods moved"),  # four forecasts are made
        (4, (ONE_BY_ONE, TWO), 3, "order 1: given up after 1 wave"),
        (6, (ONE_BY_ONE, ONE_BY_ONE, TWO), 2, "order 2: 2 waves, 4 pods moved"),
        (6, (TWO, ONE_BY_ONE), 2, "order 0: 2 waves, 4 pods moved"),
    ],
)
def test_after_so_many_forecasts_the_first_plan_is_kept(most, orders, waves, tried):
    searcher, found = search(most, *orders)
    assert (len(found.waves), searcher.tried[-1]) == (waves, tried)


def test_in_a_large_cluster_waves_that_cannot_be_fewer_are_not_forecast():
    large, _ = search(MOST_FORECASTS - 1, ONE_BY_ONE, ONE_BY_ONE, TWO)
    small, _ = search(MOST_FORECASTS, ONE_BY_ONE, ONE_BY_ONE, TWO)
    assert small.forecasts == large.forecasts + len(ONE_BY_ONE)
    assert "order 1: no fewer than 3 waves, not forecast" in large.tried


def test_waves_are_joined_without_a_forecast_of_those_in_front():
    searcher, found = search(4, ONE_BY_ONE)
    before = searcher.forecasts
    joined = searcher._attempt("joined", [("spot-2", "spot-3")], True, found.waves[:1])
    assert joined is not None
    assert (joined.groups, searcher.forecasts) == ([("spot-1",), ("spot-2", "spot-3")], before + 1)
    assert joined.waves[0] is found.waves[0]
