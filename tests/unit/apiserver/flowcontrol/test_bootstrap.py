"""A server keeps the flow control configuration of its cluster and says which schemas dangle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.flowcontrol.bootstrap import ENSURE_SECONDS, SYSTEM, FlowControlBootstrap
from weir.apiserver.flowcontrol.objects import FLOW_SCHEMA, PRIORITY_LEVEL
from weir.apiserver.registry.write_request import WriteRequest
from weir.objects.flow_control import rows
from weir.store import Write


@pytest.fixture
async def cluster():
    cluster = Cluster(GATES_ON)
    await cluster.start()
    return cluster


def keeper_of(cluster: Any) -> FlowControlBootstrap:
    return FlowControlBootstrap(cluster.server.verbs)


async def remove(cluster: Any, kind: Any, name: str) -> None:
    found = cluster.server.verbs.store.get(kind.key("", name))
    await cluster.server.verbs.store.commit((Write(kind.key("", name), None, found.mod_revision),))


def dangles(cluster: Any, name: str) -> list[str]:
    found = cluster.find(FLOW_SCHEMA, "", name)
    return [each["status"] for each in found["status"]["conditions"] if each["type"] == "Dangling"]


async def test_everything_is_there_and_a_second_time_writes_nothing(cluster):
    await keeper_of(cluster).ensure()
    revision = cluster.server.verbs.store.revision
    await keeper_of(cluster).ensure()
    assert cluster.server.verbs.store.revision == revision
    for row in rows():
        kind = FLOW_SCHEMA if row.kind == "FlowSchema" else PRIORITY_LEVEL
        assert cluster.find(kind, "", row.name)["spec"] == row.spec
    assert dangles(cluster, "service-accounts") == ["False"]


async def test_changes_are_noticed_at_once_and_put_right_within_a_minute(cluster):
    keeper = keeper_of(cluster)
    await keeper.ensure()
    task = asyncio.ensure_future(keeper.run(cluster.clock))
    await cluster.clock.settle()
    await remove(cluster, PRIORITY_LEVEL, "workload-low")
    await cluster.clock.settle()
    assert dangles(cluster, "service-accounts") == ["True"]
    await cluster.clock.advance(ENSURE_SECONDS + 1)
    assert cluster.find(PRIORITY_LEVEL, "", "workload-low") is not None
    assert dangles(cluster, "service-accounts") == ["False"]
    task.cancel()


async def test_a_changed_mandatory_object_is_put_right_and_one_of_an_older_release_goes(cluster):
    keeper = keeper_of(cluster)
    await keeper.ensure()
    verbs = cluster.server.verbs
    user = WriteRequest(PRIORITY_LEVEL, "", "exempt", SYSTEM, "me")

    def annotated(old: dict[str, Any]) -> dict[str, Any]:
        metadata = {**old["metadata"], "annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}
        return {**old, "metadata": metadata}

    await verbs.change(user, annotated)
    older = {
        "kind": "PriorityLevelConfiguration",
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "metadata": {"name": "older", "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    }
    await verbs.create_document(WriteRequest(PRIORITY_LEVEL, "", "", SYSTEM, "me"), older)
    await keeper.ensure()
    kept = cluster.find(PRIORITY_LEVEL, "", "exempt")["metadata"]["annotations"]
    assert kept == {"apf.kubernetes.io/autoupdate-spec": "true"}
    assert cluster.find(PRIORITY_LEVEL, "", "older") is None
