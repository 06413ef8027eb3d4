"""Karpenter with its kwok provider: pending pods get nodes, `Gt` tolerations included, and consolidation removes them.

Karpenter makes the Node objects, by the label of its NodePool weir's simulated kubelet plays them, and weir's scheduler
places the pods.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ecosystem.cluster import Cluster, Document, condition, program, wait_for
from tests.ecosystem.conftest import built

PATIENCE_SECONDS = 240.0
EMPTY_SECONDS = "5s"


def pool(name: str, *taints: dict[str, str]) -> Document:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {"weir.dev/simulated": "true", "pool": name}},
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.kwok.sh",
                        "kind": "KWOKNodeClass",
                        "name": "default",
                    },
                    "taints": list(taints),
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {
                            "key": "karpenter.sh/capacity-type",
                            "operator": "In",
                            "values": ["spot", "on-demand"],
                        },
                    ],
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": EMPTY_SECONDS,
            },
        },
    }


def deployment(name: str, *tolerations: dict[str, str], replicas: int = 3) -> Document:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "tolerations": list(tolerations),
                    "containers": [
                        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
                    ],
                },
            },
        },
    }


@pytest.fixture(scope="module")
def nodes() -> int:
    return 0


@pytest.fixture(scope="module")
def provisioned(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster without a node, and Karpenter, whose one pool makes nodes with an SLA of 960."""
    karpenter = built("karpenter")
    cluster.define(*sorted((karpenter.source / "pkg" / "apis" / "crds").glob("*.yaml")))
    cluster.define(*sorted((karpenter.source / "kwok" / "apis" / "crds").glob("*.yaml")))
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}})
    ports = {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}
    environment = {**cluster.environment, **ports, "SYSTEM_NAMESPACE": "karpenter"}
    with program(
        cluster.folder / "karpenter.log",
        karpenter.programs / "kwok",
        *("--disable-leader-election", "--batch-idle-duration", "500ms"),
        environment=environment,
    ):
        cluster.apply(
            {
                "apiVersion": "karpenter.kwok.sh/v1alpha1",
                "kind": "KWOKNodeClass",
                "metadata": {"name": "default"},
            }
        )
        cluster.apply(pool("steady", {"key": "sla", "value": "960", "effect": "NoSchedule"}))
        where = "/apis/karpenter.sh/v1/nodepools/steady"
        wait_for(lambda: condition(cluster.get(where), "Ready"), "the NodePool is ready", PATIENCE_SECONDS)
        yield cluster


def claims(cluster: Cluster) -> list[Document]:
    return cluster.items("/apis/karpenter.sh/v1/nodeclaims")


def test_pods_with_gt_tolerations_get_nodes_and_consolidation_removes_them(provisioned: Cluster):
    tolerant = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}
    strict = {"key": "sla", "operator": "Gt", "value": "970", "effect": "NoSchedule"}
    provisioned.apply(deployment("tolerant", tolerant), deployment("strict", strict, replicas=1))
    running = wait_for(
        lambda: len(found := provisioned.running(selector="app=tolerant")) == 3 and found,
        "pods that tolerate more than 950 run on nodes of Karpenter",
        PATIENCE_SECONDS,
    )
    made = {pod["spec"]["nodeName"] for pod in running}
    for name in made:
        node = provisioned.get(f"/api/v1/nodes/{name}")
        assert node["metadata"]["labels"]["karpenter.sh/nodepool"] == "steady"
        assert {"key": "sla", "value": "960", "effect": "NoSchedule"} in node["spec"]["taints"]
    wait_for(
        lambda: all(condition(claim, "Initialized") for claim in claims(provisioned)),
        "every NodeClaim is initialized",
        PATIENCE_SECONDS,
    )

    # a threshold that the pool's taint is below is refused by Karpenter too, in the same sense
    (pending,) = provisioned.items("/api/v1/namespaces/default/pods?labelSelector=app%3Dstrict")
    assert not pending["spec"].get("nodeName")

    def told() -> list[str]:
        events = provisioned.items("/api/v1/namespaces/default/events")
        return [
            event["message"]
            for event in events
            if event["involvedObject"]["name"] == pending["metadata"]["name"]
            and event.get("source", {}).get("component", event.get("reportingComponent")) == "karpenter"
            and event["reason"] == "FailedScheduling"
        ]

    assert any(
        "did not tolerate taint" in text for text in wait_for(told, "Karpenter's event", PATIENCE_SECONDS)
    )
    assert {claim["status"].get("nodeName") for claim in claims(provisioned)} == made

    for name in ("tolerant", "strict"):
        provisioned.delete(
            f"/apis/apps/v1/namespaces/default/deployments/{name}?propagationPolicy=Background"
        )
    wait_for(
        lambda: not claims(provisioned) and not provisioned.items("/api/v1/nodes"),
        "empty nodes are consolidated away",
        PATIENCE_SECONDS,
    )


def test_pods_it_can_serve_by_a_label_and_no_taint_are_served_too(provisioned: Cluster):
    provisioned.apply(pool("plain"))
    provisioned.apply(deployment("plain", replicas=2))
    running = wait_for(
        lambda: len(found := provisioned.running(selector="app=plain")) == 2 and found,
        "pods without tolerations run on the pool without taints",
        PATIENCE_SECONDS,
    )
    for pod in running:
        labels = provisioned.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")["metadata"]["labels"]
        assert labels["pool"] == "plain"
