"""Which controllers are there? Each by the name it is asked for on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from weir.controllers.cronjob import CronJobs
from weir.controllers.daemonset import DaemonSets
from weir.controllers.deployment import Deployments
from weir.controllers.disruption import Disruption
from weir.controllers.garbage_collector import GarbageCollector
from weir.controllers.job import Jobs
from weir.controllers.namespace import Namespaces
from weir.controllers.node_lifecycle import NodeLifecycle
from weir.controllers.persistent_volume import PersistentVolumes
from weir.controllers.pod_gc import PodGc
from weir.controllers.replicaset import ReplicaSets
from weir.controllers.resource_claim import ResourceClaims
from weir.controllers.run import Controller
from weir.controllers.statefulset import StatefulSets
from weir.controllers.taint_eviction import TaintEviction
from weir.gates import Gates

CATALOG: Final[Mapping[str, Callable[[Gates], Controller]]] = {
    "taint-eviction": TaintEviction,
    "node-lifecycle": NodeLifecycle,
    "pod-gc": PodGc,
    "daemonset": DaemonSets,
    "deployment": Deployments,
    "replicaset": ReplicaSets,
    "statefulset": StatefulSets,
    "job": Jobs,
    "cronjob": CronJobs,
    "disruption": Disruption,
    "persistentvolume": PersistentVolumes,
    "resourceclaim": ResourceClaims,
    "garbage-collector": GarbageCollector,
    "namespace": Namespaces,
}


class UnknownController(ValueError):
    """A name that is no controller's, with the names that are."""


def choose(names: Sequence[str], gates: Gates) -> list[Controller]:
    """Return the controllers called *names*; `*` is all of them, `-name` takes one out again.

    >>> [controller.name for controller in choose(["taint-eviction"], Gates())]
    ['taint-eviction-controller']
    """
    for name in names:
        if name.removeprefix("-") not in (*CATALOG, "*"):
            raise UnknownController(f"no controller is called {name!r}: there are {', '.join(CATALOG)}")
    without = {name[1:] for name in names if name.startswith("-")}
    wanted = [name for name in CATALOG if ("*" in names or name in names) and name not in without]
    return [CATALOG[name](gates) for name in wanted]
