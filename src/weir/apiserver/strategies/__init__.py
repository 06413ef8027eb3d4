"""Registry strategies by kind: what the API server sets on an object before storing it.

Spec: apiserver.md 4 "Create and update", 5.2 "Other kinds". `for_kind` returns the strategy; most kinds use
`Strategy`. A strategy edits documents in place and validates nothing.
"""

from __future__ import annotations

from weir.apiserver.strategies.apiextensions import (
    CustomResourceDefinitionStrategy,
    CustomResourceStrategy,
)
from weir.apiserver.strategies.core.namespace import (
    LimitRangeStrategy,
    NamespaceStrategy,
    PersistentVolumeClaimStrategy,
    PersistentVolumeStrategy,
)
from weir.apiserver.strategies.core.pod import PodStrategy, WithoutFields
from weir.apiserver.strategies.core.service import ServiceStrategy
from weir.apiserver.strategies.resource import (
    DeviceClassStrategy,
    DeviceTaintRuleStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourceSliceStrategy,
)
from weir.apiserver.strategies.small_groups import (
    APIServiceStrategy,
    CertificateSigningRequestStrategy,
    CronJobStrategy,
    DaemonSetStrategy,
    DeploymentStrategy,
    EndpointSliceStrategy,
    IngressStrategy,
    JobStrategy,
    NetworkPolicyStrategy,
    PodCertificateRequestStrategy,
    PodTemplateStrategy,
    ServiceCIDRStrategy,
    StatefulSetStrategy,
    StatusApartStrategy,
    TemplateStrategy,
)
from weir.apiserver.strategies.strategy import Context, Strategy
from weir.compat.customresources.served import CustomResourceKind
from weir.objects.kind import Kind

__all__ = ["Context", "Strategy", "for_kind"]

_PLAIN, _CUSTOM = Strategy(), CustomResourceStrategy()
_BY_KIND: dict[tuple[str, str], Strategy] = {
    ("", "Pod"): PodStrategy(),
    ("", "LimitRange"): LimitRangeStrategy(),
    ("", "Namespace"): NamespaceStrategy(),
    ("", "Service"): ServiceStrategy(),
    ("", "PersistentVolume"): PersistentVolumeStrategy(),
    ("", "PersistentVolumeClaim"): PersistentVolumeClaimStrategy(),
    ("", "Node"): WithoutFields("configSource"),
    ("coordination.k8s.io", "Lease"): WithoutFields("strategy", "preferredHolder"),
    ("apps", "DaemonSet"): DaemonSetStrategy(),
    ("apps", "Deployment"): DeploymentStrategy(),
    ("apps", "ReplicaSet"): TemplateStrategy(),
    ("", "ReplicationController"): TemplateStrategy(),
    ("apps", "StatefulSet"): StatefulSetStrategy(),
    ("", "PodTemplate"): PodTemplateStrategy(),
    ("batch", "CronJob"): CronJobStrategy(),
    ("batch", "Job"): JobStrategy(),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): CustomResourceDefinitionStrategy(),
    ("apiregistration.k8s.io", "APIService"): APIServiceStrategy(),
    ("certificates.k8s.io", "CertificateSigningRequest"): CertificateSigningRequestStrategy(),
    ("certificates.k8s.io", "PodCertificateRequest"): PodCertificateRequestStrategy(),
    ("storagemigration.k8s.io", "StorageVersionMigration"): StatusApartStrategy(),
    ("discovery.k8s.io", "EndpointSlice"): EndpointSliceStrategy(),
    ("networking.k8s.io", "Ingress"): IngressStrategy(),
    ("networking.k8s.io", "NetworkPolicy"): NetworkPolicyStrategy(),
    ("networking.k8s.io", "ServiceCIDR"): ServiceCIDRStrategy(),
    ("resource.k8s.io", "DeviceClass"): DeviceClassStrategy(),
    ("resource.k8s.io", "DeviceTaintRule"): DeviceTaintRuleStrategy(),
    ("resource.k8s.io", "ResourceClaim"): ResourceClaimStrategy(),
    ("resource.k8s.io", "ResourceClaimTemplate"): ResourceClaimTemplateStrategy(),
    ("resource.k8s.io", "ResourceSlice"): ResourceSliceStrategy(),
}


def for_kind(kind: Kind) -> Strategy:
    """Return the strategy of *kind*."""
    if isinstance(kind, CustomResourceKind):
        return _CUSTOM
    return _BY_KIND.get((kind.group, kind.kind), _PLAIN)
