"""Metrics of the operator. No label is ever a caller's text: every set of label values is fixed."""

from __future__ import annotations

from typing import Final

from weir.observe.metrics import Registry, add_process_metrics, exponential

_SECONDS: Final = exponential(0.001, 2, 14)


class OperatorMetrics:
    """The metrics of one operator."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry or Registry()
        r = self.registry
        self.hook_duration = r.histogram(
            "weir_operator_hook_duration_seconds",
            "How long a webhook took to answer, by path and by what it said (allowed, refused, failed).",
            ["path", "result"],
            buckets=_SECONDS,
        )
        self.refused = r.counter(
            "weir_operator_refused_requests_total",
            "Requests that were not the API server's and not read, by what gave them away "
            "(head, method, path, name, body, room, unready).",
            ["why"],
        )
        self.dropped = r.counter(
            "weir_operator_dropped_taints_total",
            "Rows of the table of known taints that the API server called invalid and that were dropped.",
        )
        self.barrier_duration = r.histogram(
            "weir_operator_barrier_duration_seconds",
            "How long a node write waited until every pod was ready for its new taints.",
            buckets=_SECONDS,
        )
        self.barriers = r.counter(
            "weir_operator_barriers_total",
            "Node writes with new taints, by what became of them (admitted, timed_out, failed).",
            ["result"],
        )
        self.barriers_ahead = r.counter(
            "weir_operator_barriers_ahead_total",
            "Node writes that evict nobody and went ahead of the entries of pending pods.",
        )
        self.confirm_duration = r.histogram(
            "weir_operator_confirm_duration_seconds",
            "How long kube-controller-manager took to show that it had seen the pods.",
            buckets=_SECONDS,
        )
        self.confirms = r.counter(
            "weir_operator_confirms_total",
            "Confirmations asked of kube-controller-manager; many barriers share one.",
        )
        self.released = r.counter("weir_operator_pods_released_total", "Pods whose gate was removed.")
        self.entries = r.histogram(
            "weir_operator_pod_entries",
            "How many tolerations a pod has when its gate is removed.",
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
        )
        self.added = r.counter(
            "weir_operator_entries_added_total",
            "Entries added to stored pods, by why (release, barrier, repair).",
            ["why"],
        )
        self.grace = r.counter(
            "weir_operator_grace_total",
            "Grace entries of bound pods, by what was done (given, ended before a taint that the pod leaves for).",
            ["what"],
        )
        self.repairs = r.counter(
            "weir_operator_repairs_total",
            "What was found on the wrong side and put right (entries against NoExecute, labels).",
            ["what"],
        )
        self.capped = r.counter(
            "weir_operator_capped_total", "Times a pod could not get an entry because it has too many."
        )
        self.known = r.gauge("weir_operator_known_taints", "Taints that pods have entries for.").child()
        self.lowered = r.gauge("weir_operator_lowered_pods", "Pods with extended tolerations.").child()
        self.grace_seconds = r.gauge(
            "weir_operator_grace_seconds", "How long a grace entry lasts; 0: pods have none."
        ).child()
        self.apart = r.gauge(
            "weir_operator_controllers_apart",
            "1 where kube-controller-manager is seen to run without taint eviction or endpoint slices.",
        ).child()
        self.leader = r.gauge("weir_operator_leader", "1 on the replica that releases pods.").child()
        add_process_metrics(r)

    def refuse(self, why: str) -> None:
        """Count a request that is not heard."""
        self.refused.child(why).inc()
