"""Controller metrics, with upstream's names where upstream has them.

Spec: core.md 4.5 "Metrics", dra.md 6.4 and 7.7.
"""

from __future__ import annotations

from weir.observe.metrics import CounterChild, HistogramChild, Registry, exponential
from weir.observe.process_metrics import ExpressionMetrics


class QueueMeter:
    """The counts of one controller's queue."""

    def __init__(
        self, adds: CounterChild, retries: CounterChild, waits: HistogramChild, works: HistogramChild
    ) -> None:
        self._adds, self._retries, self._waits, self._works = adds, retries, waits, works

    def added(self) -> None:
        self._adds.inc()

    def retried(self) -> None:
        self._retries.inc()

    def taken(self, waited_seconds: float) -> None:
        self._waits.observe(waited_seconds)

    def done(self, worked_seconds: float) -> None:
        self._works.observe(worked_seconds)


class ControllerMetrics:
    """The controllers' metrics in one registry."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry or Registry()
        counter, histogram = self.registry.counter, self.registry.histogram
        name, seconds = ("name",), exponential(1e-8, 10, 10)
        self.queue_depth = self.registry.gauge(
            "workqueue_depth", "Keys that wait for a worker, by queue.", name
        )
        self.queue_unfinished = self.registry.gauge(
            "workqueue_unfinished_work_seconds", "How long the keys being worked on have taken so far.", name
        )
        self.queue_longest = self.registry.gauge(
            "workqueue_longest_running_processor_seconds",
            "How long the key that has been worked on longest has taken so far.",
            name,
        )
        self._queue_adds = counter("workqueue_adds_total", "Keys added, by queue.", name)
        self._queue_retries = counter("workqueue_retries_total", "Keys that failed and came again.", name)
        self._queue_waits = histogram(
            "workqueue_queue_duration_seconds", "How long keys waited for a worker.", name, buckets=seconds
        )
        self._queue_works = histogram(
            "workqueue_work_duration_seconds", "How long the work on a key took.", name, buckets=seconds
        )
        self.elected = self.registry.gauge(
            "leader_election_master_status",
            "Whether this process is the elected one, by Lease; 0 while it waits.",
            ("name",),
        )
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
        self.cel = ExpressionMetrics(self.registry)
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

    def queue(self, name: str) -> QueueMeter:
        """Return what counts for the queue of one controller."""
        return QueueMeter(
            self._queue_adds.child(name),
            self._queue_retries.child(name),
            self._queue_waits.child(name),
            self._queue_works.child(name),
        )
