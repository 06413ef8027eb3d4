"""The columnar scheduler decides as the plain loop does: same feasible nodes, reasons, scores and choice."""

import random

import msgspec
import pytest

from tests.reference.scheduler import Cluster
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine, Placement

pytestmark = pytest.mark.proves("5721-38")

ZONES = ["a", "b", "c"]
APPS = ["web", "db", "cache"]


def random_node(rng, name):
    labels = {"kubernetes.io/hostname": name}
    if rng.random() < 0.9:
        labels["topology.kubernetes.io/zone"] = rng.choice(ZONES)
    if rng.random() < 0.5:
        labels["gen"] = str(rng.randrange(5))
    if rng.random() < 0.3:
        labels["kernel"] = rng.choice(["5.4.0", "5.15.0", "5.15.0-78-generic", "6.1", "odd"])
    taints = [
        {"key": key, "value": value, "effect": rng.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])}
        for key, value in rng.sample(
            [("sla", str(rng.randrange(1000))), ("gpu", "a100"), ("kernel", "5.15.1"), ("flaky", "")],
            rng.choice([0, 0, 1, 2]),
        )
    ]
    alloc = {
        "cpu": str(rng.choice([1, 2, 4])),
        "memory": rng.choice(["1Gi", "4Gi"]),
        "pods": str(rng.choice([2, 5, 110])),
    }
    if rng.random() < 0.2:
        alloc["nvidia.com/gpu"] = str(rng.randrange(1, 5))
    if rng.random() < 0.05:
        del alloc[rng.choice(["cpu", "memory"])]
    images = [
        {"names": [f"img-{i}:v1"], "sizeBytes": (i + 1) * 271_828_182} for i in range(3) if rng.random() < 0.3
    ]
    spec = {"taints": taints}
    if rng.random() < 0.1:
        spec["unschedulable"] = True
    return read(Node, {"metadata": {"name": name, "labels": labels}, "spec": spec,
                       "status": {"allocatable": alloc, "images": images}})  # fmt: skip


