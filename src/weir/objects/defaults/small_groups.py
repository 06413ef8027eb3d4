"""Defaults that are not constants, of networking, rbac, apiextensions and autoscaling."""

from __future__ import annotations

import copy
from typing import Any, Final

from weir.objects.autoscaler_versions import DEFAULT_CPU_UTILIZATION, default_metric, has_other_metrics


def network_policy(policy: dict[str, Any]) -> None:
    """A policy is about what comes in, and about what goes out only when it has rules for that."""
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def subject(subject: dict[str, Any]) -> None:
    if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
        subject["apiGroup"] = "rbac.authorization.k8s.io"


def custom_resource_definition(definition: dict[str, Any]) -> None:
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    status = definition.get("status")
    if status is not None and not status.get("storedVersions"):
        stored = [one.get("name") or "" for one in spec.get("versions") or () if one.get("storage")]
        status["storedVersions"] = stored[:1] or None


def autoscaler_v1(autoscaler: dict[str, Any]) -> None:
    """The metric that conversion gives an autoscaler without one shows as this field's value."""
    spec = autoscaler.setdefault("spec", {})
    if "targetCPUUtilizationPercentage" not in spec and not has_other_metrics(autoscaler):
        spec["targetCPUUtilizationPercentage"] = DEFAULT_CPU_UTILIZATION


def autoscaler_v2(autoscaler: dict[str, Any]) -> None:
    """An autoscaler without metrics scales by CPU, and rules that are half said get the usual other half."""
    spec = autoscaler.setdefault("spec", {})
    if not spec.get("metrics"):
        spec["metrics"] = [default_metric()]
    if (behavior := spec.get("behavior")) is not None:
        for way, usual in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            rules = {name: value for name, value in (behavior.get(way) or {}).items() if value is not None}
            # Copies: what the server stores of one autoscaler must not be another's.
            behavior[way] = {**copy.deepcopy(usual), **rules}


_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Final = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


RULES: Final = {
    "apiextensions.v1.CustomResourceDefinition": custom_resource_definition,
    "autoscaling.v1.HorizontalPodAutoscaler": autoscaler_v1,
    "autoscaling.v2.HorizontalPodAutoscaler": autoscaler_v2,
    "networking.v1.NetworkPolicy": network_policy,
    "rbac.v1.Subject": subject,
}
