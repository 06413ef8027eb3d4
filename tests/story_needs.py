"""Needs of a story, read from what its documents use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.taints.operators import find_comparison, find_in_affinity


def used(value: Any, *, claim: bool = False) -> set[str]:
    """Return the needs that *value*, a document or a part of one, shows by what it uses."""
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
