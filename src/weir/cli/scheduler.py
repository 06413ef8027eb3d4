"""`weir scheduler`: place pods of any Kubernetes API, weir's or a real cluster's."""

from __future__ import annotations

import os
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import click

from weir.cli._loop import run_loop
from weir.cli._options import Live, feature_gates_option, live_options, verbose_option
from weir.gates import Gates


@click.command()
@live_options
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="A KubeSchedulerConfiguration file."
)
@click.option(
    "--scheduler-name", help="Place only pods with this schedulerName (default: default-scheduler)."
)
@click.option("--leader-elect/--no-leader-elect", default=None, help="Only one of several schedulers binds.")
@feature_gates_option()
@click.option(
    "--reason-style",
    type=click.Choice(["taints", "upstream"]),
    default="taints",
    show_default=True,
    help="Name the untolerated taint in messages, or leave it out as Kubernetes 1.35 does.",
)
@click.option(
    "--seed", type=int, default=0, help="For the few random choices: the same seed, the same choices."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve /metrics, /healthz, /livez and /readyz on this port of 127.0.0.1 (0: any free port).",
)
@verbose_option
def scheduler(
    live: Live,
    config_file: Path | None,
    scheduler_name: str | None,
    leader_elect: bool | None,
    gates: Gates,
    reason_style: str,
    seed: int,
    metrics_port: int | None,
    verbose: bool,
) -> None:
    """Watch a cluster and place its pods.

    \b
    weir scheduler --kubeconfig .weir/kubeconfig
    weir scheduler --scheduler-name weir      # beside a real cluster's own scheduler
    """
    from dataclasses import replace

    from weir.objects.manifest import ManifestError
    from weir.scheduler.config import ConfigError, SchedulerConfig, read_config

    config = SchedulerConfig()
    if config_file is not None:
        try:
            config = read_config(config_file.read_bytes(), str(config_file))
        except (ConfigError, ManifestError) as error:
            raise click.BadParameter(str(error), param_hint="--config") from None
        except OSError as error:
            raise click.BadParameter(
                f"{config_file}: {error.strerror or error}", param_hint="--config"
            ) from None
    if scheduler_name is not None:
        config = replace(config, profiles=(replace(config.profiles[0], name=scheduler_name),))
    if leader_elect is not None:
        config = replace(config, leader_elect=leader_elect)
    upstream = reason_style == "upstream"
    config = replace(config, profiles=tuple(replace(p, upstream_reasons=upstream) for p in config.profiles))
    click.echo(f"feature gates: {gates.changes() or 'Kubernetes defaults'}", err=True)
    try:
        run_loop(_run(live, config, gates, seed, metrics_port, verbose))
    except KeyboardInterrupt:
        click.echo("stopped", err=True)


async def _run(
    live: Live,
    config: object,
    gates: Gates,
    seed: int,
    metrics_port: int | None,
    verbose: bool,
) -> None:
    from weir.clock import RealClock
    from weir.observe.endpoint import serving
    from weir.observe.interpreter import calm_collector
    from weir.observe.logs import Log, configure
    from weir.scheduler.config import SchedulerConfig
    from weir.scheduler.run import Scheduler

    assert isinstance(config, SchedulerConfig)
    configure("debug" if verbose else "info")
    client = live.connect("weir-scheduler")
    identity = f"{socket.gethostname()}_{os.getpid()}"
    names = ", ".join(profile.name for profile in config.profiles)
    log = Log("weir.scheduler")
    log.info("Scheduling", profiles=names, leaderElect=config.leader_elect)
    scheduler = Scheduler(client, gates, RealClock(), config=config, identity=identity, seed=seed, log=log)
    calm_collector()
    try:
        async with AsyncExitStack() as stack:
            if metrics_port is not None:
                try:
                    port = await stack.enter_async_context(serving(scheduler.pages(), metrics_port))
                except OSError as error:
                    raise click.ClickException(
                        f"--metrics-port {metrics_port}: {error.strerror or error}"
                    ) from None
                log.info("Serving metrics", address=f"http://127.0.0.1:{port}/metrics")
            await scheduler.run()
    finally:
        await client.close()
