"""A stock control plane of real Kubernetes programs, and weir's operator as processes of their own beside it."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.contract.etcd_server import free_port, running_etcd
from tests.kubernetes.programs import binaries, version
from tests.kubernetes.real_server import KUBECONFIG, is_ready
from tests.kubernetes.test_same_answers import running_keys
from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.cache import Informer, decode_described
from weir.client.http import connect
from weir.clock import RealClock
from weir.install.rights import CERTIFICATES
from weir.lowering import webhooks
from weir.lowering.grace import split_grace
from weir.lowering.names import NAMESPACE
from weir.objects.kinds import by_kind
from weir.operator.certificates import renewed

Document = dict[str, Any]
PODS, NODES, NAMESPACES, SECRETS = (by_kind("v1", kind) for kind in ("Pod", "Node", "Namespace", "Secret"))
HOOKS = tuple(
    by_kind("admissionregistration.k8s.io/v1", kind)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)
PATIENCE_SECONDS = 90.0
NUMERIC = "TaintTolerationComparisonOperators"


def has_numeric_gate() -> bool:
    """Return whether this release of Kubernetes knows numeric tolerations at all."""
    return int(version().split(".")[1]) >= 35


class Program:
    """A process that can be frozen, killed and started again."""

    def __init__(self, folder: Path, name: str, command: list[str], source: Path | None = None) -> None:
        """*source* is where a version of weir lies that is not the installed one."""
        self._command, self.name = command, name
        self._log = folder / f"{name}.log"
        self._cwd = folder
        self._environment = None if source is None else {**os.environ, "PYTHONPATH": str(source)}
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, cwd=self._cwd, env=self._environment
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(20)

    def stop(self) -> None:
        """End as a pod does that is replaced."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(60)

    @property
    def log(self) -> str:
        return self._log.read_text()


class Door:
    """One address before several operators: each connection goes to one that answers, as a Service's would."""

    def __init__(self, ports: list[int]) -> None:
        self._ports, self._turn = ports, 0
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._turn += 1
        turn = self._turn  # others come while this one is connected
        for number in range(len(self._ports)):
            port = self._ports[(turn + number) % len(self._ports)]
            try:
                there, back = await asyncio.open_connection("127.0.0.1", port)
                break
            except OSError:
                continue
        else:
            writer.close()
            return
        self._open |= {writer, back}
        with suppress(asyncio.CancelledError):  # the end of the test
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        self._open -= {writer, back}

    def cut(self) -> None:
        """Let nobody through any more, not even who is through."""
        self.close()
        for writer in self._open:
            writer.transport.abort()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.CancelledError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


