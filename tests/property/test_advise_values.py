"""In random clusters: nodes for another value of a toleration are those that the engine finds for the whole pod."""

from __future__ import annotations

import random
from typing import Any

import pytest

from weir.advise.question import Cluster, Question
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES
from weir.world import World

VALUES = {"sla": ("5", "7", "007", "high", "-3"), "driver": ("1.2.0", "v1.10.0", "2.0.0-rc.1", "x")}
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def node(rng: random.Random, number: int) -> dict[str, Any]:
    taints = [
        {"key": key, "value": rng.choice(values), "effect": rng.choice(EFFECTS)}
        for key, values in VALUES.items()
        if rng.random() < 0.6
    ]
    return {
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": {"zone": f"z{number % 3}"}},
        "spec": {"taints": taints, "unschedulable": rng.random() < 0.2},
        "status": {"allocatable": {"cpu": rng.choice(["1", "2"]), "memory": "1Gi", "pods": "3"}},
    }


def tolerations(rng: random.Random) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for _ in range(rng.randrange(1, 4)):
        key = rng.choice(list(VALUES))
        operator = rng.choice(["Gt", "Lt"] if key == "sla" else ["SemverGt", "SemverLt"])
        value = rng.choice(["5", "6", "100"] if key == "sla" else ["1.2.0", "1.3.0", "2.0.0"])
        entry = {"key": key, "operator": operator, "value": value, "effect": rng.choice(("", *EFFECTS))}
        if entry["effect"] == "NoExecute" and rng.random() < 0.5:
            entry["tolerationSeconds"] = 30
        entries.append(entry)
    if rng.random() < 0.3:
        entries.append({"expression": rng.choice(["taint.value == ''", "taint.effect == 'NoExecute'"])})
    if rng.random() < 0.2:
        entries.append(dict(entries[0]))
    return entries


def workload(rng: random.Random) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec: dict[str, Any] = {"containers": [container], "tolerations": tolerations(rng)}
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    if rng.random() < 0.4:
        policy = rng.choice([{}, {"nodeTaintsPolicy": "Honor"}, {"nodeTaintsPolicy": "Ignore"}])
        skew = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**skew, **selector, **policy}]
    if rng.random() < 0.2:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector]}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    metadata = {"name": "web", "namespace": "default"}
    body = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    kind = rng.choice(["Deployment", "DaemonSet"])
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


def others(rng: random.Random, nodes: int) -> list[dict[str, Any]]:
    return [
        {
            "kind": "Pod",
            "metadata": {"name": f"p{number}", "labels": {"app": rng.choice(["web", "db"])}},
            "spec": {
                "nodeName": f"n{rng.randrange(nodes)}",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
            "status": {"phase": "Running"},
        }
        for number in range(rng.randrange(4))
    ]


@pytest.mark.parametrize("seed", range(80))
def test_another_value_gives_the_nodes_that_the_engine_gives(seed):
    rng = random.Random(seed)
    nodes = [node(rng, number) for number in range(rng.randrange(1, 7))]
    world = World.of([*nodes, *others(rng, len(nodes))])
    question = Question(Subject.of(workload(rng)), Cluster(world, ALL_FEATURES))
    assert question.fitting() == question.fitting(question.with_tolerations(question.written))
    for index, entry in enumerate(question.written):
        if entry.get("operator") in ("Gt", "Lt", "SemverGt", "SemverLt"):
            numbers = ("4", "5", "6", "99") if entry["key"] == "sla" else ("1.1.9", "1.2.0", "9.0.0")
            for value in numbers:
                rows = question.fitting_with(index, value)
                assert question.node_names(rows) == question.fitting(question.with_value(index, value))
