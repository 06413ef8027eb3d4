"""Plans carried out by `weir plan run` on a real control plane keep their goals; a node that fails stops them."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.playground import Playground
from tests.kubernetes.what_if_clusters import Small, _build, _settle, control_plane, workload
from weir.plan.document import Plan, read
from weir.simulation.kubelet.node_classes import FAILED
from weir.whatif.changes import Cordon, Nodes

CLUSTERS = 6
TAINT = "maintenance=1:NoExecute"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


@pytest.fixture(scope="module")
def real(folder: Path) -> Iterator[Playground]:
    with control_plane(folder, "--node-monitor-grace-period=50s") as playground:
        yield playground


def cluster(number: int) -> Small:
    """Return a random cluster of Deployments and StatefulSets, each with two to four pods."""
    rng, name = random.Random(f"plan/{number}"), f"c{number}"
    documents = []
    for each in range(rng.randrange(2, 4)):
        document = workload(rng, name, each)
        while document["kind"] not in ("Deployment", "StatefulSet"):
            document = workload(rng, name, each)
        document["spec"]["template"]["spec"]["nodeSelector"].pop("pool", None)
        document["spec"]["replicas"] = rng.randrange(2, 5)
        documents.append(document)
    return Small(number, Cordon(Nodes(())), documents)


def weir(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weir.cli.main", *words, "--kubeconfig", str(folder / "real.kubeconfig")]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def plan_of(folder: Path, number: int) -> tuple[Path, Plan | None]:
    """Write the plan that taints half the nodes of a cluster; None where there is none."""
    import yaml

    path = folder / f"plan-{number}.yaml"
    words = ("plan", "taint", f"c{number}-n0", f"c{number}-n1", TAINT, "--max-unavailable", "1")
    gates = ("--feature-gates", "AllAlpha=false,TaintTolerationComparisonOperators=true")
    made = weir(folder, *words, *gates, "-o", "yaml")
    assert made.returncode in (0, 1), made.stderr
    if made.returncode:
        return path, None
    path.write_text(made.stdout)
    return path, read(yaml.safe_load(made.stdout))


def running(real: Playground, namespace: str) -> Counter[str]:
    """Return how many pods of each app of a namespace run."""
    return Counter(
        pod["metadata"]["labels"]["app"]
        for pod in real.pods(namespace=namespace)
        if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")
    )


@contextmanager
def fewest_running(real: Playground, namespace: str) -> Iterator[Counter[str]]:
    """Give the fewest pods of each app that were seen to run, looked at all the time."""
    fewest, over = running(real, namespace), threading.Event()

    def look() -> None:
        while not over.is_set():
            now = running(real, namespace)
            for app in fewest:
                fewest[app] = min(fewest[app], now[app])
            time.sleep(0.1)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield fewest
    finally:
        over.set()
        watcher.join()


def nodes_of(real: Playground, namespace: str) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in real.pods(namespace=namespace) if pod["spec"].get("nodeName")}


def test_plans_keep_their_goals_on_random_clusters(real: Playground, folder: Path) -> None:
    clusters = [cluster(number) for number in range(CLUSTERS)]
    for each in clusters:
        _build(real, each)
    _settle(real, clusters)
    carried_out = 0
    for each in clusters:
        path, plan = plan_of(folder, each.number)
        if plan is None:
            continue
        sizes = running(real, each.namespace)
        with fewest_running(real, each.namespace) as fewest:
            done = weir(folder, "plan", "run", str(path), "--yes")
        assert done.returncode == 0, (each.number, done.stderr)
        lost: dict[str, Any] = {
            app: sizes[app] - fewest[app] for app in sizes if sizes[app] - fewest[app] > 1
        }
        assert lost == {}, (each.number, done.stderr)
        assert running(real, each.namespace) == sizes
        assert not nodes_of(real, each.namespace) & {f"{each.namespace}-n0", f"{each.namespace}-n1"}
        carried_out += 1
    assert carried_out >= CLUSTERS // 2


def test_room_that_is_gone_stops_the_plan_before_its_wave(real: Playground, folder: Path) -> None:
    each = cluster(CLUSTERS)
    # a pod on each of the four nodes
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": each.documents[0]["spec"]["selector"],
    }
    each.documents[0]["spec"]["replicas"] = 4
    each.documents[0]["spec"]["template"]["spec"]["topologySpreadConstraints"] = [spread]
    _build(real, each)
    _settle(real, [each])
    path, plan = plan_of(folder, each.number)
    assert plan is not None
    assert plan.waves[0].evictions
    # what the first wave evicts would wait for a node
    for name in (f"{each.namespace}-n2", f"{each.namespace}-n3"):
        real.patch("Node", name, {"spec": {"unschedulable": True}})
    before = running(real, each.namespace)
    done = weir(folder, "plan", "run", str(path), "--yes")
    assert done.returncode == 1, done.stderr
    assert "wave 1 was not made; the cluster is not as foreseen" in done.stderr
    assert "without a node" in done.stderr
    assert running(real, each.namespace) == before


def is_ready(real: Playground, node: str) -> bool:
    document = real.get("Node", node, None)
    assert document is not None
    conditions = document["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def ready_pods(real: Playground, namespace: str) -> int:
    return sum(
        each["type"] == "Ready" and each["status"] == "True"
        for pod in real.pods(namespace=namespace)
        for each in pod["status"].get("conditions") or ()
    )


def test_a_node_that_fails_between_waves_stops_the_plan_until_it_is_back(
    real: Playground, folder: Path
) -> None:
    each = cluster(CLUSTERS + 1)
    labels = {"app": "apart"}
    apart = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}]
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "nodeSelector": {"cluster": each.namespace},
            "containers": [{"name": "c", "image": "app:v1"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "apart"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    each.documents[:] = []
    _build(real, each)
    old, new = ([f"{each.namespace}-n{number}" for number in pair] for pair in ((0, 1), (2, 3)))
    for name in new:
        real.patch("Node", name, {"spec": {"unschedulable": True}})
    real.create(deployment, each.namespace)
    real.wait("both pods on the old nodes", lambda: ready_pods(real, each.namespace) == 2)
    for name in new:
        real.patch("Node", name, {"spec": {"unschedulable": None}})
    path, plan = plan_of(folder, each.number)
    assert plan is not None and len(plan.waves) == 2

    command = [sys.executable, "-m", "weir.cli.main", "plan", "run", str(path), "--yes"]
    command += ["--kubeconfig", str(folder / "real.kubeconfig")]
    with (folder / "run.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        journal = path.with_name(f"{path.name}.journal")
        real.wait("the first wave", lambda: journal.exists() and "begun" in journal.read_text())
        process.send_signal(signal.SIGINT)  # it stops after the wave
        assert process.wait(120) == 130, (folder / "run.log").read_text()
    (moved_to,) = nodes_of(real, each.namespace) - set(old)
    real.patch("Node", moved_to, {"metadata": {"annotations": {FAILED: "true"}}})
    real.wait("the node to be lost", lambda: not is_ready(real, moved_to), 120)
    real.wait("its pod to be unready", lambda: ready_pods(real, each.namespace) == 1, 30)
    stopped = weir(folder, "plan", "run", str(path), "--resume", "--yes")
    assert stopped.returncode == 1, stopped.stderr
    assert "wave 2 was not made; the cluster is not as foreseen" in stopped.stderr
    assert "2 of 2 pods unavailable, 1 may be; 1 is already" in stopped.stderr
    assert ready_pods(real, each.namespace) == 1

    real.patch("Node", moved_to, {"metadata": {"annotations": {FAILED: None}}})
    real.wait("the node to be back", lambda: is_ready(real, moved_to), 60)
    real.wait("its pod to be ready", lambda: ready_pods(real, each.namespace) == 2, 60)
    done = weir(folder, "plan", "run", str(path), "--resume", "--yes")
    assert done.returncode == 0, done.stderr
    assert nodes_of(real, each.namespace) == set(new)
