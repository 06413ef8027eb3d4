"""`weir controller-manager`: run controllers against any Kubernetes API, weir's or a real cluster's."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from weir.cli._loop import run_loop
from weir.cli._options import Live, feature_gates_option, live_options, verbose_option
from weir.gates import Gates

if TYPE_CHECKING:
    from weir.controllers.run import Controller


@click.command(name="controller-manager")
@click.option(
    "--controllers",
    "names",
    default="*",
    show_default=True,
    help="Names with commas between; * is all of them, -name takes one out.",
)
@live_options
@feature_gates_option()
@click.option("--leader-elect/--no-leader-elect", default=True, help="Only one of several processes acts.")
@click.option(
    "--leader-elect-resource-name",
    default="weir-controller-manager",
    show_default=True,
    help="The Lease (in kube-system) that says who acts.",
)
@click.option(
    "--concurrent-device-taint-eviction-syncs",
    "device_evictions",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="How many pods the device taint eviction controller deletes at a time.",
)
@click.option(
    "--concurrent-resourceclaim-syncs",
    "resource_claims",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="How many pods and claims the ResourceClaim controller works on at a time.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve /metrics, /healthz, /livez and /readyz on this port (0: any free port).",
)
@click.option(
    "--bind-address", default="127.0.0.1", show_default=True, help="The address of the metrics port."
)
@click.option("--list", "list_names", is_flag=True, help="Print the controllers there are, and leave.")
@verbose_option
def controller_manager(
    names: str,
    live: Live,
    gates: Gates,
    leader_elect: bool,
    leader_elect_resource_name: str,
    device_evictions: int,
    resource_claims: int,
    metrics_port: int | None,
    bind_address: str,
    list_names: bool,
    verbose: bool,
) -> None:
    """Watch a cluster and do what its controllers are for.

    \b
    weir controller-manager --kubeconfig .weir/kubeconfig
    weir controller-manager --controllers=taint-eviction   # in place of a real cluster's own
    """
    from weir.controllers.catalog import CATALOG, UnknownController, choose
    from weir.controllers.device_taint_eviction import DeviceTaintEviction
    from weir.controllers.resource_claim import ResourceClaims

    if list_names:
        for name in CATALOG:
            click.echo(name)
        return
    try:
        chosen = choose([name.strip() for name in names.split(",") if name.strip()], gates)
    except UnknownController as error:
        raise click.BadParameter(str(error), param_hint="--controllers") from None
    for controller in chosen:
        if isinstance(controller, DeviceTaintEviction):
            controller.workers = device_evictions
        elif isinstance(controller, ResourceClaims):
            controller.workers = resource_claims
    if not chosen:
        raise click.BadParameter("none is left", param_hint="--controllers")
    click.echo(f"feature gates: {gates.changes() or 'Kubernetes defaults'}", err=True)
    lease = leader_elect_resource_name if leader_elect else ""
    door = (bind_address, metrics_port) if metrics_port is not None else None
    try:
        run_loop(_run(live, chosen, lease, door, verbose))
    except KeyboardInterrupt:
        click.echo("stopped", err=True)


async def _run(
    live: Live,
    chosen: Sequence[Controller],
    lease: str,
    door: tuple[str, int] | None,
    verbose: bool,
) -> None:
    import signal
    from contextlib import AsyncExitStack, suppress

    from weir.clock import RealClock
    from weir.controllers.run import Controllers
    from weir.observe.endpoint import serving
    from weir.observe.interpreter import calm_collector
    from weir.observe.logs import Log, configure

    configure("debug" if verbose else "info")
    calm_collector()
    client = live.connect("weir-controller-manager")
    identity = f"{socket.gethostname()}_{os.getpid()}"
    log = Log("weir.controllers")
    log.info("Controlling", controllers=",".join(c.name for c in chosen), leaderElect=bool(lease))
    controllers = Controllers(client, RealClock(), chosen, identity=identity, lease_name=lease, log=log)
    try:
        async with AsyncExitStack() as stack:
            if door is not None:
                host, wanted = door
                try:
                    port = await stack.enter_async_context(serving(controllers.pages(), wanted, host))
                except OSError as error:
                    raise click.ClickException(
                        f"--metrics-port {wanted} at {host}: {error.strerror or error}"
                    ) from None
                log.info("Serving metrics", address=f"http://{host}:{port}/metrics")
            running = asyncio.ensure_future(controllers.run())
            with suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
            try:
                await running
            except asyncio.CancelledError:
                log.info("Stopped")
    finally:
        await client.close()
