"""Claims about weir.simulation.kubelet.pod_worker: what the nodes of a cluster did can be read off."""

from weir.simulation.cluster import Cluster
from weir.simulation.kubelet.pod_worker import KubeletMetrics


def test_pods_that_run_and_pods_that_were_rejected_are_counted():
    with Cluster(nodes=2, controllers=["*", "-taint-eviction"]) as cluster:
        cluster.add_node("bad", taints=["sla=800:NoExecute"])
        for name, where in (("good", {}), ("lost", {"nodeName": "bad"})):
            spec = {"containers": [{"name": "c", "image": "i"}], **where}
            cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        cluster.advance(10)
        page = cluster.metrics("kubelet").splitlines()
    assert {
        "kubelet_running_pods 1",
        "kubelet_started_pods_total 1",
        'kubelet_admission_rejections_total{reason="TaintToleration"} 1',
        "weir_kubelet_nodes 3",
    } <= set(page)


def test_every_metric_has_words():
    assert all(family.help for _, family in KubeletMetrics().registry.families())
