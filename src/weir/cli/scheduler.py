"""`weir scheduler`: schedules pods of any Kubernetes API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli._component import Component, identity, run_component
from weir.cli._options import (
    feature_gates_option,
    leader_elect_option,
    live_options,
    logging_options,
    metrics_options,
    rate_options,
)
from weir.gates import Gates
from weir.inputs.live import Live

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.observe.logs import Log


@click.command()
@live_options
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="A KubeSchedulerConfiguration file."
)
@click.option(
    "--scheduler-name", help="Place only pods with this schedulerName (default: default-scheduler)."
)
@rate_options("it", qps="what --config says, else 50", burst="what --config says, else 100")
@leader_elect_option("Only one of several schedulers binds.", default=None)
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
    "--profiling",
    is_flag=True,
    help="Time every call of every plugin: for scheduler_plugin_execution_duration_seconds and the page "
    "/debug/plugins of --metrics-port. Placing pods takes a little longer.",
)
@metrics_options
@logging_options()
def scheduler(
    live: Live,
    config_file: Path | None,
    scheduler_name: str | None,
    qps: float | None,
    burst: int | None,
    leader_elect: bool | None,
    gates: Gates,
    reason_style: str,
    seed: int,
    profiling: bool,
    door: tuple[str, int] | None,
) -> None:
    """Watch a cluster and place its pods.

    \b
    weir scheduler --kubeconfig .weir/kubeconfig
    weir scheduler --scheduler-name weir      # beside a real cluster's own scheduler
    """
    from dataclasses import replace

    from weir.clock import RealClock
    from weir.objects.manifest import ManifestError
    from weir.observe.metrics import add_process_metrics
    from weir.scheduler.config import QPS, ConfigError, SchedulerConfig, read_config
    from weir.scheduler.run import Scheduler

    config = SchedulerConfig(qps=QPS)
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
        if not scheduler_name:
            raise click.BadParameter("a name is expected", param_hint="--scheduler-name")
        if len(config.profiles) > 1:
            names = ", ".join(profile.name for profile in config.profiles)
            raise click.BadParameter(
                f"{config_file} names its own schedulers: {names}", param_hint="--scheduler-name"
            )
        config = replace(config, profiles=(replace(config.profiles[0], name=scheduler_name),))
    if config.kubeconfig and not live.kubeconfig:
        live = replace(live, kubeconfig=Path(config.kubeconfig))
    if qps is not None:
        config = replace(config, qps=qps)
    if burst is not None:
        config = replace(config, burst=burst)
    if leader_elect is not None:
        config = replace(config, leader_elect=leader_elect)
    upstream = reason_style == "upstream"
    profiles = tuple(replace(profile, upstream_reasons=upstream) for profile in config.profiles)
    config = replace(config, profiles=profiles, profiling=profiling)

    def make(client: Client, log: Log) -> Component:
        names = ", ".join(profile.name for profile in config.profiles)
        log.info("Scheduling", profiles=names, leaderElect=config.leader_elect)
        placing = Scheduler(
            client, gates, RealClock(), config=config, identity=identity(), seed=seed, log=log
        )
        add_process_metrics(placing.metrics.registry)
        return placing.run, placing.pages()

    run_component(make, live, "weir-scheduler", "weir.scheduler", gates, door=door)
