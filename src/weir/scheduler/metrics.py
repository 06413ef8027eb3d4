"""Scheduler metrics: upstream's, and the two that KEP-5471 proposes.

Spec: core.md 3.11 "Metrics". Names, labels and buckets are upstream's. Since results per node are cached, plugin
evaluations count the nodes actually evaluated, and Filter and Score are one step, timed under Filter. Numeric
comparisons count each distinct taint once per distinct toleration. A wait for binding conditions is recorded for
every device of the pod's claims, as upstream does, also for those without conditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from weir.objects.resource import DeviceRequestAllocationResult
from weir.observe.metrics import Registry, exponential
from weir.observe.process_metrics import ExpressionMetrics
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.feasibility import Feasibility
from weir.scheduler.framework import Diagnosis
from weir.scheduler.queue import SchedulingQueue

#: One attempt in so many has its plugins timed one by one.
SAMPLE: Final = 10


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
            "How long one plugin took: in the first and each tenth attempt, with --profiling in every call.",
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
        self.conditions_allocations = counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Allocated devices with binding conditions that attempts waited for, by driver and outcome.",
            ("profile", "driver", "status"),
        )
        self.conditions_duration = histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "How long binding conditions of devices were waited for, by driver and outcome.",
            ("profile", "driver", "status"),
            buckets=exponential(0.1, 2, 14),
        )
        self.claim_creates = counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "ResourceClaims made for extended resources, by outcome, admin access and owner.",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
        )
        self.cel = ExpressionMetrics(self.registry)
        self._published: set[tuple[str, str]] = set()  # plugins and profiles that had sleeping pods once

    # ── noting ──

    def note_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        self.hint_duration.child(plugin, event, hint).observe(seconds)

    def note_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        self.extension_point.child(point, status, profile).observe(seconds)

    def note_claim_created(self, *, well: bool) -> None:
        """Count a claim for extended resources that was made, or was refused."""
        self.claim_creates.child("success" if well else "failure", "false", "", "Pod").inc()

    def note_conditions(
        self, results: Iterable[DeviceRequestAllocationResult], profile: str, outcome: str, seconds: float
    ) -> None:
        """Count a wait for binding conditions: it is every device's wait, but only some had conditions."""
        for result in results:
            self.conditions_duration.child(profile, result.driver, outcome).observe(seconds)
            if result.binding_conditions:
                self.conditions_allocations.child(profile, result.driver, outcome).inc()

    def note_decision(
        self, feasibility: Feasibility, answer: Placement | Diagnosis, profile: str, seconds: float
    ) -> None:
        """Count the plugin evaluations of one attempt."""
        placed = isinstance(answer, Placement)
        self.algorithm_duration.child().observe(seconds)
        self.note_point("Filter", "Success" if placed else "Unschedulable", profile, seconds)
        evaluated = self.plugin_evaluations.child
        asked, feasibility.asked = feasibility.asked or 1, 0
        if placed:
            plugins = feasibility.plugins
            if plugins.counters is None:  # found once a class: this is done for every pod
                plugins.counters = [
                    *(evaluated(p.name, "Filter", profile, "Success") for p in plugins.filters),
                    *(evaluated(p.name, "Score", profile, "Success") for p, _ in plugins.scores),
                ]
            for counter in plugins.counters:
                counter.value += asked
            return
        assert isinstance(answer, Diagnosis)
        refused = Counter((status.plugin, status.code.value) for status in answer.statuses.values())
        for (name, code), count in refused.items():
            evaluated(name, "Filter", profile, code).value += count
        for name in answer.plugins if answer.prefilter else ():
            evaluated(name, "PreFilter", profile, "UnschedulableAndUnresolvable").value += 1

    def publish(
        self, queue: SchedulingQueue, engines: Iterable[tuple[str, Engine]], sizes: dict[str, int]
    ) -> None:
        """Bring up to date what is read rather than counted."""
        for place, count in queue.counts().items():
            self.pending.child(place).set(count)
        rejecting = queue.rejecting()
        self._published |= rejecting.keys()
        for plugin, profile in self._published:
            self.unschedulable.child(plugin, profile).set(rejecting[plugin, profile])
        for kind, size in sizes.items():
            self.cache_size.child(kind).set(size)
        for profile, engine in engines:
            for (operator, result), count in engine.judged_taints.judge.numeric.items():
                self.numeric_evaluations.child(operator, result, profile).value = count
