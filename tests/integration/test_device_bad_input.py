"""Slices and rules nobody should write: who is concerned is told, and everybody else goes on."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from weir.simulation.cluster import Cluster
from weir.simulation.control_plane import local_client
from weir.simulation.drivers.faults import DUPLICATES, WRONG_COUNT

GPU = "gpu.example.com"
NOWHERE = (
    "0/1 nodes are available: {}. preemption: 0/1 nodes are available: "
    "1 Preemption is not helpful for scheduling."
)


def pod(name, claim="", **spec):
    if claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    containers = [{"name": "c", "image": "i"}]
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def claim(name, **asked):
    request = {"name": "gpu", "exactly": {"deviceClassName": GPU, **asked}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }


def rule(name, selector, effect="NoSchedule"):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}},
    }


def cel(expression):
    return {"selectors": [{"cel": {"expression": expression}}]}


def node_of(cluster, name):
    return cluster.get("Pod", name)["spec"].get("nodeName")


def why(cluster, name):
    conditions = cluster.get("Pod", name)["status"].get("conditions", ())
    return next(
        (c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), ""
    )


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        cluster.add_nodes(1, devices=2)
        yield cluster


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (WRONG_COUNT, "1 cannot allocate all claims"),
        (DUPLICATES, "1 invalid resource pools were encountered"),
    ],
)
def test_a_pool_that_makes_no_sense_is_not_allocated_from_until_it_does(cluster, broken, said):
    cluster.degrade("node-0", broken=broken)
    for document in (claim("c"), pod("claiming", "c"), pod("plain")):
        cluster.create(document)
    cluster.advance(5)
    during = (node_of(cluster, "plain"), node_of(cluster, "claiming"), why(cluster, "claiming"))
    cluster.degrade("node-0", repaired="")
    cluster.advance(30)
    assert during == ("node-0", None, NOWHERE.format(said))
    assert node_of(cluster, "claiming") == "node-0"


def test_of_a_rule_that_fails_at_run_time_everybody_who_asks_it_tells_once(cluster):
    cluster.create(rule("bad", cel(f"device.attributes['{GPU}'].nope == 1"), "NoExecute"))
    for document in (claim("c"), pod("claiming", "c"), pod("plain")):
        cluster.create(document)
    cluster.advance(60)
    told = [e for e in cluster.events("CELRuntimeError") if e["involvedObject"]["name"] == "bad"]
    assert (node_of(cluster, "plain"), node_of(cluster, "claiming")) == ("node-0", "node-0")
    assert sorted(event["reportingComponent"] for event in told) == [
        "default-scheduler",
        "device-taint-eviction-controller",
    ]
    assert {(event["type"], event["involvedObject"]["kind"]) for event in told} == {
        ("Warning", "DeviceTaintRule")
    }
    assert told[0]["message"].startswith("selector #0: runtime error: no such key: nope")


def test_a_claim_whose_selector_fails_is_told_and_holds_up_nobody(cluster):
    failing = claim("bad", selectors=[{"cel": {"expression": f"device.attributes['{GPU}'].nope"}}])
    for document in (failing, pod("failing", "bad"), claim("c"), pod("claiming", "c"), pod("plain")):
        cluster.create(document)
    cluster.advance(10)
    assert (node_of(cluster, "plain"), node_of(cluster, "claiming"), node_of(cluster, "failing")) == (
        "node-0",
        "node-0",
        None,
    )
    assert "selector #0 on device gpu.example.com/node-0/gpu-" in why(cluster, "failing")
    assert "CEL runtime error: no such key: nope" in why(cluster, "failing")


def test_a_rule_for_everything_stops_claims_and_nobody_else(cluster):
    cluster.create(rule("everything", {}, "NoExecute"))
    for document in (claim("c"), pod("claiming", "c"), pod("plain")):
        cluster.create(document)
    cluster.advance(10)
    assert (node_of(cluster, "plain"), node_of(cluster, "claiming")) == ("node-0", None)


# ── a server that sends what cannot be read ──────────────────────────────────────────────────────


class Spoiling:
    """A way to the API on which slices of one pool come out as nonsense, as from a server of another age."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    @staticmethod
    def _spoil(body: bytes) -> bytes:
        return body.replace(b'"driver":"odd.example.com"', b'"driver":{"name":7}')

    async def request(self, method, target, headers=None, body=b""):
        reply = await self._inner.request(method, target, headers, body)
        return type(reply)(reply.code, self._spoil(reply.body), reply.headers)

    def stream(self, target, headers=None, *, silent_seconds=0.0):
        @asynccontextmanager
        async def opened():
            async with self._inner.stream(target, headers, silent_seconds=silent_seconds) as (reply, lines):

                async def spoilt():
                    async for line in lines:
                        yield self._spoil(line)

                yield reply, spoilt()

        return opened()


def odd(name):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": "odd.example.com",
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": "gpu-0"}],
        },
    }


@pytest.fixture
def spoilt(monkeypatch):
    """A cluster in which every component reads the slices of one driver as nonsense."""
    real = local_client

    def client(*arguments, **named):
        found = real(*arguments, **named)
        found._transport = Spoiling(found._transport)
        return found

    monkeypatch.setattr("weir.simulation.control_plane.local_client", client)
    with Cluster() as cluster:
        yield cluster


def test_a_slice_that_cannot_be_read_is_left_out_and_the_others_count(spoilt):
    spoilt.create(odd("before"))
    spoilt.add_nodes(1, devices=1)
    spoilt.create(odd("after"))
    for document in (claim("c"), pod("claiming", "c"), pod("plain")):
        spoilt.create(document)
    spoilt.advance(10)
    assert (node_of(spoilt, "plain"), node_of(spoilt, "claiming")) == ("node-0", "node-0")


def test_components_that_start_beside_an_unreadable_slice_start(spoilt):
    spoilt.add_nodes(1, devices=1)
    spoilt.create(odd("there-already"))
    spoilt.set_gates(None)  # every component starts again
    for document in (claim("c"), pod("claiming", "c"), pod("plain")):
        spoilt.create(document)
    spoilt.advance(10)
    assert (node_of(spoilt, "plain"), node_of(spoilt, "claiming")) == ("node-0", "node-0")
