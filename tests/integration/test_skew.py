"""Upgrades, downgrades and skew: each feature switched on and off, component by component (core.md 8.1 to 8.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weir.cluster import Cluster, ComponentGates
from weir.errors import Invalid
from weir.gates import ALL_FEATURES

FEATURES = {
    "numeric": (
        "TaintTolerationComparisonOperators",
        "950",
        {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"},
    ),
    "semver": (
        "TaintTolerationNodeAffinitySemverComparisonOperators",
        "1.30.2",
        {"key": "sla", "operator": "SemverGt", "value": "1.29.0", "effect": "NoExecute"},
    ),
    "cel": ("TaintTolerationCEL", "gold", {"expression": "taint.key == 'sla' && taint.value == 'gold'"}),
}
ON = ComponentGates()
COMPONENTS = ("apiserver", "scheduler", "controllers", "kubelet")


class Walk:
    """A cluster with one tainted node, and pods that need one feature to be there."""

    def __init__(self, feature, gates=ON):
        gate, value, self.toleration = FEATURES[feature]
        self.off = ALL_FEATURES.replace({gate: False})
        self.cluster = Cluster(gates=gates)
        self.cluster.add_nodes(taints=[f"sla={value}:NoExecute"])
        self.cluster.advance(5)

    def without(self, *components):
        return replace(ON, **dict.fromkeys(components, self.off))

    def switch(self, gates):
        self.cluster.set_gates(gates)
        self.cluster.advance(30)

    def create(self, name):
        spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": [self.toleration]}
        self.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        self.cluster.advance(30)

    def phase(self, name):
        found = self.cluster.get("Pod", name)
        return found and found["status"]["phase"]


@pytest.fixture(params=sorted(FEATURES))
def walk(request):
    made = Walk(request.param)
    yield made
    made.cluster.close()


def test_turning_a_feature_off_at_the_server_keeps_what_runs_and_refuses_what_is_new(walk):
    walk.create("old")
    walk.switch(walk.without("apiserver"))
    with pytest.raises(Invalid):
        walk.create("new")
    walk.cluster.patch("Pod", "old", {"metadata": {"labels": {"still": "changeable"}}})
    assert walk.phase("old") == "Running"


def test_turning_it_off_at_the_scheduler_leaves_new_pods_pending_until_it_is_on_again(walk):
    walk.switch(walk.without("scheduler"))
    walk.create("p")
    waiting = walk.phase("p")
    walk.switch(ON)
    assert (waiting, walk.phase("p")) == ("Pending", "Running")


def test_turning_it_off_at_the_controllers_evicts_who_relies_on_it(walk):
    walk.create("p")
    walk.switch(walk.without("controllers"))
    assert walk.phase("p") is None


def test_turning_it_off_at_the_kubelet_rejects_new_pods_and_keeps_old_ones(walk):
    walk.create("old")
    walk.switch(walk.without("kubelet"))
    walk.create("new")
    assert (walk.phase("old"), walk.phase("new")) == ("Running", "Failed")


def test_everything_off_and_on_again_needs_no_migration(walk):
    walk.cluster.set_gates(walk.without("controllers", "scheduler", "kubelet"))
    walk.create("p")
    walk.switch(walk.without(*COMPONENTS))
    stored = walk.cluster.get("Pod", "p")["spec"]["tolerations"][0]
    walk.switch(ON)
    assert (stored, walk.phase("p")) == (walk.toleration, "Running")


def test_a_deployment_that_uses_it_can_be_scaled_but_gets_no_new_pods(walk):
    labels = {"app": "web"}
    spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": [walk.toleration]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    walk.cluster.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": deployment}
    )
    walk.cluster.advance(20)
    walk.switch(walk.without("apiserver"))
    walk.cluster.patch("Deployment", "web", {"spec": {"replicas": 3}})
    walk.cluster.advance(60)
    pods = [p["status"]["phase"] for p in walk.cluster.list("Pod")]
    refused = walk.cluster.events("FailedCreate")
    assert (pods, len(refused), refused[0]["count"] > 1) == (["Running"], 1, True)
