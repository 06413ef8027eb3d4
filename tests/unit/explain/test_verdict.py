"""What a node's reasons say together: which decides, which are worth telling, and what makes nodes one group."""

from __future__ import annotations

from datetime import timedelta

from weir.explain.verdict import NodeVerdict, count
from weir.objects.core import Taint
from weir.scheduler.reasons import Cordoned, UntoleratedTaint, WrongLabel
from weir.taints.eviction import Stay

CORDON = UntoleratedTaint(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
HOT = UntoleratedTaint(Taint("hot", "", "NoSchedule"))
COLD = UntoleratedTaint(Taint("cold", "", "NoSchedule"))
ZONE = WrongLabel("zone", "a", "b")


def verdict(*reasons, **more):
    return NodeVerdict("n", reasons, **more)


def test_a_node_without_reasons_fits_and_nothing_decides():
    assert verdict().fits and verdict().deciding == ()
    assert not verdict(HOT).fits


def test_the_first_filter_that_refuses_decides_with_the_first_thing_it_finds():
    assert verdict(ZONE, HOT, COLD).deciding == (HOT,)
    assert verdict(ZONE, CORDON, Cordoned()).deciding == (Cordoned(),)


def test_a_cordon_is_told_of_once():
    assert verdict(Cordoned(), CORDON, HOT).reported_reasons == (Cordoned(), HOT)
    assert verdict(CORDON, HOT).reported_reasons == (CORDON, HOT), "the taint alone is no cordon"


def test_reasons_are_counted_by_node_most_frequent_first_then_by_name():
    nodes = [verdict(Cordoned(), CORDON), verdict(HOT, COLD), verdict(HOT, ZONE), verdict(HOT), verdict()]
    assert list(count(nodes).items()) == [("taint", 3), ("node-selector", 1), ("unschedulable", 1)]
    assert count([]) == {}


def test_nodes_that_fit_are_one_group_when_stay_and_dislikes_agree():
    flaky = Taint("flaky", "1", "NoExecute", "2026-01-01T00:00:00Z")
    later = Taint("flaky", "1", "NoExecute", "2026-02-02T00:00:00Z")
    short, long = Stay(timedelta(seconds=5), flaky), Stay(timedelta(seconds=9), flaky)
    assert verdict(stay=short).group == verdict(stay=Stay(timedelta(seconds=5), later)).group
    assert verdict(stay=short).group != verdict(stay=long).group != verdict().group
    assert verdict(disliked=(flaky,)).group == verdict(disliked=(later,)).group != verdict().group
    other = Taint("other", "1", "NoExecute")
    assert verdict(disliked=(flaky,)).group != verdict(disliked=(other,)).group
    assert verdict(stay=short).group != verdict(stay=Stay(timedelta(seconds=5), other)).group
    assert verdict(devices_leave=("a",)).group != verdict().group


def test_nodes_that_refuse_are_one_group_whatever_would_come_after():
    flaky = Taint("flaky", "1", "NoExecute")
    assert verdict(HOT, stay=Stay(timedelta(0), flaky), disliked=(flaky,)).group == verdict(HOT).group
    assert verdict(HOT).group != verdict(COLD).group
