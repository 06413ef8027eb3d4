"""A plan that is carried out in a cluster where something happens between two waves: nothing more is made."""

from __future__ import annotations

import pytest

from weir.cli._demo_plan import story_plan
from weir.gates import ALL_FEATURES
from weir.simulation.cluster import Cluster
from weir.simulation.demo.story import PlanOf
from weir.simulation.kubelet.node_classes import FAILED

TAINT = PlanOf("taint", "taint -l pool=old sla=1:NoExecute", {"max-unavailable": "1"})
#: A node is Unknown 50 s after its last heartbeat.
DETECTED_SECONDS = 60.0
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}


def web(replicas):
    """Return a Deployment of pods that never share a node."""
    labels = {"app": "web"}
    apart = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}]
    spec = {
        "containers": [{"name": "c", "image": "web:1"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        yield cluster


def begin(cluster, old, kept, new, *objects):
    """Run pods on all nodes but the *new* ones, and make the first wave of the plan that empties the old ones."""
    for number in range(old):
        cluster.add_node(f"old-{number}", labels={"pool": "old"})
    for number in range(kept):
        cluster.add_node(f"kept-{number}")
    cluster.advance(5)
    cluster.apply(web(old + kept), *objects)
    cluster.advance(10)
    for number in range(new):
        cluster.add_node(f"new-{number}")
    cluster.advance(10)
    plan = story_plan(cluster, TAINT, ALL_FEATURES)
    assert (plan.refused, len(plan.left)) == ("", old - 1)
    return plan


def fail(cluster, node):
    cluster.patch("Node", node, {"metadata": {"annotations": {FAILED: "true"}}})
    cluster.advance(DETECTED_SECONDS)


def taken(cluster):
    """Return the nodes that pods are on."""
    return {pod["spec"]["nodeName"] for pod in cluster.list("Pod")}


def test_where_nothing_happens_every_wave_is_made(cluster):
    plan = begin(cluster, 2, 1, 2, BUDGET)
    for _ in range(10):
        cluster.advance(1)
        plan.look()
    assert (plan.waves, plan.refused, taken(cluster)) == (2, "", {"kept-0", "new-0", "new-1"})


def test_a_node_that_would_take_a_pod_fails(cluster):
    plan = begin(cluster, 2, 1, 2)
    cluster.advance(5)
    (free,) = {"new-0", "new-1"} - taken(cluster)
    fail(cluster, free)
    plan.look()
    assert plan.waves == 1 and not plan.goes_on
    assert "without a node" in plan.refused


@pytest.mark.parametrize(
    "objects, why",
    [
        (
            (),
            "--max-unavailable kept; found: deployment default/web would have 2 of 3 pods unavailable, 1 may be",
        ),
        ((BUDGET,), "budgets kept; found: default/web's budget wants 2 healthy pods, 1 would be"),
    ],
)
def test_a_node_fails_that_runs_a_pod_of_the_same_workload(cluster, objects, why):
    plan = begin(cluster, 2, 1, 3, *objects)
    cluster.advance(5)
    fail(cluster, "kept-0")
    plan.look()
    assert (plan.waves, plan.goes_on) == (0, True), "a pod is not ready, so the state is not reached"
    plan.make_next()  # as --resume does
    assert (plan.goes_on, "old-1" in taken(cluster)) == (False, True)
    assert why in plan.refused
    cluster.patch("Node", "kept-0", {"metadata": {"annotations": {FAILED: None}}})
    cluster.advance(DETECTED_SECONDS)
    again = story_plan(cluster, TAINT, ALL_FEATURES)
    assert (again.refused, again.goes_on) == ("", True)
