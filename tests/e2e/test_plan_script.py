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


#: Workloads whose pods keep their names, end by themselves, or are not rolled out, so that `rollout status` fails.
MORE = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  updateStrategy: {type: OnDelete}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: db, image: db:1}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  updateStrategy: {type: OnDelete}
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: agent, image: agent:1}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  completions: 1
  template:
    spec:
      restartPolicy: OnFailure
      terminationGracePeriodSeconds: 1
      containers: [{name: sum, image: sum:1}]
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


def test_a_script_waits_for_pods_that_keep_their_names_and_not_for_those_that_end(place):
    place.write("more.yaml", MORE)
    place.must("kubectl apply -f more.yaml")
    place.must("kubectl wait --for=jsonpath={.status.readyReplicas}=3 statefulset/db --timeout 60s")
    place.must("kubectl wait --for=jsonpath={.status.ready}=1 job/sum --timeout 60s")
    items = json.loads(place.run("kubectl get pods -o json").stdout)["items"]
    before = {each["metadata"]["name"]: each for each in items}
    used = sorted(
        {each["spec"]["nodeName"] for name, each in before.items() if name.startswith(("db-", "sum-"))}
    )
    place.must(f"weir plan taint {' '.join(used)} sla=650:NoExecute --max-unavailable 1 -o script > plan.sh")
    # the Job is over before the script waits: nothing of it has to be ready
    place.must("kubectl delete job/sum --cascade=foreground")
    result = place.run("TIMEOUT=60s bash plan.sh")
    assert result.returncode == 0, result.stdout
    items = json.loads(place.run("kubectl get pods -l app=db -o json").stdout)["items"]
    assert len(items) == 3
    for each in items:
        assert each["metadata"]["uid"] != before[each["metadata"]["name"]]["metadata"]["uid"]
        assert each["spec"]["nodeName"] not in used
