"""`weir up`: a whole cluster: API server, scheduler, controllers, simulated nodes.

Loopback and TLS, state in one SQLite file that survives a restart, a kubeconfig readable by the owner only.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from weir.cli._confirm import agreed_here, yes_option
from weir.cli._data_folder import LOG, find_holder, has_state, hold
from weir.cli._data_folder import purge as purge_folder
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
from weir.cli._whole_cluster import COMPONENTS, LAST_WORDS, RequestedNodes, WholeCluster
from weir.cli.main import report
from weir.exit_codes import FINE, INTERRUPTED
from weir.gates import GateError, Gates, parse_settings
from weir.output import say, say_lines, write_document

if TYPE_CHECKING:
    from weir.apiserver.options import Options
    from weir.simulation.component_gates import ComponentGates


# ── `weir up --detach`: leaves the cluster running in the background ──
# Forks before anything starts; the child gets its own session and writes to DATA_DIR/up.log, the parent waits for its
# greeting or its exit. SIGINT is blocked around the fork, because an exception there would be printed with a traceback
# and lost.


PATIENCE_SECONDS: Final = 120.0


def detached(log: Path, ready: str, work: Callable[[], int]) -> int:
    """Run *work* in a process of its own; return once a line of its log begins with *ready*, or it has ended."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log.write_text("")
    log.chmod(0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if not pid:
        _live_apart(log, work)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return _wait(pid, log, ready)
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        say(err=True)
        say("interrupted: it is stopped again", err=True)
        return INTERRUPTED


def _live_apart(log: Path, work: Callable[[], int]) -> None:
    """Be the child, to the end of the process."""
    code = 1
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        nothing = os.open(os.devnull, os.O_RDONLY)
        out = os.open(log, os.O_WRONLY | os.O_APPEND)
        os.dup2(nothing, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        code = work()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, log: Path, ready: str) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        said = log.read_text()
        if any(line.startswith(ready) for line in said.splitlines(keepends=True) if line.endswith("\n")):
            write_document(said, nl=False)
            return FINE
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            say_lines(log.read_text().splitlines(), err=True)
            return os.waitstatus_to_exitcode(status) or 1
        time.sleep(0.05)
    os.kill(pid, signal.SIGTERM)
    raise click.ClickException(f"it was not up within {PATIENCE_SECONDS:.0f} seconds: see {log}")


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
    help=f"Gates of one component ({', '.join(COMPONENTS)}) changed from the others'; may be repeated.",
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
@click.option(
    "--in-one-process",
    is_flag=True,
    help="Run scheduler, controllers and nodes in the API server's process: less memory, but they wait for each other.",
)
@click.option(
    "--apiservers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes that serve the API at one address, a core each; more than one share a store in etcd.",
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
    in_one_process: bool,
    apiservers: int,
) -> int:
    """Run a whole cluster until Ctrl-C; kubectl and weir's own commands talk to it.

    \b
    weir up --nodes 5
    weir up --detach && export KUBECONFIG=.weir/kubeconfig
    weir up --bind-address 0.0.0.0 --hostname weir.example     # for other machines, or in a container
    weir up --nodes 2 --gpus 8
    weir up --apiservers 4 --store etcd=127.0.0.1:2379         # the API served by four processes
    weir up --component-gates controllers:TaintTolerationCEL=false    # version skew, played
    """
    from weir.apiserver.admission.chain import Settings
    from weir.apiserver.admission.event_rate_limit import OF_WEIR_UP, EventRateLimit
    from weir.objects.pod_usage import UsageModel

    try:
        apart = _gates(gates, component_gates, older)
    except GateError as error:
        raise click.UsageError(str(error)) from None
    names = [name.strip() for name in controllers.split(",") if name.strip()]
    if names != ["*"]:
        _check(names, apart)
    if apiservers > 1:
        _check_shared(state.store, in_one_process)
    if purge:
        _purge(state.data_dir, yes)
    given = {name for name in ("nodes", "gpus") if _is_given(ctx, name)}
    wanted = RequestedNodes(nodes, gpus, frozenset(given))
    options = state.options(
        bind_address=bind_address,
        hostnames=hostnames,
        secure_port=secure_port,
        shares_port=apiservers > 1,
        gates=apart.apiserver,
        release=apart.release,
        encryption_config=encryption_config,
        compaction_seconds=compaction_seconds,
        event_ttl_seconds=event_ttl_seconds,
        usage=UsageModel(),
        admission=Settings(
            enable=(EventRateLimit.name,), event_limits=OF_WEIR_UP, event_limits_spare_masters=True
        ),
    )

    cluster = WholeCluster(
        options, apart, tuple(names), wanted, seed, metrics_port, in_one_process, apiservers, detach
    )

    def work() -> None:
        lock = hold(state.data_dir)
        try:
            cluster.run(lock)
        finally:
            lock.release()

    def reported() -> int:
        try:
            _with_reasons(work, options)
        except Exception as error:
            return report(error)
        return FINE

    if detach:
        return detached(state.data_dir / LOG, LAST_WORDS, reported)
    _with_reasons(work, options)
    return FINE


def _check(names: list[str], apart: ComponentGates) -> None:
    """Raise when there is no such controller; reading them all takes a while, and mostly all are wanted."""
    from weir.controllers.catalog import UnknownController, choose

    try:
        choose(names, apart.controllers)
    except UnknownController as error:
        raise click.BadParameter(str(error), param_hint="--controllers") from None


def _check_shared(store: str, in_one_process: bool) -> None:
    """Raise unless several API servers can share *store* and a port."""
    if not store.startswith("etcd="):
        raise click.UsageError(
            "--apiservers: several API servers share a store in etcd: --store etcd=HOST:PORT"
        )
    if in_one_process:
        raise click.UsageError("--apiservers: leave --in-one-process out, each API server is a process")
    if not hasattr(socket, "SO_REUSEPORT"):
        raise click.UsageError("--apiservers: this system does not let processes share a port")


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _with_reasons(work: Callable[[], None], options: Options) -> None:
    """Do *work*; what keeps a server from starting is an error with what to do about it."""
    from weir.apiserver.auth.pki import PkiError
    from weir.apiserver.compat.encryption.configuration import ConfigurationError
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
    from weir.simulation.component_gates import ComponentGates

    found = dict.fromkeys(COMPONENTS, everywhere)
    for text in apart:
        component, colon, settings = text.partition(":")
        if not colon or component not in found:
            raise click.BadParameter(
                f"{text!r}: write COMPONENT:Gate=true with a component of {', '.join(COMPONENTS)}",
                param_hint="--component-gates",
            )
        found[component] = found[component].replace(parse_settings(settings))
    try:
        return ComponentGates(**found, older=frozenset(older))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--older") from None
