"""The list of controllers, by the name used on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from weir.controllers.runtime.controller import Controller
from weir.gates import Gates

#: Controller class by name, as `module:class` below weir.controllers: one is imported when it is chosen.
CATALOG: Final[Mapping[str, str]] = {
    "taint-eviction": "nodes.taint_eviction:TaintEviction",
    "node-lifecycle": "nodes.lifecycle:NodeLifecycle",
    "node-ttl": "cluster.node_ttl:NodeTtl",
    "pod-gc": "nodes.pod_gc:PodGc",
    "daemonset": "workloads.daemonset:DaemonSets",
    "deployment": "workloads.deployment:Deployments",
    "replicaset": "workloads.replicaset:ReplicaSets",
    "replicationcontroller": "workloads.replicaset:ReplicationControllers",
    "statefulset": "workloads.statefulset:StatefulSets",
    "job": "workloads.job:Jobs",
    "ttl-after-finished": "workloads.job:TtlAfterFinished",
    "cronjob": "workloads.cronjob:CronJobs",
    "horizontal-pod-autoscaler": "compat.autoscaling.horizontal_pod_autoscaler:HorizontalPodAutoscalers",
    "endpoints": "compat.endpoints:Endpoints",
    "endpointslice": "compat.endpoint_slices:EndpointSlices",
    "endpointslice-mirroring": "compat.endpoint_slices:EndpointMirror",
    "disruption": "workloads.disruption:Disruption",
    "persistentvolume": "storage.persistent_volume:PersistentVolumes",
    "volume-provisioner": "storage.volume_provisioner:VolumeProvisioner",
    "ephemeral-volume": "storage.ephemeral_volume:EphemeralVolumes",
    "volumeattributesclass-protection": "storage.protection:AttributesClassProtection",
    "resourceclaim": "devices.resource_claim:ResourceClaims",
    "device-taint-eviction": "devices.taint_eviction:DeviceTaintEviction",
    "device-taint-expiry": "devices.taint_expiry:DeviceTaintExpiry",
    "garbage-collector": "cluster.garbage_collector:GarbageCollector",
    "namespace": "cluster.namespace:Namespaces",
    "resourcequota": "cluster.resource_quota:ResourceQuotas",
    "serviceaccount": "cluster.service_account:ServiceAccounts",
    "root-ca-certificate-publisher": "cluster.service_account:RootCertificates",
    "validatingadmissionpolicy-status": "compat.policy_status:PolicyStatus",
    "certificatesigningrequest-approving": "compat.certificates:CertificateApprover",
    "certificatesigningrequest-signing": "compat.certificates:CertificateSigner",
    "certificatesigningrequest-cleaner": "compat.certificates:CertificateCleaner",
    "podcertificaterequest-cleaner": "compat.certificates:PodCertificateCleaner",
    "kube-apiserver-serving-clustertrustbundle-publisher": "compat.certificates:TrustBundlePublisher",
}


class UnknownController(ValueError):
    """A name that is no controller's, with the names that are."""


def choose(
    names: Sequence[str], gates: Gates, instead: Mapping[str, Callable[[Gates], Controller]] | None = None
) -> list[Controller]:
    """Return the controllers called *names*; `*` is all of them, `-name` takes one out again.

    *instead* makes single controllers in another way, by name.

    >>> [controller.name for controller in choose(["taint-eviction"], Gates())]
    ['taint-eviction-controller']
    """
    for name in names:
        if name.removeprefix("-") not in (*CATALOG, "*"):
            raise UnknownController(f"no controller is called {name!r}: there are {', '.join(CATALOG)}")
    without = {name[1:] for name in names if name.startswith("-")}
    wanted = [name for name in CATALOG if ("*" in names or name in names) and name not in without]
    made = instead or {}
    return [(made[name] if name in made else _load(CATALOG[name]))(gates) for name in wanted]


def _load(path: str) -> Callable[[Gates], Controller]:
    module, _, name = path.partition(":")
    controller: Callable[[Gates], Controller] = getattr(import_module(f"weir.controllers.{module}"), name)
    return controller
