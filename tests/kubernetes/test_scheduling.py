"""`weir scheduler` works for a real API server, and decides as the real kube-scheduler does."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import msgspec
import pytest
import yaml

from tests.kubernetes import random_clusters as rc
from tests.kubernetes.programs import scheduler
from tests.kubernetes.real_server import real_server
from weir.client.http import connect
from weir.errors import Invalid, NotFound
from weir.gates import KUBERNETES_DEFAULTS
from weir.objects.core import Node, Pod, read
from weir.objects.kinds import by_kind
from weir.scheduler.config import read_config
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.default_spread_selector import DefaultSpreadSelectors, Service
from weir.scheduler.preemption import preempt
from weir.scheduler.preemption_eviction import Budget, disruption_budgets

pytestmark = pytest.mark.proves(
    "5471-10",
    "5471-53",
    "5471-70",
    "5471-99",
    "5471-119",
    "5721-11",
    "5721-90",
    "5721-105",
    "5721-128",
    "5500-81",
    "5500-107",
)

PODS, NODES, SPACES = by_kind("v1", "Pod"), by_kind("v1", "Node"), by_kind("v1", "Namespace")
PRIORITIES = by_kind("scheduling.k8s.io/v1", "PriorityClass")
SERVICES, BUDGETS = by_kind("v1", "Service"), by_kind("policy/v1", "PodDisruptionBudget")
RUNTIMES = by_kind("node.k8s.io/v1", "RuntimeClass")
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
GATES = KUBERNETES_DEFAULTS.replace({"TaintTolerationComparisonOperators": True})
CLUSTERS = int(os.environ.get("WEIR_RANDOM_CLUSTERS", "300"))


def unbound(view):
    """Return a pod as it was before it had a node: of the class that the scheduler counts it in."""
    return msgspec.structs.replace(view, spec=msgspec.structs.replace(view.spec, node_name=""))


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with real_server(tmp_path_factory.mktemp("scheduling")) as made:
        yield made


@contextmanager
def weir_scheduler(kubeconfig, *more):
    log = kubeconfig.with_name("weir-scheduler.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "weir.cli.main", "scheduler", "--kubeconfig", str(kubeconfig), *more],
        stderr=log,
    )
    try:
        yield
        assert process.poll() is None, kubeconfig.with_name("weir-scheduler.log").read_text()[-2000:]
    finally:
        process.terminate()
        process.wait(10)


async def outcome(client, created, nodes=None, seconds=30.0):
    """Return the node the pod *created* was put on, or what was first said against all of them.

    Every state since its creation is seen, in order: a look now and then could miss words that are soon out of date.
    """
    name, namespace, since = (created["metadata"][key] for key in ("name", "namespace", "resourceVersion"))
    chosen = {"resource_version": since, "field_selector": f"metadata.name={name}", "bookmarks": False}
    async with asyncio.timeout(seconds), client.watch(PODS, namespace, **chosen) as events:
        async for event in events:
            pod = msgspec.json.decode(event.object)
            if pod["spec"].get("nodeName"):
                return pod["spec"]["nodeName"], ""
            reason, said = next(((c["reason"], c["message"]) for c in pod["status"].get("conditions") or ()
                                 if c.get("reason") in ("Unschedulable", "SchedulerError")), ("", ""))  # fmt: skip
            if said and (nodes is None or reason == "SchedulerError" or said.startswith(f"0/{nodes} ")):
                return "", said
            if not said and pod["status"].get(
                "nominatedNodeName"
            ):  # chosen; its volumes have to be bound first
                return pod["status"]["nominatedNodeName"], ""
    raise AssertionError(f"the watch of pod {name} ended without an answer")


def node(name, **more):
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}, **more}


def pod(name, **spec):
    return {"metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulerName": "weir", "containers": [{"name": "c", "image": "i"}], **spec}}  # fmt: skip


def test_weir_places_pods_of_its_name_on_a_real_cluster(kubeconfig):
    async def play():
        client = connect(kubeconfig)
        try:
            for name, value in (("low", "800"), ("high", "950")):
                taint = {"key": "sla", "value": value, "effect": "NoSchedule"}
                await client.create(NODES, node(name, spec={"taints": [taint]}))
            over = [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}]
            picky = await client.create(PODS, pod("picky", tolerations=over))
            plain = await client.create(PODS, pod("plain"))
            await client.create(PODS, pod("other", schedulerName="somebody-else"))
            found = [await outcome(client, picky, 2), await outcome(client, plain, 2)]
            untouched = await client.get(PODS, "other", "default")
            for name in ("picky", "plain", "other"):
                await client.delete(PODS, name, "default", grace_period_seconds=0)
            for name in ("low", "high"):
                await client.delete(NODES, name)
            return *found, untouched["status"].get("conditions")
        finally:
            await client.close()

    with weir_scheduler(kubeconfig, "--scheduler-name", "weir"):
        assert asyncio.run(play()) == (
            ("high", ""),
            (
                "",
                "0/2 nodes are available: 1 node(s) had untolerated taint {sla: 800}, 1 node(s) had untolerated taint "
                "{sla: 950}. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            ),
            None,
        )


# ── random clusters ──


class Arena:
    """One real cluster, emptied between rounds."""

    def __init__(self, client):
        self.client, self._made = client, []
        settings = {**HEAD, "profiles": rc.PROFILES}
        self._profiles = {each.name: each for each in read_config(yaml.safe_dump(settings)).profiles}

    async def _make(self, kind, document, status=None):
        made = await self.client.create(kind, document)
        metadata = made["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        self._made.append((kind, name, namespace))
        if status is not None:
            made = await self.client.patch(kind, name, {"status": status}, namespace, subresource="status")
        return made

    async def play(self, number, pause):
        """Return (real outcome, our answer) for random cluster *number*, or None when the API refuses it."""
        rng = random.Random(number)
        busy = rng.random() < 0.5
        names = [f"c{number}-n{index}" for index in range(rng.randrange(1, 6))]
        try:
            nodes = [
                await self._make(NODES, rc.node(rng, name, busy)) for name in names
            ]  # their order breaks ties
            count = rng.randrange(6, 12) if busy else rng.randrange(6)
            there = [rc.resident(rng, f"there-{number}-{index}", names, busy) for index in range(count)]
            statuses = [rc.running(rng, each) for each in there]
            around = list(self._surroundings(rng, number))
            pods = await asyncio.gather(*map(partial(self._make, PODS), there, statuses))
            others = await asyncio.gather(*(self._make(*each) for each in around))
            await asyncio.sleep(pause)
            new = (rc.greedy if rng.random() < 0.4 else rc.pod)(rng, f"new-{number}", names)
            new["spec"]["schedulerName"] = (
                rng.choice(rc.PROFILES)["schedulerName"] if rng.random() < 0.6 else "plain"
            )
            pending = await self._make(PODS, new)
            real = await outcome(self.client, pending, len(nodes), 8.0)
            return real, self.ours(nodes, pods, others, pending)
        except Invalid:
            return None
        finally:
            await self.clear()

    def _surroundings(self, rng, number):
        """Yield the services and disruption budgets of a cluster."""
        for namespace in ("x", "y"):
            metadata = {"name": f"c{number}", "namespace": namespace}
            chosen = {"selector": {"app": rng.choice(["web", "db"])}, "ports": [{"port": 80}]}
            if rng.random() < 0.4:
                yield SERVICES, {"metadata": metadata, "spec": chosen}
            if rng.random() < 0.4:
                allowed = {"disruptionsAllowed": rng.randrange(3), "currentHealthy": 0, "desiredHealthy": 0,
                           "expectedPods": 0}  # fmt: skip
                yield BUDGETS, {"metadata": metadata, "spec": {"selector": rc.selector(rng)}}, allowed

    async def clear(self):
        async def drop(kind, name, namespace):
            with suppress(NotFound):
                await self.client.delete(kind, name, namespace, grace_period_seconds=0)

        made, self._made = self._made, []
        await asyncio.gather(*(drop(*each) for each in made if each[0] is not NODES))
        await asyncio.gather(*(drop(*each) for each in made if each[0] is NODES))

    def ours(self, nodes, pods, others, pending):
        """Return the best nodes by our scores, or our words."""
        wanted, owners = read(Pod, pending), DefaultSpreadSelectors()
        for each in others:
            if each["kind"] == "Service":
                owners.put_service(None, read(Service, each))
        budgets = disruption_budgets(
            read(Budget, each) for each in others if each["kind"] == "PodDisruptionBudget"
        )
        arguments = replace(self._profiles[wanted.spec.scheduler_name], upstream_reasons=True)
        engine = Engine(GATES, arguments, namespaces=rc.NAMESPACES, default_selector=owners)
        for each in nodes:
            engine.table.put_node(read(Node, each))
        known = {view.key: view for view in (read(Pod, each) for each in pods)}
        for key, view in known.items():
            engine.table.add_pod(key, engine.classes.of(unbound(view)), view.spec.node_name)
        answer = engine.place(wanted)
        if isinstance(answer, Placement):
            scores = engine.scores(wanted)
            best = max(scores.values())
            return {name for name, score in scores.items() if score == best}, ""
        if engine.profile.loses_claim_state(answer):
            return set(), f"{answer.message} not found"
        return set(), f"{answer.message} {preempt(engine, wanted, answer, known, budgets, {}, None).message}"


def agree(real, ours):
    (node, said), (best, words) = real, ours
    return node in best if node else said == words


async def compare_clusters(kubeconfig):
    client = connect(kubeconfig)
    try:
        for name, labels in rc.NAMESPACES.items():
            await client.create(SPACES, {"metadata": {"name": name, "labels": labels}})
        for name, value in rc.PRIORITIES.items():
            await client.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
        await client.create(RUNTIMES, rc.OVERHEAD)
        arena, played, placed, preempting, differ = Arena(client), 0, 0, 0, {}
        number = 0
        while played < CLUSTERS:
            number += 1
            # A difference that goes away with more patience was a watch that had not caught up.
            for pause in (0.03, 0.3, 1.0):
                try:
                    found = await arena.play(number, pause)
                except TimeoutError:
                    found = (("", "no answer"), (set(), "?"))
                if found is None or agree(*found):
                    break
            else:
                differ[number] = found
            played += found is not None
            placed += found is not None and bool(found[0][0])
            preempting += found is not None and "found a potential placement" in found[0][1]
        return played, placed, preempting, differ
    finally:
        await client.close()


def test_the_real_scheduler_decides_as_weir_does_on_random_clusters(kubeconfig, tmp_path):
    with scheduler(tmp_path, kubeconfig, profiles=rc.PROFILES):
        played, placed, preempting, differ = asyncio.run(compare_clusters(kubeconfig))
    assert differ == {}
    assert CLUSTERS // 4 < placed < played  # both kinds of answers were compared
    assert preempting > CLUSTERS // 50
