"""The workloads that are measured beside a real Kubernetes do on weir what they say, at a small size."""

from __future__ import annotations

import json

import pytest
from bench._generator import Generator, Target, Watch
from bench._systems import weir
from bench._workloads import bound, evicted, fanned_out, listed

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


def test_every_watcher_counts_every_pod_and_a_list_is_read_to_its_end():
    with weir() as system:
        assert fanned_out(3, 40)(system).value > 0
    with weir() as system:
        measured = listed(60, times=2)(system)
        assert measured.value > 0
        with Generator(system.target) as generator:
            request = system.target.request("GET", "/api/v1/namespaces/default/pods")
            assert len(json.loads(generator.ask(request))["items"]) == 60  # more than one record of TLS


def test_a_watch_counts_events_that_come_in_pieces():
    watch = object.__new__(Watch)
    watch.count, watch._rest, watch._seen, watch._mark = 0, b"", None, b'{"type":"ADDED"'
    events = [b'{"type":"%b","object":{"metadata":{"resourceVersion":"%d"}}}\n' % (kind, number)
              for number, kind in enumerate([b"ADDED", b"MODIFIED", b"ADDED", b"ADDED"])]  # fmt: skip
    text = b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in events)
    for size in (1, 7, 64, 1000):
        watch.count, watch._rest = 0, b""
        for at in range(0, len(text), size):
            watch._take(watch._rest + text[at : at + size])
        assert watch.count == 3, size


def test_a_refused_request_ends_the_run_with_the_answer(tmp_path):
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,admin,1\n")
    with running_server(tmp_path, "--token-auth-file", str(tokens)) as server:
        target = Target.of(server.kubeconfig, "secret")
        with Generator(target) as generator, pytest.raises(RuntimeError, match="403"):
            generator.finish([target.request("GET", "/api/v1/nodes")])
