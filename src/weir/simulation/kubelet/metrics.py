"""Kubelet metrics of pods and admission, summed over all simulated nodes of the process."""

from __future__ import annotations

from weir.observe.expressions import ExpressionMetrics
from weir.observe.metrics import Registry


class KubeletMetrics:
    """The metrics of all simulated kubelets of one process."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry or Registry()
        self.running_pods = self.registry.gauge(
            "kubelet_running_pods", "Pods that run on the simulated nodes."
        )
        self.started_pods = self.registry.counter(
            "kubelet_started_pods_total", "Pods that were admitted and begun."
        )
        self.rejections = self.registry.counter(
            "kubelet_admission_rejections_total", "Pods that were not admitted, by reason.", ("reason",)
        )
        self.nodes = self.registry.gauge("weir_kubelet_nodes", "Simulated nodes that are played.")
        self.cel = ExpressionMetrics(self.registry)
