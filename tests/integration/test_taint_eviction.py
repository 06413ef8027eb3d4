"""The taint eviction controller at work against the real API server, under virtual time."""

from __future__ import annotations

import pytest

from tests.integration.living import PODS, living
from weir.controllers.nodes.taint_eviction import TaintEviction
from weir.controllers.runtime.runner import Controllers
from weir.errors import InternalError
from weir.gates import ALL_FEATURES
from weir.objects.kinds import by_kind

pytestmark = pytest.mark.proves("5471-5")

FLAKY = {"key": "failure-probability", "value": "15", "effect": "NoExecute"}


def tolerate(seconds):
    return {
        "key": "failure-probability",
        "operator": "Lt",
        "value": "20",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }


@pytest.fixture
async def cluster():
    async with living() as cluster:
        cluster.controllers = Controllers(
            cluster.client_of("weir"), cluster.clock, [TaintEviction(ALL_FEATURES)]
        )
        cluster.start(cluster.controllers)
        await cluster.advance()
        yield cluster


async def test_an_evicted_pod_says_why_it_goes(cluster):
    await cluster.node("n")
    await cluster.pod("p", "n")
    await cluster.taint("n", FLAKY)
    await cluster.advance()
    pod = await cluster.find(PODS, "p")
    (condition,) = [c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (
        pod["metadata"].get("deletionTimestamp") is not None,
        condition["reason"],
        condition["message"],
    ) == (
        True,
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    )


async def test_the_event_is_told_once(cluster):
    await cluster.node("n")
    await cluster.pod("p", "n")
    await cluster.advance()
    await cluster.taint("n", FLAKY)
    await cluster.advance()
    (event,) = await cluster.events("TaintManagerEviction")
    assert (event["message"], event["count"]) == ("Marking for deletion Pod default/p", 1)


async def test_a_bounded_stay_ends_on_the_second(cluster):
    await cluster.node("n", FLAKY)
    await cluster.pod("p", "n", tolerations=[tolerate(30)])
    await cluster.advance(29.9)
    before = (await cluster.find(PODS, "p"))["metadata"].get("deletionTimestamp")
    await cluster.advance(0.2)
    after = (await cluster.find(PODS, "p"))["metadata"].get("deletionTimestamp")
    assert (before is None, after is not None) == (True, True)


async def test_many_pods_go_in_the_order_of_their_deadlines(cluster):
    await cluster.node("n", FLAKY)
    for number in range(60):
        await cluster.pod(f"p{number:02d}", "n", tolerations=[tolerate(60 - number)])
    await cluster.advance(61)
    events = [e for e in await cluster.events("TaintManagerEviction") if "Marking" in e["message"]]
    names = [
        e["involvedObject"]["name"]
        for e in sorted(events, key=lambda e: int(e["metadata"]["resourceVersion"]))
    ]
    assert names == [f"p{number:02d}" for number in reversed(range(60))]


async def test_deletions_and_their_lateness_are_counted(cluster):
    await cluster.node("n")
    await cluster.pod("p", "n")
    await cluster.taint("n", FLAKY)
    await cluster.advance()
    metrics = cluster.controllers.metrics
    assert (metrics.pod_deletions.child().value, metrics.pod_deletion_duration.child().count) == (1, 1)


async def test_a_deletion_that_fails_is_tried_again(cluster, monkeypatch):
    client, failures = cluster.controllers.client, [InternalError("boom")] * 4
    delete = client.delete

    async def failing(*arguments, **options):
        if failures:
            raise failures.pop()
        return await delete(*arguments, **options)

    monkeypatch.setattr(client, "delete", failing)
    await cluster.node("n")
    await cluster.pod("p", "n")
    await cluster.taint("n", FLAKY)
    await cluster.advance()
    assert (await cluster.find(PODS, "p"))["metadata"].get("deletionTimestamp")


async def test_of_two_processes_only_the_elected_one_acts():
    async with living() as cluster:
        await cluster.node("n")
        await cluster.pod("p", "n")
        for name in ("a", "b"):
            part = Controllers(
                cluster.client_of(name),
                cluster.clock,
                [TaintEviction(ALL_FEATURES)],
                identity=name,
                lease_name="weir-controller-manager",
            )
            cluster.start(part)
        await cluster.advance(5)
        await cluster.taint("n", FLAKY)
        await cluster.advance(5)
        lease = await cluster.find(
            by_kind("coordination.k8s.io/v1", "Lease"), "weir-controller-manager", "kube-system"
        )
        (event,) = await cluster.events("TaintManagerEviction")
        assert (lease["spec"]["holderIdentity"], event["count"]) == ("a", 1)


async def test_the_next_in_line_goes_on_when_the_leader_is_gone():
    async with living() as cluster:
        await cluster.node("n")
        await cluster.pod("p", "n")
        for name in ("a", "b"):
            part = Controllers(
                cluster.client_of(name),
                cluster.clock,
                [TaintEviction(ALL_FEATURES)],
                identity=name,
                lease_name="weir-controller-manager",
            )
            cluster.start(part)
        await cluster.advance(5)
        cluster.tasks.pop(0).cancel()
        await cluster.advance(20)
        await cluster.taint("n", FLAKY)
        await cluster.advance(5)
        assert (await cluster.find(PODS, "p"))["metadata"].get("deletionTimestamp")
