"""Which controllers are there? Each by the name it is asked for on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from weir.controllers.cronjob import CronJobs
from weir.controllers.daemonset import DaemonSets
from weir.controllers.deployment import Deployments
from weir.controllers.device_taint_eviction import DeviceTaintEviction
from weir.controllers.device_taint_expiry import DeviceTaintExpiry
from weir.controllers.disruption import Disruption
from weir.controllers.endpoint_mirror import EndpointMirror
from weir.controllers.endpoint_slices import EndpointSlices
from weir.controllers.endpoints import Endpoints
from weir.controllers.ephemeral_volume import EphemeralVolumes
from weir.controllers.garbage_collector import GarbageCollector
from weir.controllers.job import Jobs
from weir.controllers.namespace import Namespaces
from weir.controllers.node_lifecycle import NodeLifecycle
from weir.controllers.node_ttl import NodeTtl
from weir.controllers.persistent_volume import PersistentVolumes
from weir.controllers.pod_gc import PodGc
from weir.controllers.replicaset import ReplicaSets, ReplicationControllers
from weir.controllers.resource_claim import ResourceClaims
from weir.controllers.resource_quota import ResourceQuotas
from weir.controllers.run import Controller
from weir.controllers.service_account import RootCertificates, ServiceAccounts
from weir.controllers.statefulset import StatefulSets
from weir.controllers.taint_eviction import TaintEviction
from weir.controllers.ttl_after_finished import TtlAfterFinished
from weir.controllers.volume_provisioner import VolumeProvisioner
from weir.gates import Gates

CATALOG: Final[Mapping[str, Callable[[Gates], Controller]]] = {
    "taint-eviction": TaintEviction,
    "node-lifecycle": NodeLifecycle,
    "node-ttl": NodeTtl,
    "pod-gc": PodGc,
    "daemonset": DaemonSets,
    "deployment": Deployments,
    "replicaset": ReplicaSets,
    "replicationcontroller": ReplicationControllers,
    "statefulset": StatefulSets,
    "job": Jobs,
    "ttl-after-finished": TtlAfterFinished,
    "cronjob": CronJobs,
    "endpoints": Endpoints,
    "endpointslice": EndpointSlices,
    "endpointslice-mirroring": EndpointMirror,
    "disruption": Disruption,
    "persistentvolume": PersistentVolumes,
    "volume-provisioner": VolumeProvisioner,
    "ephemeral-volume": EphemeralVolumes,
    "resourceclaim": ResourceClaims,
    "device-taint-eviction": DeviceTaintEviction,
    "device-taint-expiry": DeviceTaintExpiry,
    "garbage-collector": GarbageCollector,
    "namespace": Namespaces,
    "resourcequota": ResourceQuotas,
    "serviceaccount": ServiceAccounts,
    "root-ca-certificate-publisher": RootCertificates,
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
