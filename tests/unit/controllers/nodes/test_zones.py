"""Zone states and rates of core.md 4.6."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.controllers.nodes.zones import ZoneQueue, ZoneState, rate_of, zone_state

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NORMAL, PARTIAL, FULL = ZoneState.NORMAL, ZoneState.PARTIAL_DISRUPTION, ZoneState.FULL_DISRUPTION


@pytest.mark.parametrize(
    "ready, unready, state",
    [
        (5, 0, NORMAL),
        (0, 1, FULL),
        (1, 2, NORMAL),
        (2, 3, PARTIAL),
        (9, 11, PARTIAL),
        (10, 10, NORMAL),
        (0, 0, NORMAL),
    ],
)
def test_the_state_of_a_zone_follows_from_who_is_ready(ready, unready, state):
    assert zone_state(ready, unready) is state


@pytest.mark.parametrize(
    "state, nodes, rate", [(NORMAL, 5, 0.1), (PARTIAL, 51, 0.01), (PARTIAL, 50, 0.0), (FULL, 5, 0.1)]
)
def test_the_rate_follows_from_state_and_size(state, nodes, rate):
    assert rate_of(state, nodes) == rate


def test_the_first_node_goes_at_once_and_the_next_ten_seconds_later():
    queue = ZoneQueue()
    queue.add("a")
    queue.add("b")
    first = queue.due(T0)
    queue.let_through(T0)
    assert (first, queue.head(), queue.due(T0)) == (T0, "b", T0 + timedelta(seconds=10))


def test_nobody_goes_at_rate_zero():
    queue = ZoneQueue()
    queue.add("a")
    queue.rate = 0.0
    assert queue.due(T0) is None


@given(st.lists(st.booleans(), min_size=1))
def test_a_zone_with_a_ready_node_is_never_fully_disrupted(answers):
    assert (zone_state(sum(answers), len(answers) - sum(answers)) is FULL) == (not any(answers))
