"""The script of a plan, run by bash with a real kubectl against `weir up`: it ends, and its waits hold."""

from __future__ import annotations

import json

import pytest

from tests.e2e.shell import Shell
from tests.e2e.test_up import up

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web:1, resources: {requests: {cpu: 100m}}}]
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {app: web}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
"""


@pytest.fixture
def place(tmp_path):
    here = Shell(tmp_path, KUBECONFIG="data/kubeconfig")
    here.write("web.yaml", WEB)
    with up(tmp_path, "--nodes", "3"):
        here.must("kubectl apply -f web.yaml && kubectl rollout status deploy/web --timeout 60s")
        here.must("weir node add --count 3")
        yield here


def pods(place: Shell) -> list[str]:
    """Return the node of every pod."""
    items = json.loads(place.run("kubectl get pods -o json").stdout)["items"]
    return [each["spec"]["nodeName"] for each in items]


def test_a_script_taints_wave_by_wave_and_ends_when_all_is_as_foreseen(place):
    used = sorted(set(pods(place)))
    words = f"weir plan taint {' '.join(used)} sla=650:NoExecute"
    place.must(f"{words} -o yaml > plan.yaml")
    place.must(f"{words} -o script > plan.sh")
    result = place.run("TIMEOUT=60s bash plan.sh")
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("wave ") >= len(used) - 1 and result.stdout.rstrip().endswith("done")
    place.must("weir what-if verify plan.yaml")
    after = pods(place)
    assert len(after) == 3 and not set(after) & set(used)
