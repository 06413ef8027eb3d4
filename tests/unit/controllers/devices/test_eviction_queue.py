"""Whose turn it is: by time, then by name, as fast as the taints allow, and nobody waits for a stranger."""

from __future__ import annotations

import pytest

from tests.unit.devices.builders import T0, after
from weir.controllers.devices import eviction_queue
from weir.controllers.devices.eviction_queue import EvictionQueue, PodKey
from weir.devices.eviction import Eviction, Reason
from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.objects.resource import DeviceTaint


def because_of(*numbers, rate=None, due=T0):
    taint = DeviceTaint("a", "", "NoExecute", None, rate)
    reasons = (Reason(TrackedTaint(taint, RuleOrigin(f"r{number}"), number), due) for number in numbers)
    return Eviction(due, tuple(reasons))


def pod(name):
    return PodKey("default", name, f"uid-{name}")


def names(turn):
    return [key.name for key in turn[0]]


def queue(count, eviction, prefix="p"):
    found = EvictionQueue()
    for number in range(count):
        found.line_up(pod(f"{prefix}{number:02}"), eviction, T0)
    return found


def test_nobody_is_left_in_an_empty_queue():
    assert EvictionQueue().next(T0) == ([], None) and len(EvictionQueue()) == 0


def test_the_earliest_goes_first_then_the_first_by_name():
    found = EvictionQueue()
    for name, seconds in (("late", -1), ("b", -5), ("a", -5)):
        found.line_up(pod(name), because_of(1, due=after(seconds)), T0)
    assert names(found.next(T0)) == ["a", "b", "late"]


def test_ten_go_at_once_and_the_others_as_fast_as_the_taint_allows():
    found = queue(13, because_of(1, rate=2))
    turn, again = found.next(T0)
    assert [key.name for key in turn] == [f"p{number:02}" for number in range(10)]
    assert again == after(0.5) and len(found) == 3
    assert found.next(after(0.4)) == ([], after(0.5))
    assert names(found.next(after(1))) == ["p10", "p11"]
    assert found.next(after(2)) == ([pod("p12")], None) and len(found) == 0
    assert not found._groups, "nothing is kept of taints that nobody waits for"


def test_pods_that_share_no_taint_do_not_wait_for_each_other_and_the_soonest_is_asked_for():
    found = queue(11, because_of(1, rate=1), "slow")
    for number in range(11):
        found.line_up(pod(f"fast{number:02}"), because_of(2, rate=10), T0)
    turn, again = found.next(T0)
    assert len(turn) == 20 and again == after(0.1)
    assert names(found.next(after(0.1))) == ["fast10"]


@pytest.mark.parametrize("later", [True, False])
def test_whoever_waits_longest_for_another_taint_is_asked_for_last(later):
    """The time to ask again is the earliest of all groups, whichever comes first in the queue."""
    rates = (1, 4) if later else (4, 1)
    found = EvictionQueue()
    for taint, rate in enumerate(rates):
        for number in range(11):
            found.line_up(pod(f"{taint}-{number:02}"), because_of(taint, rate=rate), T0)
    assert found.next(T0)[1] == after(0.25)


def test_a_pod_keeps_its_place_and_is_there_once():
    found = queue(2, because_of(1))
    found.line_up(pod("p00"), because_of(1), T0)
    assert len(found) == 2 and names(found.next(T0)) == ["p00", "p01"]


def test_a_pod_whose_time_is_another_now_stands_where_that_belongs():
    found = queue(2, because_of(1, due=after(-5)))
    found.line_up(pod("p00"), because_of(1, due=after(-1)), T0)
    assert names(found.next(T0)) == ["p01", "p00"]


def test_a_pod_with_another_taint_waits_for_that_one_only():
    found = queue(11, because_of(1, rate=1))
    found.line_up(pod("p10"), because_of(2, rate=1), T0)
    turn, again = found.next(T0)
    assert len(turn) == 11 and again is None


def test_only_taints_that_are_due_are_waited_for():
    early = because_of(1, rate=1)
    both = Eviction(T0, early.reasons + because_of(2, rate=100, due=after(60)).reasons)
    found = queue(11, both)
    assert found.next(T0)[1] == after(1)


def test_an_edited_rule_goes_on_with_its_new_rate():
    found = queue(12, because_of(1, rate=1))
    found.next(T0)
    found.line_up(pod("p10"), because_of(1, rate=10), T0)
    assert found.next(T0)[1] == after(0.1)


def test_a_pod_that_left_has_no_turn_and_leaves_once():
    found = queue(2, because_of(1))
    found.leave(pod("p00"))
    found.leave(pod("p00"))
    assert len(found) == 1 and names(found.next(T0)) == ["p01"]
    assert found.next(T0) == ([], None)


def test_full_buckets_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr(eviction_queue, "MANY_BUCKETS", 3)
    found = EvictionQueue()
    for taint in range(4):
        found.line_up(pod(f"p{taint}"), because_of(taint, rate=1), T0)
        found.next(T0)
    assert len(found.rate) == 4
    found.next(after(0.5))
    assert len(found.rate) == 4, "they are not full yet"
    found.next(after(1))
    assert len(found.rate) == 0
    for taint in range(3):
        found.line_up(pod(f"p{taint}"), because_of(taint, rate=1), after(1))
    found.next(after(1))
    found.next(after(9))
    assert len(found.rate) == 3, "three are not many"
