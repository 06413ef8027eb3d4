"""Small random clusters side by side in one real control plane: each foreseen by what-if, then changed, then compared.

Each has four nodes of its own, no two alike, that only its pods may run on, and a namespace of its own; so many live at
once without touching each other, and the waiting is shared. `python -m tests.kubernetes.what_if_clusters 50` plays as
many by hand and prints what came out differently. Where a place is a matter of chance (two nodes of the same score),
the real outcome must be one of those that what-if foresees for some seed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import urllib3

from tests.kubernetes.playground import Playground
from tests.kubernetes.programs import controller_manager, scheduler
from tests.kubernetes.real_server import real_server
from weir.client.snapshot import VERSIONS, WHAT_IF
from weir.gates import Gates
from weir.simulation.cluster import Cluster
from weir.taints.notation import parse_taint
from weir.whatif.changes import Change, Cordon, DeleteNode, Drain, Label, Nodes, Scale, Taint, TaintEdit
from weir.whatif.forecast import Forecast
from weir.whatif.run import WhatIfOptions, what_if

Document = dict[str, Any]
Ends = Counter[tuple[str, str, str]]
GATES = Gates.of({"TaintTolerationComparisonOperators": True})
SEEDS = 6
#: How far is looked: long enough for whatever goes in circles to be seen as that.
AHEAD_SECONDS = 120.0
#: Nothing in these clusters is granted more time than this, and a busy machine may be late.
LONGEST_SECONDS = 9.0
#: How long Kubernetes takes to remove the pods of a node that is gone: two looks, and 40 s in between.
ORPHANED_SECONDS = 85.0
LATE_SECONDS = 6.0
SETTLE_SECONDS = 180.0


@dataclass
class Small:
    """One cluster: what is in it, what is done to it, and what became of it."""

    number: int
    change: Change
    documents: list[Document]
    foreseen: list[tuple[Forecast, Ends]] = field(default_factory=list)
    happened: Ends = field(default_factory=Counter)
    there: dict[str, str] = field(default_factory=dict)  #: pods before the change, by uid

    @property
    def namespace(self) -> str:
        return f"c{self.number}"

    def differences(self, gone: set[str]) -> Iterator[str]:
        """Yield what came out otherwise than foreseen."""
        if any(forecast.circles for forecast, _ in self.foreseen):
            if not gone:
                yield "foreseen to go in circles, and nobody left"
            return
        left = {name for uid, name in self.there.items() if uid in gone}
        wanted = {one.pod.partition("/")[2] for one in self.foreseen[0][0].leaving}
        if left != wanted:
            yield f"left: {sorted(left)}, foreseen: {sorted(wanted)}"
        if self.happened not in [ends for _, ends in self.foreseen]:
            ends = self.foreseen[0][1]
            yield f"only in reality {dict(self.happened - ends)}, only foreseen {dict(ends - self.happened)}"


def tolerations(rng: random.Random) -> list[Document]:
    found = []
    for _ in range(rng.randrange(3)):
        entry: Document = {
            "key": "sla",
            "operator": rng.choice(["Gt", "Lt"]),
            "value": str(rng.randrange(3) * 400),
        }
        if rng.random() < 0.5:
            entry |= {"effect": "NoExecute"}
            if rng.random() < 0.5:
                entry |= {"tolerationSeconds": rng.choice([0, 4, 9])}
        found.append(entry)
    return found


def workload(rng: random.Random, cluster: str, number: int) -> Document:
    kind = rng.choice(["ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"])
    name = f"w{number}"
    labels = {"app": name}
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": rng.choice(["100m", "500m", "1"])}},
    }
    spec: Document = {
        "containers": [container],
        "tolerations": tolerations(rng),
        "nodeSelector": {"cluster": cluster},
        "terminationGracePeriodSeconds": 1,
    }
    if rng.random() < 0.3:
        spec["nodeSelector"]["pool"] = rng.choice(["x", "y"])
    whole: Document = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    if kind != "DaemonSet":
        whole["replicas"] = rng.randrange(1, 4)
    if kind == "StatefulSet":
        whole["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": whole}


def small(number: int, seed: int, deletes: bool) -> Small:
    """Return cluster *number* of a run: its workloads, and the change that is made to it.

    Unless it *deletes* nodes, which takes long to show, it drains those instead.
    """
    rng, name = random.Random(f"{seed}/{number}"), f"c{number}"
    documents = [workload(rng, name, each) for each in range(rng.randrange(2, 5))]
    steady = workload(random.Random(1), name, 9) | {"kind": "Deployment", "metadata": {"name": "steady"}}
    steady["spec"] = {"replicas": 2, **{key: steady["spec"][key] for key in ("selector", "template")}}
    where = Nodes((f"{name}-n{rng.randrange(2)}",))
    value = rng.randrange(900)

    def tainted(effect: str) -> Taint:
        return Taint(where, (TaintEdit(parse_taint(f"sla={value}:{effect}")),))

    made = rng.choice(
        [
            tainted("NoExecute"),
            tainted("NoExecute"),
            tainted("NoExecute"),
            tainted("NoSchedule"),
            Cordon(where),
            Drain(where),
            DeleteNode(where) if deletes else Drain(where),
            Label(where, (("pool", "y"),)),
            Scale("deploy/steady", rng.randrange(5), name),
        ]
    )
    return Small(number, made, [*documents, steady])


@contextmanager
def control_plane(folder: Path, *more: str) -> Iterator[Playground]:
    """Give a real API server, scheduler and controller manager, with *more* options, and weir's simulated kubelets."""
    with ExitStack() as stack:
        kubeconfig = stack.enter_context(real_server(folder))
        stack.enter_context(scheduler(folder, kubeconfig))
        stack.enter_context(controller_manager(folder, kubeconfig, *more))
        command = [sys.executable, "-m", "weir.cli.main", "kubelet", "--kubeconfig", str(kubeconfig)]
        command += ["--feature-gates", "AllAlpha=false,TaintTolerationComparisonOperators=true"]
        with (folder / "kubelet.log").open("w") as log:
            kubelets = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ})
        stack.callback(kubelets.wait, 20)
        stack.callback(kubelets.terminate)
        yield Playground(kubeconfig)


