"""`weir up`: no component waits for another's computing, one that dies is started again, and none is left behind."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.test_up import family, until, up
from weir.client.http import connect
from weir.errors import NotFound
from weir.objects.kinds import by_kind

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="finds processes by what Linux tells"
)
PODS, NODES = by_kind("v1", "Pod"), by_kind("v1", "Node")
LEASES = by_kind("coordination.k8s.io/v1", "Lease")
PATIENCE_SECONDS = 60.0


def pod(name, node=""):
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": node}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def component(process, name):
    """Return the number of a component's process, once it is there."""
    return until(
        lambda: next((pid for pid, comm in family(process.pid).items() if comm == f"weir-{name}"[:15]), 0)
    )


@contextmanager
def held_up(pid):
    """Keep a process from doing anything, as endless computing would keep its event loop."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def gone(pid):
    """Whether a process has ended, whoever has yet to be told so."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


class Story:
    """What clients do with the cluster of a folder."""

    def __init__(self, folder):
        self._kubeconfig = folder / "data" / "kubeconfig"
        self._numbers = itertools.count()

    def does(self, work):
        async def act():
            client = connect(self._kubeconfig, user_agent="story")
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    return await work(client)
            finally:
                await client.close()

        return asyncio.run(act())

    async def evicts(self, client):
        """Have controllers and kubelet evict a pod that somebody put on a node."""
        name, taint = f"goes-{next(self._numbers)}", [{"key": "flaky", "effect": "NoExecute"}]
        await client.create(PODS, pod(name, "node-0"))
        await client.patch(NODES, "node-0", {"spec": {"taints": taint}})
        with suppress(NotFound):
            while await client.get(PODS, name, "default"):
                await asyncio.sleep(0.05)
        await client.patch(NODES, "node-0", {"spec": {"taints": None}})
        return name

    async def places(self, client):
        """Have the scheduler place a pod."""
        name = f"comes-{next(self._numbers)}"
        await client.create(PODS, pod(name))
        while not (node := (await client.get(PODS, name, "default"))["spec"].get("nodeName")):
            await asyncio.sleep(0.05)
        return node


def test_a_component_that_is_held_up_holds_up_no_other(tmp_path):
    story = Story(tmp_path)
    with up(tmp_path, "--nodes", "2", "--store", "memory", cold=True) as process:
        with held_up(component(process, "scheduler")):
            evicted = story.does(story.evicts)
        with held_up(component(process, "controllers")):
            placed = story.does(story.places)
        assert (evicted, placed[:5]) == ("goes-0", "node-")


def test_leases_are_renewed_and_pods_evicted_while_the_server_is_flooded(tmp_path):
    story = Story(tmp_path)

    async def flooded(client):
        async def flood():
            while True:
                await client.list(PODS)
                await client.list(NODES)

        async def renewed():
            while not (first := await lease()):
                await asyncio.sleep(0.2)
            while await lease() == first:
                await asyncio.sleep(0.2)

        async def lease():
            found = await client.find(LEASES, "node-1", "kube-node-lease")
            return found and found["spec"]["renewTime"]

        flooding = [asyncio.ensure_future(flood()) for _ in range(20)]
        try:
            await asyncio.gather(story.evicts(client), renewed())
        finally:
            for task in flooding:
                task.cancel()
            await asyncio.gather(*flooding, return_exceptions=True)
        ready = [
            condition["status"]
            for node in (await client.list(NODES)).documents()
            for condition in node["status"]["conditions"]
            if condition["type"] == "Ready"
        ]
        assert ready == ["True", "True"]

    with up(tmp_path, "--nodes", "2", "--store", "memory", cold=True):
        story.does(flooded)


def test_a_component_that_dies_is_started_again_and_named(tmp_path):
    story = Story(tmp_path)
    with up(tmp_path, "--nodes", "2", "--store", "memory", "--metrics-port", "0", cold=True) as process:
        log = tmp_path / "up.log"
        for name in ("scheduler", "controllers", "kubelet"):
            os.kill(component(process, name), signal.SIGKILL)
        story.does(story.places)
        story.does(story.evicts)
        for name in ("scheduler", "controllers", "kubelet"):
            assert f'ended and is started again component={name} by="signal 9"' in log.read_text()
        (where,) = (line.split(": ")[1] for line in log.read_text().splitlines() if "/metrics" in line)
        page = urllib.request.urlopen(where).read().decode()
        assert all(
            f'process_start_time_seconds{{component="{name}"}}' in page
            for name in ("apiserver", "scheduler", "controllers", "kubelet")
        )
        assert until(lambda: urllib.request.urlopen(where.replace("metrics", "readyz")).read() == b"ok")


@pytest.mark.parametrize("who", ["weir", "weir-components"])
def test_nobody_is_left_behind(tmp_path, who):
    """Neither when `weir up` is killed, nor when what looks after its components is."""
    folder = tmp_path / "there"
    folder.mkdir()
    with suppress(AssertionError), up(folder, "--nodes", "1", "--store", "memory", cold=True) as process:
        component(process, "kubelet")
        all_of_them = family(process.pid)
        victim = process.pid if who == "weir" else component(process, "components")
        os.kill(victim, signal.SIGKILL)
        process.wait(60)
    deadline = time.monotonic() + 60
    while left := {pid: name for pid, name in all_of_them.items() if not gone(pid)}:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    said = (folder / "up.log").read_text()
    assert len(all_of_them) == 5 and "Traceback" not in said
    assert who == "weir" or "looks after scheduler, controllers and nodes has ended" in said
