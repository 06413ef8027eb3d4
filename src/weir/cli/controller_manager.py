"""`weir controller-manager`: runs controllers against any Kubernetes API."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
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
    positive_seconds,
    rate_options,
)
from weir.gates import Gates
from weir.inputs.live import Live
from weir.output import say

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.observe.logs import Log


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
@leader_elect_option("Only one of several processes acts.")
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
    "--cluster-signing-cert-file",
    "signing_certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The authority's certificate that CertificateSigningRequests are signed with; none are signed without.",
)
@click.option(
    "--cluster-signing-key-file",
    "signing_key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The key of that certificate.",
)
@click.option(
    "--cluster-signing-duration",
    "signing_seconds",
    default="8760h",
    show_default=True,
    callback=positive_seconds,
    help="How long signed certificates are good at most.",
)
@rate_options("each controller", qps=20.0, burst=30)
@metrics_options
@click.option("--list", "list_names", is_flag=True, help="Print the controllers there are, and leave.")
@logging_options()
def controller_manager(
    names: str,
    live: Live,
    gates: Gates,
    leader_elect: bool,
    leader_elect_resource_name: str,
    device_evictions: int,
    resource_claims: int,
    signing_certificate: Path | None,
    signing_key: Path | None,
    signing_seconds: float,
    qps: float,
    burst: int,
    door: tuple[str, int] | None,
    list_names: bool,
) -> None:
    """Watch a cluster and do what its controllers are for.

    \b
    weir controller-manager --kubeconfig .weir/kubeconfig
    weir controller-manager --controllers=taint-eviction   # in place of a real cluster's own
    """
    from weir.clock import RealClock
    from weir.controllers.catalog import CATALOG, UnknownController, choose
    from weir.controllers.compat.certificates import CertificateSigner, authority_of
    from weir.controllers.devices.resource_claim import ResourceClaims
    from weir.controllers.devices.taint_eviction import DeviceTaintEviction
    from weir.controllers.runtime.runner import Controllers
    from weir.observe.metrics import add_process_metrics
    from weir.observe.process_metrics import publish_features

    if list_names:
        for name in CATALOG:
            say(name)
        return
    if (signing_certificate is None) is not (signing_key is None):
        raise click.UsageError("--cluster-signing-cert-file and --cluster-signing-key-file go together")
    instead = {}
    if signing_certificate is not None and signing_key is not None:
        instead["certificatesigningrequest-signing"] = partial(
            CertificateSigner,
            authority=authority_of(signing_certificate, signing_key),
            longest=timedelta(seconds=signing_seconds),
        )
    try:
        chosen = choose([name.strip() for name in names.split(",") if name.strip()], gates, instead)
    except UnknownController as error:
        raise click.BadParameter(str(error), param_hint="--controllers") from None
    for controller in chosen:
        if isinstance(controller, DeviceTaintEviction):
            controller.workers = device_evictions
        elif isinstance(controller, ResourceClaims):
            controller.workers = resource_claims
    if not chosen:
        raise click.BadParameter("none is left", param_hint="--controllers")
    lease = leader_elect_resource_name if leader_elect else ""

    def make(client: Client, log: Log) -> Component:
        log.info("Controlling", controllers=",".join(c.name for c in chosen), leaderElect=bool(lease))
        acting = Controllers(
            client,
            RealClock(),
            chosen,
            identity=identity(),
            lease_name=lease,
            log=log,
            qps=qps,
            burst=burst,
        )
        publish_features(acting.metrics.registry, gates)
        add_process_metrics(acting.metrics.registry)
        return acting.run, acting.pages()

    agent = "weir-controller-manager"
    run_component(make, live, agent, "weir.controllers", gates, door=door)
