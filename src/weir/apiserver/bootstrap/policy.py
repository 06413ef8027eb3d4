"""Which roles and bindings does a new cluster start with?

Kubernetes' own: enough for an administrator, for `kubectl` users with `view`, `edit` or `admin`, and for an
unmodified kube-scheduler, kube-controller-manager and kubelet. They are data (`rbac.json`, made by `tools/rbac` from
Kubernetes' bootstrap policy), also for kinds weir does not serve, so that tools that look for them find them.
`objects()` are created when they are missing; `reconciled` brings one that is there up to date, by adding what it
lacks and never taking away, unless its owner has switched that off with the annotation.
Not here: writing the objects (weir.apiserver.bootstrap.objects).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from weir.apiserver.auth.rbac import Rule
from weir.apiserver.auth.rule_coverage import uncovered

GROUP = "rbac.authorization.k8s.io"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
SYSTEM = "kube-system"
#: Roles whose rules the aggregation controller writes, each gathering its own and those of the roles before it.
_AGGREGATED = ("view", "edit", "admin")


@cache
def _policy() -> tuple[dict[str, Any], ...]:
    text = resources.files("weir.apiserver.bootstrap").joinpath("rbac.json").read_bytes()
    return tuple(msgspec.json.decode(text))


def objects() -> Iterator[dict[str, Any]]:
    """Yield every role and binding of a new cluster."""
    for found in _policy():
        name = found["metadata"]["name"]
        document = {"apiVersion": f"{GROUP}/v1", **found}
        if "aggregationRule" in found:
            document["rules"] = _gathered(name)
        yield document


def _gathered(role: str) -> list[dict[str, Any]]:
    """Return the rules the aggregation controller would write into admin, edit or view."""
    gathered: list[dict[str, Any]] = []
    for each in _AGGREGATED[: _AGGREGATED.index(role) + 1]:
        gathered = _rules(f"system:aggregate-to-{each}") + gathered
    return gathered


def _rules(cluster_role: str) -> list[dict[str, Any]]:
    for found in _policy():
        if found["kind"] == "ClusterRole" and found["metadata"]["name"] == cluster_role:
            rules: list[dict[str, Any]] = found["rules"]
            return rules
    raise LookupError(f"rbac.json has no ClusterRole {cluster_role}")


def reconciled(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return *stored* with what it lacks of *wanted*, None when it lacks nothing or does not want updates."""
    metadata = stored.get("metadata") or {}
    if (metadata.get("annotations") or {}).get(AUTOUPDATE) == "false":
        return None
    if "aggregationRule" in wanted:
        lacking: dict[str, Any] = {}  # its rules are written by the aggregation controller
    elif "roleRef" in wanted:
        have = stored.get("subjects") or []
        missing = [subject for subject in wanted.get("subjects") or () if subject not in have]
        lacking = {"subjects": [*have, *missing]} if missing else {}
    else:
        more = uncovered(stored.get("rules") or (), wanted.get("rules") or ())
        lacking = {"rules": [*(stored.get("rules") or ()), *more]} if more else {}
    labels = {**(metadata.get("labels") or {})}
    fresh = {k: v for k, v in (wanted["metadata"].get("labels") or {}).items() if k not in labels}
    if not lacking and not fresh:
        return None
    return {**stored, **lacking, "metadata": {**metadata, "labels": {**labels, **fresh}}}


def node_rules() -> tuple[Rule, ...]:
    """Return the rules of ClusterRole system:node, which the Node authorizer grants to kubelets."""
    return tuple(Rule.of(rule) for rule in _rules("system:node"))


def authentication_config(client_ca: str) -> dict[str, Any]:
    """Return the ConfigMap from which components learn whose client certificates to trust."""
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": SYSTEM},
        "data": {"client-ca-file": client_ca},
    }
