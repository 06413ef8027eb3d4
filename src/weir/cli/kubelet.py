"""`weir kubelet`: play every simulated node of a cluster, weir's or a real one."""

from __future__ import annotations

import asyncio

import click

from weir.cli._loop import run_loop
from weir.cli._options import Live, feature_gates_option, live_options, verbose_option
from weir.gates import Gates


@click.command()
@live_options
@feature_gates_option()
@click.option("--seed", type=int, default=0, help="For times and failures: the same seed, the same lives.")
@verbose_option
def kubelet(live: Live, gates: Gates, seed: int, verbose: bool) -> None:
    """Play the nodes labelled weir.dev/simulated=true: heartbeats, admission, the lives of pods.

    \b
    weir node add --count 50 --class spot
    weir kubelet --kubeconfig .weir/kubeconfig
    """
    click.echo(f"feature gates: {gates.changes() or 'Kubernetes defaults'}", err=True)
    try:
        run_loop(_run(live, gates, seed, verbose))
    except KeyboardInterrupt:
        click.echo("stopped", err=True)


async def _run(live: Live, gates: Gates, seed: int, verbose: bool) -> None:
    import signal
    from contextlib import suppress

    from weir.clock import RealClock
    from weir.kubelet.run import Kubelets
    from weir.observe.interpreter import calm_collector
    from weir.observe.logs import Log, configure

    configure("debug" if verbose else "info")
    calm_collector()
    log = Log("weir.kubelet")
    client = live.connect("weir-kubelet")
    playing = asyncio.ensure_future(Kubelets(client, gates, RealClock(), seed=seed, log=log).run())
    log.info("Playing", nodes="weir.dev/simulated=true")
    with suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    try:
        await playing
    except asyncio.CancelledError:
        log.info("Stopped")
    finally:
        await client.close()
