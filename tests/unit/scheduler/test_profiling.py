"""The profile of plugins: which one took how long, and that profiling changes no placement."""

import random
import re

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.metrics import SchedulerMetrics
from weir.scheduler.profiling import PluginProfiler
from weir.simulation.cluster import Cluster

pytestmark = pytest.mark.proves("5500-124")


def node(name, zone, cpu="4"):
    return read(
        Node,
        {
            "metadata": {"name": name, "labels": {"zone": zone, "kubernetes.io/hostname": name}},
            "spec": {"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
        },
    )


def pod(name, limit, cpu):
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    return read(
        Pod,
        {
            "metadata": {"name": name, "namespace": "x", "labels": {"app": "a"}},
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
                "tolerations": [{"key": "sla", "operator": "Gt", "value": str(limit)}],
                "topologySpreadConstraints": [spread],
            },
        },
    )


@pytest.fixture
def profiled():
    engine, metrics = Engine(ALL_FEATURES), SchedulerMetrics()
    profiler = PluginProfiler(metrics.plugin_duration)
    engine.profile_plugins(profiler)
    return engine, profiler


def test_each_plugin_that_was_called_has_a_row_and_nested_calls_count_once(profiled):
    engine, profiler = profiled
    for number in range(4):
        engine.table.put_node(node(f"n{number}", f"z{number % 2}"))
    for number in range(4):
        engine.place(pod(f"p{number}", 900 + number, "1"))
    rows = [line.split() for line in profiler.page().body.decode().splitlines()]
    assert rows[0] == ["PLUGIN", "POINT", "CALLS", "TOTAL", "MEAN", "SHARE"]
    called = {(row[0], row[1]) for row in rows[1:]}
    assert {
        ("TaintToleration", "Filter"),
        ("TaintToleration", "Score"),
        ("NodeResourcesFit", "Filter"),
    } <= called
    assert all(int(row[2]) > 0 for row in rows[1:])
    assert sum(float(row[-1].rstrip("%")) for row in rows[1:]) == pytest.approx(100, abs=1)


def test_the_slow_plugin_is_first(profiled, monkeypatch):
    engine, profiler = profiled
    engine.table.put_node(node("n", "z"))
    now = [0.0]
    monkeypatch.setattr("weir.scheduler.profiling.perf_counter", lambda: now[0])
    tolerated = engine.judged_taints.judge.tolerated

    def slow(tolerations):
        now[0] += 3
        return tolerated(tolerations)

    monkeypatch.setattr(engine.judged_taints.judge, "tolerated", slow)
    engine.place(pod("p", 900, "1"))
    first = profiler.page().body.decode().splitlines()[1].split()
    assert first[0] == "TaintToleration" and first[-1] == "100.0%"


@pytest.mark.parametrize("seed", range(10))
def test_profiling_places_as_ever(seed):
    def places(*, profiling):
        rng, engine = random.Random(seed), Engine(ALL_FEATURES)
        if profiling:
            engine.profile_plugins(PluginProfiler(SchedulerMetrics().plugin_duration))
        for number in range(12):
            engine.table.put_node(node(f"n{number}", f"z{number % 3}", str(rng.randrange(1, 8))))
        for number in range(40):
            one = pod(f"p{number}", rng.choice([900, 960]), f"{rng.randrange(100, 1500)}m")
            answer = engine.place(one)
            if isinstance(answer, Placement):
                engine.assume(one.key, one, answer.node)
                yield answer.node
            else:
                yield answer.message

    assert list(places(profiling=True)) == list(places(profiling=False))


def test_the_first_attempt_is_timed_without_profiling():
    with Cluster(nodes=1) as cluster:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
        cluster.advance(5)
        page = cluster.metrics()
    timed = r'scheduler_plugin_execution_duration_seconds_count{[^}]*plugin="TaintToleration"[^}]*} [1-9]'
    assert re.search(timed, page)
