"""The two systems that are measured beside each other: weir's processes, and a real Kubernetes on etcd.

Both are asked over TLS, with RBAC, audit off as by default, their default admission, and durable: SQLite as weir ships
it, etcd with fsync, on the same disk. Client limits of all components are lifted and the feature gates are equal.
Components of both reach their server over TLS, Kubernetes' in protobuf; its etcd is asked without TLS. With
COMPONENTS=socket weir's come by the Unix socket of the machine, as in `weir up`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.contract.etcd_server import EtcdServer, free_port
from tests.kubernetes.programs import running
from tests.kubernetes.real_server import KUBECONFIG, PATIENCE_SECONDS, is_ready
from tests.kubernetes.test_same_answers import running_keys

from bench._load import GATES, api_server, cpu_seconds, memory_mib, started
from weir.objects.manifest import read_values

_QPS = 100_000
_REST = 0.2  #: seconds of processor time in one, of all processes: more than a control plane takes that has no work
_TOKEN = "admin-token"
_KUBERNETES_GATES = "--feature-gates=TaintTolerationComparisonOperators=true"


@dataclass(frozen=True, slots=True)
class System:
    """A running control plane: where it is asked, and its processes by name."""

    server: str
    token: str
    processes: dict[str, int]

    def cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self.processes.items()}

    def ended(self) -> list[str]:
        """Return the names of processes that do not run any more."""
        states = {name: Path(f"/proc/{pid}/stat") for name, pid in self.processes.items()}
        return [
            name
            for name, stat in states.items()
            if not stat.exists() or stat.read_text().rpartition(") ")[2].startswith("Z")
        ]

    def memory(self) -> dict[str, float]:
        return {name: memory_mib(pid) for name, pid in self.processes.items()}

    def rest(self, wait: Callable[[float], object] = time.sleep) -> None:
        """Return when the processes have no work left: none has still to start, or to write what it put off."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        before, spent = sum(self.cpu().values()), 1.0
        while spent > _REST and time.monotonic() < deadline:
            wait(1.0)
            now = sum(self.cpu().values())
            before, spent = now, now - before


Start = Callable[[Sequence[str]], AbstractContextManager[System]]


@contextmanager
def weir(controllers: Sequence[str] = ()) -> Iterator[System]:
    """Run weir's API server and scheduler, and the controllers named."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        local = folder / "local.kubeconfig"
        options = ("--token-auth-file", str(_tokens(folder)), "--local-kubeconfig", str(local))
        server = stack.enter_context(api_server(folder, *options))
        reach = (
            "--kubeconfig",
            str(local if os.environ.get("COMPONENTS") == "socket" else folder / "kubeconfig"),
            "--no-leader-elect",
            "--kube-api-qps",
            "0",
            GATES,
        )
        processes = {"apiserver": server.pid}
        processes["scheduler"] = stack.enter_context(started(folder, "scheduler", *reach)).pid
        if controllers:
            only = f"--controllers={','.join(controllers)}"
            manager = stack.enter_context(started(folder, "controller-manager", only, *reach))
            processes["controller-manager"] = manager.pid
        system = System(_server(folder / "kubeconfig"), _TOKEN, processes)
        system.rest()
        yield system


@cache
def etcd_program() -> str:
    """Return a current etcd, built from its Go module; ETCD_BIN names another one."""
    if named := os.environ.get("ETCD_BIN"):
        return named
    build = Path(__file__).parent / "etcd.sh"
    return subprocess.run([build], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@cache
def is_kubernetes_built() -> bool:
    """Whether real programs are on this machine; says on stderr what to do where they are not."""
    build = Path(__file__).parents[1] / "tests" / "kubernetes" / "build"
    found = subprocess.run([build, "--find"], capture_output=True, text=True, check=False)
    if found.returncode:
        print("no real Kubernetes to measure beside: `make kubernetes` builds one", file=sys.stderr)
        return False
    os.environ["KUBERNETES_BIN"] = found.stdout.strip()
    return True


@contextmanager
def kubernetes(controllers: Sequence[str] = ()) -> Iterator[System]:
    """Run etcd, kube-apiserver and kube-scheduler, and the controllers named in a kube-controller-manager."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        etcd = EtcdServer(etcd_program(), folder)
        etcd.start()
        stack.callback(etcd.kill)
        server, kubeconfig = _kube_apiserver(stack, folder, etcd)
        processes = {"etcd": etcd.pid, "kube-apiserver": server.pid}
        config = folder / "scheduler.yaml"
        protobuf = "application/vnd.kubernetes.protobuf"
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "leaderElection: {leaderElect: false}\n"
            f"clientConnection: {{kubeconfig: {kubeconfig}, contentType: {protobuf}, qps: {_QPS}, burst: {_QPS}}}\n"
        )
        scheduler = running(
            folder, "kube-scheduler", f"--config={config}", "--secure-port=0", _KUBERNETES_GATES
        )
        processes["kube-scheduler"] = stack.enter_context(scheduler).pid
        if controllers:
            limits = (f"--kube-api-qps={_QPS}", f"--kube-api-burst={_QPS}", "--leader-elect=false")
            # kube-controller-manager's taint eviction finds pods by an index that its node lifecycle controller makes
            needed = [*controllers, "node-lifecycle"] if "taint-eviction" in controllers else controllers
            only = f"--controllers={','.join(f'{one}-controller' for one in needed)}"
            patience = ("--node-monitor-grace-period=1000h", "--node-startup-grace-period=1000h")
            manager = running(
                folder, "kube-controller-manager", f"--kubeconfig={kubeconfig}", "--secure-port=0", only,
                *limits, *patience, _KUBERNETES_GATES,
            )  # fmt: skip
            processes["kube-controller-manager"] = stack.enter_context(manager).pid
        system = System(_server(kubeconfig), _TOKEN, processes)
        system.rest()
        yield system


def _server(kubeconfig: Path) -> str:
    (config,) = read_values(kubeconfig.read_bytes())
    server: str = config["clusters"][0]["cluster"]["server"]
    return server


def _tokens(folder: Path) -> Path:
    """Write the token file that both servers take."""
    path = folder / "tokens.csv"
    path.write_text(f'{_TOKEN},admin,1,"system:masters"\n')
    return path


def _kube_apiserver(stack: ExitStack, folder: Path, etcd: EtcdServer) -> tuple[subprocess.Popen[bytes], Path]:
    keys, port = running_keys(folder), free_port()
    address = f"https://127.0.0.1:{port}"
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(server=address))
    server = stack.enter_context(
        running(
            folder, "kube-apiserver", f"--etcd-servers=http://{etcd.endpoint}", f"--secure-port={port}",
            "--bind-address=127.0.0.1", f"--cert-dir={folder / 'certs'}",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={keys}",
            f"--service-account-signing-key-file={keys}", f"--token-auth-file={_tokens(folder)}",
            "--authorization-mode=RBAC", _KUBERNETES_GATES,
        )
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_ready(address):
        assert time.monotonic() < deadline, (folder / "kube-apiserver.log").read_text()[-2000:]
        time.sleep(0.2)
    return server, kubeconfig
