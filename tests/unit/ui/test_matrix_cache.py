"""A matrix that uses the last one again says what one made anew says, whatever changed in between."""

from __future__ import annotations

import copy
import random

import pytest

from tests.ui.large import node, pod_spec
from weir.explain.engine import Engines
from weir.inputs.certainty import known_gates
from weir.inputs.cluster import ClusterObjects
from weir.inputs.live import ClusterSource
from weir.ui import matrix_cache
from weir.ui.answers import matrix_of
from weir.ui.source import ClusterView

SPREAD = {"maxSkew": 1, "topologyKey": "pool", "whenUnsatisfiable": "DoNotSchedule"}


def cluster(nodes=32, workloads=14):
    """A small fleet by key: nodes, workloads of every sort, some of their pods."""
    found = {f"node {number}": node(number) for number in range(nodes)}
    for number in range(workloads):
        found[f"set {number}"] = stateful_set(number)
        for replica in range(2):
            found[f"pod {number}.{replica}"] = bound(number, replica, f"node-{number * 2 + replica:05}")
    return found


def stateful_set(number):
    spec, labels = copy.deepcopy(pod_spec(number)), {"app": f"app-{number}"}
    spec["containers"][0]["resources"]["requests"]["memory"] = f"{1000 + number}Mi"
    if number % 8 == 5:
        spec["topologySpreadConstraints"] = [{**SPREAD, "labelSelector": {"matchLabels": labels}}]
    if number % 8 == 6:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    if number % 3 == 0:
        del spec["nodeSelector"]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": f"app-{number}", "namespace": "shop", "uid": f"u{number}"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def bound(number, replica, where, cpu=None):
    template = copy.deepcopy(stateful_set(number)["spec"]["template"])
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": f"app-{number}", "uid": f"u{number}"}
    if cpu:
        template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"app-{number}-{replica}",
            "namespace": "shop",
            "ownerReferences": [{**owner, "controller": True}],
            **template["metadata"],
        },
        "spec": {**template["spec"], "nodeName": where},
        "status": {"phase": "Running"},
    }


def changed(found, chance):
    """Return the cluster after something happened in it."""
    found = copy.deepcopy(found)
    nodes = [key for key in found if key.startswith("node")]
    sets = [key for key in found if key.startswith("set")]
    one = found[chance.choice(nodes)]
    match chance.randrange(9):
        case 0 | 1:
            one["spec"]["taints"][0]["value"] = str(chance.randrange(880, 1000))
        case 2:
            one["metadata"]["labels"]["pool"] = chance.choice(["a100", "cpu", "new"])
        case 3:
            one["spec"]["unschedulable"] = not one["spec"].get("unschedulable")
        case 4:
            cpu = chance.choice(["1", "95", "31"])
            number = chance.randrange(len(sets))
            found[f"pod {number}.9"] = bound(number, 9, one["metadata"]["name"], cpu)
        case 5:
            del found[chance.choice([key for key in found if key.startswith("pod")])]
        case 6:
            del found[chance.choice(nodes)]
        case 7:
            spec = found[chance.choice(sets)]["spec"]["template"]["spec"]
            spec["tolerations"][0]["value"] = str(chance.randrange(880, 1000))
        case 8 if found.pop("limits", None) is None:
            limit = {"type": "Container", "max": {"cpu": chance.choice(["1", "2", "8"])}}
            found["limits"] = {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "limits", "namespace": "shop"},
                "spec": {"limits": [limit]},
            }
    return found


