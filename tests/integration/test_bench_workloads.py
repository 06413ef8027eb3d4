"""The workloads that are measured beside a real Kubernetes do on weir what they say, at a small size."""

from __future__ import annotations

import json

import pytest
from bench._generator import Generator, Target
from bench._systems import weir
from bench._workloads import bound, evicted

from tests.e2e.server import running_server


def test_pods_are_bound_and_evicted_and_every_process_is_counted():
    with weir(("taint-eviction",)) as system:
        placed = bound(4, 6)(system)
        assert placed.value > 0
        assert set(placed.cpu) == {"apiserver", "scheduler", "controller-manager"}
        assert placed.count == 6
        with Generator(system.target) as generator:
            pods = json.loads(generator.ask(system.target.request("GET", "/api/v1/namespaces/default/pods")))
        thresholds = {f"node-{number}": number // 2 for number in range(1, 4, 2)}
        for pod in pods["items"]:
            # sla is 0 and 1 on the tainted nodes, which no pod of the workload tolerates
            assert pod["spec"]["nodeName"] not in thresholds


def test_the_last_pod_ends_the_clock_of_evictions():
    with weir(("taint-eviction",)) as system:
        assert evicted(2, 3)(system).count == 6
        with Generator(system.target) as generator:
            left = json.loads(generator.ask(system.target.request("GET", "/api/v1/namespaces/default/pods")))
        assert left["items"] == []


def test_a_refused_request_ends_the_run_with_the_answer(tmp_path):
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,admin,1\n")
    with running_server(tmp_path, "--token-auth-file", str(tokens)) as server:
        target = Target.of(server.kubeconfig, "secret")
        with Generator(target) as generator, pytest.raises(RuntimeError, match="403"):
            generator.finish([target.request("GET", "/api/v1/nodes")])
