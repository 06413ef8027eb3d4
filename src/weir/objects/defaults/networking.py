"""Defaults of networking.k8s.io: policy types, and the scope of ingress class parameters."""

from __future__ import annotations

from typing import Any, Final

from weir.objects.defaults.core import fill


def ingress_class(found: dict[str, Any]) -> None:
    parameters = (found.get("spec") or {}).get("parameters")
    if parameters is not None:
        fill(parameters, "scope", "Cluster")


def network_policy(policy: dict[str, Any]) -> None:
    """A policy is about what comes in, and about what goes out only when it has rules for that."""
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def network_policy_port(port: dict[str, Any]) -> None:
    fill(port, "protocol", "TCP")


RULES: Final = {
    "networking.v1.IngressClass": ingress_class,
    "networking.v1.NetworkPolicy": network_policy,
    "networking.v1.NetworkPolicyPort": network_policy_port,
}