class Plane:
    """A control plane; `client` talks to its first API server, `clients` to each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfigs: list[Path] = []
        self.clients: list[Client] = []
        self.managers: list[Program] = []
        self.operators: list[Program] = []
        self.metrics_ports: list[int] = []  #: of the operators
        self.hook_ports: list[int] = []
        #: Starts an operator of the version at a path (None: this one) at a port and a port for metrics.
        self.operator: Callable[[str, int, int, Path | None], Program] = lambda *_: self.programs[-1]
        self.server_ports: list[int] = []
        self.programs: list[Program] = []
        self.gone: dict[str, float] = {}  #: when each pod was seen to be deleted, by name
        self.bound: dict[str, float] = {}
        self.released: set[str] = set()  #: pods that nothing holds back any more
        self.graced: set[str] = set()  #: pods that were seen with grace entries
        self._informers: list[Informer[Any]] = []

    @property
    def client(self) -> Client:
        return self.clients[0]

    def start(self, name: str, program: str, *arguments: str) -> Program:
        made = Program(self.folder, name, [str(binaries() / program), *arguments])
        self.programs.append(made)
        return made

    # ── words ────────────────────────────────────────────────────────────────────────────────────

    async def node(self, name: str, *taints: tuple[str, str, str], **labels: str) -> None:
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "500"}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        document = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "spec": {"taints": _taints(taints)},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        }
        await self.client.create(NODES, document)

    async def taint(self, node: str, *taints: tuple[str, str, str], via: int = 0) -> float:
        """Replace a node's taints as people do, again while the answer is "later"; return how long it took."""
        began = time.monotonic()
        while True:
            try:
                await self.clients[via].patch(NODES, node, {"spec": {"taints": _taints(taints)}}, read=False)
                return time.monotonic() - began
            except (errors.TooManyRequests, errors.InternalError, errors.ServiceUnavailable, Unreachable):
                if time.monotonic() - began > PATIENCE_SECONDS:
                    raise
                await asyncio.sleep(0.05)

    async def pod(self, name: str, *tolerations: Document, node: str = "", via: int = 0, **spec: Any) -> None:
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "terminationGracePeriodSeconds": 0,
                "tolerations": list(tolerations),
                **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}),
                **spec,
            },
        }
        await self.clients[via].create(PODS, body, "default", read=False)

    async def until(self, holds: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"waited in vain: {what}"
            await asyncio.sleep(0.005)

    async def answering(self, server: int) -> None:
        """Return when an API server answers again."""
        url = f"https://127.0.0.1:{self.server_ports[server]}"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not await asyncio.to_thread(is_ready, url):
            assert time.monotonic() < deadline, f"API server {server} does not come back"
            await asyncio.sleep(0.2)

    async def watch_pods(self) -> None:
        informer = Informer(self.client, PODS, RealClock(), decode_described, namespace="default")
        self._informers.append(informer)
        informer.cache.listen(self._pod_changed)
        self._watching = asyncio.ensure_future(informer.run())
        await informer.cache.wait_synced()

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        pod = new or old
        assert pod is not None
        name = pod["metadata"]["name"]
        if new is None or new["metadata"].get("deletionTimestamp"):
            self.gone.setdefault(name, time.monotonic())
            return
        if not new["spec"].get("schedulingGates"):
            self.released.add(name)
        if new["spec"].get("nodeName"):
            self.bound.setdefault(name, time.monotonic())
            if split_grace(new["spec"].get("tolerations") or ())[1]:
                self.graced.add(name)

    async def stop(self) -> None:
        if self._informers:
            self._watching.cancel()
        for client in self.clients:
            await client.close()
        for program in reversed(self.programs):
            with suppress(ProcessLookupError):
                program.thaw()
            program.kill()


def _taints(taints: tuple[tuple[str, str, str], ...]) -> list[Document]:
    return [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in taints]


MANAGER_ELECTION = (
    "--leader-elect=true",
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
)


@asynccontextmanager
async def plane(
    folder: Path,
    *,
    numeric: bool = False,
    servers: int = 1,
    managers: int = 1,
    settings: str = "",
    grace: str = "1000h",
    more: Sequence[str] = (),
) -> AsyncIterator[Plane]:
    """Give a control plane; *numeric* with the gate of native numeric tolerations on, or with *settings* of gates.

    *grace* is how long a node may be silent, *more* are flags of the API server.
    """
    made = Plane(folder)
    settings = settings or (f"{NUMERIC}={str(numeric).lower()}" if has_numeric_gate() else "")
    gates = f"--feature-gates={settings}" if settings else "--v=0"
    (folder / "tokens.csv").write_text(
        'admin-token,admin,1,"system:masters"\nnobody-token,nobody,2,"nobodies"\n'
    )
    keys = running_keys(folder)
    with running_etcd() as etcd:
        try:
            for number in range(servers):
                port = free_port()
                made.server_ports.append(port)
                server = f"https://127.0.0.1:{port}"
                kubeconfig = folder / f"server-{number}.kubeconfig"
                kubeconfig.write_text(KUBECONFIG.format(server=server))
                made.kubeconfigs.append(kubeconfig)
                made.start(
                    f"kube-apiserver-{number}", "kube-apiserver", f"--etcd-servers=http://{etcd.endpoint}",
                    f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={folder / f'certs-{number}'}",
                    "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={keys}",
                    f"--service-account-signing-key-file={keys}", f"--token-auth-file={folder / 'tokens.csv'}",
                    "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
                    gates, *more,
                )  # fmt: skip
                deadline = time.monotonic() + PATIENCE_SECONDS
                while not is_ready(server):
                    assert time.monotonic() < deadline and made.programs[-1].runs, made.programs[-1].log[
                        -2000:
                    ]
                    await asyncio.sleep(0.2)
                made.clients.append(connect(kubeconfig))
            last = made.kubeconfigs[-1]
            config = folder / "scheduler.yaml"
            config.write_text(
                "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
                "leaderElection: {leaderElect: false}\n"
                f"clientConnection: {{kubeconfig: {last}, qps: 1000, burst: 1000}}\n"
            )
            made.start("kube-scheduler", "kube-scheduler", f"--config={config}", "--secure-port=0", gates)
            for number in range(managers):
                made.managers.append(
                    made.start(
                        f"kube-controller-manager-{number}", "kube-controller-manager",
                        f"--kubeconfig={made.kubeconfigs[-1 - number % servers]}", "--secure-port=0",
                        *(MANAGER_ELECTION if managers > 1 else ("--leader-elect=false",)),
                        "--kube-api-qps=1000", "--kube-api-burst=1000", f"--node-monitor-grace-period={grace}", gates,
                    )
                )  # fmt: skip
            await made.watch_pods()
            yield made
        finally:
            await made.stop()


def start_operator(
    made: Plane,
    name: str,
    kubeconfig: Path,
    arguments: Sequence[str],
    source: Path | None = None,
    *,
    own_certificate: bool = False,
) -> Program:
    """Start an operator that shows the certificate in the folder of the plane, or its own."""
    shown = () if own_certificate else (
        f"--tls-cert-file={made.folder / 'hook.crt'}", f"--tls-private-key-file={made.folder / 'hook.key'}",
    )  # fmt: skip
    command = [
        sys.executable, "-m", "weir", "operator", f"--kubeconfig={kubeconfig}", "-v", *shown, *arguments,
    ]  # fmt: skip
    program = Program(made.folder, name, command, source)
    made.operators.append(program)
    made.programs.append(program)
    return program


@asynccontextmanager
async def installed(
    made: Plane,
    *,
    replicas: int = 1,
    grace_seconds: int | None = None,
    own_certificate: bool = False,
    source: Path | None = None,
) -> AsyncIterator[list[Program]]:
    """Install the operator: processes first, then the webhooks, once they answer.

    With *own_certificate* they make it themselves; *source* is that of another version of weir.
    """
    folder = made.folder
    await made.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await made.client.create(SECRETS, {"metadata": {"name": CERTIFICATES}}, NAMESPACE)
    certificates = renewed(None, ["127.0.0.1"], datetime.now(UTC))
    (folder / "hook.crt").write_bytes(certificates.leaf)
    (folder / "hook.key").write_bytes(certificates.leaf_key)
    made.hook_ports = [free_port() for _ in range(2 * replicas)]  # the second half for those that take over
    door = Door(made.hook_ports)
    base = f"https://127.0.0.1:{await door.open()}"

    def operator(name: str, port: int, metrics_port: int, source: Path | None) -> Program:
        arguments = [
            f"--secure-port={port}", f"--metrics-port={metrics_port}",
            *([f"--url={base}"] if own_certificate else []),
            *([] if grace_seconds is None else [f"--grace-seconds={grace_seconds}"]),
            *(["--leader-elect-lease-duration=3"] if replicas > 1 else ["--no-leader-elect"]),
        ]  # fmt: skip
        own = own_certificate
        return start_operator(made, name, made.kubeconfigs[0], arguments, source, own_certificate=own)

    made.operator = operator
    try:
        for number in range(replicas):
            made.metrics_ports.append(free_port())
            operator(f"operator-{number}", made.hook_ports[number], made.metrics_ports[-1], source)
        for program in made.operators:
            await made.until(lambda each=program: " Ready " in each.log, f"{program.name} is ready\n")
        config = {"url": base}
        if not own_certificate:
            config["caBundle"] = base64.b64encode(certificates.authority).decode()
        await made.client.create(HOOKS[0], webhooks.mutating_configuration(config))
        await made.client.create(HOOKS[1], webhooks.validating_configuration(config))
        if own_certificate:
            await _certified(made)
        await _in_force(made)
        yield made.operators
    finally:
        door.close()


async def _certified(made: Plane) -> None:
    """Return when the operators have written into both configurations whom to trust."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = [each for kind in HOOKS for each in (await made.client.list(kind)).documents()]
        if all(hook["clientConfig"].get("caBundle") for each in found for hook in each["webhooks"]):
            return
        assert time.monotonic() < deadline, made.operators[0].log[-2000:]
        await asyncio.sleep(0.1)


async def _in_force(made: Plane) -> None:
    """Return when every API server calls the webhooks of both configurations."""
    node = {"metadata": {"name": "probe"}, "spec": {"taints": _taints((("sla", "0", "NoExecute"),))}}
    body = {
        "metadata": {"name": "probe"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": [{"key": "a", "operator": "Gt", "value": "1"}],
        },
    }
    for client in made.clients:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                await client.create(PODS, body, "default", dry_run=True)
                await client.create(NODES, node, dry_run=True)
                break
            except errors.ApiError as error:
                assert time.monotonic() < deadline, f"{error}\n{made.operators[0].log[-2000:]}"
                await asyncio.sleep(0.1)
