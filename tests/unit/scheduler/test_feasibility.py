"""A class that is already known follows changes of nodes it has judged before."""

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.framework import Diagnosis

CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
POD = read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}})


def node(name, *taints, cpu="4"):
    return read(
        Node,
        {
            "metadata": {"name": name},
            "spec": {"taints": list(taints)},
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
        },
    )


def known(*nodes):
    engine = Engine(ALL_FEATURES)
    for each in nodes:
        engine.table.put_node(each)
    engine.place(POD)
    return engine


def test_the_first_disliked_taint_of_a_cluster_counts_at_once():
    engine = known(node("a"), node("b"), node("c"), node("d"))
    engine.table.put_node(node("a", {"key": "spot", "effect": "PreferNoSchedule"}))
    assert engine.place(POD).node == "b"


def test_a_taint_that_goes_away_lets_the_node_back_in():
    engine = known(node("a", {"key": "x", "effect": "NoSchedule"}), node("b"), node("c"), node("d"))
    engine.table.put_node(node("a"))
    assert engine.place(POD).node == "a"


def test_a_node_that_shrinks_is_left_alone():
    engine = known(node("a"), node("b"), node("c"), node("d"))
    engine.table.put_node(node("a", cpu="500m"))
    assert engine.place(POD).node == "b"


def test_answers_beyond_their_memory_are_dropped_and_made_again(monkeypatch):
    monkeypatch.setattr("weir.scheduler.cycle._FEASIBILITY_BYTES", 0)
    monkeypatch.setattr("weir.scheduler.cycle._LEAST_CLASSES", 2)
    engine = known(node("a"))
    pods = [read(Pod, {"metadata": {"name": "p", "labels": {"n": str(n)}}}) for n in range(6)]
    assert [engine.place(pod).node for pod in pods * 2] == ["a"] * 12


def test_a_node_with_a_nominated_pod_is_judged_with_that_pod_first():
    engine = Engine(ALL_FEATURES)
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "1"}
    engine.table.put_node(read(Node, {"metadata": {"name": "n"}, "status": {"allocatable": amounts}}))
    big = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}
    pod = read(Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": big})
    rival = engine.classes.of(read(Pod, {"metadata": {"name": "rival", "namespace": "x"}}))
    answer = engine.place(pod, {"n": [rival]})
    assert isinstance(answer, Diagnosis) and answer.statuses["n"].reasons == (
        "Too many pods",
        "Insufficient cpu",
    )
