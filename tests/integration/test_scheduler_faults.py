"""Whatever goes wrong, every pod ends up bound exactly once or pending with a true reason."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.contract.test_client import a_server
from tests.integration.faults import FaultyTransport
from tests.reference.scheduler import Cluster as Reference
from weir.apiserver.transport.http import Request
from weir.client.api import Client, Unreachable
from weir.client.cache import Informer, decode_document
from weir.client.http import connect
from weir.client.local import LocalTransport
from weir.clock import RealClock
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.objects.kinds import by_kind
from weir.objects.requests import node_allocatable, pod_requests
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.run import Scheduler

PODS, NODES = by_kind("v1", "Pod"), by_kind("v1", "Node")
EVENTS = by_kind("events.k8s.io/v1", "Event")
HEADERS = {"authorization": "Bearer admin-token"}
QUICK = SchedulerConfig(leader_elect=False, initial_backoff_seconds=0.05, max_backoff_seconds=0.2)


class Scene:
    """A server, a scheduler that reaches it through bad weather, and a witness of every binding."""

    def __init__(self, running, folder, seed=1, clock=None):
        self.running, self.folder = running, folder
        self.rng = random.Random(seed)
        self.clock = clock or RealClock()
        self.client = Client(LocalTransport(running.server.handle, Request, HEADERS))
        self.placements = {}  # pod → every node it was ever seen on
        self._tasks = []

    def transport(self):
        return FaultyTransport(LocalTransport(self.running.server.handle, Request, HEADERS), self.rng)

    def schedule(self, config=QUICK, identity="one"):
        transport = self.transport()
        scheduler = Scheduler(Client(transport), ALL_FEATURES, self.clock, config=config, identity=identity)
        task = asyncio.ensure_future(scheduler.run())
        self._tasks.append(task)
        return transport, task

    async def witness(self):
        informer = Informer(self.client, PODS, self.clock, decode_document)

        def see(old, new):
            if new is not None and new["spec"].get("nodeName"):
                places = self.placements.setdefault(new["metadata"]["name"], [])
                if new["spec"]["nodeName"] not in places:
                    places.append(new["spec"]["nodeName"])

        self._tasks.append(asyncio.ensure_future(informer.run()))
        await informer.cache.wait_synced()
        informer.cache.listen(see)

    async def stop(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def nodes(self, count, cpu="4", taints=()):
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        for number in range(count):
            await self.client.create(
                NODES,
                {"metadata": {"name": f"n{number}"}, "status": {"capacity": amounts, "allocatable": amounts}},
            )
            await self.taint(f"n{number}", *taints)

    async def taint(self, name, *taints):
        await self.client.patch(NODES, name, {"spec": {"taints": list(taints)}})

    async def pods(self, count, prefix="p", cpu="100m", **spec):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        for number in range(count):
            name = {"name": f"{prefix}{number}", "namespace": "default"}
            await self.client.create(PODS, {"metadata": name, "spec": {"containers": [container], **spec}})
            if number % 10 == 9:
                await asyncio.sleep(0)

    async def settled(self, seconds=120.0):
        """Wait until every pod is bound or says why it is not, and nothing moves any more."""
        async with asyncio.timeout(seconds):
            before = None
            while True:
                pods = (await self.client.list(PODS, "default")).documents()
                now = [(p["metadata"]["name"], p["spec"].get("nodeName"), reason_of(p)) for p in pods]
                if now == before and all(node or reason for _, node, reason in now):
                    return pods
                before = now
                await asyncio.sleep(0.6)

    async def judged(self):
        """Return what is wrong with the final state, held against the plain reference."""
        pods = [read(Pod, document) for document in await self.settled()]
        nodes = [read(Node, d) for d in (await self.client.list(NODES)).documents()]
        reference = Reference()
        for node in nodes:
            reference.nodes[node.name] = node
            reference.pods[node.name] = [pod for pod in pods if pod.spec.node_name == node.name]
        wrong = [f"{name} was on {places}" for name, places in self.placements.items() if len(places) > 1]
        for node in nodes:
            used = sum(map(Counter, map(pod_requests, reference.pods[node.name])), Counter())
            room = node_allocatable(node)
            wrong += [
                f"{node.name} is overfull" for resource in used if used[resource] > room.get(resource, 0)
            ]
        for pod in pods:
            if not pod.spec.node_name:
                where, statuses, _ = reference.decide(pod)
                condition = next(c for c in pod.status.conditions if c.type == "PodScheduled")
                untrue = [
                    r for _, _, reasons in statuses.values() for r in reasons if r not in condition.message
                ]
                if where is not None or untrue:
                    wrong.append(f"{pod.key} waits: {condition.message}, but {where or untrue}")
        return wrong


def reason_of(pod):
    """Return why a pod waits; a broken attempt is tried again, so only a refusal counts as an end."""
    conditions = pod["status"].get("conditions") or ()
    return next((c["message"] for c in conditions if c.get("reason") == "Unschedulable"), "")


@asynccontextmanager
async def a_scene(tmp_path, **more):
    async with a_server(tmp_path, gates=ALL_FEATURES) as running:
        scene = Scene(running, tmp_path, **more)
        await scene.witness()
        try:
            yield scene
        finally:
            await scene.stop()


@pytest.fixture(autouse=True)
def every_reason_is_spelled_out(monkeypatch):
    """However many taints differ: each reason is held against the reference."""
    monkeypatch.setattr("weir.scheduler.cycle.REASONS_BYTES", None)


@pytest.fixture
async def scene(tmp_path):
    async with a_scene(tmp_path) as made:
        yield made


@pytest.mark.parametrize("fault", [409, 404, 500, 503, "timeout", "lost"])
async def test_a_binding_that_fails_is_tried_again_and_made_once(scene, fault):
    await scene.nodes(3)
    transport, _ = scene.schedule()
    transport.bind_faults = [fault] * 10
    await scene.pods(60)
    assert (await scene.judged(), len(scene.placements)) == ([], 60)


async def test_a_slow_api_with_every_fault_in_turn_ends_well(scene):
    await scene.nodes(4, cpu="2")
    transport, _ = scene.schedule()
    transport.slowest_seconds = 0.02
    transport.bind_faults = [scene.rng.choice([None, 409, 500, "lost", "timeout"]) for _ in range(150)]
    await scene.pods(100)  # room for 80
    wrong = await scene.judged()
    assert (wrong, len(scene.placements)) == ([], 80)


async def test_watches_cut_and_history_gone_lead_to_a_fresh_look(scene):
    await scene.nodes(4)
    transport, _ = scene.schedule()
    for burst in range(4):
        await scene.pods(30, prefix=f"b{burst}-")
        await scene.running.store.compact(scene.running.store.revision)
        transport.cut_watches()
        await asyncio.sleep(0)
    assert (await scene.judged(), len(scene.placements)) == ([], 120)


#: Rounds of the storm, in each of which a tenth of the nodes change: far more where everything is proven.
STORM_ROUNDS = 90 if os.environ.get("CI") else 45


async def test_a_thousand_nodes_that_flap_their_taints_leave_nobody_behind(scene):
    await scene.nodes(1000, cpu="1")
    scene.schedule()
    tolerant = [{"key": "sla", "operator": "Gt", "value": "500"}]
    created = 0
    for turn in range(STORM_ROUNDS):
        for number in scene.rng.sample(range(1000), 100):
            sla = {"key": "sla", "value": str(scene.rng.randrange(1000)), "effect": "NoSchedule"}
            await scene.taint(f"n{number}", *scene.rng.choice([(), (sla,)]))
            await asyncio.sleep(0)
        if created < 900:
            await scene.pods(10, prefix=f"any{turn}-")
            await scene.pods(10, prefix=f"tolerant{turn}-", tolerations=tolerant)
            created += 20
    await scene.pods(5, prefix="never-", nodeSelector={"disk": "none"})
    assert (await scene.judged(), len(scene.placements)) == ([], created)


async def test_a_pod_that_can_never_fit_says_so_truly_after_the_storm(scene):
    await scene.nodes(3, taints=[{"key": "sla", "value": "800", "effect": "NoSchedule"}])
    transport, _ = scene.schedule()
    await scene.pods(3, tolerations=[{"key": "sla", "operator": "Gt", "value": "900"}])
    transport.cut_watches()
    assert (await scene.judged(), scene.placements) == ([], {})


class JumpingClock(RealClock):
    """The wall clock is set by somebody; the other one goes on."""

    offset = 0.0

    def time(self):
        return super().time() + self.offset


@pytest.mark.parametrize("jump", [-7200.0, 7200.0], ids=["back", "ahead"])
async def test_a_clock_that_jumps_holds_nobody_back(tmp_path, jump):
    clock = JumpingClock()
    async with a_scene(tmp_path, clock=clock) as scene:
        await scene.nodes(2)
        transport, _ = scene.schedule()
        transport.bind_faults = [500] * 20
        await scene.pods(30)
        clock.offset = jump
        await scene.pods(10, prefix="later-")
        assert (await scene.judged(), len(scene.placements)) == ([], 40)


async def test_of_two_schedulers_only_the_elected_one_binds_and_the_other_takes_over(scene):
    # A leader that is held up for longer than a lease lasts may lose it: on a busy machine that is a second or two.
    config = replace(QUICK, leader_elect=True, lease_seconds=4.0, renew_seconds=3.0, retry_seconds=0.1)
    await scene.nodes(4)
    first, _ = scene.schedule(config, "first")
    await scene.pods(20)
    await scene.settled()
    second, _ = scene.schedule(config, "second")
    await scene.pods(20, prefix="q")
    await scene.settled()
    idle = list(second.bindings)
    first.parted = True  # a partition: it may not know yet that it is no longer the leader
    await scene.pods(40, prefix="r")
    await scene.settled()
    done = len(first.bindings)
    first.parted = False
    await scene.pods(20, prefix="s")
    wrong = await scene.judged()
    assert (wrong, idle, len(first.bindings) - done, len(scene.placements)) == ([], [], 0, 100)


async def test_a_scheduler_killed_in_the_middle_is_replaced_without_placing_twice(tmp_path):
    async with a_scene(tmp_path) as scene:
        await scene.nodes(10)

        async def start():
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", "weir.cli.main", "scheduler", "--kubeconfig", str(tmp_path / "kubeconfig"),
                "--no-leader-elect", env=dict(os.environ), stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip

        process = await start()
        creating = asyncio.ensure_future(scene.pods(300))
        async with asyncio.timeout(30):
            while len(scene.placements) < 40:
                await asyncio.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        killed_at = len(scene.placements)
        await creating
        process = await start()
        try:
            async with asyncio.timeout(30):
                while len(scene.placements) < 300:
                    await asyncio.sleep(0.05)
            assert (killed_at < 300, await scene.judged()) == (True, [])
        finally:
            process.kill()
            await process.wait()


@pytest.mark.proves("5471-126", "5500-115")
async def test_an_api_server_that_restarts_is_found_again(tmp_path):
    async def serve_on(port, during):
        async with a_server(tmp_path, gates=ALL_FEATURES, store="sqlite", secure_port=port) as running:
            await during(running)
            return running.port

    scene = None

    async def first(running):
        nonlocal scene
        scene = Scene(running, tmp_path)
        scene.client = connect(tmp_path / "kubeconfig")
        await scene.nodes(6)
        scheduler = Scheduler(connect(tmp_path / "kubeconfig"), ALL_FEATURES, scene.clock, config=QUICK)
        scene._tasks.append(asyncio.ensure_future(scheduler.run()))
        await scene.witness()
        await scene.pods(40)  # and the server goes away while they are being placed

    async def second(running):
        await scene.pods(40, prefix="q")
        assert (await scene.judged(), len(scene.placements)) == ([], 80)

    port = await serve_on(0, first)
    with pytest.raises(Unreachable):
        await scene.client.list(NODES)
    try:
        await serve_on(port, second)
    finally:
        await scene.stop()
