"""What does the scheduler count? Upstream's metrics, and the two that KEP-5471 proposes.

Spec: core.md 3.11 "Metrics". Names, labels and buckets are upstream's.
"""

from __future__ import annotations

from weir.observe.metrics import Registry, exponential


class SchedulerMetrics:
    """The scheduler's metrics in one registry."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry or Registry()
        counter, gauge, histogram = self.registry.counter, self.registry.gauge, self.registry.histogram
        self.attempts = counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result.",
            ("result", "profile"),
        )
        self.attempt_duration = histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt took, binding included.",
            ("result", "profile"),
            buckets=exponential(0.001, 2, 15),
        )
        self.algorithm_duration = histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "How long deciding took.",
            buckets=exponential(0.001, 2, 15),
        )
        self.sli_duration = histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "How long pods waited from their first attempt until they were bound.",
            ("attempts",),
            buckets=exponential(0.01, 2, 20),
        )
        self.pod_attempts = histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts it took to schedule a pod.",
            buckets=exponential(1, 2, 5),
        )
        self.pending = gauge("scheduler_pending_pods", "Pods that wait, by place.", ("queue",))
        self.incoming = counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that came into a queue, and what sent them.",
            ("queue", "event"),
        )
        self.extension_point = histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "How long the plugins of an extension point took together.",
            ("extension_point", "status", "profile"),
            buckets=exponential(0.0001, 2, 12),
        )
        self.plugin_duration = histogram(
            "scheduler_plugin_execution_duration_seconds",
            "How long one plugin took, in a sample of the attempts.",
            ("plugin", "extension_point", "status"),
            buckets=exponential(0.00001, 1.5, 20),
        )
        self.plugin_evaluations = counter(
            "scheduler_plugin_evaluation_total",
            "How often plugins were asked.",
            ("plugin", "extension_point", "profile", "status"),
        )
        self.unschedulable = gauge(
            "scheduler_unschedulable_pods",
            "Sleeping pods, by the plugins that rejected them.",
            ("plugin", "profile"),
        )
        self.preemption_attempts = counter("scheduler_preemption_attempts_total", "Attempts to preempt.")
        self.preemption_victims = histogram(
            "scheduler_preemption_victims", "Pods preempted at a time.", buckets=exponential(1, 2, 7)
        )
        self.event_duration = histogram(
            "scheduler_event_handling_duration_seconds",
            "How long taking in a change of the cluster took.",
            ("event",),
            buckets=exponential(0.0001, 2, 12),
        )
        self.hint_duration = histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "How long asking whether a change helps a pod took.",
            ("plugin", "event", "hint"),
            buckets=exponential(0.00001, 2, 12),
        )
        self.cache_size = gauge("scheduler_cache_size", "Nodes and pods the scheduler knows.", ("type",))
        self.numeric_evaluations = counter(
            "scheduler_numeric_taint_evaluations_total",
            "Comparisons of Lt and Gt tolerations with taints.",
            ("operator", "result", "profile"),
        )
        self.numeric_tolerations = counter(
            "scheduler_numeric_tolerations_total",
            "Bound pods that carry at least one Lt or Gt toleration.",
            ("profile",),
        )
