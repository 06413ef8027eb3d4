"""The metric `kubernetes_feature_enabled` of a component, and one for the components of a simulated cluster.

Where several components share a process (`weir up`), only the API server's metrics are reachable, so they also report
the others' gates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weir.gates import KNOWN, Gates
from weir.observe.metrics import Registry

ENABLED: Final = "kubernetes_feature_enabled"
COMPONENT_ENABLED: Final = "weir_component_feature_enabled"
_STAGES: Final = {"GA": ""}


def publish_features(registry: Registry, gates: Gates) -> None:
    """Add upstream's metric of a component's own *gates*; a stable feature has an empty stage there."""
    family = registry.gauge(
        ENABLED,
        "This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
    )
    for gate in KNOWN.values():
        family.child(gate.name, _STAGES.get(gate.stage, gate.stage)).set(float(gates.enabled(gate.name)))


def publish_component_features(registry: Registry, components: Mapping[str, Gates]) -> None:
    """Say the gates of the other components in this process, by component; said again, they replace the former."""
    family = registry.find_gauge(COMPONENT_ENABLED) or registry.gauge(
        COMPONENT_ENABLED,
        "Whether a feature is enabled in a component that runs in the same process.",
        ("component", "name"),
    )
    for component, gates in components.items():
        for name in KNOWN:
            family.child(component, name).set(float(gates.enabled(name)))
