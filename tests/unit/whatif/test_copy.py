"""How a copy is run: how time passes in it, what is said of the whole, and who is alive in that of a large cluster."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import pytest

from tests.unit.whatif.test_run import NOW, deployment, made, node, pod, rule, taint, tolerant, tolerate
from weir.gates import ALL_FEATURES
from weir.simulation.kubelet.node_classes import LIFE, SIMULATED
from weir.whatif import run
from weir.whatif.changes import (
    AddNodes,
    Apply,
    Change,
    Cordon,
    DeleteNode,
    Label,
    Nodes,
    Scale,
    SetGates,
    Wait,
)
from weir.whatif.forecast import Forecast
from weir.whatif.run import Asked, life_in_copy, what_if


def ticking(
    before: list[dict[str, Any]], *changes: Change, until: float, **more: Any
) -> tuple[Forecast, list[Any]]:
    ticks: list[Any] = []
    asked = Asked(ALL_FEATURES, NOW, until)
    found = what_if(before, changes, asked, lambda done, total: ticks.append((done, total)), **more)
    return found, ticks


def test_time_passes_in_steps_that_grow_up_to_the_horizon():
    found, ticks = ticking([node("a"), pod("p", "a")], taint("a", "hot:NoSchedule"), until=100.0)
    assert ticks == [(passed, 100) for passed in (0, 1, 2, 5, 10, 20, 30, 60, 90)]
    assert (found.looked.total_seconds(), found.settled, found.at) == (100, True, NOW)


@pytest.mark.parametrize("seconds, settled", [(560, True), (580, False)])
def test_what_happens_just_before_the_horizon_may_go_on(seconds, settled):
    found = made([node("a"), pod("p", "a", "", tolerations=tolerant(seconds))], taint("a", "hot:NoExecute"))
    assert (len(found.leaving), found.settled) == (1, settled)


def test_a_circle_ends_the_looking_in_spite_of_time_that_runs_out_beyond_the_horizon():
    late = pod("late", "ra", "", tolerations=tolerant(5000))
    found = made(
        [node("ra"), pod("p", "ra", tolerations=tolerant(2)), late], taint("ra", "hot:NoExecute"), until=4000
    )
    assert (bool(found.circles), found.looked.total_seconds() < 300) == (True, True)


def test_what_the_answer_says_about_the_whole():
    before = [node("a"), node("b"), pod("p", "a"), pod("stays", "b")]
    found = made(before, taint("a", "hot:NoExecute"), Cordon(Nodes(("b",)), on=False))
    assert found.said == ("taint a hot:NoExecute", "uncordon b")
    assert (found.changed, found.staying, found.anyway) == (("node/a",), 0, 0)
    assert found.room == {"cpu": 2.0, "memory": 8 * 2**30, "pods": 18}
    assert found.uids == {"default/p": "uid-p", "default/stays": "uid-stays"}
    assert found.not_considered == (
        "what 1 owners that were not collected say: each is taken to want the pods it has",
    )
    assert found.story == ()


@pytest.mark.parametrize(
    "change, changed",
    [
        (Label(Nodes(("a",)), (("x", "y"),)), ("node/a",)),
        (DeleteNode(Nodes(("a",))), ("node/a",)),
        (AddNodes(1, "a"), ("node/a-new-1",)),
        (Apply((rule(effect="None"),)), ("devicetaintrule/r",)),
        (Apply(({**node("a"), "metadata": {"name": "a", "labels": {"x": "y"}}},)), ("node/a",)),
        (Wait(1.0), ()),
    ],
)
def test_what_was_changed_is_named_once(change, changed):
    assert made([node("a"), node("b"), pod("p", "b")], change, until=60).changed == changed


def test_a_workload_that_was_changed_is_named_as_it_was_asked_for():
    assert made([node("a"), deployment(1)], Scale("deploy/web", 2), until=60).changed == ("deploy/web",)


def test_pods_that_had_to_go_anyway_are_only_counted():
    hot = node("a", "hot:NoExecute")
    found = made([hot, pod("p", "a", "", tolerations=tolerant(60))], Cordon(Nodes(("a",))))
    assert (found.leaving, found.anyway) == ((), 1)


def test_gates_of_the_controllers_decide_who_had_to_go():
    before = [node("a", "sla=800:NoExecute"), pod("p", "a", "", tolerations=tolerate())]
    off = (("TaintTolerationComparisonOperators", False),)
    for components, why in (((), "nothing tolerates sla=800 of node a"), (("scheduler",), None)):
        found = made(before, SetGates(off, components, ALL_FEATURES), until=60)
        assert [one.cause.say() for one in found.leaving] == ([why] if why else [])


@pytest.mark.parametrize(
    "metadata, simulated",
    [
        ({}, False),
        ({"annotations": None, "labels": None}, False),
        ({"annotations": {LIFE: "run-seconds=5"}}, True),
        ({"labels": {SIMULATED: "true"}}, True),
    ],
)
def test_pods_of_nodes_that_are_not_simulated_never_end_by_themselves(metadata, simulated):
    life = life_in_copy({"metadata": {"name": "a", **metadata}})
    assert (life.run_seconds == math.inf) is not simulated


# ── of a large cluster ──


def counted(found: list[int]) -> Any:
    return lambda cluster: found.append(len(cluster.list("Pod")))


def large(*more: dict[str, Any]) -> list[dict[str, Any]]:
    """Return two nodes with a ReplicaSet's pods on each; all of them may be left out."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    pods = [pod(f"p{number}", on) for number, on in enumerate("aabb")]
    for each in pods:
        each["metadata"] |= {"ownerReferences": [owner], "labels": {"app": "web"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": pods[0]["spec"]["containers"]}}
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "uid": "u"}
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}]
    return [node("a"), node("b"), *owners, *pods, *more]


