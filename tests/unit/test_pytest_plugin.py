"""A failing test shows how its cluster was."""

from __future__ import annotations

import subprocess
import sys

FAILING = """
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
       "spec": {"containers": [{"name": "c", "image": "i"}]}}

def test_fails(weir_cluster):
    weir_cluster.add_nodes(1, taints=["sla=900:NoSchedule"])
    weir_cluster.apply(POD)
    weir_cluster.advance(5)
    assert weir_cluster.get("Pod", "web")["status"]["phase"] == "Running"

def test_passes(weir_cluster):
    assert weir_cluster.list("Pod") == []
"""


def test_a_failure_shows_nodes_pods_with_the_reason_and_events(tmp_path):
    (tmp_path / "test_it.py").write_text(FAILING)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("weir_cluster -") == 1
    assert "node node-0  sla=900:NoSchedule" in done.stdout
    assert "pod default/web Pending: Pod default/web fits on none of 1 node" in done.stdout
    assert "event Pod web: FailedScheduling: 0/1 nodes are available" in done.stdout