def play(
    folder: Path, count: int, seed: int = 0, *, deletes: bool = False
) -> Iterator[tuple[Small, list[str]]]:
    """Let *count* clusters live, foresee and make their changes, and yield each with what came out differently."""
    clusters = [small(number, seed, deletes) for number in range(count)]
    with control_plane(folder) as real:
        for each in clusters:
            _build(real, each)
        _settle(real, clusters)
        held = _snapshot(real)
        now = datetime.now(UTC)
        for each in clusters:
            _foresee(each, held, now)
        before = real.pods()
        for each in clusters:
            each.there = {
                pod["metadata"]["uid"]: pod["metadata"]["name"]
                for pod in before
                if pod["metadata"]["namespace"] == each.namespace
            }
            _change(real, each)
        time.sleep((ORPHANED_SECONDS if deletes else LONGEST_SECONDS) + LATE_SECONDS)
        _settle(
            real, [each for each in clusters if not any(f.circles for f, _ in each.foreseen)], steady=True
        )
        after = real.pods()
        living = {pod["metadata"]["uid"] for pod in after if not pod["metadata"].get("deletionTimestamp")}
        for each in clusters:
            each.happened = ends(pod for pod in after if pod["metadata"]["namespace"] == each.namespace)
            yield each, list(each.differences(set(each.there) - living))


def _build(real: Playground, each: Small) -> None:
    real.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each.namespace}})
    for number, cpu in enumerate((6, 10, 15, 23)):
        amounts = {"cpu": str(cpu), "memory": f"{3 * cpu}Gi", "pods": "110"}
        name = f"{each.namespace}-n{number}"
        labels = {"kubernetes.io/hostname": name, "cluster": each.namespace, "pool": "xy"[number % 2]}
        labels |= {"weir.dev/simulated": "true"}
        real.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"capacity": amounts, "allocatable": amounts},
            }
        )
    for document in each.documents:
        real.create(document, each.namespace)


