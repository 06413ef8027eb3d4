"""`weir kubelet`: runs the simulated nodes of any cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weir.cli._component import Component, run_component
from weir.cli._options import feature_gates_option, live_options, logging_options, metrics_options
from weir.gates import Gates
from weir.inputs.live import Live

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.observe.logs import Log


@click.command()
@live_options
@feature_gates_option()
@click.option("--seed", type=int, default=0, help="For times and failures: the same seed, the same lives.")
@metrics_options
@logging_options()
def kubelet(live: Live, gates: Gates, seed: int, door: tuple[str, int] | None) -> None:
    """Play the nodes labelled weir.dev/simulated=true: heartbeats, admission, the lives of pods.

    \b
    weir node add --count 50 --class spot
    weir kubelet --kubeconfig .weir/kubeconfig
    """
    from weir.clock import RealClock
    from weir.observe.endpoint import pages
    from weir.observe.metrics import add_process_metrics
    from weir.simulation.kubelet.run import Kubelets

    def make(client: Client, log: Log) -> Component:
        log.info("Playing", nodes="weir.dev/simulated=true")
        playing = Kubelets(client, gates, RealClock(), seed=seed, log=log)
        add_process_metrics(playing.metrics.registry)
        return playing.run, pages(playing.metrics.registry.render, lambda: True)

    run_component(make, live, "weir-kubelet", "weir.simulation.kubelet", gates, door=door)
