"""A forecast says what a copy of the whole control plane says: who leaves, when, why, where to, and who waits."""

from __future__ import annotations

import os

import pytest

from tests.property.forecast_clusters import differences

SEEDS = int(os.environ.get("WEIR_FORECAST_SEEDS", "100"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_forecast_agrees_with_a_copy_of_the_control_plane(seed):
    assert differences(seed) == {}