def _settle(real: Playground, clusters: list[Small], *, steady: bool = False) -> None:
    """Wait until every pod has been left alone for two looks: running, or waiting without a node."""
    names, seen = {each.namespace for each in clusters}, None
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        pods = [pod for pod in real.pods() if pod["metadata"]["namespace"] in names]
        found = sorted(
            (pod["metadata"]["uid"], pod["spec"].get("nodeName") or "", pod["status"].get("phase") or "")
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
        )
        moving = any(
            pod["metadata"].get("deletionTimestamp")
            or (pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending")
            or not (pod["spec"].get("nodeName") or pod["status"].get("conditions"))
            for pod in pods
        )
        whole = steady or {pod["metadata"]["namespace"] for pod in pods} == names
        if found == seen and not moving and whole:
            return
        if time.monotonic() > deadline and steady:
            return  # where it still moves shows in the comparison
        assert time.monotonic() < deadline, "the clusters do not come to rest"
        seen = found
        time.sleep(3.0)


def _snapshot(real: Playground) -> list[Document]:
    found = []
    for kind in WHAT_IF:
        if kind not in (
            "DeviceTaintRule",
            "ResourceSlice",
            "ResourceClaim",
            "DeviceClass",
            "ResourceClaimTemplate",
        ):
            resource = real._dynamic.resources.get(api_version=VERSIONS[kind][0], kind=kind)
            found += [
                {"apiVersion": VERSIONS[kind][0], "kind": kind, **each}
                for each in resource.get().to_dict()["items"]
            ]
    return found


def _foresee(each: Small, held: list[Document], now: datetime) -> None:
    own = [d for d in held if _of(d) in ("", each.namespace)]
    for seed in range(SEEDS):
        copies: list[Ends] = []

        def keep(copy: Cluster, copies: list[Ends] = copies) -> None:
            copies.append(ends(copy.list("Pod")))

        forecast = what_if(
            own, [each.change], WhatIfOptions(GATES, now, AHEAD_SECONDS, seed), at_the_end=keep
        )
        each.foreseen.append((forecast, copies[0]))


def _of(document: Document) -> str:
    """Return the cluster that an object belongs to; nothing for what all of them have."""
    metadata = document["metadata"]
    if document["kind"] == "Node":
        return str((metadata.get("labels") or {}).get("cluster", ""))
    if document["kind"] == "Namespace":
        return metadata["name"] if metadata["name"].startswith("c") else ""
    return str(metadata.get("namespace") or "")


def _change(real: Playground, each: Small) -> None:
    """Make the change as a person does."""
    match each.change:
        case Taint(nodes, edits):
            taint = edits[0].taint
            entry = {"key": taint.key, "value": taint.value, "effect": taint.effect}
            real.patch("Node", nodes.names[0], {"spec": {"taints": [entry]}})
        case Cordon(nodes):
            real.patch("Node", nodes.names[0], {"spec": {"unschedulable": True}})
        case Label(nodes, labels):
            real.patch("Node", nodes.names[0], {"metadata": {"labels": dict(labels)}})
        case DeleteNode(nodes):
            real._resource("Node").delete(name=nodes.names[0])
        case Scale(workload, replicas, namespace):
            real.patch("Deployment", workload.partition("/")[2], {"spec": {"replicas": replicas}}, namespace)
        case Drain(nodes):
            real.patch("Node", nodes.names[0], {"spec": {"unschedulable": True}})
            for pod in real.pods(namespace=each.namespace):
                owner = (pod["metadata"].get("ownerReferences") or [{}])[0].get("kind")
                if pod["spec"].get("nodeName") == nodes.names[0] and owner != "DaemonSet":
                    real._resource("Pod").delete(name=pod["metadata"]["name"], namespace=each.namespace)


def ends(pods: Any) -> Ends:
    """Return where the pods of each workload are: their app, node and phase."""
    return Counter(
        (pod["metadata"]["labels"]["app"], pod["spec"].get("nodeName") or "", pod["status"]["phase"])
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp")
    )


def main(arguments: list[str]) -> int:
    count, seed = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0
    wrong, left = 0, 0
    urllib3.disable_warnings()  # of certificates that nobody checks here
    with tempfile.TemporaryDirectory() as folder:
        for each, differences in play(Path(folder), count, seed, deletes=True):
            wrong += bool(differences)
            left += len(each.foreseen[0][0].leaving)
            circles = " (goes in circles)" if any(f.circles for f, _ in each.foreseen) else ""
            print(
                f"{'✗' if differences else '✓'} {each.number}: {each.change.say()}{circles}",
                *differences,
                sep="\n    ",
            )
    print(f"{count - wrong} of {count} as foreseen, {left} pods left")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
