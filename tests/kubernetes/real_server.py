"""A real kube-apiserver on a real etcd, with one token that may do everything."""

from __future__ import annotations

import ssl
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.contract.etcd_server import free_port, running_etcd
from tests.kubernetes.programs import running
from tests.kubernetes.test_same_answers import running_keys

PATIENCE_SECONDS = 90
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: real, cluster: {{server: "{server}", insecure-skip-tls-verify: true}}}}]
users: [{{name: admin, user: {{token: admin-token}}}}]
contexts: [{{name: real, context: {{cluster: real, user: admin}}}}]
current-context: real
"""


@contextmanager
def real_server(
    folder: Path,
    *more: str,
    users: Sequence[str] = (),
    gates: str = "TaintTolerationComparisonOperators=true",
    programs: Path | None = None,
) -> Iterator[Path]:
    """Give the kubeconfig of a kube-apiserver that answers; *users* are more lines of its token file.

    *programs* is the folder of another release's, which may not know the *gates*.
    """
    tokens = ['admin-token,admin,1,"system:masters"', *users]
    (folder / "tokens.csv").write_text("\n".join(tokens) + "\n")
    keys, port = running_keys(folder), free_port()
    server = f"https://127.0.0.1:{port}"
    kubeconfig = folder / "real.kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(server=server))
    with (
        running_etcd() as etcd,
        running(
            folder, "kube-apiserver", f"--etcd-servers=http://{etcd.endpoint}", f"--secure-port={port}",
            "--bind-address=127.0.0.1", f"--cert-dir={folder / 'certs'}",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={keys}",
            f"--service-account-signing-key-file={keys}", f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            *([f"--feature-gates={gates}"] if gates else ()), *more, programs=programs,
        ),
    ):  # fmt: skip
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_ready(server):
            assert time.monotonic() < deadline, (folder / "kube-apiserver.log").read_text()[-2000:]
            time.sleep(0.2)
        yield kubeconfig


def is_ready(server: str) -> bool:
    request = urllib.request.Request(f"{server}/readyz", headers={"Authorization": "Bearer admin-token"})
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False
