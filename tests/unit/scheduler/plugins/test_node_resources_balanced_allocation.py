"""Balance is 100 minus the spread of used shares; the score says how much the pod improves it."""

import numpy as np
import pytest

from weir.scheduler.plugins.node_resources_balanced_allocation import balance, improvement


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        (((10, 5), (10, 5)), 100),
        (((10, 10), (10, 0)), 50),
        (((10, 20), (10, 0)), 50),  # more than everything is everything
        (((10, 5), (0, 0)), 100),  # one resource alone is in balance
        (((10, 10), (10, 0), (10, 0)), 52),
    ],
)
def test_shares_that_differ_cost(shares, expected):
    amounts = [(np.array([capacity]), np.array([used])) for capacity, used in shares]
    assert balance(amounts).tolist() == [expected]


def test_an_unchanged_balance_scores_75_and_a_loss_is_cut_towards_zero():
    with_pod, without = np.array([80, 100, 0, 49]), np.array([80, 50, 100, 100])
    assert improvement(with_pod, without).tolist() == [75, 100, 25, 50]
