"""Topology spread scores worked out per domain are those worked out per node."""

from __future__ import annotations

import random

import numpy as np
import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.plugins.pod_topology_spread import BoundPodTopologySpread
from weir.scheduler.pod_class import build
from weir.scheduler.profile_arguments import ProfileArguments

ZONE = "topology.kubernetes.io/zone"


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
