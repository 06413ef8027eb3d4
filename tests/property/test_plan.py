"""A plan that is carried out breaks no goal; where it says there is none, no division into waves keeps them."""

from __future__ import annotations

import os

import pytest

from tests.property.plan_clusters import carried_out, fewest_moves, planned, question
from weir.plan.search import NoPlan

SEEDS = int(os.environ.get("WEIR_PLAN_SEEDS", "12"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_plan_that_is_carried_out_in_a_living_cluster_breaks_no_goal(seed):
    broken, _ = carried_out(seed)
    assert broken == []


def test_most_of_these_clusters_have_plans_of_several_waves():
    found = [planned(*question(seed), seed) for seed in range(24)]
    plans = [each for each in found if not isinstance(each, NoPlan)]
    assert len(plans) >= 8 and max(len(each.waves) for each in plans) > 1


@pytest.mark.parametrize("seed", range(1000, 1000 + SEEDS))
def test_plan_or_none_agrees_with_every_division_into_waves(seed):
    found = planned(*question(seed), seed)
    fewest = fewest_moves(seed)
    if isinstance(found, NoPlan):
        assert found.proven and fewest is None, found.breaches
    else:
        assert found.totals.moved_pods == fewest