def random_toleration(rng):
    return rng.choice(
        [
            {"key": "sla", "operator": rng.choice(["Gt", "Lt"]), "value": str(rng.randrange(1000))},
            {"key": "gpu", "operator": "Exists"},
            {
                "key": "kernel",
                "operator": "SemverGt",
                "value": "5.4.0",
                "effect": rng.choice(["", "NoSchedule"]),
            },
            {"key": "flaky", "operator": "Equal"},
            {"operator": "Exists", "effect": "PreferNoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        ]
    )


def random_term(rng):
    term = {
        "topologyKey": rng.choice(["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
        "labelSelector": {"matchLabels": {"app": rng.choice(APPS)}},
    }
    if rng.random() < 0.2:
        term["namespaceSelector"] = rng.choice([{}, {"matchLabels": {"team": "x"}}])
    if rng.random() < 0.1:
        del term["labelSelector"]
    return term


def random_affinity(rng, domains):
    affinity = {}
    if rng.random() < 0.3:
        term = {"matchExpressions": [rng.choice([
            {"key": "gen", "operator": "Gt", "values": [str(rng.randrange(4))]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": rng.sample(ZONES, 2)},
            {"key": "kernel", "operator": "SemverLt", "values": ["5.15.0"]},
            {"key": "gen", "operator": "Exists"}])]}  # fmt: skip
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    if rng.random() < 0.3:
        affinity.setdefault("nodeAffinity", {})["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.randrange(1, 101), "preference": {"matchExpressions": [
                {"key": "gen", "operator": "Exists"}]}},
            {"weight": rng.randrange(1, 101), "preference": {"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}}]  # fmt: skip
    for which in ("podAffinity", "podAntiAffinity") if domains else ():
        if rng.random() < 0.3:
            affinity.setdefault(which, {})["requiredDuringSchedulingIgnoredDuringExecution"] = [
                random_term(rng)
            ]
        if rng.random() < 0.3:
            affinity.setdefault(which, {})["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.randrange(1, 101), "podAffinityTerm": random_term(rng)}
            ]
    return affinity


def random_pod(rng, name, domains):
    requests = {}
    if rng.random() < 0.7:
        requests["cpu"] = rng.choice(["100m", "250m", "1"])
    if rng.random() < 0.6:
        requests["memory"] = rng.choice(["64Mi", "1Gi", "100M"])
    if rng.random() < 0.1:
        requests["nvidia.com/gpu"] = "1"
    container = {"name": "c", "image": f"img-{rng.randrange(4)}:v1", "resources": {"requests": requests}}
    if rng.random() < 0.1:
        container["ports"] = [{"containerPort": 80, "hostPort": rng.choice([80, 81]),
                               "hostIP": rng.choice(["", "10.0.0.1", "10.0.0.2"])}]  # fmt: skip
    spec = {
        "containers": [container],
        "tolerations": [random_toleration(rng) for _ in range(rng.randrange(3))],
        "affinity": random_affinity(rng, domains),
    }
    if rng.random() < 0.2:
        spec["nodeSelector"] = {"gen": str(rng.randrange(5))}
    if domains and rng.random() < 0.5:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": rng.randrange(1, 3),
                "topologyKey": rng.choice(["topology.kubernetes.io/zone", "kubernetes.io/hostname", "gen"]),
                "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": {"matchLabels": {"app": rng.choice(APPS)}},
                **({"nodeTaintsPolicy": "Honor"} if rng.random() < 0.4 else {}),
                **({"nodeAffinityPolicy": "Ignore"} if rng.random() < 0.3 else {}),
            }
            for _ in range(rng.randrange(1, 3))
        ]
        for constraint in spec["topologySpreadConstraints"]:
            if constraint["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.3:
                constraint["minDomains"] = rng.randrange(1, 5)
    metadata = {"name": name, "namespace": rng.choice(["x", "y"]), "labels": {"app": rng.choice(APPS)}}
    return read(Pod, {"metadata": metadata, "spec": spec})


NAMESPACES = {"x": {"team": "x"}, "y": {}}


@pytest.mark.proves("5471-70")
@pytest.mark.parametrize("domains", [False, True], ids=["nodes", "domains"])
@pytest.mark.parametrize("seed", range(60))
def test_every_decision_of_a_busy_cluster_equals_the_plain_loop(seed, domains):
    rng = random.Random(seed)
    plain, engine = Cluster(namespaces=NAMESPACES), Engine(ALL_FEATURES, namespaces=NAMESPACES)
    kinds = [random_pod(rng, "kind", domains) for _ in range(rng.randrange(2, 8))]

    def put(node):
        plain.nodes[node.name] = node
        plain.pods.setdefault(node.name, [])
        engine.table.put_node(node)

    for number in range(rng.randrange(1, 12)):
        put(random_node(rng, f"n{number}"))
    bound = {}
    for step in range(25):
        event = rng.random()
        if event < 0.1:
            put(random_node(rng, f"n{rng.randrange(14)}"))
        elif event < 0.15 and len(plain.nodes) > 1:
            name = rng.choice(list(plain.nodes))
            del plain.nodes[name]
            for key in [key for key, (where, _) in bound.items() if where == name]:
                engine.forget(key)
                del bound[key]
            del plain.pods[name]
            engine.table.remove_node(name)
        elif event < 0.25 and bound:
            key = rng.choice(list(bound))
            where, gone = bound.pop(key)
            plain.pods[where] = [pod for pod in plain.pods[where] if pod is not gone]
            engine.forget(key)
        pod = rng.choice(kinds)
        node, statuses, totals = plain.decide(pod)
        assert {n: (s.plugin, s.code.value, s.reasons) for n, s in engine.statuses(pod).items()} == statuses
        assert engine.scores(pod) == totals
        answer = engine.place(pod)
        assert (answer.node if isinstance(answer, Placement) else None) == node
        if node is not None:
            key = f"pod-{step}"
            placed = msgspec.structs.replace(pod)
            bound[key] = (node, placed)
            plain.pods[node].append(placed)
            engine.assume(key, placed, node)


def plain_pod(rng, name):
    """A pod that uses none of the new operators, or None when the random one does."""
    pod = random_pod(rng, name, True)
    text = msgspec.json.encode(pod).decode()
    return None if any(word in text for word in ('"Gt"', '"Lt"', "Semver", "expression")) else pod


@pytest.mark.proves("5471-53", "5471-99", "5721-105", "5500-81")
@pytest.mark.parametrize("seed", range(20))
def test_with_the_gates_on_pods_without_the_operators_are_decided_as_before(seed):
    rng = random.Random(seed)
    on, off = (Engine(gates, namespaces=NAMESPACES) for gates in (ALL_FEATURES, KUBERNETES_DEFAULTS))
    for number in range(rng.randrange(3, 12)):
        node = random_node(rng, f"n{number}")
        for engine in (on, off):
            engine.table.put_node(node)
    pods = [pod for number in range(20) if (pod := plain_pod(rng, f"p{number}")) is not None]
    assert len(pods) > 3
    for pod in pods:
        assert (on.statuses(pod), on.scores(pod)) == (off.statuses(pod), off.scores(pod))
