"""Startup, running and shutdown of `weir up`'s cluster.

The API server is in the started process; scheduler, controllers, simulated nodes and further API servers are in their
own, or all but those in the same one on request (decision 15).
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import click

from weir.cli._component import run_loop
from weir.cli._data_folder import lease_of
from weir.output import say

if TYPE_CHECKING:
    from weir.apiserver.build import Running
    from weir.apiserver.options import Options
    from weir.clock import Clock
    from weir.observe.endpoint import Pages
    from weir.simulation.component_gates import ComponentGates
    from weir.simulation.processes import Processes
    from weir.store.lockfile import LockFile

COMPONENTS: Final = ("apiserver", "scheduler", "controllers", "kubelet")
LAST_WORDS: Final = "export KUBECONFIG="


@dataclass(frozen=True)
class RequestedNodes:
    """The requested nodes; *given* has the options named on the command line."""

    nodes: int
    gpus: int | None
    given: frozenset[str] = frozenset()

    def without_effect(self, there: int, added: int) -> Iterator[str]:
        """Yield what the command line asked for and nodes from before keep from happening.

        >>> list(RequestedNodes(2, None, frozenset({"nodes"})).without_effect(there=3, added=0))
        ['--nodes 2 has no effect: 3 nodes are kept from before (weir node remove, or weir up --purge)']
        """
        if "nodes" in self.given and there > self.nodes:
            yield (
                f"--nodes {self.nodes} has no effect: {there} nodes are kept from before "
                "(weir node remove, or weir up --purge)"
            )
        if "gpus" in self.given and there:
            kept = "no node was added" if not added else f"it is for the {added} added"
            yield (
                f"--gpus {self.gpus} does not change the {there} nodes kept from before; {kept} "
                "(weir node add --class gpu)"
            )


@dataclass(frozen=True)
class WholeCluster:
    """Settings of the cluster."""

    options: Options
    gates: ComponentGates
    controllers: tuple[str, ...]
    wanted: RequestedNodes
    seed: int = 0
    metrics_port: int | None = None
    in_one_process: bool = False
    apiservers: int = 1
    detached: bool = False

    def run(self, lock: LockFile) -> None:
        """Be the cluster until SIGTERM or SIGINT; *lock* is that of its folder."""
        others: Others = _InThisProcess() if self.in_one_process else _Apart.fork(self, lock)
        try:
            run_loop(_live(self, others))
        finally:
            others.end()


class Others(Protocol):
    """Every component but the API server, wherever they run."""

    async def start(self, cluster: WholeCluster, running: Running, clock: Clock) -> Pages:
        """Let them begin; return what all components show about themselves."""

    async def watch_over(self) -> None:
        """Return only by raising, when they cannot go on."""

    async def stop(self) -> None:
        """End them."""

    def end(self) -> None:
        """End them if they have not been, without an event loop."""


class _InThisProcess:
    """As tasks beside the API server."""

    async def start(self, cluster: WholeCluster, running: Running, clock: Clock) -> Pages:
        from weir.simulation.control_plane import ControlPlane

        controllers, seed = cluster.controllers, cluster.seed
        self._plane = ControlPlane(running, clock, cluster.gates, controllers=controllers, seed=seed)
        self._plane.start()
        return self._plane.pages()

    async def watch_over(self) -> None:
        await self._plane.watch_over()

    async def stop(self) -> None:
        await self._plane.stop()

    def end(self) -> None:
        """They end with the event loop."""


class _Apart:
    """Each in a process of its own."""

    def __init__(self, processes: Processes, ports: dict[str, int]) -> None:
        self._processes, self._ports = processes, ports
        self._socket = AsyncExitStack()

    @classmethod
    def fork(cls, cluster: WholeCluster, lock: LockFile) -> _Apart:
        """Begin them: to be called before this process has threads or an event loop."""
        from weir.simulation.processes import Plan, Processes

        options = cluster.options
        keys = None if options.insecure else options.data_dir / "pki"
        plan = Plan(
            cluster.gates,
            cluster.controllers,
            cluster.seed,
            authority=keys,
            server=options,
            apiservers=cluster.apiservers,
        )
        doors = {}
        if cluster.metrics_port is not None:
            doors = {name: socket.create_server(("127.0.0.1", 0)) for name in plan.names}
            plan = replace(plan, doors=doors)
        processes = Processes.fork(plan, run_loop, let_go=lock.release)
        ports = {name: door.getsockname()[1] for name, door in doors.items()}
        for door in doors.values():
            door.close()
        return cls(processes, ports)

    async def start(self, cluster: WholeCluster, running: Running, clock: Clock) -> Pages:
        from weir.apiserver.run import local_socket
        from weir.observe.endpoint import joined_pages
        from weir.observe.process_metrics import publish_component_features
        from weir.simulation.component_gates import READERS

        gates = {name: getattr(cluster.gates, name) for name in READERS}
        publish_component_features(running.metrics.registry, gates)
        assert running.connections is not None
        socket = local_socket(
            running.connections, cluster.options.data_dir, lambda: running.admin_certificate
        )
        self._processes.start(await self._socket.enter_async_context(socket), running.port)
        return joined_pages({"apiserver": running.metrics.render}, self._ports)

    async def watch_over(self) -> None:
        await self._processes.watch_over()

    async def stop(self) -> None:
        await asyncio.to_thread(self._processes.stop)
        await self._socket.aclose()

    def end(self) -> None:
        self._processes.stop()


async def _live(cluster: WholeCluster, others: Others) -> None:
    """Start, run until stopped or failed, and shut down."""
    from weir.apiserver.build import build
    from weir.apiserver.options import open_store
    from weir.apiserver.run import serve, tune_interpreter
    from weir.clock import RealClock
    from weir.observe.stopping import stop_on
    from weir.simulation.control_plane import local_client
    from weir.simulation.first_objects import ensure_nodes, ensure_storage_class
    from weir.simulation.kubelet.node_classes import CLASSES

    options, wanted = cluster.options, cluster.wanted
    clock = RealClock()
    stop = asyncio.Event()
    async with AsyncExitStack() as held:
        store = await open_store(options, clock)
        try:
            running = await build(options, store, clock)
        except BaseException:
            await store.close()
            raise
        held.push_async_callback(running.stop)
        stop_on(stop.set, signal.SIGTERM, signal.SIGINT)
        client = local_client(running, clock, "weir")
        if options.store.startswith("etcd="):
            await held.enter_async_context(lease_of(client, clock, options.store))
        await serve(running, clock)
        plain = CLASSES["default"]
        node_class = plain if wanted.gpus is None else plain.with_devices(wanted.gpus)
        there, added = await ensure_nodes(client, wanted.nodes, node_class, clock.now())
        await ensure_storage_class(client)
        tune_interpreter()
        pages = await others.start(cluster, running, clock)
        held.push_async_callback(others.stop)
        metrics = await _serve_metrics(held, pages, cluster)
        _greet(running.url, cluster, there, added, metrics)
        watching = asyncio.ensure_future(others.watch_over())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if watching.done():
            watching.result()
        watching.cancel()
        say("stopping", err=True)
    place = options.data_dir if options.store == "sqlite" else options.store
    kept = "" if options.store == "memory" else f"; its state stays in {place}"
    say(f"stopped{kept}", err=True)


async def _serve_metrics(held: AsyncExitStack, pages: Pages, cluster: WholeCluster) -> str:
    """Serve *pages* if configured; return the address."""
    from weir.observe.endpoint import serving

    host, wanted = cluster.options.bind_address, cluster.metrics_port
    if wanted is None:
        return ""
    try:
        port = await held.enter_async_context(serving(pages, wanted, host))
    except OSError as error:
        raise click.ClickException(f"--metrics-port {wanted} at {host}: {error.strerror or error}") from None
    return f"http://{host}:{port}/metrics"


def _greet(url: str, cluster: WholeCluster, there: int, added: int, metrics: str) -> None:
    from weir.apiserver.older_release import RELEASES

    options, gates = cluster.options, cluster.gates
    say(f"weir is up at {url}")
    before = f" ({there} were there before)" if there else ""
    if cluster.apiservers > 1:
        say(f"API servers: {cluster.apiservers} at this address; the system divides connections among them")
    say(f"nodes: {there + added} simulated{before}")
    for line in cluster.wanted.without_effect(there, added):
        say(line)
    each = {component: getattr(gates, component) for component in COMPONENTS}
    if len(set(each.values())) == 1 and not gates.older:
        say(f"gates of every component: {gates.apiserver}")
    else:
        for component, own in each.items():
            age = "; older than the field expression" if component in gates.older else ""
            if component == "apiserver" and gates.release:
                own = RELEASES[gates.release].gates(own)
                age = f"; plays Kubernetes {gates.release}"
            say(f"{component} gates: {own}{age}")
    if metrics:
        say(f"metrics of every component: {metrics}")
    stops = "weir down" if cluster.detached else "Ctrl-C"
    say(f"{stops} stops it; more nodes: weir node add --count 5 --class spot --taint flaky=15:NoExecute")
    say(f"{LAST_WORDS}{shlex.quote(str((options.kubeconfig or Path()).resolve()))}")
    sys.stdout.flush()
