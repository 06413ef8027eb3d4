"""`weir kubelet`: play every simulated node of a cluster, weir's or a real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weir.cli._component import Component, run_component
from weir.cli._options import Live, feature_gates_option, live_options, metrics_options, verbose_option
from weir.gates import Gates

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.observe.logs import Log


@click.command()
@live_options
@feature_gates_option()
@click.option("--seed", type=int, default=0, help="For times and failures: the same seed, the same lives.")
@metrics_options
@verbose_option
def kubelet(live: Live, gates: Gates, seed: int, door: tuple[str, int] | None, verbose: bool) -> None:
    """Play the nodes labelled weir.dev/simulated=true: heartbeats, admission, the lives of pods.

    \b
    weir node add --count 50 --class spot
    weir kubelet --kubeconfig .weir/kubeconfig
    """
    from weir.clock import RealClock
    from weir.observe.endpoint import pages
    from weir.observe.features import publish_features
    from weir.observe.metrics import Registry, add_process_metrics
    from weir.simulation.kubelet.run import Kubelets

    def make(client: Client, log: Log) -> Component:
        log.info("Playing", nodes="weir.dev/simulated=true")
        registry = Registry()
        add_process_metrics(registry)
        publish_features(registry, gates)
        playing = Kubelets(client, gates, RealClock(), seed=seed, log=log)
        return playing.run, pages(registry.render, lambda: True)

    run_component(make, live, "weir-kubelet", "weir.simulation.kubelet", gates, verbose=verbose, door=door)
