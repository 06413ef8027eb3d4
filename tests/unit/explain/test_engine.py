"""The scheduler's engine decides about every node, and explain finds the words."""

from __future__ import annotations

from typing import Any

import pytest

from weir.explain.explanation import Explanation
from weir.explain.pod import explain
from weir.explain.words import node_sentence
from weir.gates import ALL_FEATURES
from weir.world import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SELF = {"matchLabels": {"app": "web"}}


def node(name: str, zone: str | None = None, **rest: Any) -> dict[str, Any]:
    labels = {"zone": zone} if zone else {}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, **rest}


def web(name: str, on: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": "web"}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": on, **spec} if on else spec}


def ask(pod: dict[str, Any], *documents: dict[str, Any]) -> Explanation:
    return explain(pod, World.of(documents), ALL_FEATURES)


def said(answer: Explanation) -> dict[str, str]:
    return {verdict.node: node_sentence(verdict) for verdict in answer.nodes}


def affinity(kind: str, **rest: Any) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [{"labelSelector": SELF, "topologyKey": "zone", **rest}]}}}


def test_anti_affinity_avoids_a_whole_zone():
    answer = ask(
        web("new", **affinity("podAntiAffinity")),
        node("a1", "a"),
        node("a2", "a"),
        node("b1", "b"),
        web("old", "a1"),
    )
    assert said(answer) == {
        "a1": "a pod nearby that the anti-affinity avoids",
        "a2": "a pod nearby that the anti-affinity avoids",
        "b1": "fits",
    }


def test_a_pod_that_is_there_may_avoid_the_new_one():
    answer = ask(
        web("new"), node("a1", "a"), node("b1", "b"), web("old", "a1", **affinity("podAntiAffinity"))
    )
    assert said(answer) == {"a1": "a pod nearby avoids this one", "b1": "fits"}


def test_affinity_wants_company():
    other = {"labelSelector": {"matchLabels": {"app": "cache"}}}
    answer = ask(web("new", **affinity("podAffinity", **other)), node("a1", "a"))
    assert said(answer) == {"a1": "no pod nearby that the affinity asks for"}
    assert answer.fix is None


def test_spread_keeps_the_balance():
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELF,
    }
    answer = ask(
        web("new", topologySpreadConstraints=[spread]),
        node("a1", "a"),
        node("b1", "b"),
        node("x"),
        web("old", "a1"),
    )
    assert said(answer) == {
        "a1": "one more there breaks the topology spread constraints",
        "b1": "fits",
        "x": "has no label for the topology spread constraints",
    }


def test_a_change_is_proven_against_other_pods_too():
    """Tolerating the taint of a1 would be smaller, but there anti-affinity refuses once the taint is out of the way."""
    taints = [{"key": "sla", "value": "1", "effect": "NoSchedule"}]
    more = [*taints, {"key": "gpu", "effect": "NoSchedule"}]
    answer = ask(
        web("new", **affinity("podAntiAffinity")),
        node("a1", "a", spec={"taints": taints}),
        node("b1", "b", spec={"taints": more}),
        web("old", "a1"),
    )
    assert answer.fix is not None
    assert answer.fix.nodes == ("b1",)


def test_what_every_filter_says_is_told_not_only_the_first():
    taints = [{"key": "sla", "value": "1", "effect": "NoSchedule"}]
    answer = ask(
        web("new", **affinity("podAntiAffinity")),
        node("a1", "a", spec={"taints": taints}),
        web("old", "a1"),
    )
    assert [reason.plugin for reason in answer.nodes[0].reasons] == ["TaintToleration", "InterPodAffinity"]


def test_no_change_is_proposed_for_a_node_that_other_pods_keep_closed():
    answer = ask(web("new", **affinity("podAntiAffinity")), node("a1", "a"), web("old", "a1"))
    assert answer.fix is None


@pytest.mark.parametrize("amount", ["1e18", "1e40", "9223372036854775807"])
def test_amounts_no_column_holds_are_no_traceback(amount):
    huge = node("a1", "a", status={"allocatable": {"cpu": amount, "memory": amount, "pods": "9"}})
    container = {"name": "c", "resources": {"requests": {"cpu": amount}}}
    answer = ask(web("new", containers=[container], **affinity("podAntiAffinity")), huge, web("old", "a1"))
    assert len(answer.nodes) == 1


def test_a_claim_that_waits_is_placed_where_a_volume_can_be_had():
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    storage_class = {
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "5Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Available"},
    }
    pod = web("new", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    answer = ask(pod, node("a1", "a"), node("b1", "b"), claim, storage_class, volume)
    assert said(answer) == {"a1": "fits", "b1": "didn't find available persistent volumes to bind"}
