"""What do controllers count? Upstream's metrics where upstream has them.

Spec: core.md 4.5 "Metrics", dra.md 6.4 and 7.7.
"""

from __future__ import annotations

from weir.observe.metrics import Registry, exponential


class ControllerMetrics:
    """The controllers' metrics in one registry."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry or Registry()
        counter, histogram = self.registry.counter, self.registry.histogram
        self.pod_deletions = counter(
            "taint_eviction_controller_pod_deletions_total", "Pods deleted because of NoExecute taints."
        )
        self.pod_deletion_duration = histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "Time from when a pod had to go until its deletion was accepted.",
            buckets=(0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240),
        )
        self.device_pod_deletions = counter(
            "device_taint_eviction_controller_pod_deletions_total",
            "Pods deleted because of NoExecute taints of devices.",
        )
        self.device_pod_deletion_duration = histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "Time from when a pod had to leave its devices until its deletion was accepted.",
            buckets=(0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240),
        )
        self.claim_creates = counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "ResourceClaims made from templates, by outcome, admin access and owner.",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
        )
        self.claims = self.registry.gauge(
            "dynamic_resource_allocation_resource_claims",
            "ResourceClaims there are, by whether they are allocated, admin access and where they came from.",
            ("allocated", "admin_access", "source"),
        )
        self.jobs_finished = counter(
            "job_controller_jobs_finished_total",
            "Jobs that ended, by completion mode, result and reason.",
            ("completion_mode", "result", "reason"),
        )
        self.job_pods_finished = counter(
            "job_controller_job_pods_finished_total",
            "Pods of Jobs that ended and were counted, by completion mode and result.",
            ("completion_mode", "result"),
        )
        self.job_pod_failures = counter(
            "job_controller_pod_failures_handled_by_failure_policy_total",
            "Failed pods that a rule of a podFailurePolicy matched, by its action.",
            ("action",),
        )
        self.cronjob_skew = histogram(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "Time from when a Job of a CronJob was due until it was created.",
            buckets=exponential(1, 2, 10),
        )
        self.zone_evictions = counter(
            "node_collector_evictions_total", "Nodes that were given a NoExecute taint, by zone.", ("zone",)
        )
        self.reconciles = counter(
            "weir_controllers_reconciles_total", "Items looked at, by outcome.", ("controller", "outcome")
        )
        self.refusals = counter(
            "weir_controllers_refused_creates_total",
            "Objects that the API server refused to create, by controller and reason.",
            ("controller", "reason"),
        )
        self.refused_workloads = self.registry.gauge(
            "weir_controllers_refused_workloads",
            "Items whose objects the API server refuses and that wait before they are tried again.",
            ("controller",),
        )
        self.reconcile_duration = histogram(
            "weir_controllers_reconcile_duration_seconds",
            "How long one item took, its actions included.",
            ("controller",),
            buckets=exponential(0.001, 4, 8),
        )
