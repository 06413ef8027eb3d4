"""Table cells by kind.

Spec: apiserver.md 11 "Tables", "Cells". One function per kind, in the order of its columns (`columns.json`); longer
ones are in the other modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from weir.apiserver.printers.autoscaling import autoscaler_cells
from weir.apiserver.printers.certificates import (
    migration_cells,
    pod_certificate_cells,
    signing_request_cells,
    trust_bundle_cells,
)
from weir.apiserver.printers.cluster import (
    component_status_cells,
    device_taint_rule_cells,
    event_cells,
    node_cells,
    quota_cells,
    resource_claim_cells,
    role_binding_cells,
)
from weir.apiserver.printers.flow_control import flow_schema_cells, priority_level_cells, schemas_in_order
from weir.apiserver.printers.network import (
    endpoint_slice_cells,
    endpoints_cells,
    ingress_cells,
    ingress_class_cells,
    ip_address_cells,
    service_cells,
    service_cidr_cells,
)
from weir.apiserver.printers.pods import (
    pod_cells,
)
from weir.apiserver.printers.policies import policy_binding_cells, policy_cells
from weir.apiserver.printers.storage import (
    claim_cells,
    csi_driver_cells,
    storage_class_cells,
    volume_cells,
)
from weir.apiserver.printers.values import (
    Cells,
    Document,
    age,
    at,
    containers_of,
    count,
    human_duration,
    label_text,
    name_of,
    plain,
    selector_text,
)
from weir.apiserver.printers.workloads import (
    budget_cells,
    controller_revision_cells,
    cron_job_cells,
    daemon_set_cells,
    deployment_cells,
    job_cells,
    replica_cells,
    stateful_set_cells,
)
from weir.objects.kind import Kind

__all__ = ["PRINTED", "cells_of", "human_duration", "in_order"]

Found = TypeVar("Found", bound=Document)
_CELLS: dict[str, Callable[[Document, float], Cells]] = {
    "Pod": pod_cells,
    "Node": node_cells,
    "Namespace": plain("status.phase"),
    "ServiceAccount": plain(),
    "ConfigMap": lambda found, now: [
        name_of(found),
        len(found.get("data") or ()) + len(found.get("binaryData") or ()),
        age(found, now),
    ],
    "Secret": lambda found, now: [
        name_of(found),
        found.get("type") or "",
        len(found.get("data") or ()),
        age(found, now),
    ],
    "PersistentVolume": volume_cells,
    "PersistentVolumeClaim": claim_cells,
    "StorageClass": storage_class_cells,
    "Deployment": deployment_cells,
    "ReplicaSet": replica_cells,
    "ReplicationController": replica_cells,
    "DaemonSet": daemon_set_cells,
    "StatefulSet": stateful_set_cells,
    "Job": job_cells,
    "CronJob": cron_job_cells,
    "PodDisruptionBudget": budget_cells,
    "HorizontalPodAutoscaler": autoscaler_cells,
    "PriorityClass": lambda found, now: [
        name_of(found),
        found.get("value", 0),
        bool(found.get("globalDefault")),
        age(found, now),
        found.get("preemptionPolicy") or "PreemptLowerPriority",
    ],
    "Event": event_cells,
    "Lease": plain("spec.holderIdentity"),
    "Service": service_cells,
    "Endpoints": endpoints_cells,
    "EndpointSlice": endpoint_slice_cells,
    "IPAddress": ip_address_cells,
    "Ingress": ingress_cells,
    "IngressClass": ingress_class_cells,
    "NetworkPolicy": lambda found, now: [
        name_of(found),
        selector_text(at(found, "spec", "podSelector")),
        age(found, now),
    ],
    "ServiceCIDR": service_cidr_cells,
    "RoleBinding": role_binding_cells,
    "ClusterRoleBinding": role_binding_cells,
    "ResourceQuota": quota_cells,
    "RuntimeClass": plain("handler"),
    "VolumeAttributesClass": plain("driverName"),
    "VolumeAttachment": lambda found, now: [
        name_of(found),
        at(found, "spec", "attacher") or "",
        at(found, "spec", "source", "persistentVolumeName") or "",
        at(found, "spec", "nodeName") or "",
        bool(at(found, "status", "attached")),
        age(found, now),
    ],
    "CSINode": lambda found, now: [
        name_of(found),
        len(at(found, "spec", "drivers") or ()),
        age(found, now),
    ],
    "CSIDriver": csi_driver_cells,
    "MutatingAdmissionPolicy": partial(policy_cells, "mutations"),
    "MutatingAdmissionPolicyBinding": policy_binding_cells,
    "MutatingWebhookConfiguration": lambda found, now: [
        name_of(found),
        len(found.get("webhooks") or ()),
        age(found, now),
    ],
    "ValidatingAdmissionPolicy": partial(policy_cells, "validations"),
    "ValidatingAdmissionPolicyBinding": policy_binding_cells,
    "ValidatingWebhookConfiguration": lambda found, now: [
        name_of(found),
        len(found.get("webhooks") or ()),
        age(found, now),
    ],
    "ControllerRevision": controller_revision_cells,
    "PodTemplate": lambda found, now: [
        name_of(found),
        *containers_of(at(found, "template", "spec")),
        label_text(at(found, "template", "metadata", "labels")),
    ],
    "Scale": lambda found, now: [
        name_of(found),
        count(found, "spec", "replicas"),
        count(found, "status", "replicas"),
        age(found, now),
    ],
    "DeviceClass": plain(),
    "ResourceClaim": resource_claim_cells,
    "ResourceClaimTemplate": plain(),
    "ResourceSlice": lambda found, now: [
        name_of(found),
        at(found, "spec", "nodeName") or "",
        at(found, "spec", "driver") or "",
        at(found, "spec", "pool", "name") or "",
        age(found, now),
    ],
    "DeviceTaintRule": device_taint_rule_cells,
    "ComponentStatus": component_status_cells,
    "CertificateSigningRequest": signing_request_cells,
    "ClusterTrustBundle": trust_bundle_cells,
    "PodCertificateRequest": pod_certificate_cells,
    "StorageVersionMigration": migration_cells,
    "FlowSchema": flow_schema_cells,
    "PriorityLevelConfiguration": priority_level_cells,
}
#: The kinds that have columns of their own.
PRINTED = frozenset(_CELLS)


def cells_of(kind: Kind, document: Document, now: float) -> Cells:
    """Return the cells of one object, in the order of its kind's columns."""
    return _CELLS[kind.kind](document, now)


def in_order(kind: Kind, documents: Iterable[Found]) -> Iterable[Found]:
    """Return objects in the order of their rows: that of the list, but for flow schemas."""
    return schemas_in_order(documents) if kind.kind == "FlowSchema" else documents
