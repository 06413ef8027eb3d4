"""Reports of nodes that nobody can see are postponed under virtual time, and nobody can tell.

A random script (nodes fail and come back, taints and conditions churn, leases are read, written and deleted, nodes
come and go) is lived through twice, once with every report carried out at its time. Everything the two clusters hold
afterwards and whenever the script looks, events with their times included, is equal but for resourceVersions
and the uids of events.
"""

from __future__ import annotations

import re

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.objects.kinds import NODES
from weir.simulation.cluster import Cluster
from weir.simulation.kubelet.node_classes import FAILED

LEASES = "kube-node-lease"
UID = rb'"uid":"[0-9a-f-]{36}",?'
NAMES = [f"node-{number}" for number in range(4)]
nodes = st.sampled_from(NAMES)
seconds = st.one_of(
    st.integers(1, 70), st.integers(1, 700), st.sampled_from([0.5, 5, 10, 50, 55, 299.9, 300, 305, 600])
)
steps = st.one_of(
    st.tuples(st.just("advance"), seconds),
    st.tuples(st.just("fail"), nodes),
    st.tuples(st.just("recover"), nodes),
    st.tuples(st.just("taint"), nodes, st.sampled_from(["15", "25", None])),
    st.tuples(st.just("condition"), nodes, st.sampled_from(["MemoryPressure=True", "Ready=False"])),
    st.tuples(st.just("look"), st.sampled_from(["all", "one"])),
    st.tuples(st.just("delete lease"), nodes),
    st.tuples(st.just("write lease"), nodes),
    st.tuples(st.just("replace"), nodes),
    st.tuples(st.just("gates")),
)
scripts = st.lists(st.tuples(steps, seconds), min_size=3, max_size=14)

WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 5,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "tolerations": [
                    {"key": "failure-probability", "operator": "Lt", "value": "20", "effect": "NoExecute"},
                    {
                        "key": "node.kubernetes.io/unreachable",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 40,
                    },
                ],
            },
        },
    },
}
CONTROLLERS = ("taint-eviction", "node-lifecycle", "pod-gc", "deployment", "replicaset", "garbage-collector")


def strip(text: bytes) -> bytes:
    """Leave out versions, and the uids of events: which of two told in one instant is written first is open."""
    lines = re.sub(rb'"resourceVersion":"\d+",?', b"", text).split(b"\n")
    return b"\n".join(re.sub(UID, b"", line) if line.startswith(b"events ") else line for line in lines)


def look(cluster: Cluster, how: str) -> bytes:
    if how == "all":
        return strip(cluster.history())
    found = [cluster.get("Node", "node-0"), cluster.get("Lease", "node-1", LEASES)]
    return strip(msgspec.json.encode(found))


def do(cluster: Cluster, what: str, *arguments: object) -> bytes | None:
    name = str(arguments[0]) if arguments else ""
    there = what in ("look", "advance", "gates") or cluster.get("Node", name) is not None
    if what == "advance":
        cluster.advance(arguments[0])
    elif what == "look":
        return look(cluster, name)
    elif what == "gates":
        cluster.set_gates(None)
    elif what == "replace":
        cluster.delete("Node", name)
        cluster.add_nodes(1)
    elif not there:
        return None
    elif what in ("fail", "recover"):
        value = "true" if what == "fail" else None
        cluster.patch("Node", name, {"metadata": {"annotations": {FAILED: value}}})
    elif what == "taint":
        value = arguments[1]
        cluster.taint(name, *([] if value is None else [f"failure-probability={value}:NoExecute"]))
    elif what == "condition":
        type, _, status = str(arguments[1]).partition("=")
        conditions = cluster.get("Node", name)["status"]["conditions"]
        changed = [{**c, "status": status, "reason": "Hand"} if c["type"] == type else c for c in conditions]
        cluster._do(
            cluster.client.patch(NODES, name, {"status": {"conditions": changed}}, subresource="status")
        )
    elif what == "delete lease":
        cluster.delete("Lease", name, LEASES)
    elif what == "write lease" and cluster.get("Lease", name, LEASES) is not None:
        cluster.patch("Lease", name, {"metadata": {"labels": {"hand": "was-here"}}}, LEASES)
    return None


def live(script, *, every_heartbeat: bool, seed: int = 3) -> list[bytes]:
    seen = []
    with Cluster(seed=seed, controllers=CONTROLLERS, every_heartbeat=every_heartbeat) as cluster:
        cluster.add_nodes(4)
        cluster.apply(WEB)
        for (what, *arguments), wait in script:
            found = do(cluster, what, *arguments)
            if found is not None:
                seen.append(found)
            cluster.advance(wait)
        seen.append(strip(cluster.history()))
    return seen


class TestPostponing:
    """A history with postponed heartbeats is the history without."""

    # No shrinking: an example takes a second, and a script says what happened as it is.
    @settings(
        max_examples=tries(3, 5),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    @given(scripts)
    def test_nobody_can_tell_whether_reports_were_postponed(self, script):
        assert live(script, every_heartbeat=False) == live(script, every_heartbeat=True)

    def test_a_status_written_by_hand_on_a_silent_node_counts_from_then(self):
        script = [
            (("fail", "node-3"), 10),
            (("look", "all"), 600),
            (("delete lease", "node-3"), 194),
            (("condition", "node-3", "Ready=False"), 299),
        ]
        assert live(script, every_heartbeat=False) == live(script, every_heartbeat=True)
