"""The work of real clients: a program on client-go (`bench/clientgo`) gives it to either system over TLS.

Typed objects in client-go's default content types, informers for what comes of them. The program is built once and
kept outside the repository; without Go there is nothing to measure. Before the clock starts a little of the same work
is done, so that every component has taken in what is there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from os import cpu_count
from pathlib import Path

from bench._systems import System

SOURCE = Path(__file__).parent / "clientgo"
SECONDS_TO_SETTLE = 10.0
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: measured
clusters: [{{name: measured, cluster: {{server: "{server}", insecure-skip-tls-verify: true}}}}]
users: [{{name: admin, user: {{token: "{token}"}}}}]
contexts: [{{name: measured, context: {{cluster: measured, user: admin}}}}]
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One run of the program: a mode with a number of pods (or nodes), and further options."""

    mode: str
    count: int
    options: tuple[str, ...] = ()
    prefix: str = "p"


@dataclass(frozen=True, slots=True)
class Measured:
    """What one round of a workload gave on one system."""

    value: float  #: in the workload's unit
    count: int = 0  #: of pods, which the processor time is divided by
    cpu: dict[str, float] = field(default_factory=dict)  #: seconds by process
    memory: dict[str, float] = field(default_factory=dict)  #: MiB by process when the work is done
    generator: float = 0.0  #: the generator's part of the machine


@cache
def program() -> Path | None:
    """Return the built program; None without Go."""
    if ready := os.environ.get("CLIENT_GO"):
        return Path(ready)
    if shutil.which("go") is None:
        return None
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "weir"
    target = cache_folder / "clientgo"
    newest = max(source.stat().st_mtime for source in SOURCE.iterdir())
    if not target.exists() or target.stat().st_mtime < newest:
        cache_folder.mkdir(parents=True, exist_ok=True)
        # built as Kubernetes is (tests/kubernetes/build), so that Go takes what both need from its cache
        command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), "."]
        subprocess.run(command, cwd=SOURCE, check=True, env={**os.environ, "CGO_ENABLED": "0"})
    return target


def measure(system: System, before: Sequence[Step], work: Step, unit: str, diverse: bool) -> Measured:
    """Give *system* the steps *before*, then *work*, which is measured in *unit* (1/s, pods/s, ms, s or MiB)."""
    with tempfile.TemporaryDirectory() as name:
        kubeconfig = Path(name) / "kubeconfig"
        kubeconfig.write_text(_KUBECONFIG.format(server=system.server, token=system.token))
        for step in before:
            run_step(kubeconfig, step, diverse)
        system.rest()
        spent, began = system.cpu(), time.perf_counter()
        printed = run_step(kubeconfig, work, diverse)
        took = time.perf_counter() - began
        if unit == "MiB":
            time.sleep(SECONDS_TO_SETTLE)
        system.rest()
        memory = system.memory()
        value = {
            "ms": printed["seconds"] * 1000,
            "s": printed["seconds"],
            "MiB": sum(memory.values()),
        }.get(unit, _events(work) / printed["seconds"])
        cpu = {process: seconds - spent[process] for process, seconds in system.cpu().items()}
        share = printed["cpu"] / (took * (cpu_count() or 1))
        return Measured(value, work.count, cpu, memory, share)


def _events(work: Step) -> int:
    """Return how many events a rate counts: of each pod one, or one for each informer."""
    watchers = dict(zip(work.options, work.options[1:], strict=False)).get("-watchers", "1")
    return work.count * int(watchers)


def run_step(kubeconfig: Path, step: Step, diverse: bool) -> dict[str, float]:
    """Do one run of the program; raises TimeoutError."""
    built = program()
    assert built is not None
    words = [
        "-kubeconfig",
        str(kubeconfig),
        "-mode",
        step.mode,
        "-n",
        str(step.count),
        "-prefix",
        step.prefix,
    ]
    options = [*step.options, *(["-diverse"] if diverse else [])]
    done = subprocess.run([str(built), *words, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise TimeoutError(f"{step.mode}: {done.stderr.strip()}")
    printed: dict[str, float] = json.loads(done.stdout)
    return printed
