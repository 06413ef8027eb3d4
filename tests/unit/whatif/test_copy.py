"""How a copy is run: what is said of the whole, and who is alive in that of a large cluster."""

from __future__ import annotations

import math
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
from weir.whatif.run import WhatIfOptions, life_in_copy, what_if


def ticking(
    before: list[dict[str, Any]], *changes: Change, until: float, **more: Any
) -> tuple[Forecast, list[Any]]:
    ticks: list[Any] = []
    asked = WhatIfOptions(ALL_FEATURES, NOW, until)
    found = what_if(before, changes, asked, lambda done, total: ticks.append((done, total)), **more)
    return found, ticks


def test_what_the_answer_says_about_the_whole():
    before = [node("a"), node("b"), pod("p", "a"), pod("stays", "b")]
    found = made(before, taint("a", "hot:NoExecute"), Cordon(Nodes(("b",)), on=False))
    assert found.said == ("taint a hot:NoExecute", "uncordon b")
    assert (found.changed, found.staying, found.anyway) == (("node/a",), 0, 0)
    assert found.room == {"cpu": 2.0, "memory": 8 * 2**30, "pods": 18}
    assert found.uids == {"default/p": "uid-p", "default/stays": "uid-stays"}
    assert found.not_considered == (
        "what 1 owner not collected would say: each is taken to want the pods it has",
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


def test_a_node_that_says_the_same_of_itself_is_not_changed_and_a_larger_one_of_its_name_is():
    remark = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "annotations": {"x": "y"}}}
    assert made([node("a")], Apply((remark,)), until=5).changed == ()
    larger = (DeleteNode(Nodes(("a",))), Apply((node("a", cpu="8"),)))
    assert made([node("a")], *larger, until=5).changed == ("node/a",)


def test_a_workload_that_was_changed_is_named_as_it_was_asked_for():
    assert made([node("a"), deployment(1)], Scale("deploy/web", 2), until=60).changed == ("deploy/web",)


def test_pods_that_had_to_go_anyway_are_only_counted():
    hot = node("a", "hot:NoExecute")
    found = made([hot, pod("p", "a", "", tolerations=tolerant(60))], Cordon(Nodes(("a",))))
    assert (found.leaving, found.anyway) == ((), 1)


def test_time_that_passes_shows_who_has_to_go_without_any_change():
    hot = node("a", "hot:NoExecute")
    found = made([hot, pod("p", "a", "", tolerations=tolerant(60))], Wait(1.0), until=90)
    assert (found.anyway, found.looked.total_seconds()) == (1, 90)


def test_what_changes_nothing_is_not_looked_at():
    assert made([node("a")], Cordon(Nodes(("a",)), on=False), until=90).looked.total_seconds() == 0


def test_a_pod_that_ran_and_is_lost_is_not_one_that_had_just_found_its_place():
    found = made([node("a"), pod("p", "a", "")], taint("a", "hot:NoExecute"), until=5)
    assert ([one.pod for one in found.lost], found.hindered) == (["default/p"], ())


@pytest.mark.parametrize("ready, key", [("Unknown", "unreachable"), ("False", "not-ready")])
def test_a_node_that_is_silent_or_not_ready_stays_so(ready, key):
    ill = node("b", f"node.kubernetes.io/{key}:NoExecute")
    ill["status"]["conditions"] = [
        {"type": "Ready", "status": ready, "lastHeartbeatTime": "2026-01-01T11:00:00Z"}
    ]
    found = made([node("a"), ill, pod("p", "a")], taint("a", "hot:NoExecute"), until=120)
    assert f"untolerated taint {{node.kubernetes.io/{key}: }}" in found.lost[0].why_nowhere


def test_pods_of_all_replica_sets_of_a_workload_are_counted_as_its_own():
    above = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "name": "web",
        "uid": "r",
        "controller": True,
    }
    before = [node("a"), node("b")]
    for name, on in (("old", "a"), ("new", "b")):
        one = pod(name, on, labels={"app": name})
        one["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
        ]
        one["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": one["spec"]["containers"]}}
        counts = (
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
        )
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": name,
            "generation": 1,
            "ownerReferences": [above],
        }
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
        replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
        before += [one, {**replica_set, "status": dict.fromkeys(counts, 1)}]
    (workload,) = made(before, taint("a", "hot:NoExecute"), until=30).workloads
    assert (workload.name, workload.before, workload.after) == ("default/Rollout/web", 2, 2)


def test_a_job_that_is_complete_has_not_given_up():
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T11:00:00Z"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "web", "namespace": "default", "uid": "j"},
        "spec": {"template": template},
        "status": {"conditions": [complete]},
    }
    late = pod("p", "a", restartPolicy="Never")
    late["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": "j", "controller": True}
    ]
    found = made([node("a"), job, late], taint("a", "hot:NoExecute"), until=30)
    assert [one.why_nowhere for one in found.lost] == ["Job/web has not made it again"]


def test_gates_of_the_controllers_decide_who_had_to_go():
    before = [node("a", "sla=800:NoExecute"), pod("p", "a", "", tolerations=tolerate())]
    off = (("TaintTolerationComparisonOperators", False),)
    for components, why in (((), "nothing tolerates sla=800:NoExecute of node a"), (("scheduler",), None)):
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


def test_an_object_at_which_a_controller_fails_is_not_passed_over_in_silence():
    spec: dict[str, Any] = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c"}]}},
        "volumeClaimTemplates": [{"spec": {}}],  # has no name, so that no server would have taken it
    }
    invalid = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": spec,
    }
    found = made([node("a"), pod("p", "a"), invalid], taint("a", "hot:NoExecute"))
    (said,) = (note for note in found.not_considered if "statefulset" in note)
    assert said.startswith("statefulset-controller at shop/db (")
    assert said.endswith("which fails in weir: `weir lint` says whether the object is valid")


def test_a_job_that_has_ended_stays_so_where_nobody_wrote_when():
    ended = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "done", "namespace": "default"},
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        },
        "status": {"conditions": [{"type": "Complete", "status": "True"}]},
    }
    found = made([node("a"), node("b"), pod("p", "a"), ended], taint("a", "hot:NoExecute"))
    assert [leaving.pod for leaving in found.leaving] == ["default/p"]
