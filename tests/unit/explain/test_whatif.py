"""What a change would do: who leaves, when, and where they could go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from weir.devices.inventory import Inventory
from weir.explain.whatif import Forecast, State, what_if
from weir.gates import ALL_FEATURES
from weir.world import World

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def node(name: str, *taints: str, cpu: str = "4") -> dict[str, Any]:
    entries = []
    for text in taints:
        pair, _, effect = text.partition(":")
        key, _, value = pair.partition("=")
        entries.append({"key": key, "value": value, "effect": effect})
    return {
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"taints": entries},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"}},
    }


def pod(name: str, on: str = "", owner: str = "ReplicaSet", cpu: str = "1", **spec: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "name": "web", "controller": True}] if owner else []
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"uid-{name}", "ownerReferences": owners},
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }


def state(*documents: dict[str, Any]) -> State:
    return State(World.of(documents), Inventory.of(documents, ALL_FEATURES))


def ask(before: list[dict[str, Any]], *changes: dict[str, Any]) -> Forecast:
    names = {(each["kind"], each["metadata"]["name"]) for each in changes}
    kept = [each for each in before if (each["kind"], each["metadata"]["name"]) not in names]
    return what_if(state(*before), state(*kept, *changes), ALL_FEATURES, NOW)


def tolerate(seconds: int | None = None, **rest: Any) -> list[dict[str, Any]]:
    entry = {"key": "sla", "operator": "Gt", "value": "700", **rest}
    return [entry if seconds is None else {**entry, "effect": "NoExecute", "tolerationSeconds": seconds}]


def test_a_pod_that_does_not_tolerate_leaves_at_once_for_a_node_with_room():
    found = ask([node("a"), node("b"), pod("p", "a")], node("a", "sla=500:NoExecute"))
    assert [(one.pod, one.cause.after.seconds, one.goes_to) for one in found.leaving] == [
        ("default/p", 0, "b")
    ]


def test_a_pod_that_tolerates_for_a_while_leaves_then_and_may_come_back_to_leave_again():
    found = ask([node("a"), pod("p", "a", tolerations=tolerate(30))], node("a", "sla=800:NoExecute"))
    (one,) = found.leaving
    assert (one.cause.after.seconds, one.goes_to, one.again_after.seconds) == (30, "a", 30)


def test_room_is_taken_by_those_who_left_before():
    before = [node("a"), node("b", cpu="1"), pod("p", "a"), pod("q", "a")]
    found = ask(before, node("a", "sla=500:NoExecute"))
    assert [one.goes_to for one in found.leaving] == ["b", ""]


def test_those_with_nowhere_to_go_are_told_in_the_schedulers_words():
    found = ask([node("a"), pod("p", "a")], node("a", "sla=500:NoExecute"))
    assert found.lost[0].why_nowhere == "0/1 nodes are available: 1 node(s) had untolerated taint {sla: 500}."


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
    assert (found.staying, found.locked_out) == (2, ("default/p",))


def test_waiting_pods_learn_that_a_door_opens_or_closes():
    before = [node("a", "sla=500:NoSchedule"), pod("p")]
    opened = ask(before, node("a"))
    closed = ask([node("a"), pod("p")], node("a", "sla=500:NoSchedule"))
    assert ([turn.pod for turn in opened.helped], [turn.pod for turn in closed.hindered]) == (
        ["default/p"],
        ["default/p"],
    )


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
    times = [round(one.cause.after.total_seconds(), 1) for one in found.leaving]
    assert times == [0.0] * 10 + [0.5, 1.0, 1.5, 2.0]


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


def test_a_replacement_does_not_go_where_the_kubelet_lacks_what_it_needs():
    before = [node("a"), node("b"), pod("p", "a", hostNetwork=True, hostUsers=False)]
    found = ask(before, node("a", "sla=500:NoExecute"))
    assert "1 node(s) didn't match Pod's required features" in found.lost[0].why_nowhere


def test_a_waiting_pod_whose_preference_cannot_be_read_is_hindered_by_a_second_node_that_fits():
    asked = {"key": "size", "operator": "Gt", "values": ["many"]}
    terms = [{"weight": 1, "preference": {"matchExpressions": [asked]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    found = ask([node("a"), node("b", "hot:NoSchedule"), pod("w", affinity=affinity)], node("b"))
    assert [(turn.pod, "the value must be an integer" in turn.why_not) for turn in found.hindered] == [
        ("default/w", True)
    ]


def test_room_left_is_counted_at_the_most_a_resized_pod_has():
    big = pod("q", "b", cpu="1")
    big["status"]["containerStatuses"] = [{"name": "c", "allocatedResources": {"cpu": "4"}}]
    found = ask([node("a"), node("b"), pod("p", "a"), big], node("a", "sla=500:NoExecute"))
    assert "1 Insufficient cpu" in found.lost[0].why_nowhere


def test_a_waiting_pod_that_is_being_deleted_is_not_helped():
    waiting = pod("w")
    waiting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert ask([node("a", "hot:NoSchedule"), waiting], node("a")).helped == ()
