"""`weir scheduler` works for a real API server, and decides as the real kube-scheduler does."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from contextlib import contextmanager, suppress

import msgspec
import pytest

from tests.kubernetes.programs import scheduler
from tests.kubernetes.real_server import real_server
from tests.property.test_scheduler import NAMESPACES, random_node, random_pod
from weir.client.http import connect
from weir.errors import Invalid, NotFound
from weir.gates import Gates
from weir.objects.core import Node, Pod, read
from weir.objects.kinds import by_kind
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import NoNodes
from weir.scheduler.preemption import preempt
from weir.scheduler.profile import ProfileArguments

PODS, NODES, SPACES = by_kind("v1", "Pod"), by_kind("v1", "Node"), by_kind("v1", "Namespace")
PRIORITIES = by_kind("scheduling.k8s.io/v1", "PriorityClass")
GATES = Gates({"TaintTolerationComparisonOperators": True})
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
            said = next((c["message"] for c in pod["status"].get("conditions") or ()
                         if c.get("reason") in ("Unschedulable", "SchedulerError")), "")  # fmt: skip
            if said and (nodes is None or said.startswith(f"0/{nodes} ")):
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


def documents(rng, number):
    """Return nodes, pods on them and one pod to place, as a user would write them."""
    nodes = []
    for index in range(rng.randrange(1, 6)):
        nodes.append(msgspec.to_builtins(random_node(rng, f"c{number}-n{index}")))
    names = [each["metadata"]["name"] for each in nodes]
    pods = [upstream_pod(rng, f"there-{number}-{index}") for index in range(rng.randrange(5))]
    for each in pods:
        each["spec"]["nodeName"] = rng.choice(names)
    new = upstream_pod(rng, f"new-{number}")
    if rng.random() < 0.3:  # a big and important pod: somebody has to go
        asked = {"requests": {"cpu": "900m"}}
        new["spec"] = {"containers": [{"name": "c", "image": "i", "resources": asked}]}
        new["spec"]["tolerations"] = [{"operator": "Exists"}]
        for each in nodes:
            each["status"]["allocatable"]["cpu"] = "1"
        pods += [upstream_pod(rng, f"more-{number}-{index}") for index in range(5)]
        for each in pods:
            each["spec"]["nodeName"] = rng.choice(names)
        new["spec"]["priorityClassName"] = "important"
    elif rng.random() < 0.5:
        new["spec"]["priorityClassName"] = "important"
    for each in pods:
        if rng.random() < 0.3:
            each["spec"]["priorityClassName"] = rng.choice(["important", "modest"])
    return nodes, pods, new


def upstream_pod(rng, name):
    """Return a random pod without weir's own operators."""
    while True:
        found = msgspec.to_builtins(random_pod(rng, name, True))
        if "Semver" not in str(found):
            for toleration in found["spec"].get("tolerations", ()):
                if toleration.get("operator") in ("Gt", "Lt"):
                    toleration.setdefault("effect", "NoSchedule")
            return found


class Arena:
    """One real cluster, emptied between rounds."""

    def __init__(self, client):
        self.client = client

    async def play(self, number, pause):
        """Return (real outcome, our answer) for random cluster *number*, or None when the API refuses it."""
        rng = random.Random(number)
        nodes, pods, new = documents(rng, number)
        try:
            stored_nodes = [
                await self.client.create(NODES, each) for each in nodes
            ]  # their order breaks ties
            stored = await asyncio.gather(*(self.client.create(PODS, each) for each in pods))
            await asyncio.sleep(pause)
            pending = await self.client.create(PODS, new)
            real = await outcome(self.client, pending, len(nodes), 8.0)
            return real, self.ours(stored_nodes, stored, pending)
        except Invalid:
            return None
        finally:
            await self.clear(nodes, [*pods, new])

    async def clear(self, nodes, pods):
        async def drop(kind, document):
            metadata = document["metadata"]
            with suppress(NotFound):
                await self.client.delete(
                    kind, metadata["name"], metadata.get("namespace", ""), grace_period_seconds=0
                )

        await asyncio.gather(*(drop(PODS, each) for each in pods))
        await asyncio.gather(*(drop(NODES, each) for each in nodes))

    def ours(self, nodes, pods, pending):
        """Return the best nodes by our scores, or our words."""
        engine = Engine(GATES, ProfileArguments(upstream_reasons=True), namespaces=NAMESPACES)
        views = {f"{i}": read(Pod, each) for i, each in enumerate(pods)}
        for each in nodes:
            engine.table.put_node(read(Node, each))
        known = {}
        for view in views.values():
            known[view.key] = view
            engine.table.add_pod(view.key, engine.classes.of(unbound(view)), view.spec.node_name)
        wanted = read(Pod, pending)
        try:
            answer = engine.place(wanted)
        except NoNodes as nothing:
            return set(), str(nothing)
        if isinstance(answer, Placement):
            scores = engine.scores(wanted)
            best = max(scores.values())
            return {name for name, score in scores.items() if score == best}, ""
        found = preempt(engine, wanted, answer, known, (), {}, None)
        return set(), f"{answer.message} {found.message}"


def agree(real, ours):
    (node, said), (best, words) = real, ours
    return node in best if node else said == words


async def compare_clusters(kubeconfig):
    client = connect(kubeconfig)
    try:
        for name, labels in NAMESPACES.items():
            await client.create(SPACES, {"metadata": {"name": name, "labels": labels}})
        for name, value in (("important", 1000), ("modest", 10)):
            await client.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
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
    with scheduler(tmp_path, kubeconfig):
        played, placed, preempting, differ = asyncio.run(compare_clusters(kubeconfig))
    assert differ == {}
    assert CLUSTERS // 4 < placed < played  # both kinds of answers were compared
    assert preempting > CLUSTERS // 50
