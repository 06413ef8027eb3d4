"""The columns of nodes: values that no node has any more are forgotten, and what reads them notices."""

import random
from collections import Counter

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import SeatedPods, build
from weir.scheduler.pod_counts import PodCounts

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}
HOSTNAME = "kubernetes.io/hostname"


def node(name, **labels):
    labels = {HOSTNAME: name, **labels}
    return read(Node, {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": ROOM}})


def test_nodes_that_come_and_go_leave_no_values_behind():
    table = NodeTable()
    table.label(HOSTNAME)
    for number in range(5000):
        table.put_node(node(f"n{number}"))
        if number >= 10:
            table.remove_node(f"n{number - 10}")
    column = table.label(HOSTNAME)
    assert len(column.values) <= 256
    row = table.row_of["n4999"]
    assert column.values[column.ids[row]] == "n4999" and column.numbers["n4999"] == column.ids[row]


def test_labels_asked_about_once_do_not_add_up():
    table = NodeTable()
    table.put_node(node("a", rack="r1"))
    for number in range(2000):
        table.label(f"key-{number}")
    assert len(table.labels) <= 256
    table.put_node(node("a", rack="r2"))
    assert table.label("rack").values == ["r2"]


def selecting(key, operator, *values):
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    return read(Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": {"affinity": affinity}})


def spread(app):
    constraint = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule",
                  "labelSelector": {"matchLabels": {"app": app}}}  # fmt: skip
    metadata = {"name": "p", "namespace": "x", "labels": {"app": app}}
    return read(Pod, {"metadata": metadata, "spec": {"topologySpreadConstraints": [constraint]}})


@pytest.mark.parametrize("seed", range(6))
def test_forgetting_values_and_columns_changes_no_answer(seed, monkeypatch):
    monkeypatch.setattr("weir.scheduler.node_columns.LEAST_INTERNED", 3)
    monkeypatch.setattr("weir.scheduler.node_table.LEAST_INTERNED", 3)
    monkeypatch.setattr("weir.scheduler.node_table._MOST_LABELS", 2)
    rng = random.Random(seed)
    pods = [selecting("gen", "Gt", "40"), selecting("gen", "NotIn", "7", "8"), selecting("zone", "In", "z1"),
            spread("web"), spread("db")]  # fmt: skip
    engine, nodes, placed = Engine(ALL_FEATURES), {}, {}
    for change in range(200):
        name = f"n{rng.randrange(6)}-{change // 50}"
        gone = next((each for each in nodes if each not in placed.values() and rng.random() < 0.1), None)
        if gone:
            engine.table.remove_node(gone)
            del nodes[gone]
        nodes[name] = node(name, gen=str(rng.randrange(90)), zone=f"z{rng.randrange(3)}")
        engine.table.put_node(nodes[name])
        asked = rng.choice(pods)
        fresh = Engine(ALL_FEATURES)
        for row in engine.table.ordered.tolist():
            fresh.table.put_node(engine.table.nodes[row])
        for key, where in placed.items():
            fresh.assume(key, spread(key.split("/")[0]), where)
        assert engine.statuses(asked) == fresh.statuses(asked)
        assert engine.scores(asked) == fresh.scores(asked)
        if rng.random() < 0.3:
            key, app = f"web/{change}", "web"
            placed[key] = name
            engine.assume(key, spread(app), name)


def asking(resource):
    containers = [{"name": "c", "image": "i", "resources": {"requests": {resource: "1"}}}]
    return read(Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": {"containers": containers}})


@pytest.mark.parametrize("seed", range(4))
def test_forgetting_resources_changes_no_answer(seed, monkeypatch):
    monkeypatch.setattr("weir.scheduler.node_table._MOST_RESOURCES", 2)
    rng = random.Random(seed)
    names = [f"example.com/{letter}" for letter in "abcde"]
    engine, placed = Engine(ALL_FEATURES), {}
    for change in range(60):
        offered = {name: str(rng.randrange(3)) for name in rng.sample(names, 3)}
        room = {"cpu": "4", "memory": "8Gi", "pods": "110", **offered}
        name = f"n{rng.randrange(4)}"
        engine.table.put_node(read(Node, {"metadata": {"name": name}, "status": {"allocatable": room}}))
        fresh = Engine(ALL_FEATURES)
        for row in engine.table.ordered.tolist():
            fresh.table.put_node(engine.table.nodes[row])
        for key, (resource, where) in placed.items():
            fresh.assume(key, asking(resource), where)
        asked = asking(rng.choice(names))
        assert engine.statuses(asked) == fresh.statuses(asked)
        assert len(engine.table.resources) <= 2
        key, resource = f"x/{change}", rng.choice(names)
        placed[key] = (resource, name)
        engine.assume(key, asking(resource), name)


def test_resources_that_pods_make_up_do_not_add_up():
    engine = Engine(ALL_FEATURES)
    engine.table.put_node(node("a"))
    for number in range(1000):
        engine.statuses(asking(f"example.com/r{number}"))
    assert len(engine.table.resources) <= 256


@pytest.mark.parametrize("amount", [2**63, 10**30, "9223372036854775807Ei"])
def test_amounts_beyond_64_bits_are_counted_as_very_many(amount):
    engine = Engine(ALL_FEATURES)
    large = {"cpu": amount, "memory": amount, "pods": "110", "example.com/gpu": amount}
    engine.table.put_node(read(Node, {"metadata": {"name": "n"}, "status": {"allocatable": large}}))
    resources = {"requests": {name: amount for name in large if name != "pods"}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    pod = read(Pod, {"metadata": {"name": "p"}, "spec": spec})
    assert isinstance(engine.place(pod), Placement)
    for number in range(200):
        engine.assume(f"ns/p{number}", pod, "n")
    assert not isinstance(engine.place(pod), Placement)


def _of_chance(rng, number):
    requests = {"cpu": rng.choice(["0", "100m", "1"]), "memory": "1Gi"}
    if rng.random() < 0.3:
        requests[rng.choice(["example.com/gpu", "example.com/nic"])] = str(rng.randrange(3))
    ports = [{"containerPort": 80, "hostPort": 8000 + number}] if rng.random() < 0.3 else []
    container = {"name": "c", "resources": {"requests": requests}, "ports": ports}
    metadata = {"name": f"p{number}", "namespace": rng.choice("xy"), "labels": {"app": rng.choice("ab")}}
    return build(read(Pod, {"metadata": metadata, "spec": {"containers": [container]}}))


@pytest.mark.parametrize("seed", range(20))
def test_expected_pods_count_as_if_each_were_added_in_every_table(seed):
    rng = random.Random(seed)
    expected = {f"n{row}": SeatedPods() for row in range(4)}
    for number in range(30):
        expected[f"n{rng.randrange(4)}"][f"x/p{number}"] = _of_chance(rng, number)

    def described(table):
        counts = PodCounts(table)
        selected = counts.selected("a", lambda pod: pod.labels["app"] == "a", ["x"])
        resources = {name: column.used[: table.size].tolist() for name, column in table.resources.items()}
        kept = {row: ports for row, ports in table.ports.items() if ports}
        rows = selected.on_rows(table).tolist()
        return table.state[:, : table.size].tolist(), table.pods, table.row_of_pod, resources, kept, rows

    one_by_one = NodeTable()
    tables = [one_by_one, NodeTable(), NodeTable()]
    heard = [Counter(), Counter(), Counter()]
    for table, seen in zip(tables, heard, strict=True):
        table.listen(lambda row, pod, sign, seen=seen: seen.update({(row, pod): sign}))
        for name, pods in expected.items():
            if table is not one_by_one:
                table.expect_pods(name, pods)
        for name, pods in expected.items():
            table.put_node(node(name))
            for key, pod in pods.items() if table is one_by_one else ():
                table.add_pod(key, pod, name)
    assert described(tables[1]) == described(tables[2]) == described(one_by_one)
    assert heard[0] == heard[1] == heard[2]
    for table in tables:
        for key in sorted(table.row_of_pod)[::2]:
            table.remove_pod(key)
    assert described(tables[1]) == described(tables[2]) == described(one_by_one)
