"""Features that a story needs of a cluster: the names under `needs`.

`weir conformance` skips a story whose needs a cluster does not offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weir.taints.operators import find_comparison, find_in_affinity

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


def used(value: Any, *, claim: bool = False) -> set[str]:
    """Return the needs that *value*, a document or a part of one, shows by what it uses.

    >>> sorted(used({"spec": {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]}}))
    ['numeric']
    """
    found: set[str] = set()
    if isinstance(value, list | tuple):
        for each in value:
            found |= used(each, claim=claim)
    if not isinstance(value, dict):
        return found
    kind = value.get("kind")
    claim = claim or kind in ("ResourceClaim", "ResourceClaimTemplate")
    if str(value.get("apiVersion", "")).startswith("resource.k8s.io/"):
        found.add("devices")
        if value["apiVersion"].endswith("/v1alpha4"):
            found.add("v1alpha4")
    if kind == "DeviceTaintRule":
        found.add("rules")
        if (value.get("spec", {}).get("deviceSelector") or {}).get("selectors"):
            found.add("rule-expressions")
    if kind == "HorizontalPodAutoscaler":
        found.add("autoscaler")
    if kind == "PodDisruptionBudget":
        found.add("budgets")
    if "evictionsPerSecond" in value:
        found.add("rates")
    if kind == "ResourceSlice":
        spec = value.get("spec") or {}
        if spec.get("taints"):
            found.add("separate-taints")
        if any(device.get("taints") for device in spec.get("devices") or ()):
            found.add("device-taints")
    for toleration in value.get("tolerations") or ():
        if isinstance(toleration, dict):
            found |= _of_toleration(toleration, claim)
    for term in value.get("matchExpressions") or ():
        comparison = find_in_affinity(term.get("operator")) if isinstance(term, dict) else None
        if comparison is not None and comparison.affinity_gate:
            found.add(f"{comparison.scale.name}-affinity")
    for name, each in value.items():
        if name != "tolerations":
            found |= used(each, claim=claim)
    return found


def _of_toleration(toleration: Mapping[str, Any], claim: bool) -> set[str]:
    if "expression" in toleration:
        return {"cel"}
    comparison = find_comparison(toleration.get("operator"))
    if comparison is None:
        return set()
    return {f"{comparison.scale.name}-claims" if claim else comparison.scale.name}
