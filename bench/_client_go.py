"""The work of real clients: a program on client-go (`bench/clientgo`) gives it to either system over TLS.

Typed objects in client-go's default content types, an informer for what comes of them. The program is built once and
kept outside the repository; without Go there is nothing to measure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from os import cpu_count
from pathlib import Path

from bench._systems import System
from bench._workloads import WARM, Measured

SOURCE = Path(__file__).parent / "clientgo"
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: measured
clusters: [{{name: measured, cluster: {{server: "https://{host}:{port}", insecure-skip-tls-verify: true}}}}]
users: [{{name: admin, user: {{token: "{token}"}}}}]
contexts: [{{name: measured, context: {{cluster: measured, user: admin}}}}]
"""


@cache
def program() -> Path | None:
    """Return the built program; None, and a word why, without Go."""
    if ready := os.environ.get("CLIENT_GO"):
        return Path(ready)
    if shutil.which("go") is None:
        return None
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "weir"
    target = cache_folder / "clientgo"
    if not target.exists() or target.stat().st_mtime < (SOURCE / "main.go").stat().st_mtime:
        cache_folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(target), "."], cwd=SOURCE, check=True)
    return target


def asked(
    mode: str, count: int, *, diverse: bool = False, nodes: int = 0, seconds: bool = False
) -> Callable[[System], Measured]:
    """Return what gives a system *count* pods in one mode of the program: as a rate, or as milliseconds it took."""

    def measure(system: System) -> Measured:
        with tempfile.TemporaryDirectory() as name:
            kubeconfig = Path(name) / "kubeconfig"
            target = system.target
            kubeconfig.write_text(_KUBECONFIG.format(host=target.host, port=target.port, token=target.token))
            _run(kubeconfig, "nodes", nodes)
            read = mode in ("list", "informer")
            _run(kubeconfig, "create" if read else mode, 0 if read else WARM, "w", diverse)
            if read:
                _run(kubeconfig, "create", count, diverse=diverse)
            system.rest()
            before, began = system.cpu(), time.perf_counter()
            found = _run(kubeconfig, mode, count, diverse=diverse)
            took = time.perf_counter() - began
            system.rest()
            value = found["seconds"] * 1000 if seconds else count / found["seconds"]
            cpu = {process: spent - before[process] for process, spent in system.cpu().items()}
            share = found["cpu"] / (took * (cpu_count() or 1))
            return Measured(value, count, cpu, share)

    return measure


def _run(
    kubeconfig: Path, mode: str, count: int, prefix: str = "p", diverse: bool = False
) -> dict[str, float]:
    built = program()
    assert built is not None
    command = [built, "-kubeconfig", kubeconfig, "-mode", mode, "-n", str(count), "-prefix", prefix]
    if diverse:
        command.append("-diverse")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TimeoutError(done.stderr.strip())
    measured: dict[str, float] = json.loads(done.stdout)
    return measured
