"""A server keeps the flow control configuration of its cluster and says which schemas dangle."""

import asyncio
import copy
from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.compat.flowcontrol.bootstrap import (
    ENSURE_SECONDS,
    FLOW_SCHEMA,
    PRIORITY_LEVEL,
    SYSTEM,
    FlowControlBootstrap,
    dangling,
    is_unwanted,
    new_object,
    revised,
)
from weir.apiserver.registry.write_request import WriteRequest
from weir.objects.flow_control import AUTO_UPDATE, Row, mandatory_spec, rows
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


# ── the configuration of a new cluster is kept as Kubernetes keeps it; who takes an object over keeps it ──


def row(kind: str, name: str) -> Row:
    return next(each for each in rows() if (each.kind, each.name) == (kind, name))


LOW = row("PriorityLevelConfiguration", "workload-low")
EXEMPT = row("PriorityLevelConfiguration", "exempt")
CATCH_ALL = row("FlowSchema", "catch-all")


def stored(of: Row, annotation: str | None = "true", generation: int = 1, **spec: Any) -> dict[str, Any]:
    found = copy.deepcopy(new_object(of))
    found["metadata"]["generation"] = generation
    if annotation is None:
        del found["metadata"]["annotations"]
    else:
        found["metadata"]["annotations"][AUTO_UPDATE] = annotation
    found["spec"].update(spec)
    return found


def test_kubernetes_own_configuration_is_there():
    mandatory = {(each.kind, each.name) for each in rows() if each.mandatory}
    assert mandatory == {
        (kind, name)
        for kind in ("FlowSchema", "PriorityLevelConfiguration")
        for name in ("exempt", "catch-all")
    }
    levels = {each.name for each in rows() if each.kind == "PriorityLevelConfiguration"}
    assert {
        each.spec["priorityLevelConfiguration"]["name"] for each in rows() if each.kind == "FlowSchema"
    } <= levels
    assert mandatory_spec("FlowSchema", "global-default") is None


@pytest.mark.parametrize("each", rows(), ids=lambda each: f"{each.kind} {each.name}")
def test_what_was_written_stays(each):
    assert revised(each, stored(each)) is None


def test_a_suggested_spec_is_put_back_while_the_annotation_says_so():
    better = revised(LOW, stored(LOW, generation=3, type="Exempt"))
    assert better is not None and better["spec"] == LOW.spec


def test_who_takes_a_suggested_object_over_keeps_it():
    assert revised(LOW, stored(LOW, "false", 3, type="Exempt")) is None


@pytest.mark.parametrize("annotation", [None, "perhaps"])
def test_without_a_readable_annotation_the_generation_decides(annotation):
    untouched = revised(LOW, stored(LOW, annotation, 1, type="Exempt"))
    assert untouched is not None and untouched["spec"] == LOW.spec
    assert untouched["metadata"]["annotations"][AUTO_UPDATE] == "true"
    changed = revised(LOW, stored(LOW, annotation, 2, type="Exempt"))
    assert changed is not None and changed["spec"]["type"] == "Exempt"
    assert changed["metadata"]["annotations"][AUTO_UPDATE] == "false"


def test_a_mandatory_object_cannot_be_taken_over():
    better = revised(CATCH_ALL, stored(CATCH_ALL, "false", 2, matchingPrecedence=7))
    assert better is not None and better["spec"] == CATCH_ALL.spec
    assert better["metadata"]["annotations"][AUTO_UPDATE] == "true"


def test_the_shares_of_the_exempt_level_are_its_owners():
    shares = {"nominalConcurrencyShares": 40, "lendablePercent": 5}
    assert revised(EXEMPT, stored(EXEMPT, exempt=shares)) is None
    better = revised(EXEMPT, stored(EXEMPT, exempt=None))
    assert better is not None and better["spec"] == EXEMPT.spec


def test_an_object_of_an_older_release_goes():
    other = {"metadata": {"name": "old", "annotations": {AUTO_UPDATE: "true"}}}
    assert is_unwanted(other, "FlowSchema")
    assert not is_unwanted(stored(CATCH_ALL), "FlowSchema")
    assert is_unwanted(stored(CATCH_ALL), "Other")
    for annotation in ("false", "perhaps", ""):
        other["metadata"]["annotations"][AUTO_UPDATE] = annotation
        assert not is_unwanted(other, "FlowSchema")


def test_the_condition_says_whether_the_level_is_there():
    schema = stored(CATCH_ALL)
    found = dangling(schema, True, "2026-01-02T03:04:05Z")
    assert found is not None and (found["status"], found["reason"]) == ("False", "Found")
    schema["status"] = {"conditions": [found]}
    assert dangling(schema, True, "2026-01-02T04:04:05Z") is None
    lost = dangling(schema, False, "2026-01-02T04:04:05Z")
    assert lost == {
        "type": "Dangling",
        "status": "True",
        "reason": "NotFound",
        "lastTransitionTime": "2026-01-02T04:04:05Z",
        "message": 'This FlowSchema references the PriorityLevelConfiguration object named "catch-all" but there '
        "is no such object",
    }
