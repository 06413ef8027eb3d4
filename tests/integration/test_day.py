"""Hours of taint churn under virtual time: who must go goes, is placed again, and nothing leaks."""

from __future__ import annotations

from bench.day import live_through


def test_after_hours_of_churn_every_pod_runs_again():
    day = live_through(30, 3, replicas=50)
    assert (day.running, day.evictions > 10, day.failures) == (75, True, 3)


def test_the_same_seed_lives_the_same_hours():
    once, again = (live_through(20, 1, seed=5, replicas=25).history for _ in range(2))
    assert once == again
