"""Table cells by kind, in the order of its columns (`columns.json`).

Spec: apiserver.md 11 "Tables", "Cells". What is not a field, a count or a time of the object is computed in the module
of the kind's group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from weir.apiserver.printers import core, small_groups
from weir.apiserver.printers.cells import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Cells,
    Document,
    Row,
    container_images,
    container_names,
    controller,
    count,
    flag,
    human_duration,
    joined,
    labels_at,
    part_of,
    row,
    selector,
    shown,
    size,
    text,
    time_since,
)
from weir.objects.kind import Kind

__all__ = ["PRINTED", "cells_of", "human_duration", "in_order"]

Item = TypeVar("Item", bound=Document)
_POD = "spec.template.spec"
_CONTAINERS = (container_names(_POD), container_images(_POD))
_REPLICAS = (
    count("spec.replicas"),
    count("status.replicas"),
    count("status.readyReplicas"),
    AGE,
    *_CONTAINERS,
)
_READY = part_of("status.readyReplicas", "spec.replicas")
_WEBHOOKS = row(NAME, size("webhooks"), AGE)
_POLICY_BINDING = row(NAME, "spec.policyName", small_groups.parameters, AGE)

_ROWS: Final[dict[str, Row]] = {
    # core
    "ComponentStatus": core.component_status,
    "ConfigMap": row(NAME, core.config_map_size, AGE),
    "Endpoints": row(NAME, core.endpoint_addresses, AGE),
    "Event": core.event,
    "Namespace": row(NAME, "status.phase", AGE),
    "Node": core.node,
    "PersistentVolume": core.persistent_volume,
    "PersistentVolumeClaim": core.persistent_volume_claim,
    "Pod": core.pod,
    "PodTemplate": row(
        NAME,
        container_names("template.spec"),
        container_images("template.spec"),
        labels_at("template.metadata.labels"),
    ),
    "ReplicationController": row(NAME, *_REPLICAS, labels_at("spec.selector")),
    "ResourceQuota": row(NAME, core.quota_requests, core.quota_limits, AGE),
    "Secret": row(NAME, "type", size("data"), AGE),
    "Service": core.service,
    "ServiceAccount": row(NAME, AGE),
    # admissionregistration.k8s.io
    "MutatingAdmissionPolicy": row(NAME, size("spec.mutations"), small_groups.parameter_kind, AGE),
    "MutatingAdmissionPolicyBinding": _POLICY_BINDING,
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingAdmissionPolicy": row(NAME, size("spec.validations"), small_groups.parameter_kind, AGE),
    "ValidatingAdmissionPolicyBinding": _POLICY_BINDING,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    # apps
    "ControllerRevision": row(NAME, controller, count("revision"), AGE),
    "DaemonSet": row(
        NAME,
        count("status.desiredNumberScheduled"),
        count("status.currentNumberScheduled"),
        count("status.numberReady"),
        count("status.updatedNumberScheduled"),
        count("status.numberAvailable"),
        labels_at(f"{_POD}.nodeSelector"),
        AGE,
        *_CONTAINERS,
        selector("spec.selector"),
    ),
    "Deployment": row(
        NAME,
        _READY,
        count("status.updatedReplicas"),
        count("status.availableReplicas"),
        AGE,
        *_CONTAINERS,
        selector("spec.selector"),
    ),
    "ReplicaSet": row(NAME, *_REPLICAS, selector("spec.selector")),
    "StatefulSet": row(NAME, _READY, AGE, *_CONTAINERS),
    # autoscaling
    "HorizontalPodAutoscaler": row(
        NAME,
        small_groups.reference,
        small_groups.targets,
        shown("spec.minReplicas", UNSET),
        count("spec.maxReplicas"),
        count("status.currentReplicas"),
        AGE,
    ),
    "Scale": row(NAME, count("spec.replicas"), count("status.replicas"), AGE),
    # batch
    "CronJob": row(
        NAME,
        "spec.schedule",
        text("spec.timeZone", NONE),
        small_groups.suspended,
        size("status.active"),
        time_since("status.lastScheduleTime", NONE),
        AGE,
        container_names("spec.jobTemplate.spec.template.spec"),
        container_images("spec.jobTemplate.spec.template.spec"),
        selector("spec.jobTemplate.spec.selector"),
    ),
    "Job": row(
        NAME,
        small_groups.state,
        small_groups.completions,
        small_groups.duration,
        AGE,
        *_CONTAINERS,
        selector("spec.selector"),
    ),
    # certificates.k8s.io
    "CertificateSigningRequest": row(
        NAME,
        AGE,
        text("spec.signerName", NONE),
        "spec.username",
        small_groups.wanted_duration,
        small_groups.approval,
    ),
    "ClusterTrustBundle": row(NAME, text("spec.signerName", NONE)),
    "PodCertificateRequest": row(
        NAME,
        "spec.podName",
        "spec.serviceAccountName",
        "spec.nodeName",
        "spec.signerName",
        small_groups.outcome,
        labels_at("spec.unverifiedUserAnnotations"),
    ),
    # coordination.k8s.io, discovery.k8s.io
    "Lease": row(NAME, "spec.holderIdentity", AGE),
    "EndpointSlice": row(NAME, "addressType", small_groups.slice_ports, small_groups.slice_addresses, AGE),
    # flowcontrol.apiserver.k8s.io
    "FlowSchema": row(
        NAME,
        "spec.priorityLevelConfiguration.name",
        count("spec.matchingPrecedence"),
        small_groups.distinguisher,
        AGE,
        small_groups.dangling,
    ),
    "PriorityLevelConfiguration": small_groups.priority_level,
    # networking.k8s.io
    "IPAddress": row(NAME, small_groups.parent, AGE),
    "Ingress": row(
        NAME,
        shown("spec.ingressClassName", NONE),
        small_groups.hosts,
        small_groups.ingress_addresses,
        small_groups.ingress_ports,
        AGE,
    ),
    "IngressClass": row(small_groups.class_name, "spec.controller", small_groups.class_parameters, AGE),
    "NetworkPolicy": row(NAME, selector("spec.podSelector"), AGE),
    "ServiceCIDR": row(NAME, joined("spec.cidrs"), AGE),
    # node.k8s.io, policy, scheduling.k8s.io
    "RuntimeClass": row(NAME, "handler", AGE),
    "PodDisruptionBudget": row(
        NAME,
        shown("spec.minAvailable", "N/A"),
        shown("spec.maxUnavailable", "N/A"),
        count("status.disruptionsAllowed"),
        AGE,
    ),
    "PriorityClass": row(
        NAME, count("value"), flag("globalDefault"), AGE, text("preemptionPolicy", "PreemptLowerPriority")
    ),
    # rbac.authorization.k8s.io
    "ClusterRoleBinding": small_groups.role_binding,
    "RoleBinding": small_groups.role_binding,
    # resource.k8s.io
    "DeviceClass": row(NAME, AGE),
    "DeviceTaintRule": row(
        NAME,
        "spec.taint.key",
        "spec.taint.value",
        "spec.taint.effect",
        time_since("spec.taint.timeAdded"),
        AGE,
    ),
    "ResourceClaim": row(NAME, small_groups.claim_state, AGE),
    "ResourceClaimTemplate": row(NAME, AGE),
    "ResourceSlice": row(NAME, "spec.nodeName", "spec.driver", "spec.pool.name", AGE),
    # storage.k8s.io, storagemigration.k8s.io
    "CSIDriver": row(
        NAME,
        flag("spec.attachRequired", default=True),
        flag("spec.podInfoOnMount"),
        flag("spec.storageCapacity"),
        small_groups.audiences,
        flag("spec.requiresRepublish"),
        joined("spec.volumeLifecycleModes", NONE),
        AGE,
    ),
    "CSINode": row(NAME, size("spec.drivers"), AGE),
    "StorageClass": row(
        small_groups.storage_class_name,
        "provisioner",
        text("reclaimPolicy", "Delete"),
        text("volumeBindingMode", "Immediate"),
        flag("allowVolumeExpansion"),
        AGE,
    ),
    "VolumeAttachment": row(
        NAME,
        "spec.attacher",
        "spec.source.persistentVolumeName",
        "spec.nodeName",
        flag("status.attached"),
        AGE,
    ),
    "VolumeAttributesClass": row(NAME, "driverName", AGE),
    "StorageVersionMigration": row(NAME, small_groups.migrated, small_groups.migration_state),
}
#: The kinds that have columns of their own.
PRINTED = frozenset(_ROWS)


def cells_of(kind: Kind, document: Document, now: float) -> Cells:
    """Return the cells of one object, in the order of its kind's columns."""
    return _ROWS[kind.kind](document, now)


def in_order(kind: Kind, documents: Iterable[Item]) -> Iterable[Item]:
    """Return objects in the order of their rows: that of the list, but flow schemas by precedence."""
    return small_groups.schemas_in_order(documents) if kind.kind == "FlowSchema" else documents
