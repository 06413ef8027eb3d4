"""What a change would do, as the components themselves do it on a copy: who leaves, when, and where they end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from weir.gates import ALL_FEATURES
from weir.taints.notation import parse_taint
from weir.whatif.changes import (
    AddNodes,
    Apply,
    Change,
    ChangeError,
    Cordon,
    DeleteNode,
    Drain,
    Label,
    Nodes,
    Rollout,
    Scale,
    SetGates,
    Taint,
    TaintEdit,
    Wait,
)
from weir.whatif.forecast import Forecast
from weir.whatif.run import WhatIfOptions, what_if

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def node(name: str, *taints: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    entries = []
    for text in taints:
        pair, _, effect = text.partition(":")
        key, _, value = pair.partition("=")
        entries.append({"key": key, "value": value, "effect": effect})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": entries},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"}},
    }


def pod(
    name: str,
    on: str = "",
    owner: str = "ReplicaSet",
    cpu: str = "1",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    owners = [{"kind": owner, "name": "web", "controller": True}] if owner else []
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"uid-{name}", "ownerReferences": owners, "labels": labels or {}},
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }


def made(before: list[dict[str, Any]], *changes: Change, until: float = 600.0, explain: str = "") -> Forecast:
    return what_if(before, changes, WhatIfOptions(ALL_FEATURES, NOW, until, explain=explain))


def ask(before: list[dict[str, Any]], *changes: dict[str, Any]) -> Forecast:
    return made(before, Apply(tuple(changes)))


def taint(name: str, text: str) -> Taint:
    return Taint(Nodes((name,)), (TaintEdit(parse_taint(text)),))


def tolerate(seconds: int | None = None, **rest: Any) -> list[dict[str, Any]]:
    entry = {"key": "sla", "operator": "Gt", "value": "700", **rest}
    return [entry if seconds is None else {**entry, "effect": "NoExecute", "tolerationSeconds": seconds}]


def test_a_pod_that_does_not_tolerate_leaves_at_once_for_a_node_with_room():
    found = ask([node("a"), node("b"), pod("p", "a")], node("a", "sla=500:NoExecute"))
    assert [(one.pod, one.after.seconds, one.goes_to) for one in found.leaving] == [("default/p", 0, "b")]


def test_a_pod_that_tolerates_for_a_while_leaves_then_and_may_come_back_to_leave_again():
    found = ask([node("a"), pod("p", "a", tolerations=tolerate(30))], node("a", "sla=800:NoExecute"))
    (one,) = found.leaving
    assert (one.after.seconds, one.goes_to, one.again_after.seconds) == (30, "a", 30)
    assert one.lands_after is not None and one.lands_after.seconds == 30


def test_room_is_taken_by_those_who_left_before():
    before = [node("a"), node("b", cpu="1"), pod("p", "a"), pod("q", "a")]
    found = ask(before, node("a", "sla=500:NoExecute"))
    assert [one.goes_to for one in found.leaving] == ["b", ""]
    assert [one.lands_after is None for one in found.leaving] == [False, True]


def test_those_with_nowhere_to_go_are_told_in_the_schedulers_words():
    found = ask([node("a"), pod("p", "a")], node("a", "sla=500:NoExecute"))
    said = "0/1 nodes are available: 1 node(s) had untolerated taint {sla: 500}. preemption: "
    assert found.lost[0].why_nowhere.startswith(said)


@pytest.mark.parametrize("owner, words", [("", "no controller"), ("DaemonSet", "DaemonSet makes it again")])
def test_what_nobody_makes_again_is_lost(owner, words):
    found = ask([node("a"), node("b"), pod("p", "a", owner)], node("a", "sla=500:NoExecute"))
    assert words in found.lost[0].why_nowhere


def test_who_had_to_leave_anyway_is_not_news():
    before = [node("a", "hot:NoExecute"), pod("p", "a")]
    assert ask(before, node("a", "hot:NoExecute", "sla=500:NoExecute")).leaving == ()


def test_pods_that_stay_but_could_not_come_back_are_named():
    found = ask(
        [node("a"), pod("p", "a"), pod("q", "a", tolerations=tolerate())], node("a", "sla=800:NoSchedule")
    )
    assert (found.staying, [each.pod for each in found.locked_out]) == (2, ["default/p"])


def test_a_waiting_pod_takes_the_door_that_opens():
    found = ask([node("a", "sla=500:NoSchedule"), pod("p")], node("a"))
    assert [(turn.pod, turn.node) for turn in found.helped] == [("default/p", "a")]


def test_a_waiting_pod_that_fits_has_its_place_before_the_change():
    found = ask([node("a"), pod("p")], node("a", "sla=500:NoSchedule"))
    assert (found.hindered, [each.pod for each in found.locked_out]) == ((), ["default/p"])


def test_a_pod_that_had_just_found_its_place_and_loses_it_is_hindered():
    found = ask([node("a"), pod("p")], node("a", "sla=500:NoExecute"))
    assert [(turn.pod, turn.node) for turn in found.hindered] == [("default/p", "a")]


# ── devices ──

API = "resource.k8s.io/v1"


def devices(pods: int) -> list[dict[str, Any]]:
    listed = [{"name": f"gpu-{number}"} for number in range(pods)]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": API,
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": listed},
        }
    ]
    for number in range(pods):
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": f"gpu-{number}"}
        reserved = [{"resource": "pods", "name": f"p{number}", "uid": f"uid-p{number}"}]
        documents.append(
            {
                "apiVersion": API,
                "kind": "ResourceClaim",
                "metadata": {"name": f"c{number}", "namespace": "default"},
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
                "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved},
            }
        )
        claims = [{"name": "gpu", "resourceClaimName": f"c{number}"}]
        documents.append(pod(f"p{number}", "a", cpu="10m", resourceClaims=claims))
    return documents


def rule(**taint: Any) -> dict[str, Any]:
    spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "recall", **taint}}
    return {"apiVersion": API, "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec}


def test_a_device_taint_rule_drives_its_pods_out_at_its_rate():
    before = [node("a", cpu="64"), *devices(14)]
    found = ask(before, rule(effect="NoExecute", evictionsPerSecond=2))
    times = [round(one.after.total_seconds(), 1) for one in found.leaving]
    assert times == [0.0] * 10 + [0.5, 1.0, 1.5, 2.0]
    assert found.control_plane == ""


def test_a_rule_without_effect_drives_nobody_out():
    assert ask([node("a"), *devices(2)], rule(effect="None")).leaving == ()


def gpus(name: str) -> dict[str, Any]:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def claimed(number: int, on: str) -> list[dict[str, Any]]:
    """A pod with a claim made for it, which has the device of its node."""
    name = f"p{number}"
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": on, "device": "gpu-0"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
    claim = {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {
            "name": f"{name}-gpu",
            "namespace": "default",
            "uid": f"c{number}",
            "ownerReferences": [owner],
        },
        "spec": WANTED,
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
        },
    }
    user = pod(name, on, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])
    user["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    return [claim, user]


WANTED: dict[str, Any] = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}]}
}
FLEET = [
    {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": "default"},
        "spec": {"spec": WANTED},
    },
]


def test_a_pod_that_leaves_its_device_gets_another_while_there_is_one():
    before = [*FLEET, *(gpus(name) for name in "abc"), *(node(name) for name in "abc")]
    before += [*claimed(0, "a"), *claimed(1, "b")]
    recall = rule(effect="NoExecute")
    recall["spec"]["deviceSelector"] = {"driver": "gpu.example.com", "pool": "a"}
    everywhere = rule(effect="NoExecute")
    some, all_of_them = ask(before, recall), ask(before, everywhere)
    assert ([one.goes_to for one in some.leaving], [one.goes_to for one in all_of_them.leaving]) == (
        ["c"],
        ["", ""],
    )


def test_two_pods_do_not_get_the_same_device():
    before = [*FLEET, *(gpus(name) for name in "abc"), *(node(name) for name in "abc")]
    before += [*claimed(0, "a"), *claimed(1, "b")]
    rules = []
    for pool in "ab":
        rules.append(rule(effect="NoExecute") | {"metadata": {"name": pool}})
        rules[-1]["spec"]["deviceSelector"] = {"driver": "gpu.example.com", "pool": pool}
    assert sorted(one.goes_to for one in ask(before, *rules).leaving) == ["", "c"]


DISK = [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]


def test_a_replacement_does_not_go_where_its_disk_is_in_use():
    before = [node("a"), node("b"), pod("p", "a", volumes=DISK), pod("q", "b", volumes=DISK)]
    found = ask(before, node("a", "sla=500:NoExecute"))
    assert "1 node(s) had no available disk" in found.lost[0].why_nowhere


def test_what_the_server_refuses_to_make_again_is_lost_in_its_words():
    before = [node("a"), node("b"), pod("p", "a", hostNetwork=True, hostUsers=False)]
    found = ask(before, node("a", "sla=500:NoExecute"))
    assert "cannot make it again: Error creating: Pod" in found.lost[0].why_nowhere


def test_room_left_is_counted_at_the_most_a_resized_pod_has():
    big = pod("q", "b", cpu="1")
    big["status"]["containerStatuses"] = [{"name": "c", "allocatedResources": {"cpu": "4"}}]
    found = ask([node("a"), node("b"), pod("p", "a"), big], node("a", "sla=500:NoExecute"))
    assert "1 Insufficient cpu" in found.lost[0].why_nowhere


def test_a_waiting_pod_that_is_being_deleted_is_not_helped():
    waiting = pod("w")
    waiting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert ask([node("a", "hot:NoSchedule"), waiting], node("a")).helped == ()


# ── as a real cluster does it ──


def tolerant(seconds: int) -> list[dict[str, Any]]:
    return [{"key": "hot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]


def service(**selector: str) -> dict[str, Any]:
    spec = {"selector": selector, "ports": [{"port": 80}], "clusterIP": "10.0.0.9"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}


def test_default_spreading_sends_a_pod_back_to_be_evicted_for_ever():
    # Pods of one owner are kept apart by default: the replacement goes where no sibling is, back to the tainted node.
    before = [
        node("ra"),
        node("rb"),
        pod("p", "ra", tolerations=tolerant(2)),
        pod("q", "rb", tolerations=tolerant(2)),
    ]
    found = made(before, taint("ra", "hot:NoExecute"))
    (circle,) = found.circles
    assert (circle.workload, circle.nodes, circle.every.total_seconds()) == (
        "default/ReplicaSet/web",
        ("ra",),
        pytest.approx(2, abs=0.5),
    )


def test_a_daemonset_makes_its_pod_again_at_once_in_a_loop():
    found = made(
        [node("a"), pod("d", "a", "DaemonSet", tolerations=tolerant(3))], taint("a", "hot:NoExecute")
    )
    (circle,) = found.circles
    assert (circle.workload, circle.nodes) == ("default/DaemonSet/web", ("a",))


def test_a_waiting_pod_takes_the_room_that_an_eviction_frees():
    before = [node("a", cpu="1"), pod("p", "a"), pod("w", owner="", tolerations=[{"operator": "Exists"}])]
    found = made(before, taint("a", "hot:NoExecute"))
    assert ([turn.pod for turn in found.helped], [one.pod for one in found.lost]) == (
        ["default/w"],
        ["default/p"],
    )


def test_a_pod_that_is_still_ending_keeps_its_replacement_away():
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "w"}}}
            ]
        }
    }
    one = pod("p", "a", labels={"app": "w"}, affinity=apart, tolerations=tolerant(5))
    found = made([node("a"), node("b", cpu="1"), one], taint("a", "hot:NoExecute"))
    assert [each.goes_to for each in found.leaving] == ["b"]


@pytest.mark.parametrize("name", ["aaa", "zzz"])  # before and behind the pods that run
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_long_ago_takes_no_replacement_from_one_that_is_evicted(name, phase):
    ended = pod(name, "a")
    ended["status"] = {"phase": phase, "reason": "Evicted"}
    found = made([node("a"), node("b"), pod("p", "a"), ended], taint("a", "hot:NoExecute"))
    assert [(one.pod, one.goes_to) for one in found.leaving] == [("default/p", "b")]


def test_a_job_gives_up_after_so_many_evictions():
    before = [node("a"), pod("j", "a", "Job", restartPolicy="Never", tolerations=tolerant(1))]
    found = made(before, taint("a", "hot:NoExecute"), until=7200)
    assert (found.circles, "has given up" in found.lost[0].why_nowhere) == ((), True)


# ── other changes ──


def test_a_budget_keeps_pods_from_being_drained():
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "w"}}},
    }
    before = [node("a"), node("b", "closed:NoSchedule"), pod("p", "a", labels={"app": "w"}), budget]
    found = made(before, Drain(Nodes(("a",))))
    (blocking,) = found.budgets
    assert (found.leaving, blocking.name, blocking.blocks, found.bad) == (
        (),
        "default/all",
        ("default/p",),
        True,
    )


def test_a_taint_breaks_a_budget_and_says_for_how_long():
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "w"}}},
    }
    found = made(
        [node("a"), node("b"), pod("p", "a", labels={"app": "w"}), budget], taint("a", "hot:NoExecute")
    )
    (broken,) = found.budgets
    assert (broken.lowest, broken.desired, broken.until_the_end) == (0, 1, False)


def test_a_drain_stops_at_a_pod_without_a_controller_unless_forced():
    before = [node("a"), node("b"), pod("p", "a", ""), pod("q", "a")]
    stopped, forced = (made(before, Drain(Nodes(("a",)), force)) for force in (False, True))
    assert (len(stopped.leaving), "evicts nothing" in stopped.notes[0]) == (0, True)
    assert {one.pod: one.ends_on for one in forced.leaving} == {"default/p": "", "default/q": "b"}


def test_cordoning_and_applying_unschedulable_say_the_same_as_a_taint():
    before = [node("a"), pod("p", "a")]
    applied = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"unschedulable": True}}
    ways = (Cordon(Nodes(("a",))), Apply((applied,)), taint("a", "maintenance:NoSchedule"))
    assert [[each.pod for each in made(before, way).locked_out] for way in ways] == [["default/p"]] * 3


def test_uncordoning_lets_a_waiting_pod_in():
    closed = node("a")
    closed["spec"]["unschedulable"] = True
    found = made([closed, pod("w", owner="")], Cordon(Nodes(("a",)), on=False))
    assert [turn.pod for turn in found.helped] == ["default/w"]


def test_pods_of_a_deleted_node_are_made_again_elsewhere():
    found = made([node("a"), node("b"), pod("p", "a")], DeleteNode(Nodes(("a",))))
    assert [(one.goes_to, one.after.total_seconds() > 30) for one in found.leaving] == [("b", True)]
    assert all(one.lands_after >= one.after for one in found.leaving)


def test_new_nodes_take_pods_that_wait():
    found = made([node("a", cpu="1"), pod("p", "a"), pod("w", owner="")], AddNodes(2, "a"))
    assert [(turn.pod, turn.node.startswith("a-new-")) for turn in found.helped] == [("default/w", True)]


def test_new_nodes_have_devices_like_those_of_their_model():
    before = [*FLEET, *(gpus(name) for name in "ab"), *(node(name) for name in "ab")]
    before[2]["spec"]["devices"][0]["taints"] = [
        {"key": "failed", "effect": "NoExecute"}
    ]  # those of new ones are well
    before += [*claimed(1, "b")]
    waiting = pod("w", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])
    found = made([*before, waiting], AddNodes(1, "a"))
    assert [(turn.pod, turn.node) for turn in found.helped] == [("default/w", "a-new-1")]


def test_a_label_opens_a_node_to_a_selector():
    found = made(
        [node("a"), pod("w", owner="", nodeSelector={"pool": "x"})], Label(Nodes(("a",)), (("pool", "x"),))
    )
    assert [turn.pod for turn in found.helped] == ["default/w"]


def deployment(replicas: int, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def test_scaling_beyond_what_fits_leaves_pods_waiting():
    found = made([node("a"), deployment(1)], Scale("deploy/web", 6))
    (workload,) = found.workloads
    assert (workload.before, workload.after, workload.waiting, "Insufficient cpu" in workload.why) == (
        1,
        4,
        2,
        True,
    )


def test_a_rollout_replaces_every_pod_and_loses_none():
    found = made([node("a"), deployment(2)], Rollout("deploy/web"))
    (workload,) = found.workloads
    assert (workload.before, workload.after, workload.pods, workload.lost, found.bad) == (2, 2, 2, 0, False)


def test_turning_a_gate_off_takes_its_tolerations_away():
    before = [node("a", "sla=800:NoExecute"), pod("p", "a", tolerations=tolerate())]
    off = SetGates((("TaintTolerationComparisonOperators", False),))
    found = made(before, off)
    assert [(one.pod, one.cause.taint and one.cause.taint.key) for one in found.leaving] == [
        ("default/p", "sla")
    ]


def test_changes_are_made_one_after_the_other_with_time_between():
    before = [node("a"), node("b"), pod("p", "a")]
    found = made(before, Cordon(Nodes(("b",))), Wait(30.0), taint("a", "hot:NoExecute"))
    assert [(one.after.total_seconds(), one.ends_on) for one in found.leaving] == [(30, "")]


def test_the_story_of_a_pod_is_told_step_by_step():
    found = made([node("a"), node("b"), pod("p", "a")], taint("a", "hot:NoExecute"), explain="default/p")
    steps = [" ".join(line.split()[2:]) for line in found.story]
    new = found.story[1].split()[2]
    assert steps == [
        "default/p is evicted from a: nothing tolerates hot:NoExecute of node a",
        f"{new} is created",
        f"{new} is scheduled to b",
        "default/p is gone",
        f"{new} runs on b",
    ]


@pytest.mark.parametrize(
    "change, words",
    [
        (taint("z", "hot:NoExecute"), "no node z in the cluster"),
        (Cordon(Nodes(selector="pool=none")), "no node has the labels pool=none"),
        (Scale("deploy/nope", 1), "no deployment nope in namespace default"),
        (Scale("pod/x", 1), "write deployment/NAME"),
        (
            Taint(Nodes(("a",)), (TaintEdit(parse_taint("k:NoExecute"), True),)),
            "node a has no taint k:NoExecute",
        ),
        (
            Apply(({"apiVersion": "v9", "kind": "Nope", "metadata": {"name": "x"}},)),
            "no kind that weir knows",
        ),
    ],
)
def test_a_change_that_cannot_be_made_says_why(change, words):
    with pytest.raises(ChangeError, match=words):
        made([node("a"), pod("p", "a")], change)


def test_what_is_so_already_changes_nothing():
    assert made([node("a"), pod("p", "a")], Cordon(Nodes(("a",)), on=False)).changed == ()


# ── what the cluster itself says ──


def unschedulable(name: str, **status: Any) -> dict[str, Any]:
    waiting = pod(name)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    waiting["status"]["conditions"] = [{**condition, **status}]
    return waiting


def test_a_pod_that_fits_though_the_cluster_says_otherwise_is_named():
    found = made([node("a"), unschedulable("p")], Cordon(Nodes(("a",))))
    ((turn),) = found.differs
    assert (turn.pod, turn.node) == ("default/p", "a")
    assert "condition PodScheduled (Unschedulable): 0/1 nodes. Likely: " in turn.why_not


@pytest.mark.parametrize(
    "documents",
    [
        [node("a"), pod("p")],
        [node("a"), pod("p", on="a")],
        [node("a", "hot:NoSchedule"), unschedulable("p")],
        [node("a"), unschedulable("p", reason="SchedulingGated")],
        [node("a"), unschedulable("p", status="True")],
    ],
    ids=["nothing said", "runs", "agree", "gated", "scheduled"],
)
def test_where_the_cluster_does_not_contradict_nothing_is_said(documents):
    assert made(documents, Cordon(Nodes(("a",)))).differs == ()


def test_it_is_said_of_a_change_that_changes_nothing_too():
    cordoned = node("b")
    cordoned["spec"]["unschedulable"] = True
    found = made([node("a"), cordoned, unschedulable("p")], Cordon(Nodes(("b",))))
    assert (found.changed, len(found.differs)) == ((), 1)


# ── what decides without being asked ──


def test_who_does_not_name_a_seed_gets_the_same_answer_as_with_seed_0():
    def name_of_the_new_pod(**seed: int) -> str:
        asked = WhatIfOptions(ALL_FEATURES, NOW, 5.0, explain="default/p", **seed)
        before = [node("a"), node("b"), pod("p", "a")]
        return what_if(before, (taint("a", "hot:NoExecute"),), asked).story[1]

    assert name_of_the_new_pod() == name_of_the_new_pod(seed=0) != name_of_the_new_pod(seed=1)


@pytest.mark.parametrize("pods, alive", [(2_000, 2_000), (2_001, 0)])
def test_all_are_alive_of_up_to_two_thousand(pods, alive):
    crowded = node("b", cpu="64")
    crowded["status"]["allocatable"]["pods"] = "3000"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    people = [pod(f"p{number}", "b", cpu="1m") for number in range(pods)]
    for each in people:
        each["metadata"]["ownerReferences"] = [owner]
    there: list[int] = []
    nothing = Cordon(Nodes(("a",)), on=False)
    what_if(
        [node("a"), crowded, *people],
        (nothing,),
        WhatIfOptions(ALL_FEATURES, NOW, 1.0),
        at_the_end=lambda cluster: there.append(len(cluster.list("Pod"))),
    )
    assert there == [alive]
