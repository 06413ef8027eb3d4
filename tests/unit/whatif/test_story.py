"""What happened to one pod and to those made in its place, in the order it happened."""

from __future__ import annotations

import pytest

from tests.unit.whatif.lives import by_owner, chain, history, life
from weir.whatif.history import Cause, PodLife, Why
from weir.whatif.story import story


def told(*lives: PodLife, about: str = "p") -> list[str]:
    return [" ".join(line.split()) for line in story(history(lives), about, by_owner)]


MOVED = (
    {"made": -5.0, "left": 0.0, "gone": 30.0, "cause": Cause(Why.EVICTED)},
    {"made": 0.0, "node": "b", "bound": 0.5, "running": 1.04, "left": 7.0, "cause": Cause(Why.NODE_GONE)},
    {"made": 8.0, "node": "", "waits": "no room"},
)


def moved(*names: str) -> list[PodLife]:
    return chain(*(life(name, **fields) for name, fields in zip(names, MOVED, strict=True)))


def test_every_step_is_told_in_its_order():
    assert told(*moved("p", "q", "r")) == [
        "0.0 s default/p is evicted from a: drained",
        "0.0 s default/q is created",
        "0.5 s default/q is scheduled to b",
        "1.0 s default/q runs on b",
        "7.0 s default/q is removed from b: its node is gone",
        "8.0 s default/r is created",
        "30.0 s default/p is gone",
        "in the end default/r stays pending: no room",
    ]


def test_times_stand_below_each_other():
    lines = story(history(moved("p", "q", "r")), "p", by_owner)
    assert (lines[0][:12], lines[-1][:12]) == ("     0.0 s  ", "in the end  ")


@pytest.mark.parametrize("about", ["p", "default/p", "default/ReplicaSet/web"])
def test_a_pod_is_named_by_itself_or_by_its_workload(about):
    assert told(life("p", left=3.0), life("other", owner="Job/x", left=3.0), about=about) == [
        "3.0 s default/p is evicted from a: drained"
    ]


def test_only_pods_that_were_there_are_asked_about():
    assert told(life("p", made=0.0)) == []


def test_what_was_before_the_change_or_has_no_cause_is_not_told():
    nameless = life("p", left=2.0)
    nameless.cause = None
    assert told(nameless) == []
    assert told(life("p", left=-1.0, gone=-0.5)) == []
    assert told(life("p", bound=0.0, running=0.0)) == [
        "0.0 s default/p is scheduled to a",
        "0.0 s default/p runs on a",
    ]
    assert told(life("p", left=0.5, gone=0.0)) == [
        "0.0 s default/p is gone",
        "0.5 s default/p is evicted from a: drained",
    ]


def test_a_pod_that_leaves_without_a_node_leaves_the_queue():
    assert told(life("p", node="", left=2.0, waits="no room")) == [
        "2.0 s default/p is evicted while it is pending: drained"
    ]


def test_a_pod_that_runs_or_says_nothing_does_not_wait():
    assert told(life("p", waits="old")) == told(life("p", node="", waits="")) == []
