"""`weir up`: a whole cluster in one process: API server, scheduler, controllers, simulated nodes.

Loopback and TLS, its state in one SQLite file that survives a restart, a kubeconfig only the owner can read.
"""

from __future__ import annotations

import asyncio
import errno
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from weir.cli._confirm import agreed_here, yes_option
from weir.cli._data_folder import LOG, has_state
from weir.cli._data_folder import purge as purge_folder
from weir.cli._detach import detached
from weir.cli._holder import find_holder
from weir.cli._loop import run_loop
from weir.cli._options import (
    State,
    bind_options,
    encryption_option,
    feature_gates_option,
    logging_options,
    retention_options,
    secure_port_option,
    state_options,
)
from weir.cli.main import FINE, report
from weir.cli.render import say
from weir.gates import GateError, Gates, parse_settings

if TYPE_CHECKING:
    from weir.apiserver.run import Options
    from weir.simulation.control_plane import ComponentGates

_COMPONENTS = ("apiserver", "scheduler", "controllers", "kubelet")
_LAST_WORDS: Final = "export KUBECONFIG="


@dataclass(frozen=True)
class Wanted:
    """The nodes that were asked for; *given* says which of the two the command line named."""

    nodes: int
    gpus: int | None
    given: frozenset[str] = frozenset()

    def without_effect(self, there: int, added: int) -> Iterator[str]:
        """Yield what the command line asked for and nodes from before keep from happening.

        >>> list(Wanted(2, None, frozenset({"nodes"})).without_effect(there=3, added=0))
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


@click.command()
@click.option(
    "--nodes", type=click.IntRange(0, 10_000), default=3, show_default=True, help="Simulated nodes."
)
@click.option(
    "--gpus",
    type=click.IntRange(0, 1024),
    help="Simulated GPUs (dynamic resource allocation) of each node that is added.",
)
@state_options
@bind_options
@secure_port_option
@feature_gates_option("Gates to change in every component.  [default: the features of the four KEPs are on]")
@click.option(
    "--component-gates",
    multiple=True,
    metavar="COMPONENT:A=false,…",
    help=f"Gates of one component ({', '.join(_COMPONENTS)}) changed from the others'; may be repeated.",
)
@click.option(
    "--older",
    multiple=True,
    metavar="COMPONENT",
    help="A component from before KEP-5500 (scheduler, controllers, kubelet), which reads a toleration with an "
    "expression as an empty one; apiserver, or apiserver=1.35: a server of that release (1.34 unless said), which "
    "drops or refuses what it does not know.",
)
@encryption_option
@retention_options
@click.option("--controllers", default="*", show_default=True, help="As of weir controller-manager.")
@click.option("--seed", type=int, default=0, help="For times and failures of simulated nodes.")
@click.option(
    "-d", "--detach", is_flag=True, help="Give the terminal back once it is up; `weir down` stops it."
)
@click.option(
    "--purge", is_flag=True, help="Remove what an earlier cluster left in the data folder; asks first."
)
@yes_option
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve the metrics of all components at /metrics on this port, plain HTTP (0: any free port).",
)
@logging_options(quiet=True)
@click.pass_context
def up(
    ctx: click.Context,
    nodes: int,
    gpus: int | None,
    state: State,
    bind_address: str,
    hostnames: tuple[str, ...],
    secure_port: int,
    gates: Gates,
    component_gates: tuple[str, ...],
    older: tuple[str, ...],
    encryption_config: Path | None,
    compaction_seconds: float,
    event_ttl_seconds: float,
    controllers: str,
    seed: int,
    detach: bool,
    purge: bool,
    yes: bool,
    metrics_port: int | None,
) -> int:
    """Run a whole cluster until Ctrl-C; kubectl and weir's own commands talk to it.

    \b
    weir up --nodes 5
    weir up --detach && export KUBECONFIG=.weir/kubeconfig
    weir up --bind-address 0.0.0.0 --hostname weir.example     # for other machines, or in a container
    weir up --nodes 2 --gpus 8
    weir up --component-gates controllers:TaintTolerationCEL=false    # version skew, played
    """
    from weir.cli._holder import hold
    from weir.controllers.catalog import UnknownController, choose
    from weir.objects.pod_usage import UsageModel

    try:
        apart = _gates(gates, component_gates, older)
    except GateError as error:
        raise click.UsageError(str(error)) from None
    names = [name.strip() for name in controllers.split(",") if name.strip()]
    try:
        choose(names, apart.controllers)
    except UnknownController as error:
        raise click.BadParameter(str(error), param_hint="--controllers") from None
    if purge:
        _purge(state.data_dir, yes)
    given = {name for name in ("nodes", "gpus") if _is_given(ctx, name)}
    wanted = Wanted(nodes, gpus, frozenset(given))
    options = state.options(
        bind_address=bind_address,
        hostnames=hostnames,
        secure_port=secure_port,
        gates=apart.apiserver,
        release=apart.release,
        encryption_config=encryption_config,
        compaction_seconds=compaction_seconds,
        event_ttl_seconds=event_ttl_seconds,
        usage=UsageModel(),
    )

    def work() -> None:
        lock = hold(state.data_dir)
        try:
            run_loop(_up(options, apart, names, wanted, seed, metrics_port))
        finally:
            lock.release()

    def reported() -> int:
        try:
            _with_reasons(work, options)
        except Exception as error:
            return report(error)
        return FINE

    if detach:
        return detached(state.data_dir / LOG, _LAST_WORDS, reported)
    _with_reasons(work, options)
    return FINE


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _with_reasons(work: Callable[[], None], options: Options) -> None:
    """Do *work*; what keeps a server from starting is an error with what to do about it."""
    from weir.apiserver.auth.pki import PkiError
    from weir.apiserver.encryption.configuration import ConfigurationError
    from weir.store import StoreError

    where = f"{options.bind_address}:{options.secure_port}"
    try:
        work()
    except (PkiError, ConfigurationError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            taken = f"port {options.secure_port} is taken: --secure-port 0 picks a free one"
            raise click.ClickException(taken) from None
        if error.errno in (errno.EADDRNOTAVAIL, errno.EACCES) or isinstance(error, socket.gaierror):
            raise click.ClickException(
                f"cannot listen on {where}: give --bind-address an address of this machine and --secure-port one "
                "that this user may use"
            ) from None
        raise click.ClickException(error.strerror or str(error)) from None
    except StoreError as error:
        raise click.ClickException(str(error)) from None


def _purge(data_dir: Path, yes: bool) -> None:
    """Remove what an earlier cluster left, after a yes."""
    from weir.store.backend import Locked

    if (holder := find_holder(data_dir)) is not None:
        raise Locked(f"{data_dir} is in use by {holder}")
    if not has_state(data_dir):
        return
    if not agreed_here(f"remove the cluster kept in {data_dir.resolve()}", yes):
        raise click.Abort
    purge_folder(data_dir)


def _gates(everywhere: Gates, apart: tuple[str, ...], older: tuple[str, ...]) -> ComponentGates:
    from weir.simulation.control_plane import ComponentGates

    found = dict.fromkeys(_COMPONENTS, everywhere)
    for text in apart:
        component, colon, settings = text.partition(":")
        if not colon or component not in found:
            raise click.BadParameter(
                f"{text!r}: write COMPONENT:Gate=true with a component of {', '.join(_COMPONENTS)}",
                param_hint="--component-gates",
            )
        found[component] = found[component].replace(parse_settings(settings))
    try:
        return ComponentGates(**found, older=frozenset(older))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--older") from None


async def _up(
    options: Options,
    gates: ComponentGates,
    controllers: list[str],
    wanted: Wanted,
    seed: int,
    metrics_port: int | None,
) -> None:
    import signal
    from contextlib import AsyncExitStack, suppress

    from weir.apiserver.run import build, open_store, serve
    from weir.cli._holder import lease_of
    from weir.clock import RealClock
    from weir.observe.endpoint import serving
    from weir.simulation.control_plane import ControlPlane, ensure_nodes, ensure_storage_class, local_client
    from weir.simulation.kubelet.node_classes import CLASSES

    clock = RealClock()
    store = await open_store(options, clock)
    try:
        running = await build(options, store, clock)
    except BaseException:
        await store.close()
        raise
    stop = asyncio.Event()
    held = AsyncExitStack()
    plane = ControlPlane(running, clock, gates, controllers=controllers, seed=seed)
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
        client = local_client(running, clock, "weir")
        if options.store.startswith("etcd="):
            await held.enter_async_context(lease_of(client, clock, options.store))
        await serve(running, clock)
        plain = CLASSES["default"]
        node_class = plain if wanted.gpus is None else plain.with_devices(wanted.gpus)
        there, added = await ensure_nodes(client, wanted.nodes, node_class, clock.now())
        await ensure_storage_class(client)
        plane.start()
        metrics = ""
        if metrics_port is not None:
            host = options.bind_address
            try:
                port = await held.enter_async_context(serving(plane.pages(), metrics_port, host))
            except OSError as error:
                why = error.strerror or error
                raise click.ClickException(f"--metrics-port {metrics_port} at {host}: {why}") from None
            metrics = f"http://{host}:{port}/metrics"
        _greet(running.url, options, gates, there, added, wanted, metrics)
        watching = asyncio.ensure_future(plane.watch_over())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if watching.done():
            watching.result()
        watching.cancel()
        say("stopping", err=True)
    finally:
        await plane.stop()
        await held.aclose()
        await running.stop()
    place = options.data_dir if options.store == "sqlite" else options.store
    kept = "" if options.store == "memory" else f"; its state stays in {place}"
    say(f"stopped{kept}", err=True)


def _greet(
    url: str,
    options: Options,
    gates: ComponentGates,
    there: int,
    added: int,
    wanted: Wanted,
    metrics: str,
) -> None:
    say(f"weir is up at {url}")
    before = f" ({there} were there before)" if there else ""
    say(f"nodes: {there + added} simulated{before}")
    for line in wanted.without_effect(there, added):
        say(line)
    each = {component: getattr(gates, component) for component in _COMPONENTS}
    if len(set(each.values())) == 1 and not gates.older:
        say(f"gates of every component: {gates.apiserver}")
    else:
        for component, own in each.items():
            age = "; older than the field expression" if component in gates.older else ""
            if component == "apiserver" and gates.release:
                age = f"; plays Kubernetes {gates.release}"
            say(f"{component} gates: {own}{age}")
    if metrics:
        say(f"metrics of every component: {metrics}")
    say("Ctrl-C stops it; more nodes: weir node add --count 5 --class spot --taint flaky=15:NoExecute")
    say(f"{_LAST_WORDS}{shlex.quote(str((options.kubeconfig or Path()).resolve()))}")
    sys.stdout.flush()
