"""The time `weir up` takes until it is ready: `python -m bench startup`.

Without nodes, once in an empty folder and once on what that left behind; the best of five. Processor time is that of
the process whose line people wait for, which has the API server: scheduler, controllers and kubelets begin beside it.
The baseline is the same machine's Python beginning with the libraries that weir needs, and nothing of weir.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import Figure
from bench._load import cpu_seconds

TIMES = 5
READY = "export KUBECONFIG="
LIBRARIES = "import asyncio, ssl, sqlite3, click, msgspec, yaml, uvloop, httptools, cryptography.x509"


def until_ready(folder: Path) -> tuple[float, float]:
    """Return the seconds, and the processor's, from the command to the line that says how to reach the cluster."""
    command = ["-m", "weir", "up", "--nodes", "0", "--secure-port", "0", "--data-dir", str(folder)]
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert any(READY in line for line in process.stdout), "weir up ended before it was ready"
        took, cpu = time.perf_counter() - began, cpu_seconds(process.pid)
        process.terminate()
        process.stdout.read()
    return took, cpu


def python_alone() -> tuple[float, float]:
    began, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-c", LIBRARIES], check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, cpu


def run() -> list[Figure]:
    fresh, kept, alone = [], [], []
    for _ in range(TIMES):
        with tempfile.TemporaryDirectory() as folder:
            fresh.append(until_ready(Path(folder) / "data"))
            kept.append(until_ready(Path(folder) / "data"))
        alone.append(python_alone())
    seconds, cpu = (min(column) for column in zip(*alone, strict=True))
    figures = []
    for name, found in (("in an empty folder", fresh), ("on what is kept", kept)):
        took, busy = (min(column) for column in zip(*found, strict=True))
        figures += [
            Figure(f"weir up {name}: until ready", took, "s", seconds, target="under 1 s"),
            Figure(f"weir up {name}: CPU of its API server", busy, "s", cpu),
        ]
    return figures