@pytest.fixture
def seen(tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("")
    known = known_gates(ClusterSource((str(path),)), {}, ())

    def give(found):
        documents = [("the cluster", each) for each in copy.deepcopy(list(found.values()))]
        return ClusterView(1, ClusterObjects.of(documents, keep_gate=True), known)

    return give


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happened_it_is_the_matrix_made_anew(seen, seed):
    chance = random.Random(seed)
    found = cluster()
    memory, kept = matrix_of(seen(found))[0].memory, 0
    for _ in range(12):
        for _ in range(chance.choice([1, 1, 3])):
            found = changed(found, chance)
        again = matrix_of(seen(found), remembered=memory)[0]
        assert again.document() == matrix_of(seen(found))[0].document()
        memory = again.memory
        kept += len(memory.rows)
    assert kept, "nothing was tried here"


def judged_nodes(monkeypatch, work):
    """Return how many nodes were asked about, over all pods, while *work* was done."""
    asked, ask = [], Engines.__call__

    def spy(self, pod, world, gates):
        asked.append(len(world.nodes))
        return ask(self, pod, world, gates)

    with monkeypatch.context() as patched:
        patched.setattr(Engines, "__call__", spy)
        work()
    return sum(asked)


def test_only_the_groups_of_a_changed_node_are_judged_again(seen, monkeypatch):
    before = cluster()
    memory = matrix_of(seen(before))[0].memory
    after = copy.deepcopy(before)
    after["node 7"]["spec"]["taints"][0]["value"] = "1000"
    world = seen(after)
    anew = judged_nodes(monkeypatch, lambda: matrix_of(world))
    again = judged_nodes(monkeypatch, lambda: matrix_of(world, remembered=memory))
    alone = judged_nodes(monkeypatch, lambda: matrix_of(world, remembered=None))
    assert alone == anew and again < anew / 2


def test_so_many_rows_are_kept_and_no_more(seen, monkeypatch):
    monkeypatch.setattr(matrix_cache, "MOST_ROWS", 5)
    assert len(matrix_of(seen(cluster()))[0].memory.rows) == 5


def limit_range(memory):
    """A LimitRange that every pod of the fleet meets: what its containers are given for a limit."""
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "shop"},
        "spec": {"limits": [{"type": "Container", "default": {"memory": memory}}]},
    }


EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "seen.1", "namespace": "shop"},
    "involvedObject": {"kind": "Node", "name": "node-00001"},
}


def asked_after(seen, before, after):
    """Return what the memory of one cluster says of another with the same groups of nodes."""
    memory = matrix_of(seen(before))[0].memory
    assert memory.rows
    world = seen(after).world
    return memory.after(world, memory.gates, memory.groups)


def test_in_the_same_world_every_group_is_the_one_it_was(seen):
    reuse = asked_after(seen, cluster(12, 4), cluster(12, 4))
    assert list(reuse.same) == list(range(len(reuse.same))) and not reuse.world.nodes


@pytest.mark.parametrize(
    "before, after", [({}, {"limits": limit_range("64Gi")}), ({"limits": limit_range("64Gi")}, {}),
                      ({"limits": limit_range("64Gi")}, {"limits": limit_range("32Gi")})],
)  # fmt: skip
def test_nothing_holds_when_what_a_verdict_reads_beside_nodes_and_pods_changed(seen, before, after):
    assert asked_after(seen, {**cluster(12, 4), **before}, {**cluster(12, 4), **before}) is not None
    assert asked_after(seen, {**cluster(12, 4), **before}, {**cluster(12, 4), **after}) is None


def test_all_holds_when_only_what_no_verdict_reads_changed(seen):
    reuse = asked_after(seen, cluster(12, 4), {**cluster(12, 4), "event": EVENT})
    assert reuse is not None and -1 not in reuse.same


def test_a_pod_that_left_makes_the_group_of_its_node_be_judged_again(seen):
    before = cluster(12, 4)
    after = {key: each for key, each in before.items() if key != "pod 1.0"}
    reuse = asked_after(seen, before, after)
    assert list(reuse.same).count(-1) == 1 and "node-00002" in reuse.world.nodes


def test_nothing_holds_under_other_gates(seen):
    memory = matrix_of(seen(cluster(12, 4)))[0].memory
    other = memory.gates.replace({"TaintTolerationComparisonOperators": not memory.gates.numeric})
    assert memory.after(memory.world, other, memory.groups) is None
