"""SIGTERM ends every process, whatever its event loop computes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.server import running_server
from tests.e2e.test_processes import Story, component, gone, pod
from tests.e2e.test_up import until, up
from tests.e2e.warm import COLD
from tests.hostile_operator import FEATURES, answering, free_port, installed, running_operator
from weir.objects.kinds import by_kind
from weir.taints.expression import STOPPED_REASON

PODS, NODES, EVENTS = by_kind("v1", "Pod"), by_kind("v1", "Node"), by_kind("v1", "Event")
#: Nothing ends by itself meanwhile. `make hostile` asks for the two seconds that SECURITY.md names.
PATIENCE_SECONDS = float(os.environ.get("STOP_SECONDS", "30"))
NODES_TAINTED = 20
SLOW = [
    f"lists.range(40).all(i, lists.range(40).all(j, string(timestamp(i + {number})) != taint.key))"
    for number in range(100)
]
#: A loop that never gets back to its signals: it evaluates one expression after the other.
HELD = """
import asyncio, signal, sys
from weir.objects.core import Taint
from weir.observe.stopping import stop_on
from weir.taints.expression import Expressions

async def main():
    done = asyncio.Event()
    stop_on(done.set, signal.SIGTERM)
    try:
        number = 0
        print("ready", flush=True)
        while {held}:
            number += 1
            Expressions().evaluate(f"lists.range(90000).all(i, string(timestamp(i)) != '{{number}}')", Taint("a"))
        await done.wait()
    finally:
        print("cleaned up", flush=True)

{run}(main())
"""
RUNS = {"asyncio": "asyncio.run", "uvloop": "__import__('uvloop').run"}


@pytest.mark.parametrize("held", [True, False], ids=["computing", "waiting"])
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_a_loop_that_computes_is_interrupted_and_cleans_up(run: str, held: bool) -> None:
    if "uvloop" in run:
        pytest.importorskip("uvloop")
    code = HELD.format(held=held, run=run)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            code_of_end = process.wait(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
        assert (code_of_end, process.stdout.read()) == (0, "cleaned up\n")


def test_weir_up_ends_while_its_scheduler_evaluates(tmp_path: Path) -> None:
    story = Story(tmp_path)

    async def hostile(client):
        for number in range(40):
            taint = [{"key": "rack", "value": str(number), "effect": "NoSchedule"}]
            await client.patch(NODES, f"node-{number}", {"spec": {"taints": taint}})
        for number in range(5):
            document = pod(f"hostile-{number}")
            document["spec"]["tolerations"] = [{"expression": f"{text} && {number} > 0"} for text in SLOW]
            await client.create(PODS, document)
        while not any(each["reason"] == STOPPED_REASON for each in (await client.list(EVENTS)).documents()):
            await asyncio.sleep(0.02)

    with up(tmp_path, "--nodes", "40", "--store", "memory", cold=True) as process:
        scheduler = component(process, "scheduler")
        story.does(hostile)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE_SECONDS)
        assert until(lambda: gone(scheduler))


def used_seconds(pid: int) -> float:
    """Return the processor time of a process until now."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


async def store_hostile_pods(client) -> None:
    """Store nodes with taints, and pods with slow expressions: on the nodes and to be placed."""
    for number in range(NODES_TAINTED):
        name = f"node-{number}"
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        await client.create(NODES, {"metadata": {"name": name}, "status": {"capacity": capacity}})
        taints = [
            {"key": "rack", "value": str(number), "effect": each} for each in ("NoSchedule", "NoExecute")
        ]
        await client.patch(NODES, name, {"spec": {"taints": taints}})
    for number in range(30):
        document = pod(f"hostile-{number}", f"node-{number % NODES_TAINTED}" if number % 2 else "")
        document["spec"]["tolerations"] = [{"expression": f"{text} && {number} > 0"} for text in SLOW]
        await client.create(PODS, document)


@pytest.mark.parametrize("name", ["scheduler", "controller-manager"])
def test_a_component_ends_while_it_evaluates_what_is_stored(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with running_server(data) as server:
        Story(tmp_path).does(store_hostile_pods)
        words = [name, "--kubeconfig", str(server.kubeconfig)]
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen([*COLD, *words], stdout=log, stderr=log)
        try:
            assert until(lambda: process.poll() is not None or used_seconds(process.pid) > 3, 90)
            assert process.poll() is None, (tmp_path / "log").read_text()
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()


async def lower_hostile_pods(client) -> None:
    """Have the operator evaluate the expressions of many pods for every taint it knows."""
    for number in range(40):
        document = pod(f"hostile-{number}")
        document["spec"]["tolerations"] = [
            {"operator": "CEL", "value": f"{text} && {number} > 0"} for text in SLOW
        ]
        with suppress(Exception):  # the API server does not wait so long, and the operator ends
            await client.create(PODS, document)


def test_the_operator_ends_while_it_evaluates(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    data.mkdir()
    with running_server(data, "--feature-gates", FEATURES) as server:
        Story(tmp_path).does(lambda client: installed(client, port))
        with running_operator(tmp_path, server.kubeconfig, port, free_port()) as pid:
            Story(tmp_path).does(answering)
            before = used_seconds(pid)
            writer = threading.Thread(target=Story(tmp_path).does, args=(lower_hostile_pods,), daemon=True)
            writer.start()
            assert until(lambda: used_seconds(pid) > before + 1, 90)
            os.kill(pid, signal.SIGTERM)
            assert until(lambda: gone(pid), PATIENCE_SECONDS)
            writer.join(60)


def test_the_api_server_ends_while_it_judges_expressions(tmp_path: Path) -> None:
    """Thousands of writes with expressions are under way."""

    async def write(client) -> None:
        with suppress(Exception):  # it ends meanwhile
            await store_hostile_pods(client)

    data = tmp_path / "data"
    data.mkdir()
    with running_server(data, cold=True) as server:
        writer = threading.Thread(target=Story(tmp_path).does, args=(write,), daemon=True)
        before = used_seconds(server.pid)
        writer.start()
        assert until(lambda: used_seconds(server.pid) > before + 0.3)
        os.kill(server.pid, signal.SIGTERM)
        assert until(lambda: gone(server.pid), PATIENCE_SECONDS)
        writer.join(60)
