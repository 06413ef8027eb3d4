"""`weir kubelet`: play every simulated node of a cluster, weir's or a real one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from weir.cli._loop import run_loop
from weir.gates import ALL_FEATURES, GateError, Gates


@click.command()
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="The cluster's kubeconfig (default: as kubectl)."
)
@click.option("--context", default="", help="The context of the kubeconfig.")
@click.option(
    "--feature-gates",
    metavar="A=true,B=false",
    help="The kubelets' feature gates; without it all features of the four KEPs are on.",
)
@click.option("--seed", type=int, default=0, help="For times and failures: the same seed, the same lives.")
@click.option("-v", "--verbose", is_flag=True, help="Log decisions too.")
def kubelet(
    kubeconfig: Path | None, context: str, feature_gates: str | None, seed: int, verbose: bool
) -> None:
    """Play the nodes labelled weir.dev/simulated=true: heartbeats, admission, the lives of pods.

    \b
    weir node add --count 50 --class spot
    weir kubelet --kubeconfig .weir/kubeconfig
    """
    try:
        gates = ALL_FEATURES if feature_gates is None else Gates.parse(feature_gates)
    except GateError as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from None
    click.echo(f"feature gates: {gates.changes() or 'Kubernetes defaults'}", err=True)
    try:
        run_loop(_run(kubeconfig, context, gates, seed, verbose))
    except KeyboardInterrupt:
        click.echo("stopped", err=True)


async def _run(kubeconfig: Path | None, context: str, gates: Gates, seed: int, verbose: bool) -> None:
    import signal
    from contextlib import suppress

    from weir.client.http import connect
    from weir.clock import RealClock
    from weir.kubelet.run import Kubelets
    from weir.observe.interpreter import calm_collector
    from weir.observe.logs import Log, configure

    configure("debug" if verbose else "info")
    calm_collector()
    log = Log("weir.kubelet")
    client = connect(kubeconfig, context=context, user_agent="weir-kubelet")
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
