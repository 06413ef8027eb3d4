"""A pod that names its node gets the answer of that node, and no other node is judged."""

from __future__ import annotations

import random
from typing import Any

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine, Placement


def pod(rng: random.Random, name: str, node: str = "") -> Pod:
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": rng.choice(["500m", "2"])}}}],
        "tolerations": [{"key": "a", "operator": "Exists"}] if rng.random() < 0.5 else [],
    }
    if rng.random() < 0.4:
        constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**constraint, "labelSelector": {"matchLabels": {"app": "x"}}}]
    if node:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    labels = {"app": rng.choice("xy")}
    return read(Pod, {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec})


@pytest.mark.parametrize("seed", range(30))
def test_a_pod_for_one_node_gets_that_nodes_answer(seed: int) -> None:
    rng = random.Random(seed)
    engine = Engine(ALL_FEATURES)
    for number in range(6):
        taints = [{"key": "a", "effect": "NoSchedule"}] if rng.random() < 0.3 else []
        status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
        metadata = {"name": f"n-{number}", "labels": {"zone": f"z-{number % 3}"}}
        node = {"metadata": metadata, "spec": {"taints": taints}, "status": status}
        engine.table.put_node(read(Node, node))
    for number in range(25):
        name = f"n-{rng.randrange(7)}"  # the last is none
        wanted = pod(rng, f"p-{number}", name)
        found = engine.place(wanted)
        judged = engine.feasibility(wanted).asked
        if name == "n-6":
            assert not isinstance(found, Placement)
            continue
        assert judged == 0
        refused = engine.statuses(wanted)
        if name in refused:
            assert not isinstance(found, Placement)
            assert found.statuses == {name: refused[name]}
        else:
            assert (found.node, found.feasible) == (name, 1)
            engine.assume(wanted.key, wanted, name)
