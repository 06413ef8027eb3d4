"""What pods' lives come to: who leaves, what runs in their place, which budgets break, who stays, who waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.whatif.lives import by_owner, chain, history, life
from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import Taint
from weir.whatif.eviction_loops import EvictionLoop
from weir.whatif.forecast import (
    Budget,
    EvictedPod,
    Forecast,
    SchedulabilityChange,
    Workload,
    budgets,
    evictions,
    schedulability_changes,
    unaffected,
    workloads,
)
from weir.whatif.history import Cause, History, PodLife, Why

TAINTED = Cause(Why.TAINT)
ENDED = Cause(Why.ENDED)
OWNER = Cause(Why.OWNER)
WEB = "default/ReplicaSet/web"
CIRCLE = EvictionLoop(WEB, ("a",), timedelta(seconds=5), 1, 4, TAINTED, slower=False)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def left(*lives: PodLife, circles: tuple[EvictionLoop, ...] = (), **more: Any) -> list[EvictedPod]:
    past = history(lives)
    for name, value in more.items():
        setattr(past, name, value)
    return list(evictions(past, by_owner, circles))


# ── who leaves ──


def test_those_that_leave_come_in_the_order_they_went():
    found = left(life("b", left=3.0), life("z", left=1.0), life("a", left=3.0), life("stays"))
    assert [(one.pod, one.after) for one in found] == [
        ("default/z", seconds(1)),
        ("default/a", seconds(3)),
        ("default/b", seconds(3)),
    ]


def test_who_has_ended_or_was_not_there_does_not_leave():
    found = left(life("done", left=1.0, cause=ENDED), life("new", made=0.0, left=1.0), life("old", left=-1.0))
    assert found == []


def test_what_was_made_in_its_place_runs_where_it_landed():
    lives = chain(life("p", left=2.0, cause=TAINTED), life("q", made=2.5, node="b"))
    (one,) = left(*lives)
    assert one == EvictedPod(
        "default/p",
        "a",
        seconds(2),
        TAINTED,
        "ReplicaSet/web",
        WEB,
        "b",
        None,
        "b",
        "",
        True,
        False,
        seconds(2.5),
    )
    assert not one.lost


def test_what_was_made_in_its_place_may_have_to_leave_too():
    lives = chain(
        life("p", left=2.0),
        life("q", made=3.0, node="b", left=8.0, cause=TAINTED),
        life("r", made=9.0, node="c"),
    )
    (one,) = left(*lives)
    assert (one.goes_to, one.again_after, one.ends_on, one.lost) == ("b", seconds(5), "c", False)


@pytest.mark.parametrize(
    "again", [life("q", made=3.0, node="b", left=8.0), life("q", made=3.0, node="", left=8.0, cause=TAINTED)]
)
def test_only_one_that_was_driven_from_a_node_had_time_there(again):
    (one,) = left(*chain(life("p", left=2.0), replace(again), life("r", made=9.0)))
    assert one.again_after is None


@pytest.mark.parametrize("why, wanted", [(TAINTED, True), (OWNER, False)])
def test_one_that_its_owner_took_away_is_not_missed(why, wanted):
    (one,) = left(life("p", left=2.0, cause=why))
    assert (one.wanted, one.lost) == (wanted, wanted)


def test_one_that_its_owner_made_anew_is_wanted():
    lives = chain(life("p", left=2.0, cause=OWNER), life("q", made=3.0, node="", waits="no room"))
    (one,) = left(*lives)
    assert (one.wanted, one.lost, one.why_nowhere, one.lands_after) == (True, True, "no room", None)
    gone = chain(life("p", left=2.0, cause=OWNER), life("q", made=3.0, left=4.0, cause=OWNER))
    assert not left(*gone)[0].wanted


def test_one_that_goes_in_circles_is_not_lost():
    lives = chain(life("p", left=2.0), life("q", made=3.0, left=8.0, cause=TAINTED))
    assert [(one.circles, one.lost) for one in left(*lives, circles=(CIRCLE,))] == [(True, False)]
    assert [(one.circles, one.lost) for one in left(*lives)] == [(False, True)]
    assert [one.circles for one in left(life("p", left=2.0), circles=(CIRCLE,))] == [False]


# ── why nothing runs in its place ──


@pytest.mark.parametrize(
    "owner, why, said",
    [
        ("", TAINTED, "no controller makes it again"),
        ("ReplicaSet/web", OWNER, "its owner does not want it any more"),
        ("DaemonSet/web", TAINTED, "its DaemonSet makes it again when the node takes it"),
        ("ReplicaSet/web", TAINTED, "ReplicaSet/web has not made it again"),
        ("ReplicationController/web", TAINTED, "ReplicationController/web has not made it again"),
        ("StatefulSet/web", TAINTED, "StatefulSet/web has not made it again"),
        ("Job/web", TAINTED, "Job/web has not made it again"),
        ("Rollout/web", TAINTED, "weir does not know what Rollout/web does then"),
    ],
)
def test_why_nothing_was_made_in_its_place(owner, why, said):
    (one,) = left(life("p", owner=owner, left=2.0, cause=why))
    assert (one.ends_on, one.why_nowhere) == ("", said)


def test_an_owner_that_gave_up_is_told_in_its_own_words():
    uid = "uid-of-Job/web"
    (one,) = left(life("p", owner="Job/web", left=2.0), ended_owners={uid: "too often"}, refusals={uid: "no"})
    assert one.why_nowhere == "Job/web has given up: too often"


def test_an_owner_whose_pods_are_refused_is_told_in_the_servers_words():
    refusals = {"uid-of-ReplicaSet/web": "quota"}
    (one,) = left(life("p", left=2.0), refusals=refusals)
    assert one.why_nowhere == "ReplicaSet/web cannot make it again: quota"
    waiting = chain(life("p", left=2.0), life("q", made=3.0, node="", waits="no room"))
    assert left(*waiting, refusals=refusals)[0].why_nowhere == "no room"


def test_one_that_was_made_again_and_went_again_says_why():
    lives = chain(life("p", left=2.0), life("q", made=3.0, left=4.0, cause=Cause(Why.NODE_GONE)))
    assert left(*lives)[0].why_nowhere == "made again, and gone again: its node is gone"
    lives[1].cause = None
    assert left(*lives)[0].why_nowhere == "made again, and gone again: "


def test_one_that_was_made_again_by_an_owner_that_took_it_away_waits():
    lives = chain(life("p", left=2.0, cause=OWNER), life("q", made=3.0, node=""))
    assert left(*lives)[0].why_nowhere == "made again, and not yet placed"


# ── by workload ──


def touched(*lives: PodLife, circles: tuple[EvictionLoop, ...] = (), **seated: int) -> list[Workload]:
    by_uid = {f"uid-of-ReplicaSet/{name}": number for name, number in seated.items()}
    return workloads(history(lives), by_owner, list(circles), by_uid)


def test_a_workload_that_the_change_does_not_touch_is_not_named():
    assert touched(life("p"), life("q", left=-1.0), life("r", left=1.0, cause=ENDED)) == []


def test_what_a_change_does_to_a_workload():
    lives = [
        *chain(life("p", left=0.0, cause=TAINTED), life("p2", made=1.0, node="b")),
        *chain(life("q", left=4.0, cause=TAINTED), life("q2", made=5.0, node="b")),
        life("r", node="c"),
    ]
    (only,) = touched(*lives, web=10)
    assert only == Workload(
        WEB,
        13,
        13,
        2,
        2,
        12,
        0,
        0,
        "",
        seconds(0),
        (("a", "b", 2),),
        ("a taint of its node",),
        None,
    )


def test_pods_made_at_the_moment_of_the_change_are_new():
    assert [each.name for each in touched(life("p", made=0.0))] == [WEB]
    lives = chain(life("p", made=0.0, left=1.0), life("q", made=2.0, node="b"))
    (only,) = touched(*lives, life("r", made=0.0, left=1.0))
    assert (only.pods, only.left, only.lost, only.moves) == (0, 2, 0, ())


def test_the_first_departure_and_every_cause_are_told():
    hot = Cause(Why.TAINT, Taint("hot", "", "NoExecute"), "node a")
    lives = chain(
        life("p", left=3.0, cause=hot),
        life("q", made=3.0, left=5.0, cause=Cause(Why.EVICTED)),
        life("r", made=6.0, node="d"),
    )
    (only,) = touched(*lives)
    assert (only.first, only.causes) == (seconds(3), ("nothing tolerates hot:NoExecute", "drained"))
    assert (only.pods, only.left, only.moves) == (1, 2, (("a", "d", 1),))


def test_pods_that_are_new_and_wait_are_lost_and_say_why():
    lives = [
        life("w", made=0.0, node="", waits=""),
        life("x", made=1.0, node="", waits="no room"),
        life("o", node=""),
    ]
    (only,) = touched(*lives)
    assert (only.before, only.after, only.waiting, only.lost, only.why) == (0, 0, 2, 2, "no room")
    assert (only.first, only.left) == (seconds(0), 0)


def test_pods_in_whose_place_nothing_runs_are_lost():
    lives = [
        life("p", left=1.0, cause=TAINTED),
        life("q", left=1.0, cause=TAINTED),
        *chain(life("r", left=1.0), life("r2", made=2.0)),
        life("s", left=1.0, cause=OWNER),
        life("t", made=1.0, left=2.0),
    ]
    (only,) = touched(*lives)
    assert (only.before, only.after, only.lost, only.why) == (4, 1, 2, "ReplicaSet/web has not made it again")


def test_a_workload_that_goes_in_circles_has_lost_nobody():
    (only,) = touched(life("p", left=1.0), circles=(CIRCLE,))
    assert (only.lost, only.circle) == (0, CIRCLE)


def test_who_was_not_running_or_had_left_did_not_run_before():
    lives = [
        life("starts", made=-1.0, running=0.0),
        life("left", left=-1.0),
        life("never", running=None, left=1.0),
        life("leaves", left=0.0),
    ]
    (only,) = touched(*lives)
    assert (only.before, only.after, only.pods) == (1, 1, 2)


@pytest.mark.parametrize(
    "lives, lowest",
    [
        ([life("p", left=5.0), life("q", made=5.0)], 0),
        ([life("p", left=5.0), life("q", made=4.0)], 1),
        ([life("p", left=0.0), life("q"), life("r")], 2),
        ([life("p", left=1.0), life("q", made=2.0, running=3.0, left=4.0), life("r", left=3.5)], 0),
        ([life("p"), life("q", left=2.0, running=None)], 1),
        ([life("p"), life("q", made=-1.0, running=0.0), life("r", left=1.0)], 2),
    ],
)
def test_the_fewest_that_ran_at_any_time(lives, lowest):
    (only,) = touched(*(replace(each) for each in lives))
    assert only.lowest == lowest


def test_the_worst_comes_first():
    def row(name: str, *, lost: int = 0, left: int = 0, circle: EvictionLoop | None = None) -> Workload:
        return Workload(name, 1, 1, 1, left, 1, 0, lost, circle=circle)

    rows = [
        row("a", circle=CIRCLE),
        row("b", lost=2),
        row("c", lost=1, left=5),
        row("d", left=2),
        row("e"),
        row("f"),
    ]
    mixed = [*rows[3:], *rows[:3]]
    assert sorted(mixed, key=lambda each: each.rank) == rows
    first = replace(rows[-1], first=timedelta()), *(replace(each, first=seconds(9)) for each in rows[:-1])
    assert sorted([*first[2:], *first[:2]], key=lambda each: each.order) == list(first)
    lives = [life("p", left=1.0, owner="Job/a"), life("q", left=1.0), life("r", left=1.0)]
    assert [each.name for each in touched(*lives)] == [WEB, "default/Job/a"]


# ── budgets ──


def broken(*steps: tuple[float, int, int], ended: float = 60.0, **blocked: str) -> list[Budget]:
    past = history(())
    if steps:
        past.budgets["default/b"] = list(steps)
    return list(budgets(past, blocked, ended))


def test_a_budget_that_holds_is_not_named():
    assert broken((-1.0, 3, 2), (0.0, 2, 2), (5.0, 3, 2)) == []


def test_a_budget_is_broken_for_as_long_as_too_few_are_healthy():
    assert broken((-5.0, 2, 2), (0.0, 1, 2), (4.0, 0, 3), (10.0, 3, 2), (20.0, 1, 2), (21.0, 2, 2)) == [
        Budget("default/b", 3, 0, seconds(11))
    ]


def test_a_budget_may_be_broken_to_the_end():
    assert broken((5.0, 1, 2)) == [Budget("default/b", 2, 1, seconds(55), until_the_end=True)]
    assert broken((60.0, 1, 2)) == [Budget("default/b", 2, 1, seconds(0), until_the_end=True)]


def test_a_budget_that_was_broken_before_is_no_news():
    assert broken((-1.0, 1, 2), (5.0, 1, 2)) == []
    assert len(broken((0.0, 1, 2))) == 1


def test_a_budget_names_the_pods_it_kept():
    assert broken(q="default/b", p="default/b", r="default/a") == [
        Budget("default/a", 0, 0, blocks=("r",)),
        Budget("default/b", 0, 0, blocks=("p", "q")),
    ]
    assert broken((-1.0, 0, 1), (0.0, 1, 1), p="default/b") == [Budget("default/b", 1, 1, blocks=("p",))]


# ── who stays ──


def node(name: str, *keys: str) -> dict[str, Any]:
    taints = [{"key": key, "effect": "NoSchedule"} for key in keys]
    return {"metadata": {"name": name}, "spec": {"taints": taints}}


def on_nodes(*lives: PodLife) -> History:
    past = history(lives)
    for each in lives:
        tolerations = [{"key": "hot", "operator": "Exists"}] if each.name.startswith("cool") else []
        each.document = each.document or {
            "metadata": {"name": each.name},
            "spec": {"containers": [], "tolerations": tolerations},
        }
    past.nodes_before = {"a": node("a"), "b": node("b", "hot")}
    past.nodes = {name: node(name, "hot") for name in ("a", "b", "new")}
    return past


def test_pods_that_stay_on_changed_nodes_are_counted_and_those_that_could_not_come_back_named():
    past = on_nodes(
        life("z"),
        life("p"),
        life("cool"),
        life("leaves", left=1.0),
        life("elsewhere", node="b"),
        life("later", made=0.0),
        life("lost", node="gone"),
    )
    assert stays(past, ["a", "gone"]) == (3, ["default/p", "default/z"])
    assert stays(past, ["b"]) == (1, [])


def stays(past: History, changed: list[str], after: Gates = ALL_FEATURES) -> tuple[int, list[str]]:
    number, locked = unaffected(past, changed, by_owner, ALL_FEATURES, after)
    return number, [each.pod for each in locked]


def test_gates_of_the_scheduler_lock_pods_out_on_nodes_that_do_not_change():
    tolerations = [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}]
    past = on_nodes(life("p", document={"metadata": {"name": "p"}, "spec": {"tolerations": tolerations}}))
    tainted = {
        "metadata": {"name": "a"},
        "spec": {"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}]},
    }
    past.nodes["a"] = past.nodes_before["a"] = tainted
    off = ALL_FEATURES.replace({"TaintTolerationComparisonOperators": False})
    assert stays(past, []) == (0, [])
    assert stays(past, [], off) == (0, ["default/p"])
    (only,) = unaffected(past, [], by_owner, ALL_FEATURES, off)[1]
    assert (only.node, only.workload, only.why) == ("a", WEB, "nothing tolerates sla=950:NoSchedule")


def test_a_pod_that_cannot_be_read_stays_without_a_word():
    past = on_nodes(life("odd", document={"metadata": {"name": "odd"}, "spec": 5}))
    assert stays(past, ["a"]) == (1, [])


def test_a_node_that_was_not_there_before_had_no_taints():
    assert stays(on_nodes(life("p", node="new")), ["new"]) == (1, ["default/p"])


# ── who waits ──


def test_waiting_pods_that_run_after_the_change_are_helped():
    lives = [
        life("now", bound=0.0),
        life("later", bound=5.0),
        life("before", bound=-1.0),
        life("never", node=""),
    ]
    helped, hindered = schedulability_changes(history(lives), {each.uid for each in lives}, by_owner)
    assert ([each.pod for each in helped], hindered) == (["default/now", "default/later"], [])
    assert schedulability_changes(history(lives), set(), by_owner) == ([], [])


def test_waiting_pods_that_lose_the_place_they_had_found_are_hindered():
    lives = [
        life("p", owner="", bound=-1.0, left=2.0),
        *chain(life("q", bound=-1.0, left=2.0), life("q2", made=3.0, node="b")),
        life("r", owner="", bound=0.0, left=2.0),
    ]
    helped, hindered = schedulability_changes(history(lives), {"uid-p", "uid-q", "uid-r"}, by_owner)
    assert (helped, hindered) == (
        [],
        [SchedulabilityChange("default/p", "a", "no controller makes it again", by_owner(lives[0]))],
    )


def test_one_that_is_helped_is_told_where_the_last_in_its_place_runs():
    lives = chain(life("p", bound=1.0, left=2.0), life("q", made=3.0, node="b"))
    helped, _ = schedulability_changes(history(lives), {"uid-p"}, by_owner)
    assert helped == [SchedulabilityChange("default/p", "b", "", WEB)]


# ── in all ──


def test_a_change_that_changes_nothing_comes_to_nothing():
    nothing = Forecast((), ())
    assert (nothing.staying, nothing.anyway, nothing.looked, nothing.settled) == (0, 0, timedelta(), True)
    assert (nothing.lost, nothing.bad) == ((), False)


LOST = EvictedPod("default/p", "a", seconds(0), TAINTED, "", "default/Pod/p")
SOME = Workload(WEB, 1, 1, 1, 1, 1, 0, 1)


@pytest.mark.parametrize(
    "found, bad",
    [
        ({}, False),
        ({"leaving": (LOST,)}, True),
        ({"leaving": (replace(LOST, ends_on="b"),)}, False),
        ({"leaving": (replace(LOST, wanted=False),)}, False),
        ({"circles": (CIRCLE,)}, True),
        ({"hindered": (SchedulabilityChange("default/p", "a"),)}, True),
        ({"helped": (SchedulabilityChange("default/p", "a"),)}, False),
        ({"budgets": (Budget("default/b", 1, 0, seconds(3)),)}, False),
        ({"budgets": (Budget("default/b", 1, 0, blocks=("default/p",)),)}, True),
        ({"workloads": (SOME,)}, True),
        ({"workloads": (replace(SOME, lost=0),)}, False),
        ({"notes": ("a node is gone",)}, True),
    ],
)
def test_somebody_should_think_again_when_something_is_lost_or_stands_in_the_way(found, bad):
    assert Forecast((), (), **found).bad is bad
