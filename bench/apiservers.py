"""`weir up --apiservers N`: what one, two and four API server processes answer on this machine's cores.

Clients are on client-go over TLS, pods are diverse, the store is one etcd with its defaults. The generator shares the
machine, so that with few cores it is the processor time of a request, the same for any number of processes, that says
what more cores would give. A baseline is the figure of one process.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.contract.etcd_server import EtcdServer

from bench import Figure
from bench._client_go import Step, program, run_step
from bench._load import cpu_seconds
from bench._systems import etcd_program

STORED = 500
WATCHERS = 20
WORK = (
    ("get", "1/s", Step("get", 20_000, ("-stored", str(STORED)))),
    (f"list of {STORED}", "1/s", Step("lists", 200)),
    ("created", "1/s", Step("create", 1_000, prefix="c")),
    (f"events to {WATCHERS} informers", "1/s", Step("watch", 500, ("-watchers", str(WATCHERS)), prefix="w")),
)


def run() -> list[Figure]:
    if program() is None:
        print("the clients of the bench are on client-go, which needs Go", file=sys.stderr)
        return []
    rates: dict[tuple[int, str], tuple[float, float]] = {}
    for number in (1, 2, 4):
        with _cluster(number) as (kubeconfig, processes):
            run_step(kubeconfig, Step("nodes", 0), diverse=True)
            run_step(kubeconfig, Step("create", STORED), diverse=True)
            for words, _, step in WORK:
                spent = sum(map(cpu_seconds, processes))
                seconds = run_step(kubeconfig, step, diverse=True)["seconds"]
                events = step.count * (WATCHERS if step.mode == "watch" else 1)
                rates[number, words] = (
                    events / seconds,
                    (sum(map(cpu_seconds, processes)) - spent) / events * 1e6,
                )
    figures = []
    for words, unit, _ in WORK:
        for number in (1, 2, 4):
            rate, cost = rates[number, words]
            one = rates[1, words]
            figure = f"{words}, {number} API server process{'es' if number > 1 else ''}"
            figures.append(Figure(figure, rate, unit, one[0], rate / one[0]))
            figures.append(
                Figure("  processor time of the API servers for each", cost, "µs", one[1], one[1] / cost)
            )
    return figures


@contextmanager
def _cluster(number: int) -> Iterator[tuple[Path, list[int]]]:
    """Run `weir up` with so many API servers on an etcd; give its kubeconfig and their processes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        etcd = EtcdServer(etcd_program(), folder)
        etcd.start()
        said = folder / "up.log"
        options = (
            "--nodes",
            "0",
            "--secure-port",
            "0",
            "--store",
            f"etcd={etcd.endpoint}",
            "--apiservers",
            str(number),
        )
        command = [sys.executable, "-m", "weir.cli.main", "up", "--data-dir", str(folder / "data"), *options]
        with said.open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            while "export KUBECONFIG" not in said.read_text():
                if process.poll() is not None:
                    raise SystemExit(said.read_text())
                time.sleep(0.1)
            while len(servers := _servers(process.pid)) < number:
                time.sleep(0.1)
            yield folder / "data" / "kubeconfig", servers
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
            etcd.kill()


def _servers(pid: int) -> list[int]:
    """Return the first API server, which is the process that was started, and its descendants that are others."""
    listing = subprocess.run(
        ["ps", "-eo", "pid,ppid,comm"], capture_output=True, text=True, check=True
    ).stdout
    rows = [(int(one), int(two), name) for one, two, name in re.findall(r"(\d+)\s+(\d+)\s+(\S+)", listing)]
    family = {pid}
    for _ in range(3):
        family |= {one for one, parent, _ in rows if parent in family}
    return [pid, *(one for one, _, name in rows if one in family and name.startswith("weir-apiserver"))]
