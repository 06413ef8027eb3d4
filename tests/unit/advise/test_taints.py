"""Taints that keep everybody away."""

from __future__ import annotations

from tests.unit.advise.clusters import entry, node
from weir.advise.question import read_tolerations
from weir.advise.taints import untolerated_taints
from weir.gates import ALL_FEATURES
from weir.world import World


def test_only_taints_that_no_pod_and_no_workload_tolerates():
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"tolerations": [entry("gpu", "Exists")]}}
    nodes = [
        node("n1", sla="900"),
        node("n2", sla="100"),
        node("n3", sla="100"),
        node("n4", gpu="1", old="yes"),
    ]
    soft = node("n5", effect="PreferNoSchedule", soft="1")
    kept = {"kind": "Node", "metadata": {"name": "n6"}}
    kept["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}
    found = untolerated_taints(
        World.of([*nodes, soft, kept, pod]), [read_tolerations([entry("sla", "Gt", "500")])], ALL_FEATURES
    )
    assert [(str(each.taint), each.nodes) for each in found] == [
        ("sla=100:NoSchedule", ("n2", "n3")),
        ("old=yes:NoSchedule", ("n4",)),
    ]
