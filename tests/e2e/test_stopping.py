"""SIGTERM ends every process within two seconds, whatever its event loop computes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_processes import Story, component, gone, pod
from tests.e2e.test_up import until, up
from weir.objects.kinds import by_kind
from weir.taints.expression import STOPPED_REASON

PODS, NODES, EVENTS = by_kind("v1", "Pod"), by_kind("v1", "Node"), by_kind("v1", "Event")
#: What stopping may take, and how much slower a machine may be on which others work.
SECONDS = 2.0
SLOWER = 4
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
            code_of_end = process.wait(timeout=SECONDS * SLOWER)
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
        process.wait(timeout=SECONDS * SLOWER)
        assert until(lambda: gone(scheduler))