@pytest.mark.parametrize("leave_out, many, alive", [(None, 4, 4), (None, 3, 2), (True, 9, 2), (False, 1, 4)])
def test_pods_that_the_change_cannot_touch_only_take_room(monkeypatch, leave_out, many, alive):
    monkeypatch.setattr(run, "MANY", many)
    there: list[int] = []
    found, _ = ticking(
        large(), taint("a", "hot:NoSchedule"), until=5, leave_out=leave_out, at_the_end=counted(there)
    )
    assert (there, found.staying, found.room["pods"]) == ([alive], 2, 18)


def test_pods_may_come_as_bytes():
    documents = large()
    pods = [msgspec.Raw(msgspec.json.encode(each)) for each in documents[3:]]
    there: list[int] = []
    hot = taint("a", "hot:NoExecute")
    found, _ = ticking(documents[:3], hot, until=5, pods=pods, leave_out=True, at_the_end=counted(there))
    assert ([one.pod for one in found.leaving], there) == (["default/p0", "default/p1"], [2])
    (workload,) = found.workloads
    assert (workload.before, workload.after) == (4, 4)


def test_pods_on_changed_nodes_that_only_take_room_stay():
    agent = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    daemon = pod("d", "a", tolerations=[{"operator": "Exists"}])
    daemon["metadata"]["ownerReferences"] = [agent]
    found, _ = ticking([node("a"), node("b"), daemon], taint("a", "hot:NoExecute"), until=5, leave_out=True)
    assert (found.leaving, found.staying) == ((), 1)


def test_a_pod_that_fits_nowhere_may_push_out_those_that_were_left_out():
    owner = {"apiVersion": "apps/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    weak = pod("weak", "b", cpu="4", priority=-5)
    weak["metadata"]["ownerReferences"] = [owner]
    strong = pod("strong", "a", cpu="4", priority=1000)
    strong["metadata"]["ownerReferences"] = [{**owner, "kind": "ReplicaSet", "name": "web", "uid": "r"}]
    there: list[int] = []
    hot = taint("a", "hot:NoExecute")
    found, _ = ticking(
        [node("a"), node("b"), weak, strong], hot, until=60, leave_out=True, at_the_end=counted(there)
    )
    assert {one.pod: one.ends_on for one in found.leaving} == {"default/strong": "b", "default/weak": ""}
    assert len(there) == 2


def test_a_pod_pushes_nobody_out_that_is_as_important_as_itself():
    there: list[int] = []
    documents = [node("a"), node("b", cpu="2"), *large()[2:]]
    found, _ = ticking(
        documents, taint("a", "hot:NoExecute"), until=5, leave_out=True, at_the_end=counted(there)
    )
    assert ([one.ends_on for one in found.leaving], len(there)) == (["", ""], 1)


# ── too much ──


@pytest.mark.parametrize("most, a_pod, enough", [(30, 50, True), (200, 0, True), (10, 1, False)])
def test_the_more_pods_there_are_the_more_is_waited_for(monkeypatch, most, a_pod, enough):
    monkeypatch.setattr(run, "MOST_WRITES", most)
    monkeypatch.setattr(run, "MOST_WRITES_A_POD", a_pod)
    found, _ = ticking(large(), Scale("rs/web", 24), until=20)
    assert (found.notes == ()) is enough


def test_a_copy_in_which_too_much_goes_on_is_left_with_a_word(monkeypatch):
    monkeypatch.setattr(run, "MOST_WRITES", 40)
    monkeypatch.setattr(run, "MOST_WRITES_A_POD", 0)
    found, _ = ticking([node("a", cpu="99"), deployment(1, "10m")], Scale("deploy/web", 15), until=20)
    (note,) = found.notes
    counted = r"4\d writes to pods in \d\.\d s, most of it with deployment default/web"
    assert re.fullmatch(
        rf"More goes on than was waited for \({counted}\): what comes later was not looked at", note
    )
    assert (found.settled, found.bad) == (False, True)
