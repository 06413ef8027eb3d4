"""Topology spread scores worked out per domain, or per count of pods in a domain, are those worked out per node."""

from __future__ import annotations

import random

import numpy as np
import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.plugins.spread_constraints import BoundPodTopologySpread
from weir.scheduler.pod_class import build
from weir.scheduler.profile_arguments import ProfileArguments

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def pod(rng: random.Random, skew: int) -> Pod:
    constraint = {
        "maxSkew": skew,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "nodeTaintsPolicy": rng.choice(["Honor", "Ignore"]),
    }
    labels = {"app": rng.choice(["web", "db"])}
    spec = {"containers": [{"name": "c"}], "topologySpreadConstraints": [constraint]}
    return read(Pod, {"metadata": {"name": "p", "labels": labels}, "spec": spec})


@pytest.mark.parametrize("require_all", [True, False])
@pytest.mark.parametrize("seed", range(60))
def test_a_domain_scores_what_each_of_its_nodes_scores(seed: int, require_all: bool) -> None:
    rng = random.Random(seed)
    engine = Engine(ALL_FEATURES, ProfileArguments())
    for number in range(rng.randrange(1, 12)):
        labels = {} if rng.random() < 0.2 else {ZONE: f"z{rng.randrange(4)}"}
        taints = [{"key": "a", "effect": "NoSchedule"}] if rng.random() < 0.2 else []
        node = {"metadata": {"name": f"n{number}", "labels": labels}, "spec": {"taints": taints}}
        engine.table.put_node(read(Node, {**node, "status": {"allocatable": {"pods": "110"}}}))
    asked = build(pod(rng, rng.choice([1, 2, 5])))
    spread = engine.profile.plugins["PodTopologySpread"].for_class(asked).cluster_score
    assert isinstance(spread, BoundPodTopologySpread)
    spread._require_all = require_all
    for number in range(rng.randrange(30)):
        engine.table.add_pod(str(number), build(pod(rng, 1)), f"n{rng.randrange(12)}")
    feasible = np.array([rng.random() < 0.7 for _ in range(engine.table.size)])
    expected, found = spread.normalized_by_node(feasible), spread.normalized_scores(feasible)
    assert found[feasible].tolist() == expected[feasible].tolist()


def constrained(rng: random.Random, keys: list[str]) -> Pod:
    constraints = [
        {
            "maxSkew": rng.choice([1, 2, 5]),
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "nodeTaintsPolicy": rng.choice(["Honor", "Ignore"]),
        }
        for key in keys
    ]
    spec = {"containers": [{"name": "c"}], "topologySpreadConstraints": constraints}
    labels = {"app": rng.choice(["web", "db"])}
    return read(Pod, {"metadata": {"name": "p", "labels": labels}, "spec": spec})


def labelled(rng: random.Random, number: int, zones: int) -> Node:
    labels = {HOST: f"n{number}"} if rng.random() < 0.9 else {}
    if rng.random() < 0.8:
        labels[ZONE] = f"z{rng.randrange(zones)}"
    taints = [{"key": "a", "effect": "NoSchedule"}] if rng.random() < 0.2 else []
    node = {"metadata": {"name": f"n{number}", "labels": labels}, "spec": {"taints": taints}}
    return read(Node, {**node, "status": {"allocatable": {"pods": "110"}}})


@pytest.mark.parametrize("require_all", [True, False])
@pytest.mark.parametrize("keys", [[HOST, ZONE], [ZONE, HOST], [HOST]], ids=" ".join)
@pytest.mark.parametrize("seed", range(25))
def test_nodes_with_as_many_pods_in_a_domain_score_the_same(
    seed: int, keys: list[str], require_all: bool
) -> None:
    """Counts, domains and nodes change between the scores: what is kept of the nodes must not be older than they."""
    rng = random.Random(seed)
    engine = Engine(ALL_FEATURES, ProfileArguments())
    zones = rng.choice([1, 3, 12])
    for number in range(rng.choice([1, 9, 60])):
        engine.table.put_node(labelled(rng, number, zones))
    asked = build(constrained(rng, keys))
    spread = engine.profile.plugins["PodTopologySpread"].for_class(asked).cluster_score
    assert isinstance(spread, BoundPodTopologySpread)
    spread._require_all = require_all
    placed = 0
    for _ in range(8):
        for _ in range(rng.choice([0, 1, 40])):
            placed += 1
            engine.table.add_pod(str(placed), build(constrained(rng, [])), f"n{rng.randrange(70)}")
        if rng.random() < 0.3:
            engine.table.put_node(labelled(rng, rng.randrange(70), zones + 1))
        if rng.random() < 0.3 and len(engine.table) > 1:
            engine.table.remove_node(
                rng.choice([node.name for node in engine.table.nodes if node is not None])
            )
        feasible = np.array([rng.random() < rng.choice([0.0, 0.7, 1.0]) for _ in range(engine.table.size)])
        feasible &= engine.table.alive[: engine.table.size]
        expected, found = spread.normalized_by_node(feasible), spread.normalized_scores(feasible)
        assert found[feasible].tolist() == expected[feasible].tolist()


def test_places_are_given_up_where_there_are_more_of_them_than_nodes() -> None:
    engine = Engine(ALL_FEATURES, ProfileArguments())
    for number in range(200):
        labels = {HOST: f"n{number}", ZONE: f"z{number}"}
        node = {
            "metadata": {"name": f"n{number}", "labels": labels},
            "status": {"allocatable": {"pods": "110"}},
        }
        engine.table.put_node(read(Node, node))
    rng = random.Random(1)
    spread = engine.profile.plugins["PodTopologySpread"].for_class(build(constrained(rng, [HOST, ZONE])))
    bound = spread.cluster_score
    assert isinstance(bound, BoundPodTopologySpread)
    feasible = np.ones(200, np.bool_)
    assert bound._normalized_by_count(feasible) is None
    assert bound.normalized_scores(feasible).tolist() == bound.normalized_by_node(feasible).tolist()
