"""Quota usage of one object.

Spec: core/v1 ResourceQuota. Pure: an object in wire form → amounts under quota names (`pods`, `requests.cpu`,
`limits.memory`, `count/deployments.apps`, `requests.storage`, `gpu.deviceclass.resource.k8s.io/devices` …). A
finished pod uses nothing. Scopes select the pods that a quota counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.objects.kind import Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from weir.objects.pod_resources import Amounts, is_best_effort, is_extended_resource, pod_total
from weir.values.quantity import find_quantity, parse_quantity

CLASS_BETA = "volume.beta.kubernetes.io/storage-class"
ONE = parse_quantity("1")
MOST_DEVICES = 32  # of a claim: what a request for all of them counts as
COUNTED = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)
MUST_BE_SET = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_PLAIN = ("cpu", "memory", "ephemeral-storage")


def usage_of(kind: Kind, document: Mapping[str, Any]) -> Amounts:
    """Return what *document* uses, under every name a quota may call it by."""
    if kind is PODS:
        return _pod_usage(document)
    used: Amounts = {f"count/{kind.plural}.{kind.group}" if kind.group else f"count/{kind.plural}": ONE}
    if not kind.group and kind.plural in COUNTED:
        used[kind.plural] = ONE
    if kind is PERSISTENT_VOLUME_CLAIMS:
        _add_claim(used, document)
    elif kind.kind == "Service":
        _add_service(used, document.get("spec") or {})
    elif kind.group == "resource.k8s.io" and kind.kind == "ResourceClaim":
        _add_devices(used, document.get("spec") or {})
    return used


def _pod_usage(pod: Mapping[str, Any]) -> Amounts:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return {}
    spec = pod.get("spec") or {}
    used: Amounts = {"pods": ONE, "count/pods": ONE}
    for name, amount in pod_total(spec, "requests").items():
        if name in _PLAIN or name.startswith("hugepages-"):
            used[name] = amount
        if name in _PLAIN or name.startswith("hugepages-") or is_extended_resource(name):
            used[f"requests.{name}"] = amount
    for name, amount in pod_total(spec, "limits").items():
        if name in _PLAIN:
            used[f"limits.{name}"] = amount
    return used


def class_of_claim(claim: Mapping[str, Any]) -> str | None:
    """Return the claim's class; None when it is left to the default, "" for no class."""
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    if CLASS_BETA in annotations:
        return str(annotations[CLASS_BETA])
    name = (claim.get("spec") or {}).get("storageClassName")
    return None if name is None else str(name)


def _add_claim(used: Amounts, claim: Mapping[str, Any]) -> None:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    storage = find_quantity(str(requests.get("storage", "")))
    storage_class = class_of_claim(claim)
    prefix = f"{storage_class}.storageclass.storage.k8s.io/" if storage_class else ""
    if prefix:
        used[f"{prefix}persistentvolumeclaims"] = ONE
    if storage is not None:
        used["requests.storage"] = storage
        if prefix:
            used[f"{prefix}requests.storage"] = storage


def _add_service(used: Amounts, spec: Mapping[str, Any]) -> None:
    if spec.get("type") == "LoadBalancer":
        used["services.loadbalancers"] = ONE
    if spec.get("type") in ("LoadBalancer", "NodePort"):
        used["services.nodeports"] = parse_quantity(str(len(spec.get("ports") or ())))


def _add_devices(used: Amounts, spec: Mapping[str, Any]) -> None:
    """Count the devices of each class that a claim may get; of alternatives, the largest request."""
    counts: dict[str, int] = {}
    for request in (spec.get("devices") or {}).get("requests") or ():
        most: dict[str, int] = {}
        for one in request.get("firstAvailable") or [request.get("exactly") or {}]:
            name = one.get("deviceClassName")
            if name:
                most[name] = max(most.get(name, 0), _devices_of(one))
        for name, count in most.items():
            counts[name] = counts.get(name, 0) + count
    for name, count in counts.items():
        used[f"{name}.deviceclass.resource.k8s.io/devices"] = parse_quantity(str(count))


def _devices_of(request: Mapping[str, Any]) -> int:
    """Return how many devices a request may get; one of an unknown mode counts as none."""
    mode = request.get("allocationMode", "ExactCount")
    if mode == "All":
        return MOST_DEVICES
    return int(request.get("count", 1)) if mode == "ExactCount" else 0


def in_scope(quota: Mapping[str, Any], kind: Kind, document: Mapping[str, Any]) -> bool:
    """Return whether *quota* is about this object; a quota without scopes is about everything."""
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not scopes:
        return True
    if kind is PERSISTENT_VOLUME_CLAIMS:
        return all(_claim_scope_matches(scope, document) for scope in scopes)
    return kind is PODS and all(_scope_matches(scope, document.get("spec") or {}) for scope in scopes)


def _claim_scope_matches(scope: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Return whether one of the claim's attributes classes is meant."""
    if scope.get("scopeName") != "VolumeAttributesClass":
        return False
    return any(_name_matches(scope, name) for name in sorted(attributes_classes_of(claim)) or [""])


def attributes_classes_of(claim: Mapping[str, Any]) -> set[str]:
    """Return the names of the attributes classes that a claim has, had or is to have."""
    status = claim.get("status") or {}
    names = {
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    return {str(name) for name in names if name}


def _name_matches(scope: Mapping[str, Any], own: str) -> bool:
    """Return whether the name of a class is one that a scope takes; empty: there is none."""
    values = scope.get("values") or ()
    return {
        "In": own in values,
        "NotIn": own not in values,
        "Exists": bool(own),
        "DoesNotExist": not own,
    }.get(str(scope.get("operator")), False)


def _scope_matches(scope: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    name = scope.get("scopeName")
    if name == "PriorityClass":
        return _name_matches(scope, spec.get("priorityClassName") or "")
    deadline = spec.get("activeDeadlineSeconds") is not None
    return {
        "BestEffort": is_best_effort(spec),
        "NotBestEffort": not is_best_effort(spec),
        "Terminating": deadline,
        "NotTerminating": not deadline,
        "CrossNamespacePodAffinity": _crosses_namespaces(spec),
    }.get(str(name), False)


def _crosses_namespaces(spec: Mapping[str, Any]) -> bool:
    for part in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(part) or {}
        terms = list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            terms.append(weighted.get("podAffinityTerm") or {})
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def unset(spec: Mapping[str, Any], wanted: frozenset[str]) -> dict[str, list[str]]:
    """Return which of *wanted* some container leaves open: resource name → containers."""
    missing: dict[str, list[str]] = {}
    holders = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    for container in holders:
        resources = container.get("resources") or {}
        have = {f"limits.{name}" for name in resources.get("limits") or ()}
        for name in resources.get("requests") or ():
            have |= {name, f"requests.{name}"}
        for name in sorted(wanted - have):
            missing.setdefault(name, []).append(container.get("name", ""))
    return missing
