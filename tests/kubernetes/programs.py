"""Real Kubernetes programs, started with the settings these tests need and stopped at the end."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import NOT_OURS


def binaries() -> Path:
    """Return the folder of built programs; the tests are run through `make test-kubernetes`, which sets it."""
    folder = os.environ.get("KUBERNETES_BIN")
    if not folder:
        pytest.skip("KUBERNETES_BIN is not set: run make test-kubernetes")
    return Path(folder)


def of_release(number: str) -> Path:
    """Return the folder of the programs of another release, which lies beside that of the built ones."""
    beside = binaries().parent
    found = sorted(beside.glob(f"v{number}.*/kube-apiserver"))
    if not found:
        pytest.skip(f"Kubernetes {number} is {NOT_OURS}: build it once with make kubernetes VERSION={number}")
    return found[-1].parent


@cache
def version() -> str:
    """Return the release of the built programs, such as v1.37.1."""
    said = subprocess.run(
        [str(binaries() / "kube-apiserver"), "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return said.stdout.split()[-1]


@contextmanager
def running(
    folder: Path, program: str, *arguments: str, programs: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Give a running *program*; its log lies in *folder* and is shown when it dies."""
    log_path = folder / f"{program}.log"
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [str((programs or binaries()) / program), *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        try:
            yield process
            assert process.poll() is None, f"{program} died: {log_path.read_text()[-3000:]}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def scheduler(folder: Path, kubeconfig: Path, *more: str, profiles: Sequence[object] = ()):
    """Give a running kube-scheduler that speaks JSON."""
    config = folder / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false}\n"
        f"clientConnection: {{kubeconfig: {kubeconfig}, contentType: application/json, qps: 1000, burst: 1000}}\n"
        + (f"profiles: {json.dumps(profiles)}\n" if profiles else "")
    )
    return running(
        folder, "kube-scheduler", f"--config={config}", "--secure-port=0",
        "--feature-gates=TaintTolerationComparisonOperators=true", *more,
    )  # fmt: skip


def controller_manager(folder: Path, kubeconfig: Path, *more: str):
    """Give a running kube-controller-manager that speaks JSON and trusts nodes to stay ready."""
    return running(
        folder, "kube-controller-manager", f"--kubeconfig={kubeconfig}", "--secure-port=0", "--leader-elect=false",
        "--kube-api-content-type=application/json", "--kube-api-qps=1000", "--kube-api-burst=1000",
        "--node-monitor-grace-period=1000h", "--feature-gates=TaintTolerationComparisonOperators=true", *more,
    )  # fmt: skip
