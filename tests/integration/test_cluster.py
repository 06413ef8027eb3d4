"""A whole cluster under virtual time: the stories of the KEPs, lived through (core.md 10)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from weir.errors import Invalid
from weir.gates import ALL_FEATURES
from weir.simulation.cluster import Cluster, ComponentGates


def pod(name, *tolerations, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": list(tolerations), **spec},
    }


def tolerate(key, operator, value, seconds=None, effect="NoExecute"):
    entry = {"key": key, "operator": operator, "value": value, "effect": effect}
    return entry if seconds is None else {**entry, "tolerationSeconds": seconds}


def where(cluster, name):
    found = cluster.get("Pod", name)
    return found and found["spec"].get("nodeName")


@pytest.fixture
def spot():
    with Cluster() as cluster:
        cluster.add_nodes(name="spot", node_class="spot", taints=["failure-probability=15:NoExecute"])
        cluster.add_nodes(name="steady", node_class="on-demand", taints=["failure-probability=2:NoExecute"])
        cluster.advance(5)
        yield cluster


def test_payment_processor_only_fits_the_steady_node_and_leaves_after_its_seconds(spot):
    spot.apply(pod("payment-processor", tolerate("failure-probability", "Lt", "5", 30)))
    spot.advance(20)
    placed = where(spot, "payment-processor")
    spot.advance(30)
    assert (placed, spot.get("Pod", "payment-processor")) == ("steady-0", None)


def test_batch_job_stays_while_its_value_is_below_twenty(spot):
    spot.apply(pod("batch-job", tolerate("failure-probability", "Lt", "20"), nodeName="spot-0"))
    spot.advance(3600)
    hour = where(spot, "batch-job")
    spot.taint("spot-0", "failure-probability=20:NoExecute")
    spot.advance(10)
    assert (hour, spot.get("Pod", "batch-job")) == ("spot-0", None)


def test_the_drop_of_a_service_level_evicts_at_once():
    with Cluster() as cluster:
        cluster.add_nodes(name="n", taints=["sla=960:NoExecute"])
        cluster.advance(5)
        cluster.apply(pod("p", tolerate("sla", "Gt", "950", 600)))
        cluster.advance(10)
        running = cluster.get("Pod", "p")["status"]["phase"]
        cluster.taint("n-0", "sla=900:NoExecute")
        cluster.advance(5)
        (event,) = [e["message"] for e in cluster.events("TaintManagerEviction") if "Marking" in e["message"]]
        assert (running, cluster.get("Pod", "p"), event) == (
            "Running",
            None,
            "Marking for deletion Pod default/p",
        )


@pytest.mark.parametrize(
    "taint, entry, fits",
    [
        ("gpu-score=1000:NoSchedule", tolerate("gpu-score", "Gt", "800", effect="NoSchedule"), True),
        ("gpu-score=500:NoSchedule", tolerate("gpu-score", "Gt", "800", effect="NoSchedule"), False),
        ("cost-per-hour=50:NoSchedule", tolerate("cost-per-hour", "Lt", "100", effect="NoSchedule"), True),
        ("sla=950:NoSchedule", tolerate("sla", "Gt", "950", effect="NoSchedule"), False),
        ("cni=v3.27.2:NoSchedule", tolerate("cni", "SemverLt", "v3.28.0", effect="NoSchedule"), True),
        ("kernel=5.4.0:NoSchedule", {"expression": "semver(taint.value).major() >= 5"}, True),
        (
            "zone-b1-rack-07=x:NoSchedule",
            {"expression": "taint.key.matches('^zone-a[12]-rack-[0-9]+$')"},
            False,
        ),
        (
            "env.example.com/dev=x:NoSchedule",
            {"expression": "taint.key.startsWith('env.example.com/')"},
            True,
        ),
    ],
)
def test_a_story_of_the_keps_places_the_pod_or_not(weir_cluster, taint, entry, fits):
    weir_cluster.add_nodes(taints=[taint])
    weir_cluster.advance(5)
    weir_cluster.apply(pod("p", entry))
    weir_cluster.advance(5)
    assert bool(where(weir_cluster, "p")) == fits == weir_cluster.explain(pod("q", entry)).fits


def test_an_expression_with_seconds_bounds_the_stay(weir_cluster):
    weir_cluster.add_nodes(taints=["env.example.com/dev=x:NoExecute"])
    weir_cluster.advance(5)
    entry = {"expression": "taint.key.startsWith('env.example.com/')", "tolerationSeconds": 60}
    weir_cluster.apply(pod("p", entry))
    weir_cluster.advance(50)
    before = where(weir_cluster, "p")
    weir_cluster.advance(15)
    assert (before, weir_cluster.get("Pod", "p")) == ("node-0", None)


# ── gates set apart (core.md 8.2) ────────────────────────────────────────────────────────────────

NUMERIC_OFF = ALL_FEATURES.replace({"TaintTolerationComparisonOperators": False})


def lived(**gates):
    """Return what became of a pod that needs Gt on a NoExecute-tainted node."""
    with Cluster(gates=ComponentGates(**gates)) as cluster:
        cluster.add_nodes(taints=["sla=950:NoExecute"])
        cluster.advance(5)
        cluster.apply(pod("p", tolerate("sla", "Gt", "900")))
        cluster.advance(60)
        found = cluster.get("Pod", "p")
        return found and (found["status"]["phase"], found["status"].get("reason"))


def test_with_every_gate_on_the_pod_runs():
    assert lived() == ("Running", None)


def test_a_server_with_the_gate_off_refuses():
    with pytest.raises(Invalid):
        lived(apiserver=NUMERIC_OFF)


def test_a_scheduler_with_the_gate_off_leaves_the_pod_pending():
    assert lived(scheduler=NUMERIC_OFF) == ("Pending", None)


def test_controllers_with_the_gate_off_evict():
    assert lived(controllers=NUMERIC_OFF) is None


def test_a_kubelet_with_the_gate_off_rejects():
    assert lived(kubelet=NUMERIC_OFF) == ("Failed", "TaintToleration")


# ── repeatable ───────────────────────────────────────────────────────────────────────────────────

HISTORY = """
import hashlib
from weir.simulation.cluster import Cluster
with Cluster(seed={seed}, nodes=4) as cluster:
    labels = {{"app": "web"}}
    template = {{"metadata": {{"labels": labels}}, "spec": {{"containers": [{{"name": "c", "image": "i"}}]}}}}
    spec = {{"replicas": 6, "selector": {{"matchLabels": labels}}, "template": template}}
    cluster.apply({{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "web"}}, "spec": spec}})
    cluster.advance(30)
    cluster.taint("node-1", "flaky=1:NoExecute")
    cluster.advance(600)
    print(hashlib.sha256(cluster.history()).hexdigest())
"""


def history(seed, hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", HISTORY.format(seed=seed)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_same_seed_gives_the_same_history_byte_for_byte():
    assert history(7, 1) == history(7, 2) != history(8, 1)
