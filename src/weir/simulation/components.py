"""Factories for the components of a simulated cluster, from a client, gates and a seed.

No leader election. Each component has its own seed, so that a history does not depend on the order of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from weir.client.api import Client
from weir.clock import Clock
from weir.controllers.catalog import choose
from weir.controllers.compat.certificates import CertificateSigner, authority_of
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.runner import Controllers
from weir.gates import Gates
from weir.observe.process_metrics import publish_features
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.run import Scheduler
from weir.simulation.kubelet.heartbeats import HeartbeatLedger
from weir.simulation.kubelet.run import Hosts, Kubelets

#: What each component calls itself where it asks the server.
AGENTS: Final = {
    "scheduler": "kube-scheduler",
    "controllers": "kube-controller-manager",
    "kubelet": "kubelet",
}


def make_scheduler(
    client: Client, gates: Gates, clock: Clock, seed: int, config: SchedulerConfig | None = None
) -> Scheduler:
    """Return the scheduler; *config* has its profiles and plugins."""
    alone = replace(config or SchedulerConfig(), leader_elect=False)
    return Scheduler(client, gates, clock, config=alone, seed=seed)


def make_controllers(
    client: Client,
    gates: Gates,
    clock: Clock,
    seed: int,
    names: Iterable[str] = ("*",),
    instead: Mapping[str, Callable[[Gates], Controller]] | None = None,
    authority: Path | None = None,
) -> Controllers:
    """Return the controllers of *names*; *instead* overrides the factories of some.

    Certificates are signed with the CA files in the folder *authority*.
    """
    others = dict(instead or {})
    if authority is not None:
        read = authority_of(authority / "ca.crt", authority / "ca.key")
        others["certificatesigningrequest-signing"] = partial(CertificateSigner, authority=read)
    chosen = choose(list(names), gates, others)
    made = Controllers(client, clock, chosen, seed=seed + 100)
    publish_features(made.metrics.registry, gates)
    return made


def make_kubelets(
    client: Client,
    gates: Gates,
    clock: Clock,
    seed: int,
    ledger: HeartbeatLedger | None = None,
    hosts: Hosts | None = None,
) -> Kubelets:
    """Return the kubelets of all simulated nodes."""
    return Kubelets(client, gates, clock, seed=seed + 200, ledger=ledger, hosts=hosts)
