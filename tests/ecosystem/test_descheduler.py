"""descheduler's RemovePodsViolatingNodeTaints agrees with weir's matcher, pod by pod.

Both judge the same pods on the same nodes: descheduler by evicting, weir by `weir.tolerates`. Where descheduler knows
the operator they must agree. SemverGt (KEP-5721) it does not know; a toleration with an expression (KEP-5500) is an
empty one to it, which tolerates every taint without a value.
"""

from __future__ import annotations

import itertools
import subprocess

import pytest
import yaml

import weir
from tests.ecosystem.cluster import Cluster, wait_for
from tests.ecosystem.conftest import built

POLICY = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": "taints",
            "pluginConfig": [{"name": "DefaultEvictor"}, {"name": "RemovePodsViolatingNodeTaints"}],
            "plugins": {"deschedule": {"enabled": ["RemovePodsViolatingNodeTaints"]}},
        }
    ],
}
TAINTS = {
    "low": "900",
    "same": "950",
    "high": "999",
    "zero": "0",
    "zeros": "0950",
    "word": "fast",
    "none": "",
    "huge": "9223372036854775808",
}
KNOWN = {
    "exists": {"key": "sla", "operator": "Exists"},
    "everything": {"operator": "Exists"},
    "other-key": {"key": "zone", "operator": "Exists"},
    "other-effect": {"key": "sla", "operator": "Exists", "effect": "NoExecute"},
    "equal": {"key": "sla", "operator": "Equal", "value": "950"},
    "equal-by-default": {"key": "sla", "value": "fast"},
    "gt": {"key": "sla", "operator": "Gt", "value": "949"},
    "gt-same": {"key": "sla", "operator": "Gt", "value": "950"},
    "gt-negative": {"key": "sla", "operator": "Gt", "value": "-6"},
    "lt": {"key": "sla", "operator": "Lt", "value": "950"},
    "lt-effect": {"key": "sla", "operator": "Lt", "value": "1000", "effect": "NoSchedule"},
    "nothing": {},
}
UNKNOWN = {
    "expression": {"expression": "taint.key == 'sla'"},
    "semver": {"key": "sla", "operator": "SemverGt", "value": "1.0.0"},
}


@pytest.fixture(scope="module")
def nodes() -> int:
    return 0


@pytest.fixture(scope="module")
def left(cluster: Cluster) -> set[tuple[str, str]]:
    """Which pod is still on which node after descheduler has run once."""
    for name in TAINTS:
        cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"weir.dev/simulated": "true"}},
                "status": {
                    "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
                    "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
                },
            }
        )
    pairs = list(itertools.product({**KNOWN, **UNKNOWN}.items(), TAINTS))
    for (name, toleration), node in pairs:
        cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}.{node}",
                    "namespace": "default",
                    "annotations": {"descheduler.alpha.kubernetes.io/evict": "true"},
                },
                "spec": {
                    "nodeName": node,
                    "terminationGracePeriodSeconds": 0,
                    "tolerations": [toleration] if toleration else [],
                    "containers": [{"name": "c", "image": "i"}],
                },
            }
        )
    wait_for(lambda: len(cluster.running()) == len(pairs), "all pods run")
    for name, value in TAINTS.items():
        node = f"/api/v1/nodes/{name}"
        kept = cluster.get(node)["spec"].get("taints") or []
        taint = {"key": "sla", "effect": "NoSchedule", **({"value": value} if value else {})}
        cluster.patch(node, {"spec": {"taints": [*kept, taint]}})
    policy = cluster.folder / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    done = subprocess.run(
        [
            *(built("descheduler").programs / "descheduler", "--kubeconfig", cluster.kubeconfig),
            *("--policy-config-file", policy, "--disable-metrics", "--secure-port", "0", "--v", "2"),
        ],
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    def gone() -> bool:
        pods = cluster.items("/api/v1/namespaces/default/pods")
        return not any(pod["metadata"].get("deletionTimestamp") for pod in pods)

    wait_for(gone, "every evicted pod is gone")
    return {tuple(pod["metadata"]["name"].split(".")) for pod in cluster.running()}


@pytest.mark.parametrize("name", KNOWN)
def test_it_evicts_exactly_the_pods_whose_taint_weir_says_is_not_tolerated(
    name: str, left: set[tuple[str, str]]
):
    toleration = KNOWN[name]
    expected = {
        node
        for node, value in TAINTS.items()
        if toleration and weir.tolerates(toleration, {"key": "sla", "value": value, "effect": "NoSchedule"})
    }
    assert {node for pod, node in left if pod == name} == expected


@pytest.mark.parametrize(("name", "stays"), [("semver", set()), ("expression", {"none"})])
def test_what_it_does_not_know_it_reads_as_an_old_component_does(
    name: str, stays: set[str], left: set[tuple[str, str]]
):
    assert {node for pod, node in left if pod == name} == stays
