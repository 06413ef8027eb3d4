"""What was seen beside what is specified: every fact can be wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from weir.simulation.demo.history import Life
from weir.simulation.demo.judge import fewest_running, judge, pod_facts, workload_facts
from weir.simulation.demo.story import ExpectedOutcome

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def life(**changes):
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    document = {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [condition]},
    }
    found = Life(
        "default", "p", "u", document, T0, node="n1", bound_at=T0, terminating_at=T0 + timedelta(seconds=30)
    )
    for name, value in changes.items():
        setattr(found, name, value)
    return found


FACTS = pod_facts(life(), T0 + timedelta(seconds=20))


@pytest.mark.parametrize(
    "right, wrong",
    [
        ({"node": "n1"}, {"node": "n2"}),
        ({"node": "n1"}, {"node": None}),
        ({"phase": "Running"}, {"phase": "Pending"}),
        ({"there": True}, {"there": False}),
        ({"reason": ""}, {"reason": "Evicted"}),
        ({"message": ""}, {"message": "0/1 nodes are available"}),
        ({"disrupted": "DeletionByTaintManager"}, {"disrupted": None}),
        ({"stayed": "30s"}, {"stayed": "29s"}),
        ({"left": "10s"}, {"left": "0s"}),
        ({"shows": {"spec.nodeName": "n1"}}, {"shows": {"spec.nodeName": "n2"}}),
        ({"events": ("Killing: because …",)}, {"events": ("Killing: b",)}),
    ],
)
def test_a_fact_that_differs_is_a_difference_and_one_that_agrees_is_not(right, wrong):
    found = [
        bool(judge(ExpectedOutcome(pod="p", **asked), FACTS, life().document, ["Killing: because of it"]))
        for asked in (right, wrong)
    ]
    assert found == [True, False]


def test_a_pod_that_never_left_has_not_left_at_any_time():
    facts = pod_facts(life(terminating_at=None), T0)
    assert not judge(ExpectedOutcome(pod="p", left="0s"), facts, None)


def test_a_fact_nobody_saw_is_a_difference():
    assert not judge(ExpectedOutcome(pod="p", phase="Running"), pod_facts(None, T0), None)


def test_a_pod_told_to_go_before_the_step_did_not_leave_because_of_it():
    facts = pod_facts(life(), T0 + timedelta(seconds=31))
    assert not judge(ExpectedOutcome(pod="p", left="0s"), facts, None)


def test_pods_on_their_way_out_are_made_but_not_counted_as_there():
    facts = workload_facts([life(), life(terminating_at=None)])
    assert facts == {"pods": {"Running": 1}, "made": 2}


@pytest.mark.parametrize(
    "lives, since, fewest",
    [
        ([], 0, 0),
        ([(0, None), (0, None)], 5, 2),
        ([(0, 10), (0, None)], 5, 1),
        ([(0, 10), (0, None)], 10, 1),  # at that moment it has stopped
        ([(0, 10), (0, None), (9, None)], 5, 2),  # the other one ran before it stopped
        ([(0, 10), (0, None), (11, None)], 5, 1),
        ([(0, 10), (11, 20), (21, None), (0, None)], 5, 1),
        ([(0, 10), (0, 12), (11, None), (13, None)], 5, 1),
        ([(0, 3), (0, None)], 5, 1),  # before the step
        ([(None, None), (0, None)], 5, 1),  # it never ran
    ],
)
def test_the_fewest_that_ran_at_the_same_time_are_counted_from_the_step_on(lives, since, fewest):
    def at(second):
        return None if second is None else T0 + timedelta(seconds=second)

    found = [life(running_at=at(start), terminating_at=at(end)) for start, end in lives]
    assert fewest_running(found, T0 + timedelta(seconds=since)) == fewest


def test_a_pod_that_ended_or_is_gone_does_not_run():
    later = T0 + timedelta(seconds=9)
    ended, gone = (
        life(running_at=T0, terminating_at=None, **{name: later}) for name in ("ended_at", "gone_at")
    )
    assert [fewest_running([each], T0) for each in (ended, gone)] == [0, 0]


def test_lowest_is_a_lower_bound_and_waves_are_exact():
    facts = {"lowest": 2, "waves": 3}
    wanted = [
        ExpectedOutcome(workload="w", lowest=1),
        ExpectedOutcome(workload="w", lowest=3),
        ExpectedOutcome(plan="p", waves=3),
        ExpectedOutcome(plan="p", waves=2),
    ]
    assert [bool(judge(each, facts, None)) for each in wanted] == [True, False, True, False]


def test_made_is_a_lower_bound_and_nodes_have_no_order():
    facts = {"made": 5, "nodes": ["b", "a"]}
    wanted = [
        ExpectedOutcome(workload="w", made=4),
        ExpectedOutcome(workload="w", made=6),
        ExpectedOutcome(pod="p", nodes=("a", "b")),
    ]
    assert [bool(judge(each, facts, None)) for each in wanted] == [True, False, True]
