"""Looking at groups of nodes finds what looking at every node finds, and costs the same at ten times the nodes."""

from __future__ import annotations

import gc
import random
from typing import Any
from weakref import ref

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import LabelSelector, Node, Pod, read
from weir.scheduler import best_by_domain
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.plugins.spread_constraints import BoundPodTopologySpread
from weir.scheduler.pod_class import PodClass
from weir.scheduler.profile_arguments import ProfileArguments

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname"
NOWHERE = 10**9
_KEYS: list[list[tuple[str, bool]]] = [  # each with whether it forbids
    [(ZONE, True)],
    [(ZONE, False)],
    [(ZONE, True), (ZONE, False)],
    [(ZONE, True), (RACK, False)],
    [(RACK, True), (ZONE, False), (HOST, False)],
    [(HOST, False)],
    [(HOST, False), (ZONE, False)],
    [(ZONE, False), (HOST, False), (RACK, True)],
]


class _Workloads:
    """What selects the pods of each workload: those without constraints are spread by default."""

    version = 0

    def __call__(self, pod: PodClass) -> LabelSelector | None:
        return LabelSelector({"app": pod.labels["app"]})


def pod(rng: random.Random, number: int) -> Pod:
    app = f"app-{number % 4}"
    constraints = [
        {
            "maxSkew": rng.choice([1, 2, 3]),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if forbids else "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": app}},
            "nodeTaintsPolicy": rng.choice(["Honor", "Ignore"]),
            **({"minDomains": rng.choice([1, 3])} if forbids else {}),
        }
        for key, forbids in (rng.choice(_KEYS) if number % 5 else [])
    ]
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": rng.choice(["100m", "1"])}}}],
        "topologySpreadConstraints": constraints,
        "tolerations": [{"key": "a", "operator": "Exists"}] if rng.random() < 0.3 else [],
    }
    if rng.random() < 0.2:
        spec["nodeSelector"] = {"disk": "ssd"}
    return read(
        Pod, {"metadata": {"name": "p", "namespace": "default", "labels": {"app": app}}, "spec": spec}
    )


def node(rng: random.Random, number: int) -> Node:
    labels = {HOST: f"n{number}"} if rng.random() < 0.9 else {}
    if rng.random() < 0.9:
        labels[ZONE] = f"z{rng.randrange(3)}"
    if rng.random() < 0.7:
        labels[RACK] = f"r{rng.randrange(5)}"
    if rng.random() < 0.5:
        labels["disk"] = "ssd"
    taints = [
        {"key": key, "effect": effect}
        for key, effect in (("a", "NoSchedule"), ("b", "PreferNoSchedule"), ("c", "PreferNoSchedule"))
        if rng.random() < 0.2
    ]
    amounts = {"pods": str(rng.choice([3, 9])), "cpu": str(rng.choice([1, 4])), "memory": "4Gi"}
    document = {"metadata": {"name": f"n{number}", "labels": labels}, "spec": {"taints": taints}}
    return read(Node, {**document, "status": {"allocatable": amounts}})


