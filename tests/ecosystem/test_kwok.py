"""kwok as the kubelet: weir has the API server, the scheduler and the controllers, and no node of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ecosystem.cluster import Cluster, condition, documents, program, wait_for
from tests.ecosystem.conftest import built

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{key: sla, operator: Gt, value: "950", effect: NoExecute}]
      containers: [{name: app, image: registry.example/app:1}]
"""


def node(name: str, *taints: dict[str, str]) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {"type": "kwok", "kubernetes.io/hostname": name},
        },
        "spec": {"taints": list(taints)},
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"},
            "capacity": {"cpu": "32", "memory": "256Gi", "pods": "110"},
        },
    }


@pytest.fixture(scope="module")
def nodes() -> int:
    return 0


@pytest.fixture(scope="module")
def stages() -> list[dict]:
    """How kwok's nodes and pods live: the stages that its own `fast` bundle names, read from its files."""
    source = built("kwok").source / "kustomize" / "stage"
    folders = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
    return [each for folder in folders for path in sorted((source / folder).glob("*.yaml"))
            for each in documents(path) if each["kind"] == "Stage"]  # fmt: skip


@pytest.fixture(scope="module")
def played(cluster: Cluster, stages: list[dict]) -> Iterator[Cluster]:
    """A cluster whose nodes kwok plays, by Stages that are objects of the API."""
    cluster.define(*sorted((built("kwok").source / "kustomize" / "crd" / "bases").glob("*.yaml")))
    cluster.apply(*stages)
    with program(
        cluster.folder / "kwok.log",
        built("kwok").programs / "kwok",
        *("--kubeconfig", cluster.kubeconfig, "--manage-all-nodes=true", "--enable-crds", "Stage"),
        *("--node-lease-duration-seconds", "40", "--server-address", "127.0.0.1:0"),
        environment=cluster.environment,
    ):
        for name in ("kwok-0", "kwok-1"):
            cluster.create(node(name))
        wait_for(
            lambda: all(condition(cluster.get(f"/api/v1/nodes/kwok-{i}"), "Ready") for i in range(2)),
            "both nodes of kwok are ready",
        )
        yield cluster


def test_nodes_of_kwok_report_by_leases(played: Cluster):
    lease = wait_for(
        lambda: played.find("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/kwok-0"),
        "a Lease",
    )
    assert lease["spec"]["leaseDurationSeconds"] == 40
    assert played.get("/api/v1/nodes/kwok-0")["status"]["nodeInfo"]["kubeletVersion"].startswith("kwok-")


def test_pods_are_scheduled_by_weir_and_run_by_kwok(played: Cluster):
    played.apply(DEPLOYMENT)
    running = wait_for(
        lambda: len(found := played.running(selector="app=web")) == 3 and found, "three pods run"
    )
    assert {pod["spec"]["nodeName"] for pod in running} == {"kwok-0", "kwok-1"}
    wait_for(
        lambda: (
            played.get("/apis/apps/v1/namespaces/default/deployments/web")["status"].get("availableReplicas")
            == 3
        ),
        "the Deployment is available",
    )


def test_a_taint_that_a_pod_stops_tolerating_evicts_it_from_a_node_of_kwok(played: Cluster):
    played.apply(DEPLOYMENT)
    wait_for(lambda: len(played.running(selector="app=web")) == 3, "three pods run")
    played.patch(
        "/api/v1/nodes/kwok-0", {"spec": {"taints": [{"key": "sla", "value": "900", "effect": "NoExecute"}]}}
    )
    played.patch(
        "/api/v1/nodes/kwok-1", {"spec": {"taints": [{"key": "sla", "value": "999", "effect": "NoExecute"}]}}
    )

    def moved() -> bool:
        pods = played.items("/api/v1/namespaces/default/pods?labelSelector=app%3Dweb")
        return len(pods) == 3 and all(
            pod["spec"].get("nodeName") == "kwok-1" and pod["status"].get("phase") == "Running"
            for pod in pods
        )

    assert wait_for(moved, "all pods are on the node whose value is above their threshold")
