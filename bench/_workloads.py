"""The work both systems are given: each function loads one running system and returns what one round measured.

Nodes of half the fleet carry `sla=<0..999>:NoSchedule`; pods tolerate `sla Gt 100..899`. Before the clock starts a
little of the same work is done, so that every component has taken in what is there.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import cpu_count
from typing import Any

from bench import claims
from bench._generator import Generator, Target
from bench._systems import System

Document = dict[str, Any]
_PODS = "/api/v1/namespaces/default/pods"
_PLACED = f"{_PODS}?fieldSelector=spec.nodeName%21%3D"
_MERGE = "application/merge-patch+json"
WARM = 32


@dataclass(slots=True)
class Measured:
    """What one round of a workload gave on one system."""

    value: float  #: in the workload's unit
    count: int = 0  #: of pods, which the processor time is divided by
    cpu: dict[str, float] = field(default_factory=dict)  #: seconds by process
    generator: float = 0.0  #: the generator's part of the machine


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


def _node(number: int, *, tainted: bool = True) -> Document:
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    sla = {"key": "sla", "value": str(number // 2 % 1000), "effect": "NoSchedule"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": f"node-{number}", "labels": {"kubernetes.io/hostname": f"node-{number}"}},
        "spec": {"taints": [sla] if tainted and number % 2 else []},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _pod(name: str, **spec: object) -> Document:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web", "tier": "front"}},
        "spec": {"containers": [{"name": "c", "image": "app:v1", "resources": resources}], **spec},
    }


def _tolerating(name: str, threshold: int) -> Document:
    numeric = {"key": "sla", "operator": "Gt", "value": str(threshold), "effect": "NoSchedule"}
    return _pod(name, tolerations=[numeric, {"key": "gpu", "operator": "Exists"}])


def _creates(target: Target, pods: Sequence[Document], path: str = _PODS) -> list[bytes]:
    return [target.request("POST", path, pod) for pod in pods]


def _furnish(generator: Generator, nodes: Sequence[Document]) -> None:
    """Make a namespace that takes pods, and nodes without the taint that admission gives to new ones."""
    target = generator.target
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    generator.ask(target.request("POST", "/api/v1/namespaces/default/serviceaccounts", account))
    generator.finish(target.request("POST", "/api/v1/nodes", node) for node in nodes)
    taints = (
        (node["metadata"]["name"], {"spec": {"taints": node["spec"].get("taints", [])}}) for node in nodes
    )
    generator.finish(
        target.request("PATCH", f"/api/v1/nodes/{name}", taint, _MERGE) for name, taint in taints
    )


@contextmanager
def _counted(system: System, generator: Generator, measured: Measured) -> Iterator[None]:
    """Count the processor time of every process for the work in the block.

    It begins when nothing of what went before is left to do, and the count ends when nothing is left of it: weir
    writes its events behind the work, which takes no part in how long the work took, but in what it cost.
    """
    system.rest(generator.read)
    before, own, began = system.cpu(), generator.cpu_seconds, time.perf_counter()
    yield
    took = time.perf_counter() - began
    measured.generator = (generator.cpu_seconds - own) / (took * (cpu_count() or 1))
    system.rest(generator.read)
    measured.cpu = {name: seconds - before[name] for name, seconds in system.cpu().items()}


def _created_to_bound(
    system: System, generator: Generator, warm: Sequence[Document], pods: Sequence[Document]
) -> Measured:
    watch = generator.watch(_PLACED, "ADDED")
    generator.send(_creates(generator.target, warm))
    generator.run(lambda: watch.count >= len(warm))
    requests = _creates(generator.target, pods)
    wanted, measured = len(warm) + len(pods), Measured(0.0, len(pods))
    with _counted(system, generator, measured):
        generator.send(requests)
        measured.value = len(pods) / generator.run(lambda: watch.count >= wanted)
    return measured


# ── workloads ────────────────────────────────────────────────────────────────────────────────────


def bound(nodes: int, pods: int) -> Callable[[System], Measured]:
    """Pods a second from the first create to the last binding a watch has seen."""

    def measure(system: System) -> Measured:
        rng = random.Random(1)
        with Generator(system.target) as generator:
            _furnish(generator, [_node(number) for number in range(nodes)])
            made = [_tolerating(f"pod-{number}", rng.randrange(100, 900)) for number in range(pods + WARM)]
            return _created_to_bound(system, generator, made[pods:], made[:pods])

    return measure


def claimed(nodes: int, pods: int) -> Callable[[System], Measured]:
    """The same for pods with a claim template each."""
    group = f"/apis/{claims.GROUP}"

    def measure(system: System) -> Measured:
        with Generator(system.target) as generator:
            target = generator.target
            _furnish(generator, [claims.node(number) for number in range(nodes)])
            template = {"apiVersion": claims.GROUP, "kind": "ResourceClaimTemplate",
                        "metadata": {"name": "one-gpu"}, "spec": {"spec": claims.SPEC}}  # fmt: skip
            generator.finish(
                [
                    target.request("POST", f"{group}/deviceclasses", claims.device_class()),
                    target.request("POST", f"{group}/namespaces/default/resourceclaimtemplates", template),
                    *(
                        target.request("POST", f"{group}/resourceslices", claims.slice_of(number))
                        for number in range(nodes)
                    ),
                ]
            )
            made = [claims.pod(number, resourceClaimTemplateName="one-gpu") for number in range(pods + WARM)]
            return _created_to_bound(system, generator, made[pods:], made[:pods])

    return measure


def listed(pods: int, times: int = 9) -> Callable[[System], Measured]:
    """Milliseconds until a LIST of all pods has arrived, the median."""

    def measure(system: System) -> Measured:
        with Generator(system.target) as generator:
            _furnish(generator, [])
            made = [_pod(f"pod-{number}", schedulerName="nobody") for number in range(pods)]
            generator.finish(_creates(generator.target, made))
            request, measured = generator.target.request("GET", _PODS), Measured(0.0, times)
            with _counted(system, generator, measured):
                taken = [generator.finish([request]) for _ in range(times)]
            measured.value = statistics.median(taken) * 1000
            return measured

    return measure


def fanned_out(watchers: int, pods: int) -> Callable[[System], Measured]:
    """Events a second that reach the watchers while pods are created."""

    def measure(system: System) -> Measured:
        with Generator(system.target) as generator:
            _furnish(generator, [])
            watches = [generator.watch(_PODS, "ADDED") for _ in range(watchers)]
            made = [_pod(f"pod-{number}", schedulerName="nobody") for number in range(pods + WARM)]
            generator.send(_creates(generator.target, made[pods:]))
            generator.run(lambda: all(watch.count >= WARM for watch in watches))
            requests, measured = _creates(generator.target, made[:pods]), Measured(0.0, pods)
            with _counted(system, generator, measured):
                generator.send(requests)
                took = generator.run(lambda: all(watch.count >= pods + WARM for watch in watches))
            measured.value = watchers * pods / took
            return measured

    return measure


def evicted(nodes: int, pods_each: int) -> Callable[[System], Measured]:
    """Seconds from a NoExecute taint on all nodes until the last of their pods is gone."""
    taint = {"spec": {"taints": [{"key": "flaky", "effect": "NoExecute"}]}}

    def measure(system: System) -> Measured:
        with Generator(system.target) as generator:
            target = generator.target
            _furnish(generator, [_node(number, tainted=False) for number in range(nodes + 1)])
            grace = {"terminationGracePeriodSeconds": 0, "schedulerName": "nobody"}
            gone = generator.watch(_PODS, "DELETED")
            made = [_pod(f"pod-{node}-{number}", nodeName=f"node-{node}", **grace)
                    for node in range(nodes) for number in range(pods_each)]  # fmt: skip
            warm = _pod("warm", nodeName=f"node-{nodes}", **grace)
            generator.finish(_creates(target, [warm, *made]))
            taints = [
                target.request("PATCH", f"/api/v1/nodes/node-{number}", taint, _MERGE)
                for number in range(nodes + 1)
            ]
            generator.finish(taints[nodes:])
            generator.run(lambda: gone.count >= 1)
            measured = Measured(0.0, len(made))
            with _counted(system, generator, measured):
                generator.send(taints[:nodes])
                measured.value = generator.run(lambda: gone.count > len(made))
            return measured

    return measure


_READY = {
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("Ready", "ContainersReady", "Initialized", "PodScheduled")
        ],
    }
}


def rolled_out(replicas: int, nodes: int = 100) -> Callable[[System], Measured]:
    """Seconds from a new image until every pod of a Deployment is a new one and available.

    The generator is the kubelet: a pod that has a node is made ready at once.
    """
    path = "/apis/apps/v1/namespaces/default/deployments"

    def deployment(name: str, count: int) -> Document:
        labels = {"app": name}
        spec = {**_pod("")["spec"], "terminationGracePeriodSeconds": 0}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                "spec": {"replicas": count, "selector": {"matchLabels": labels},
                         "template": {"metadata": {"labels": labels}, "spec": spec}}}  # fmt: skip

    def measure(system: System) -> Measured:
        with Generator(system.target) as generator:
            target = generator.target
            _furnish(generator, [_node(number, tainted=False) for number in range(nodes)])
            latest: dict[str, Document] = {}

            def placed(line: bytes) -> None:
                name = json.loads(line)["object"]["metadata"]["name"]
                generator.send([target.request("PATCH", f"{_PODS}/{name}/status", _READY, _MERGE)])

            def changed(line: bytes) -> None:
                one = json.loads(line)["object"]
                latest[one["metadata"]["name"]] = one

            generator.watch(_PLACED, "ADDED", placed)
            generator.watch(path, "MODIFIED", changed)

            def is_done(name: str, count: int, generation: int) -> bool:
                status = latest.get(name, {}).get("status", {})
                wanted = {"replicas": count, "updatedReplicas": count, "availableReplicas": count}
                return status.get("observedGeneration", 0) >= generation and wanted.items() <= status.items()

            for name, count in (("warm", 1), ("web", replicas)):
                generator.send([target.request("POST", path, deployment(name, count))])
                generator.run(lambda name=name, count=count: is_done(name, count, 1))  # type: ignore[misc]
            image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "app:v2"}]
            request = target.request("PATCH", f"{path}/web", image, "application/json-patch+json")
            measured = Measured(0.0, replicas)
            with _counted(system, generator, measured):
                generator.send([request])
                measured.value = generator.run(lambda: is_done("web", replicas, 2))
            return measured

    return measure


def held(nodes: int, pods: int, settle_seconds: float = 10.0) -> Callable[[System], Measured]:
    """MiB that all processes together hold with so many nodes and placed pods."""

    def measure(system: System) -> Measured:
        with Generator(system.target) as generator:
            _furnish(generator, [_node(number) for number in range(nodes)])
            made = (_pod(f"pod-{number}", nodeName=f"node-{number % nodes}") for number in range(pods))
            measured = Measured(0.0, pods)
            with _counted(system, generator, measured):
                generator.finish(generator.target.request("POST", _PODS, pod) for pod in made)
                time.sleep(settle_seconds)
            measured.value = sum(system.memory().values())
            return measured

    return measure
