"""A plan held against what the cluster holds afterwards."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from weir.plan.document import SCHEMA, Condition, Eviction, Made, Plan, Wave, WorkloadState, totals
from weir.plan.verify import Check, unmet, verify


def pod(name: str, on: str = "a", uid: str = "", owner: str = "", **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": uid or f"uid-{name}", **more}
    if owner:
        kind, _, title = owner.partition("/")
        metadata["ownerReferences"] = [
            {"kind": kind, "name": title, "uid": f"uid-{title}", "controller": True}
        ]
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": on}, "status": {"phase": "Running"}}


def planned(leaving: tuple[str, ...] = (), workloads: tuple[WorkloadState, ...] = (), **uids: str) -> Plan:
    evictions = tuple(
        Eviction(
            pod=each, uid=uids.get(each.partition("/")[2], ""), node="a", workload=each, after_seconds=0.0
        )
        for each in leaving
    )
    only = Wave(
        number=1,
        nodes=("a",),
        changes=("cordon a",),
        evictions=evictions,
        wait_for=Condition(workloads=workloads),
    )
    return Plan(
        schema=SCHEMA,
        made=Made(at="2026-01-01T12:00:00Z", command="weir"),
        waves=(only,),
        totals=totals((only,)),
    )


def workload(running: int, *on: tuple[str, int], name: str = "ReplicaSet/web") -> WorkloadState:
    return WorkloadState(workload=f"default/{name}", running=running, lowest=0, nodes=dict(on))


def told(checks: list[Check]) -> list[tuple[str, str, str]]:
    return [(each.about, each.foreseen, each.found) for each in checks]


@pytest.mark.parametrize(
    "there, found",
    [
        ([], "gone"),
        ([pod("p", uid="u")], "still there"),
        ([pod("p", uid="another")], "gone"),
        ([pod("p", uid="u", namespace="other")], "gone"),
        ([pod("p", uid="u", deletionTimestamp="2026-01-01T12:00:00Z")], "gone"),
    ],
)
def test_a_pod_that_was_to_leave_is_gone_or_another_or_going(there, found):
    (only,) = verify(planned(("default/p",), p="u"), there)
    assert (told([only]), only.held) == ([("pod default/p", "gone", found)], found == "gone")


def test_without_its_uid_a_pod_of_the_name_is_the_same():
    (only,) = verify(planned(("default/p",)), [pod("p")])
    assert only.found == "still there"


def test_as_many_run_as_foreseen_on_the_nodes_foreseen():
    there = [
        pod("p", "a", owner="ReplicaSet/web"),
        pod("q", "b", owner="ReplicaSet/web"),
        pod("r", "b", owner="ReplicaSet/web"),
    ]
    checks = verify(planned((), (workload(3, ("b", 2)),)), there)
    assert told(checks) == [
        ("default/ReplicaSet/web", "3 run", "3 run"),
        ("default/ReplicaSet/web", "on b×2", "on b×2"),
    ]


def test_fewer_than_foreseen_or_elsewhere_is_told():
    there = [pod("p", "a", owner="ReplicaSet/web"), pod("q", "b", owner="ReplicaSet/web")]
    checks = verify(planned((), (workload(3, ("b", 1), ("c", 2)),)), there)
    assert [(each.foreseen, each.found) for each in checks] == [("3 run", "2 run"), ("on b, c×2", "on a, b")]


def test_none_at_all_is_told():
    checks = verify(planned((), (workload(1, ("b", 1)), workload(0, name="Job/none"))), [])
    assert [each.found for each in checks] == ["0 run", "on none", "0 run"]


@pytest.mark.parametrize(
    "other",
    [
        {**pod("q", owner="ReplicaSet/web"), "status": {"phase": "Pending"}},
        {**pod("q", owner="ReplicaSet/web"), "status": None},
        pod("q", owner="ReplicaSet/web", deletionTimestamp="2026-01-01T12:00:00Z"),
        pod("q", owner="ReplicaSet/web", namespace="other"),
        pod("q", owner="ReplicaSet/db"),
        pod("q"),
    ],
)
def test_what_does_not_run_or_is_not_its_does_not_count(other):
    (only,) = verify(planned((), (workload(1),)), [pod("p", owner="ReplicaSet/web"), other])
    assert only.found == "1 run"


def test_a_pod_that_nobody_owns_is_a_workload_of_its_own():
    (only,) = verify(planned((), (workload(1, name="Pod/p"),)), [pod("p"), pod("q")])
    assert only.held


def test_a_deployment_counts_the_pods_of_its_replicasets():
    above = {"kind": "Deployment", "name": "web", "controller": True}
    replicaset = {
        "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "uid": "uid-web-1", "ownerReferences": [above]},
    }
    alone = {"kind": "ReplicaSet", "metadata": {"name": "db", "uid": "uid-db"}}
    there = [replicaset, alone, pod("p", owner="ReplicaSet/web-1"), pod("q", owner="ReplicaSet/db")]
    workloads = (workload(1, name="Deployment/web"), workload(1, name="ReplicaSet/db"))
    assert [each.held for each in verify(planned((), workloads), [{"kind": "List", "items": there}])] == [
        True,
        True,
    ]


def test_of_two_waves_the_later_says_how_a_workload_is_at_the_end():
    first, second = (
        planned((f"default/{name}",), (workload(count),)).waves[0] for name, count in (("p", 3), ("q", 2))
    )
    plan = msgspec.structs.replace(planned(), waves=(first, second))
    there = [pod("q", owner="ReplicaSet/web"), pod("r", owner="ReplicaSet/web")]
    assert told(verify(plan, there)) == [
        ("pod default/p", "gone", "gone"),
        ("pod default/q", "gone", "still there"),
        ("default/ReplicaSet/web", "2 run", "2 run"),
    ]


def unready(name: str, **more: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "False"}]
    return {**pod(name, **more), "status": {"phase": "Running", "conditions": conditions}}


def test_pods_that_are_not_ready_are_waited_for():
    there = [pod("p", owner="ReplicaSet/web"), unready("q", owner="ReplicaSet/web")]
    (wave,) = planned((), (workload(2),)).waves
    assert told(unmet(wave, there)) == [("default/ReplicaSet/web", "2 ready", "1 ready")]
    there[1]["status"]["conditions"][0]["status"] = "True"
    assert unmet(wave, there) == []


def test_pods_that_were_not_ready_before_are_not_waited_for():
    there = [pod("p", owner="ReplicaSet/web"), unready("q", owner="ReplicaSet/web")]
    state = msgspec.structs.replace(workload(2), unready=1)
    (wave,) = planned((), (state,)).waves
    assert unmet(wave, there) == []
    assert len(unmet(wave, there[1:])) == 1
