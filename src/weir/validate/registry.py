"""Validation functions by kind.

Modules are imported when their kind is first written. A kind without a row has metadata rules only.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from weir.caches import bounded
from weir.validate.field import Context, Document, Errors
from weir.validate.meta import validate_meta

Rule = Callable[[Document, Document | None, Context], Errors]

_APPS, _RBAC, _RESOURCE, _STORAGE = "apps", "rbac.authorization.k8s.io", "resource.k8s.io", "storage.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"
_CERTIFICATES, _NETWORKING = "certificates.k8s.io", "networking.k8s.io"
_REGISTRATION = "admissionregistration.k8s.io"

_RULES: Final = {
    ("", "Binding"): "pod_subresources.validate_posted_binding",
    ("", "ConfigMap"): "config.validate_config_map",
    ("", "Endpoints"): "service.validate_endpoints",
    ("", "Event"): "event.validate_event",
    ("", "LimitRange"): "quota.validate_limit_range",
    ("", "Namespace"): "cluster_objects.validate_namespace",
    ("", "Node"): "node.validate_node",
    ("", "PersistentVolume"): "persistent_volume.validate_persistent_volume",
    ("", "PersistentVolumeClaim"): "persistent_volume_claim.validate_claim",
    ("", "Pod"): "pod.validate_pod",
    ("", "PodTemplate"): "template.validate_pod_template",
    ("", "ReplicationController"): "workloads.validate_replication_controller",
    ("", "ResourceQuota"): "quota.validate_resource_quota",
    ("", "Secret"): "config.validate_secret",
    ("", "Service"): "service.validate_service",
    (_APPS, "ControllerRevision"): "workloads.validate_controller_revision",
    (_APPS, "DaemonSet"): "workloads.validate_daemon_set",
    (_APPS, "Deployment"): "workloads.validate_deployment",
    (_APPS, "ReplicaSet"): "workloads.validate_replica_set",
    (_APPS, "StatefulSet"): "workloads.validate_stateful_set",
    (_REGISTRATION, "MutatingAdmissionPolicy"): "mutating_policies.validate_mutating_policy",
    (_REGISTRATION, "MutatingAdmissionPolicyBinding"): "mutating_policies.validate_mutating_binding",
    (_REGISTRATION, "ValidatingAdmissionPolicy"): "admission_policies.validate_validating_policy",
    (_REGISTRATION, "ValidatingAdmissionPolicyBinding"): "admission_policies.validate_validating_binding",
    (_REGISTRATION, "MutatingWebhookConfiguration"): "webhooks.validate_webhook_configuration",
    (_REGISTRATION, "ValidatingWebhookConfiguration"): "webhooks.validate_webhook_configuration",
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
    ): "custom_resource_definition.validate_custom_resource_definition",
    ("apiregistration.k8s.io", "APIService"): "api_service.validate_api_service",
    ("autoscaling", "HorizontalPodAutoscaler"): "autoscaler.validate_autoscaler",
    ("batch", "CronJob"): "batch.validate_cron_job",
    ("batch", "Job"): "batch.validate_job",
    (_CERTIFICATES, "CertificateSigningRequest"): "certificate_signing_request.validate_signing_request",
    (_CERTIFICATES, "ClusterTrustBundle"): "trust_bundle.validate_trust_bundle",
    (_CERTIFICATES, "PodCertificateRequest"): "pod_certificate_request.validate_pod_certificate_request",
    ("coordination.k8s.io", "Lease"): "cluster_objects.validate_lease",
    ("discovery.k8s.io", "EndpointSlice"): "service.validate_endpoint_slice",
    ("events.k8s.io", "Event"): "event.validate_event",
    (_FLOW, "FlowSchema"): "flow_schema.validate_flow_schema",
    (_FLOW, "PriorityLevelConfiguration"): "priority_level.validate_priority_level",
    (_NETWORKING, "IPAddress"): "service_cidr.validate_ip_address",
    (_NETWORKING, "Ingress"): "ingress.validate_ingress",
    (_NETWORKING, "IngressClass"): "ingress.validate_ingress_class",
    (_NETWORKING, "NetworkPolicy"): "network_policy.validate_network_policy",
    (_NETWORKING, "ServiceCIDR"): "service_cidr.validate_service_cidr",
    ("node.k8s.io", "RuntimeClass"): "cluster_objects.validate_runtime_class",
    ("policy", "PodDisruptionBudget"): "cluster_objects.validate_disruption_budget",
    (_RBAC, "ClusterRole"): "rbac.validate_cluster_role",
    (_RBAC, "ClusterRoleBinding"): "rbac.validate_cluster_role_binding",
    (_RBAC, "Role"): "rbac.validate_role",
    (_RBAC, "RoleBinding"): "rbac.validate_role_binding",
    (_RESOURCE, "DeviceClass"): "resource_claim.validate_device_class",
    (_RESOURCE, "DeviceTaintRule"): "device_taint_rule.validate_device_taint_rule",
    (_RESOURCE, "ResourceClaim"): "resource_claim.validate_resource_claim",
    (_RESOURCE, "ResourceClaimTemplate"): "resource_claim.validate_resource_claim_template",
    (_RESOURCE, "ResourceSlice"): "resource_slice.validate_resource_slice",
    ("scheduling.k8s.io", "PriorityClass"): "cluster_objects.validate_priority_class",
    (_STORAGE, "CSIDriver"): "storage.validate_csi_driver",
    (_STORAGE, "CSINode"): "storage.validate_csi_node",
    (_STORAGE, "CSIStorageCapacity"): "storage.validate_csi_storage_capacity",
    (_STORAGE, "StorageClass"): "storage.validate_storage_class",
    (_STORAGE, "VolumeAttachment"): "storage.validate_volume_attachment",
    ("storagemigration.k8s.io", "StorageVersionMigration"): "storage_version_migration.validate_migration",
}


@bounded(256)
def find_rule(group: str, kind: str) -> Rule:
    """Return the function that checks objects of a kind."""
    name = _RULES.get((group, kind))
    if name is None:
        return validate_meta
    module, _, function = name.partition(".")
    rule: Rule = getattr(import_module(f"weir.validate.{module}"), function)
    return rule