def place_the_long_way(engine: Engine, each: Pod, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as without:
        without.setattr("weir.scheduler.cycle.best_by_domain", lambda feasibility: None)
        return engine.place(each)


@pytest.mark.parametrize("looks_at_all", [0, NOWHERE], ids=["large", "small"])
@pytest.mark.parametrize("flat", [True, False], ids=["all rows", "blocks of rows"])
@pytest.mark.parametrize("seed", range(20))
def test_the_node_is_that_of_the_long_way_over_all_nodes(
    seed: int, flat: bool, looks_at_all: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(best_by_domain, "LOOKS_AT_ALL", looks_at_all)
    monkeypatch.setattr(best_by_domain, "_MOST_MOVES", 15)
    monkeypatch.setattr(best_by_domain, "_MOST_IN_USE", rng.choice([2, NOWHERE]))
    monkeypatch.setattr("weir.scheduler.feasibility._FLAT", NOWHERE if flat else 0)
    arguments = ProfileArguments(system_spread_defaults=rng.random() < 0.7)
    engine = Engine(ALL_FEATURES, arguments, default_selector=_Workloads())
    count = rng.choice([3, 20, 90])
    for number in range(count):
        engine.table.put_node(node(rng, number))
    pods = [pod(rng, number) for number in range(12)]
    placed: list[str] = []
    short = 0
    each = pods[0]
    for number in range(150):
        each = each if rng.random() < 0.6 else rng.choice(pods)  # mostly one like the last
        found = best_by_domain.best_by_domain(engine.start_cycle(each))
        answer = engine.place(each)
        plain = place_the_long_way(engine, each, monkeypatch)
        assert answer == plain
        short += found is not None
        if isinstance(plain, Placement):
            if found is not None:
                assert found.row == engine.table.row_of[plain.node]
            engine.assume(f"p{number}", each, plain.node)
            placed.append(f"p{number}")
        if placed and rng.random() < 0.3:
            engine.forget(placed.pop(rng.randrange(len(placed))))
        if rng.random() < 0.1:
            engine.table.put_node(node(rng, rng.randrange(count + 2)))
        if rng.random() < 0.05 and len(engine.table) > 1:
            engine.table.remove_node(rng.choice(list(engine.table.row_of)))
    assert short > (5 if looks_at_all else 20)


def wide(nodes: int) -> Engine:
    engine = Engine(ALL_FEATURES, default_selector=_Workloads())
    rng = random.Random(1)
    for number in range(nodes):
        engine.table.put_node(node(rng, number))
    return engine


@pytest.mark.parametrize("number", [0, 6], ids=["by default", "constraints of its own"])
def test_ten_times_the_nodes_have_no_more_of_them_scored(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted is how many nodes, or groups of them, the scores are worked out for."""
    monkeypatch.setattr(best_by_domain, "LOOKS_AT_ALL", 0)
    looked: list[int] = []
    score = BoundPodTopologySpread.scores_by_place

    def counted(self: BoundPodTopologySpread, labels: Any, places: Any) -> Any:
        looked.append(len(places))
        return score(self, labels, places)

    monkeypatch.setattr(BoundPodTopologySpread, "scores_by_place", counted)

    def over_all(self: BoundPodTopologySpread, feasible: Any) -> Any:
        raise AssertionError("all nodes are looked at")

    monkeypatch.setattr(BoundPodTopologySpread, "normalized_scores", over_all)
    most = []
    for nodes in (400, 4_000):
        engine, each = wide(nodes), pod(random.Random(3), number)
        for placed in range(20):
            answer = engine.place(each)
            assert isinstance(answer, Placement)
            engine.assume(str(placed), each, answer.node)
        most.append(max(looked))
        looked.clear()
    assert most[1] <= most[0] < 60


@pytest.mark.parametrize("number", range(5))
def test_a_class_that_is_dropped_leaves_nothing_to_the_garbage_collector(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of classes come and go in one forecast, which collects garbage next to never."""
    monkeypatch.setattr(best_by_domain, "LOOKS_AT_ALL", 0)
    monkeypatch.setattr("weir.scheduler.cycle._FEASIBILITY_BYTES", 0)
    monkeypatch.setattr("weir.scheduler.cycle._LEAST_CLASSES", 1)
    engine, rng = wide(40), random.Random(1)
    first, other = pod(rng, number), pod(rng, number + 1)
    gc.disable()
    try:
        assert isinstance(engine.place(first), Placement)
        kept = [ref(engine.feasibility(first)), ref(engine.feasibility(first).kept_by_domain)]
        assert kept[1]() is not None
        engine.place(other)
        assert [each() for each in kept] == [None, None]
    finally:
        gc.enable()


def test_groups_are_given_up_where_there_are_nearly_as_many_as_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(ALL_FEATURES)
    for number in range(200):
        labels = {HOST: f"n{number}", ZONE: f"z{number}"}
        amounts = {"pods": "9", "cpu": "4", "memory": "4Gi"}
        document = {"metadata": {"name": f"n{number}", "labels": labels}, "status": {"allocatable": amounts}}
        engine.table.put_node(read(Node, document))
    monkeypatch.setattr(best_by_domain, "LOOKS_AT_ALL", 0)
    each = read(
        Pod,
        {
            "metadata": {"name": "p", "labels": {"app": "a"}},
            "spec": {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": ZONE,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "a"}},
                    }
                ]
            },
        },
    )
    assert best_by_domain.best_by_domain(engine.start_cycle(each)) is None
    assert isinstance(engine.place(each), Placement)


def test_a_full_node_no_longer_has_the_highest_raw_score_of_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Scores are normalised over the nodes that are left: those with the most taints are full, or in a zone refused."""
    monkeypatch.setattr("weir.scheduler.feasibility._FLAT", 0)  # rows are brought up to date one by one
    engine = Engine(ALL_FEATURES)
    for name, zone, taints, room in (("a", 0, 2, 1), ("b", 0, 1, 9), ("c", 0, 1, 9), ("d", 1, 2, 9)):
        avoided = [{"key": f"k{number}", "effect": "PreferNoSchedule"} for number in range(taints)]
        labels = {HOST: name, ZONE: f"z{zone}"}
        amounts = {"pods": str(room), "cpu": "4", "memory": "4Gi"}
        document = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": avoided}}
        engine.table.put_node(read(Node, {**document, "status": {"allocatable": amounts}}))
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    labelled = {"metadata": {"name": "p", "labels": {"app": "a"}}}
    each = read(Pod, {**labelled, "spec": {"topologySpreadConstraints": [constraint]}})
    engine.assume("there", each, "d")  # one more there would be one too many
    monkeypatch.setattr(best_by_domain, "LOOKS_AT_ALL", 0)
    assert best_by_domain.best_by_domain(engine.start_cycle(each)) is not None
    engine.assume("filler", read(Pod, {"metadata": {"name": "f"}}), "a")
    assert best_by_domain.best_by_domain(engine.start_cycle(each)) is None
    assert engine.place(each) == place_the_long_way(engine, each, monkeypatch)
