"""Writes the page of every kind the API serves, and what acts on it: docs/reference/kinds.md."""

from __future__ import annotations

from weir.objects.kind import Kind
from weir.objects.kinds import KINDS

STORED_ONLY = "nothing: stored for your own programs"
#: kind → what acts on objects of it, by its name without a group (names are unique among stored kinds)
ACTS = {
    "ComponentStatus": "asks scheduler and controller manager at their usual ports",
    "ConfigMap": STORED_ONLY,
    "Endpoints": "written for services, mirrored into slices",
    "Event": "kept for an hour",
    "LimitRange": "admission fills in and bounds requests",
    "Namespace": "deletion empties it first",
    "Node": "simulated kubelets; lifecycle and taints as upstream",
    "PersistentVolumeClaim": "bound, provisioned and protected; no data is stored",
    "PersistentVolume": "bound, released and deleted; node affinity is honoured",
    "Pod": "scheduled, run by simulated kubelets, evicted",
    "PodTemplate": STORED_ONLY,
    "ReplicationController": "replicas are kept",
    "ResourceQuota": "admission enforces it, use is counted",
    "Secret": "encrypted at rest on request; simulated pods do not read it",
    "ServiceAccount": "made for every namespace; tokens authenticate",
    "Service": "gets an address and endpoints; nothing routes to it",
    "ControllerRevision": "written for DaemonSets and StatefulSets",
    "DaemonSet": "a pod on every node that fits; rolling updates",
    "Deployment": "rollouts, roll-backs by kubectl, scaling",
    "ReplicaSet": "replicas are kept",
    "StatefulSet": "ordered pods with claims; rolling updates",
    "HorizontalPodAutoscaler": "scales by the metrics simulated kubelets serve",
    "CronJob": "makes Jobs by its schedule",
    "Job": "completions, indexes, failure and success policies",
    "PodDisruptionBudget": "evictions ask it",
    "ClusterRoleBinding": "authorizes",
    "ClusterRole": "authorizes; aggregated",
    "RoleBinding": "authorizes",
    "Role": "authorizes",
    "CustomResourceDefinition": "makes kinds that are served like all others",
    "FlowSchema": "says which priority level a request belongs to",
    "PriorityLevelConfiguration": "shares the server among flows",
    "DeviceClass": "the scheduler allocates by it",
    "DeviceTaintRule": "taints devices; evicts; its status reports",
    "ResourceClaim": "allocated, reserved, released",
    "ResourceClaimTemplate": "a claim for every pod",
    "ResourceSlice": "published by simulated drivers",
    "CSIDriver": "the scheduler reads its capacity and attach settings",
    "CSINode": "the scheduler counts its volumes",
    "CSIStorageCapacity": "the scheduler looks for room in it",
    "StorageClass": "claims are provisioned by it; a default one is given",
    "VolumeAttachment": "the scheduler counts it",
    "VolumeAttributesClass": STORED_ONLY,
    "MutatingWebhookConfiguration": "webhooks are called",
    "MutatingAdmissionPolicy": "bound policies change writes before webhooks do (CEL)",
    "MutatingAdmissionPolicyBinding": "puts a policy to use, with parameters",
    "ValidatingAdmissionPolicy": "bound policies judge every write (CEL)",
    "ValidatingAdmissionPolicyBinding": "puts a policy to use, with parameters",
    "ValidatingWebhookConfiguration": "webhooks are called",
    "APIService": "kept for every served group; no request is forwarded to a service",
    "CertificateSigningRequest": "kubelets' are approved; signed by the cluster's authority; old ones go",
    "ClusterTrustBundle": "one is published with the API server's authority",
    "PodCertificateRequest": "admission asks who may sign; no signer is here; goes after 15 minutes",
    "StorageVersionMigration": STORED_ONLY,
    "IPAddress": STORED_ONLY,
    "IngressClass": "an Ingress without a class gets the default one",
    "Ingress": STORED_ONLY,
    "NetworkPolicy": STORED_ONLY,
    "ServiceCIDR": STORED_ONLY,
    "PriorityClass": "pods get its value; preemption",
    "Lease": "heartbeats and leader election",
    "RuntimeClass": "admission adds overhead and node selection",
    "EndpointSlice": "written for services",
    "NodeMetrics": "what simulated nodes use",
    "PodMetrics": "what simulated pods use",
}
HEAD = """# Kinds

Every kind the API of `weir up` serves, and what acts on it there. Written by `make docs`.

A kind that nothing acts on is stored, defaulted, checked and printed all the same: manifests apply, and controllers of
your own find it as on any cluster. Beside these there are the kinds your CustomResourceDefinitions make: see
[use custom resources](../howto/use-custom-resources.md). Kinds that are neither are refused with
`no matches for kind`: alpha and beta versions, which Kubernetes does not serve by default either.

| Kind | Versions | Short | Scope | Subresources | What acts on it |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    rows: dict[tuple[str, str], list[Kind]] = {}
    for kind in KINDS:
        if kind.plural and kind.kind in ACTS:
            rows.setdefault((kind.group, kind.kind), []).append(kind)
    return HEAD + "".join(_row(found) for _, found in sorted(rows.items()))


def _row(found: list[Kind]) -> str:
    first = found[0]
    cells = (
        first.kind,
        ", ".join(f"`{kind.api_version}`" for kind in found),
        ", ".join(f"`{name}`" for name in first.short_names),
        "namespace" if first.namespaced else "cluster",
        ", ".join(sub.name for sub in first.subresources),
        ACTS[first.kind],
    )
    return f"| {' | '.join(cells)} |\n"
