"""The list of controllers, by the name used on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from weir.controllers.autoscaling.horizontal_pod_autoscaler import HorizontalPodAutoscalers
from weir.controllers.certificates.approver import CertificateApprover
from weir.controllers.certificates.cleaner import CertificateCleaner, PodCertificateCleaner
from weir.controllers.certificates.signer import CertificateSigner
from weir.controllers.certificates.trust_bundle_publisher import TrustBundlePublisher
from weir.controllers.cluster.garbage_collector import GarbageCollector
from weir.controllers.cluster.namespace import Namespaces
from weir.controllers.cluster.node_ttl import NodeTtl
from weir.controllers.cluster.policy_status import PolicyStatus
from weir.controllers.cluster.resource_quota import ResourceQuotas
from weir.controllers.cluster.service_account import RootCertificates, ServiceAccounts
from weir.controllers.devices.resource_claim import ResourceClaims
from weir.controllers.devices.taint_eviction import DeviceTaintEviction
from weir.controllers.devices.taint_expiry import DeviceTaintExpiry
from weir.controllers.network.endpoint_slice_mirroring import EndpointMirror
from weir.controllers.network.endpoint_slices import EndpointSlices
from weir.controllers.network.endpoints import Endpoints
from weir.controllers.nodes.lifecycle import NodeLifecycle
from weir.controllers.nodes.pod_gc import PodGc
from weir.controllers.nodes.taint_eviction import TaintEviction
from weir.controllers.runtime.controller import Controller
from weir.controllers.storage.attributes_class_protection import AttributesClassProtection
from weir.controllers.storage.ephemeral_volume import EphemeralVolumes
from weir.controllers.storage.persistent_volume import PersistentVolumes
from weir.controllers.storage.volume_provisioner import VolumeProvisioner
from weir.controllers.workloads.cronjob import CronJobs
from weir.controllers.workloads.daemonset import DaemonSets
from weir.controllers.workloads.deployment import Deployments
from weir.controllers.workloads.disruption import Disruption
from weir.controllers.workloads.job import Jobs
from weir.controllers.workloads.replicaset import ReplicaSets, ReplicationControllers
from weir.controllers.workloads.statefulset import StatefulSets
from weir.controllers.workloads.ttl_after_finished import TtlAfterFinished
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
    "horizontal-pod-autoscaler": HorizontalPodAutoscalers,
    "endpoints": Endpoints,
    "endpointslice": EndpointSlices,
    "endpointslice-mirroring": EndpointMirror,
    "disruption": Disruption,
    "persistentvolume": PersistentVolumes,
    "volume-provisioner": VolumeProvisioner,
    "ephemeral-volume": EphemeralVolumes,
    "volumeattributesclass-protection": AttributesClassProtection,
    "resourceclaim": ResourceClaims,
    "device-taint-eviction": DeviceTaintEviction,
    "device-taint-expiry": DeviceTaintExpiry,
    "garbage-collector": GarbageCollector,
    "namespace": Namespaces,
    "resourcequota": ResourceQuotas,
    "serviceaccount": ServiceAccounts,
    "root-ca-certificate-publisher": RootCertificates,
    "validatingadmissionpolicy-status": PolicyStatus,
    "certificatesigningrequest-approving": CertificateApprover,
    "certificatesigningrequest-signing": CertificateSigner,
    "certificatesigningrequest-cleaner": CertificateCleaner,
    "podcertificaterequest-cleaner": PodCertificateCleaner,
    "kube-apiserver-serving-clustertrustbundle-publisher": TrustBundlePublisher,
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
    return [{**CATALOG, **(instead or {})}[name](gates) for name in wanted]
