"""A real Kubernetes to measure beside: kube-apiserver on etcd, kube-scheduler, kube-controller-manager, in this run.

Their client limits are raised until they no longer limit, and they speak protobuf among themselves as by default. The
server is spared what weir's is not: its ServiceAccount admission is off and its etcd writes to memory.
Where no binaries are built (`make kubernetes`, or KUBERNETES_BIN), figures have no baseline and the bench says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from tests.kubernetes.programs import running
from tests.kubernetes.real_server import real_server

_PROTOBUF = "application/vnd.kubernetes.protobuf"
_QPS = 10_000


@cache
def is_built() -> bool:
    """Whether real programs are on this machine; says on stderr what to do where they are not."""
    build = Path(__file__).parents[1] / "tests" / "kubernetes" / "build"
    found = subprocess.run([build, "--find"], capture_output=True, text=True, check=False)
    if found.returncode:
        print("no real Kubernetes to measure beside: `make kubernetes` builds one", file=sys.stderr)
        return False
    os.environ["KUBERNETES_BIN"] = found.stdout.strip()
    return True


@contextmanager
def control_plane(*, controllers: str = "") -> Iterator[Path]:
    """Run a kube-apiserver and a kube-scheduler, and the named controllers; give the kubeconfig."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        kubeconfig = stack.enter_context(real_server(folder, "--max-requests-inflight=0"))
        config = folder / "scheduler.yaml"
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "leaderElection: {leaderElect: false}\n"
            f"clientConnection: {{kubeconfig: {kubeconfig}, contentType: {_PROTOBUF}, qps: {_QPS}, burst: {_QPS}}}\n"
        )
        gates = "--feature-gates=TaintTolerationComparisonOperators=true"
        stack.enter_context(running(folder, "kube-scheduler", f"--config={config}", "--secure-port=0", gates))
        if controllers:
            stack.enter_context(
                running(
                    folder,
                    "kube-controller-manager",
                    f"--kubeconfig={kubeconfig}",
                    "--secure-port=0",
                    "--leader-elect=false",
                    f"--kube-api-qps={_QPS}",
                    f"--kube-api-burst={_QPS}",
                    f"--controllers={controllers}",
                    gates,
                )
            )
        yield kubeconfig
