"""A forecast kept as a plan, and held against what the cluster holds afterwards."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from weir.whatif.plan import SCHEMA, Check, PlanError, check, plan, verify

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(name: str, on: str = "a", uid: str = "", owner: str = "", **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": uid or f"uid-{name}", **more}
    if owner:
        kind, _, title = owner.partition("/")
        metadata["ownerReferences"] = [
            {"kind": kind, "name": title, "uid": f"uid-{title}", "controller": True}
        ]
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": on}, "status": {"phase": "Running"}}


def planned(
    leaving: tuple[str, ...] = (), workloads: tuple[dict[str, Any], ...] = (), **uids: str
) -> dict[str, Any]:
    report = {"leaving": [{"pod": each} for each in leaving], "workloads": list(workloads)}
    return {
        "schema": SCHEMA,
        "report": report,
        "uids": {f"default/{name}": uid for name, uid in uids.items()},
    }


def workload(
    after: int, *moves: tuple[str, int], name: str = "ReplicaSet/web", circles: bool = False
) -> dict[str, Any]:
    return {
        "workload": f"default/{name}",
        "after": after,
        "circles": circles,
        "moves": [{"to": to, "pods": pods} for to, pods in moves],
    }


def told(checks: list[Check]) -> list[tuple[str, str, str]]:
    return [(each.about, each.foreseen, each.found) for each in checks]


def test_a_plan_keeps_the_report_its_time_and_the_uids_of_those_that_leave():
    report = {"leaving": [{"pod": "default/p"}, {"pod": "default/unknown"}], "workloads": []}
    found = plan(report, {"default/p": "u", "default/stays": "v"}, AT)
    assert found == {
        "schema": SCHEMA,
        "at": "2026-01-01T12:00:00Z",
        "report": report,
        "uids": {"default/p": "u"},
    }
    assert check(found) is found


@pytest.mark.parametrize(
    "document, said",
    [
        (None, "its schema is None, not 'weir.what-if-plan/v1'"),
        ([], "its schema is None"),
        ({"schema": "weir.what-if/v2"}, "its schema is 'weir.what-if/v2'"),
        ({"schema": SCHEMA}, "report.workloads is missing"),
        ({"schema": SCHEMA, "report": {"workloads": {}, "leaving": []}}, "report.workloads is missing"),
        ({"schema": SCHEMA, "report": {"workloads": []}}, "report.leaving is missing"),
    ],
)
def test_what_is_no_plan_is_named(document, said):
    with pytest.raises(PlanError) as raised:
        check(document)
    assert str(raised.value).startswith(f"no plan: {said}")


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
    hasty = planned(("default/p",))
    del hasty["uids"]
    assert [each.held for each in verify(hasty, [pod("p")])] == [False]


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


def test_where_a_circle_is_when_somebody_looks_is_chance():
    workloads = (workload(5, ("b", 1), circles=True), workload(1, name="Pod/p"))
    checks = verify(planned((), workloads), [pod("p")])
    assert told(checks) == [("default/Pod/p", "1 run", "1 run")]
