"""Admission plugins that set taints of nodes and tolerations for them.

DefaultTolerationSeconds: tolerates not-ready and unreachable nodes for five minutes by default.
Spec: core.md 4.7 "DefaultTolerationSeconds admission". Only key and effect of the pod's own tolerations are compared:
an operator that can never match an empty value suppresses the default all the same. A toleration by `expression` has
neither key nor effect and does not count [D-12].

ExtendedResourceToleration: adds tolerations for the extended resources a pod requests. Spec: core.md 7. Off by default.
Nodes with, say, GPUs are tainted with the resource's name as key; pods that request the resource get the matching
toleration.

TaintNodesByCondition: taints a new node not-ready. Spec: core.md 7. Also when it reports Ready: the node lifecycle
controller removes the taint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir.apiserver.admission.attributes import CREATE, NODE, UPDATE, Attributes, is_pod
from weir.apiserver.admission.toleration_lists import add_or_update
from weir.objects.kind import Kind
from weir.objects.resource_kinds import containers, is_extended_resource
from weir.taints.wellknown import NOT_READY, UNREACHABLE

DEFAULT_SECONDS = 300


class TaintNodesByCondition:
    name = "TaintNodesByCondition"

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == CREATE and kind is NODE and not subresource

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        taints = a.object.setdefault("spec", {}).setdefault("taints", [])
        if not any(t.get("key") == NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
            taints.append({"key": NOT_READY, "effect": "NoSchedule"})


def requested_extended_resources(spec: Mapping[str, Any]) -> list[str]:
    """Return the extended resources that containers request, sorted."""
    names: set[str] = set()
    for container in containers(spec):
        requests = (container.get("resources") or {}).get("requests")
        if requests:
            names.update(name for name in requests if is_extended_resource(name))
    return sorted(names)


class ExtendedResourceToleration:
    name = "ExtendedResourceToleration"

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return is_pod(kind, subresource) and operation in (CREATE, UPDATE)

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        spec = a.object.setdefault("spec", {})
        for resource in requested_extended_resources(spec):
            toleration = {"key": resource, "operator": "Exists", "effect": "NoSchedule"}
            add_or_update(spec.setdefault("tolerations", []), toleration)


def missing_defaults(
    tolerations: Sequence[Mapping[str, Any]], not_ready_seconds: int, unreachable_seconds: int
) -> list[dict[str, Any]]:
    """Return the default tolerations that *tolerations* leaves room for, not-ready first.

    >>> [t["key"] for t in missing_defaults([{"key": "node.kubernetes.io/not-ready"}], 300, 300)]
    ['node.kubernetes.io/unreachable']
    """
    not_ready = unreachable = False
    for toleration in tolerations:
        if toleration.get("effect", "") in ("", "NoExecute") and not toleration.get("expression"):
            key = toleration.get("key", "")
            not_ready = not_ready or key in ("", NOT_READY)
            unreachable = unreachable or key in ("", UNREACHABLE)
    missing = []
    if not not_ready:
        missing.append(_toleration(NOT_READY, not_ready_seconds))
    if not unreachable:
        missing.append(_toleration(UNREACHABLE, unreachable_seconds))
    return missing


def _toleration(key: str, seconds: int) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


class DefaultTolerationSeconds:
    name = "DefaultTolerationSeconds"

    def __init__(self, not_ready: int = DEFAULT_SECONDS, unreachable: int = DEFAULT_SECONDS) -> None:
        self._not_ready, self._unreachable = not_ready, unreachable

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return is_pod(kind, subresource) and operation in (CREATE, UPDATE)

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        spec = a.object.setdefault("spec", {})
        own = spec.get("tolerations")
        missing = missing_defaults(own or (), self._not_ready, self._unreachable)
        if not missing:
            return
        if own is None:
            spec["tolerations"] = missing
        else:
            own.extend(missing)
