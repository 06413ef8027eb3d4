"""Killed at any moment during churn, the cluster comes back and ends up as the reference simulation does.

One script is lived through twice: by `weir up`, killed with SIGKILL thirty times at random moments (eight outside of
CI; WEIR_KILLS says otherwise), and by a cluster under virtual time that nobody kills. Every step may be repeated, so
what a kill left undone is done after the restart. Every other kill falls between the script's requests, the others in
the middle of them: somebody writes without pause, and what was answered must be there afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from weir.client.api import Client, Unreachable
from weir.client.http import connect
from weir.errors import AlreadyExists, Conflict, InternalError, ServiceUnavailable, Timeout
from weir.objects.kinds import by_kind
from weir.simulation.cluster import Cluster

KILLS = int(os.environ.get("WEIR_KILLS") or ("30" if os.environ.get("CI") else "8"))
PODS, NODES, EVENTS = by_kind("v1", "Pod"), by_kind("v1", "Node"), by_kind("v1", "Event")
DEPLOYMENTS = by_kind("apps/v1", "Deployment")
RISKY = {"key": "failure-probability", "value": "25", "effect": "NoExecute"}
TOLERATES = {"key": "failure-probability", "operator": "Lt", "value": "30", "effect": "NoExecute"}
ALWAYS_RISKY = "node-3"
PATIENCE_SECONDS = 120.0
CUT_SHORT = (Unreachable, ServiceUnavailable, Timeout, InternalError)


# ── the script ───────────────────────────────────────────────────────────────────────────────────


def pod(name, node, *tolerations):
    containers = [{"name": "c", "image": "i"}]
    spec = {"nodeName": node, "containers": containers, "tolerations": list(tolerations)}
    return {"metadata": {"name": name, "namespace": "default", "labels": {"app": "bare"}}, "spec": spec}


def deployment(name, replicas, *tolerations):
    labels = {"app": name}
    spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": list(tolerations)}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


async def ensure(client: Client, kind, document):
    with contextlib.suppress(AlreadyExists):
        await client.create(kind, document)


async def set_risky(client: Client, node: str, risky: bool) -> None:
    """Give or take the taint, leaving alone what belongs to node lifecycle."""
    while True:
        found = await client.get(NODES, node)
        others = [t for t in found["spec"].get("taints") or () if t["key"] != RISKY["key"]]
        version = found["metadata"]["resourceVersion"]
        taints = [*others, RISKY] if risky else others
        change = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}
        with contextlib.suppress(Conflict):
            await client.patch(NODES, node, change)
            return


async def begin(client: Client) -> None:
    await set_risky(client, ALWAYS_RISKY, True)
    await ensure(client, DEPLOYMENTS, deployment("web", 4))
    await ensure(client, DEPLOYMENTS, deployment("tolerant", 3, TOLERATES))


def steps(round: int):
    """Return what happens in a round, as steps that may each be repeated: nodes 0 to 2 take turns in being risky."""
    node, risky = f"node-{round % 3}", (round // 3) % 2 == 0

    async def create(client):
        await ensure(client, PODS, pod(f"stays-{round}", node, TOLERATES))
        await ensure(
            client, PODS, pod(f"bounded-{round}", ALWAYS_RISKY, {**TOLERATES, "tolerationSeconds": 1})
        )
        if risky:
            await ensure(client, PODS, pod(f"goes-{round}", node))

    async def taint(client):
        await set_risky(client, node, risky)

    async def scale(client):
        await client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 3 + round % 3}}, "default")

    return [create, taint, scale], node, risky


async def must_go(client: Client, node: str) -> list[str]:
    """Return who is on *node* and does not tolerate that it is risky."""
    found = (await client.list(PODS, "default", field_selector=f"spec.nodeName={node}")).documents()
    return [p["metadata"]["name"] for p in found if TOLERATES not in p["spec"].get("tolerations", ())]


async def state(client: Client) -> dict[str, object]:
    """Return what must be the same however the cluster came here."""
    pods = (await client.list(PODS, "default")).documents()
    nodes = (await client.list(NODES)).documents()
    found = (await client.list(DEPLOYMENTS, "default")).documents()
    risky = {n["metadata"]["name"] for n in nodes if RISKY["key"] in str(n["spec"].get("taints"))}
    return {
        "bare": sorted(
            (p["metadata"]["name"], p["spec"].get("nodeName"), p["status"]["phase"])
            for p in pods
            if p["metadata"]["labels"]["app"] == "bare"
        ),
        "owned": sorted(
            (p["metadata"]["labels"]["app"], p["status"]["phase"])
            for p in pods
            if p["metadata"]["labels"]["app"] != "bare"
        ),
        "web on risky nodes": [
            p["metadata"]["name"]
            for p in pods
            if p["metadata"]["labels"]["app"] == "web" and p["spec"].get("nodeName") in risky
        ],
        "deployments": {d["metadata"]["name"]: d["status"].get("availableReplicas") for d in found},
        "risky": sorted(risky),
        "taints": sorted((n["metadata"]["name"], len(n["spec"].get("taints") or ())) for n in nodes),
    }


def reference() -> dict[str, object]:
    """Return the state the script leads to when nothing is ever killed."""
    with Cluster(nodes=4) as cluster:
        cluster.advance(5)
        cluster._do(begin(cluster.client))
        cluster.advance(10)
        for round in range(KILLS):
            for step in steps(round)[0]:
                cluster._do(step(cluster.client))
            cluster.advance(10)
        cluster.advance(60)
        return cluster._wait(state(cluster.client))


# ── the real one ─────────────────────────────────────────────────────────────────────────────────


class Killed:
    """A cluster that is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._log = folder, folder / "up.log"
        forker = [sys.executable, "-m", "tests.e2e.forked_up"]
        self._forker = subprocess.Popen(
            forker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        self.pid = 0
        self.client: Client

    async def start(self) -> None:
        self._log.unlink(missing_ok=True)
        data = self._folder / "data"
        words = ["start", str(self._log), "--data-dir", str(data), "--nodes", "4"]
        self._forker.stdin.write(shlex.join(words) + "\n")
        self._forker.stdin.flush()
        self.pid = int(await asyncio.to_thread(self._forker.stdout.readline))
        await self.until(self._is_up)
        self.client = connect(data / "kubeconfig", user_agent="script")

    async def _is_up(self) -> bool:
        text = self._log.read_text() if self._log.exists() else ""
        assert "Traceback" not in text and "Error" not in text, text[-2000:]
        return "export KUBECONFIG" in text

    async def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        await self.client.close()

        async def is_gone() -> bool:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return True
            return False

        await self.until(is_gone)

    async def until(self, holds) -> None:
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not await holds():
            assert asyncio.get_running_loop().time() < deadline, f"{holds} for {PATIENCE_SECONDS} s"
            await asyncio.sleep(0.02)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._forker.stdin.close()
        self._forker.wait(60)


class Watchman:
    """Remembers how many restarts each bare pod lived through, and which uids those had that must stay."""

    def __init__(self) -> None:
        self.restarts: Counter[str] = Counter()
        self.uids: dict[str, set[str]] = {}

    async def look(self, client: Client, *, before_a_kill: bool) -> set[str]:
        names = set()
        for found in (await client.list(PODS, "default")).documents():
            metadata = found["metadata"]
            names.add(metadata["name"])
            self.restarts[metadata["name"]] += before_a_kill
            if TOLERATES in found["spec"].get("tolerations", ()):
                name = metadata["name"] if metadata["labels"]["app"] == "bare" else metadata["labels"]["app"]
                self.uids.setdefault(name, set()).add(metadata["uid"])
        return names

    async def look_back(self, client: Client, seen: set[str]) -> None:
        """Count the restart also for who came between the last look and the kill."""
        for name in await self.look(client, before_a_kill=False) - seen:
            self.restarts[name] += 1


class Restless:
    """Somebody who writes without pause, and remembers what was answered last."""

    def __init__(self) -> None:
        self._number = self.answered = 0
        self.lost: list[tuple[int, int]] = []  # what was found, what had been answered
        self.cut = 0  # kills that fell into a request

    async def write(self, client: Client) -> None:
        """Write until the server dies."""
        while True:
            self._number += 1
            note = {"metadata": {"annotations": {"restless": str(self._number)}}}
            try:
                await client.patch(DEPLOYMENTS, "web", note, "default")
            except CUT_SHORT:
                self.cut += 1
                return
            self.answered = self._number

    async def look(self, client: Client) -> None:
        found = await client.get(DEPLOYMENTS, "web", "default")
        there = int((found["metadata"].get("annotations") or {}).get("restless", "0"))
        if there < self.answered:
            self.lost.append((there, self.answered))


async def work_off(left: list, client: Client, moment: asyncio.Future | None = None) -> None:
    """Take the steps that are *left*, each again until it went well; until *moment*, if one is given."""
    while left and not (moment is not None and moment.done()):
        # The server gives a patch up that others overtake five times.
        with contextlib.suppress(*CUT_SHORT, Conflict):
            await left[0](client)
            left.pop(0)


async def churn(cluster: Killed, watchman: Watchman, restless: Restless) -> None:
    chance = random.Random(5)
    for round in range(KILLS):
        work, node, risky = steps(round)
        if (
            not risky
        ):  # a taint is taken away only after it had its effect, or the outcome would be a matter of luck

            async def all_gone(node=node) -> bool:
                return not await must_go(cluster.client, node)

            await cluster.until(all_gone)
        moment = asyncio.ensure_future(asyncio.sleep(chance.random() * 0.5))
        left = list(work)
        if round % 2:  # the kill falls into requests
            seen = await watchman.look(cluster.client, before_a_kill=True)
            writing = asyncio.ensure_future(restless.write(cluster.client))
            working = asyncio.ensure_future(work_off(left, cluster.client, moment))
            await moment
            await cluster.kill()
            await asyncio.gather(writing, working)
        else:
            await work_off(left, cluster.client, moment)
            seen = await watchman.look(cluster.client, before_a_kill=True)
            await moment
            await cluster.kill()
        await cluster.start()
        await restless.look(cluster.client)
        await watchman.look_back(cluster.client, seen)
        await work_off(left, cluster.client)


async def live(folder: Path, expected: dict[str, object]) -> tuple[Watchman, list[dict], Restless]:
    cluster, watchman, restless = Killed(folder), Watchman(), Restless()
    try:
        await cluster.start()
        await begin(cluster.client)
        await churn(cluster, watchman, restless)
        found: dict[str, object] = {}

        async def converged() -> bool:
            nonlocal found
            found = await state(cluster.client)
            return found == expected

        try:
            await cluster.until(converged)
        except AssertionError:
            assert found == expected  # says where they differ
        await watchman.look(cluster.client, before_a_kill=False)
        events = (await cluster.client.list(EVENTS, "default")).documents()
        await cluster.client.close()
        return watchman, [e for e in events if e["reason"] == "TaintManagerEviction"], restless
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    expected = reference()
    assert len(expected["bare"]) == KILLS and not expected["web on risky nodes"], json.dumps(
        expected, indent=1
    )
    return asyncio.run(live(tmp_path_factory.mktemp("crash"), expected))


def test_after_every_crash_all_converges_to_what_the_reference_reaches(lived):
    watchman, _, _ = lived
    assert sum(name.startswith("stays-") for name in watchman.uids) == KILLS


def test_nobody_who_tolerates_was_replaced(lived):
    watchman, _, _ = lived
    stayed = {name: len(uids) for name, uids in watchman.uids.items() if name.startswith("stays-")}
    assert (set(stayed.values()), len(watchman.uids["tolerant"])) == ({1}, 3)


def test_nobody_who_tolerates_was_told_to_go(lived):
    _, events, _ = lived
    names = {e["involvedObject"]["name"] for e in events if "Marking" in e["message"]}
    assert not [name for name in names if name.startswith(("stays-", "tolerant-"))]


def test_an_eviction_is_told_once_and_at_most_once_more_for_every_restart(lived):
    watchman, events, _ = lived
    told: Counter[str] = Counter()
    for event in events:
        if "Marking" in event["message"] and event["involvedObject"]["name"].startswith(
            ("goes-", "bounded-")
        ):
            told[event["involvedObject"]["name"]] += event.get("count") or 1
    too_often = {name: count for name, count in told.items() if count > 1 + watchman.restarts[name]}
    assert (bool(told), too_often) == (True, {})


def test_what_was_answered_before_a_kill_is_there_after_it(lived):
    _, _, restless = lived
    assert (restless.lost, restless.answered > 0, restless.cut) == ([], True, KILLS // 2)
