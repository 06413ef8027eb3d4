"""Features that a story needs of a cluster: the names under `needs`.

`weir conformance` skips a story whose needs a cluster does not offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

#: Each need with its meaning, in the order of the results.
NEEDS: Final[Mapping[str, str]] = {
    "numeric": "Lt and Gt in tolerations",
    "semver": "SemverLt, SemverGt and SemverEq in tolerations",
    "semver-affinity": "the same operators in node affinity",
    "cel": "expressions in tolerations",
    "devices": "claims for devices (dynamic resource allocation)",
    "device-taints": "taints of devices, published by their driver",
    "separate-taints": "taints of devices in a ResourceSlice of their own",
    "numeric-claims": "Lt and Gt in the tolerations of claims",
    "semver-claims": "Semver operators in the tolerations of claims",
    "rules": "DeviceTaintRules",
    "rates": "evictionsPerSecond of device taints",
    "rule-expressions": "DeviceTaintRules that select by expression",
    "v1alpha4": "resource.k8s.io in the form of the KEP's examples, v1alpha4",
    "autoscaler": "HorizontalPodAutoscalers with metrics of simulated pods",
    "budgets": "PodDisruptionBudgets",
}


class NeedError(ValueError):
    """An unknown need."""


def check_needs(needs: Iterable[str]) -> None:
    """Raise NeedError unless every one of *needs* is known."""
    for need in needs:
        if need not in NEEDS:
            raise NeedError(f"needs: {need!r} is none of {', '.join(NEEDS)}")
