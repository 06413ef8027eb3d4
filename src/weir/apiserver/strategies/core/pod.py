"""Strategy of Pod: initial status, QoS class, graceful deletion, subresource fields.

Spec: apiserver.md 5.1 "Pod", 8 "Delete", 12 "Subresources"; core.md 2.6 (scheduling gates).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weir.apiserver.strategies.core.pod_warnings import HOSTNAME_OF_POD, name_warnings, pod_warnings
from weir.apiserver.strategies.strategy import Context, Strategy, keep
from weir.objects.kind import Document, Kind
from weir.objects.pod_resources import QOS_RESOURCES, container_totals, is_pod_level, qos_class
from weir.values.quantity import find_quantity

# ── fields that the server accepts but drops: disabled or removed features ──
# Spec: Kubernetes 1.37 with its default gates, none of which weir has a switch for. The sender still owns such a field
# in managedFields, since ownership is computed before.


def drop_from_pod(spec: Document) -> None:
    """Take what no server of this release keeps out of a pod's spec.

    >>> spec = {"schedulingGroup": {}, "containers": [{"name": "c", "lifecycle": {"stopSignal": "SIGTERM"}}]}
    >>> drop_from_pod(spec)
    >>> spec
    {'containers': [{'name': 'c'}]}
    """
    spec.pop("schedulingGroup", None)
    for part in ("containers", "initContainers"):
        for container in spec.get(part) or ():
            lifecycle = container.get("lifecycle")
            if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
                container.pop("lifecycle")


class WithoutFields(Strategy):
    """The strategy of a kind some fields of whose spec are not kept."""

    def __init__(self, *fields: str) -> None:
        self._fields = fields

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Drop the fields."""
        super().prepare_create(kind, new, context)
        for field in self._fields:
            (new.get("spec") or {}).pop(field, None)

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Drop the fields unless they are stored already."""
        super().prepare_update(kind, new, old, context)
        for field in self._fields:
            if field not in (old.get("spec") or {}):
                (new.get("spec") or {}).pop(field, None)


GATED_CONDITION = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


class PodStrategy(Strategy):
    """What the server does to pods."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Give a new pod its first status."""
        new["metadata"]["generation"] = 1
        spec = new["spec"]
        drop_from_pod(spec)
        if spec.get("affinity") or spec.get("topologySpreadConstraints"):
            apply_label_keys(spec, new["metadata"].get("labels") or {})
        if spec.get("resources") is not None:
            pod_resources(spec)
        status: Document = {"phase": "Pending"}
        if spec.get("schedulingGates"):
            status["conditions"] = [{**GATED_CONDITION, "lastTransitionTime": context.now}]
        status["qosClass"] = qos_class(spec)
        new["status"] = status

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterable[str]:
        """Return what is odd about a new pod; an update is not worth the time, as upstream has it."""
        if old is not None:
            return ()
        metadata = new["metadata"]
        return (
            *name_warnings(metadata.get("name") or "", HOSTNAME_OF_POD),
            *pod_warnings(new.get("spec") or {}, metadata),
        )

    def restrict(self, kind: Kind, new: Document, old: Document, subresource: str) -> None:
        """Let each endpoint change only its own part."""
        if subresource == "ephemeralcontainers":
            added = (new.get("spec") or {}).get("ephemeralContainers")
            _only_spec(new, old)
            if added is not None:
                new["spec"]["ephemeralContainers"] = added
        elif subresource == "resize":
            wanted = new.get("spec") or {}
            _only_spec(new, old)
            for field in ("containers", "initContainers"):
                _take_resources(new["spec"].get(field) or [], wanted.get(field) or [])
        else:
            super().restrict(kind, new, old, subresource)
            if subresource == "status":
                _keep_qos(new, old)

    def delete_grace(self, document: Document, asked: int | None) -> int | None:
        """Return how long the pod may take to stop; 0 when nothing runs."""
        spec, status = document.get("spec") or {}, document.get("status") or {}
        grace = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 0)
        if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
            grace = 0
        return 1 if grace < 0 else int(grace)


def pod_resources(spec: Document) -> None:
    """What a whole pod does not ask for is what its containers ask for, or else its limit.

    A limit it does not have is that of its containers, when all of them have one; it is never less than the request.

    >>> container = {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    >>> spec = {"resources": {"requests": {"memory": "1Mi"}}, "containers": [container]}
    >>> pod_resources(spec)
    >>> spec["resources"]
    {'requests': {'memory': '1Mi', 'cpu': '1'}, 'limits': {'cpu': '2'}}
    """
    resources = spec["resources"]
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    if not requests and not limits:
        return
    most = container_totals(spec, "limits")
    for name, amount in most.items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, str(amount))
    for name, amount in container_totals(spec, "requests").items():
        if name in QOS_RESOURCES:
            requests.setdefault(name, str(amount))
    for name, limit in limits.items():
        if is_pod_level(name):
            requests.setdefault(name, limit)
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    bounded = [(container.get("resources") or {}).get("limits") or {} for container in containers]
    for name, request in requests.items():
        if is_pod_level(name) and name not in limits and name in most and all(name in own for own in bounded):
            asked = find_quantity(str(request))
            limits[name] = request if asked is not None and most[name] < asked else str(most[name])
    if requests:
        resources["requests"] = requests
    if limits:
        resources["limits"] = limits


def apply_label_keys(spec: Document, labels: dict[str, str]) -> None:
    """Add what matchLabelKeys and mismatchLabelKeys stand for to the selectors beside them.

    >>> spec = {"topologySpreadConstraints": [{"matchLabelKeys": ["a", "z"], "labelSelector": {}}]}
    >>> apply_label_keys(spec, {"a": "1"})
    >>> spec["topologySpreadConstraints"][0]["labelSelector"]
    {'matchExpressions': [{'key': 'a', 'operator': 'In', 'values': ['1']}]}
    """
    terms: list[Document] = list(spec.get("topologySpreadConstraints") or ())
    for side in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(side) or {}
        preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [weighted.get("podAffinityTerm") or {} for weighted in preferred]
        terms += affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    for term in terms:
        selector = term.get("labelSelector")
        if selector is None:
            continue  # it selects nothing, with or without the keys
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(name) or ()
            if key in labels
        ]
        if added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def _only_spec(new: Document, old: Document) -> None:
    """Make *new* the old pod, with a spec of its own to edit; ownership follows the request's metadata."""
    new["spec"] = {
        **old["spec"],
        **{
            field: [dict(container) for container in old["spec"][field]]
            for field in ("containers", "initContainers")
            if field in old["spec"]
        },
    }
    keep(new, old, "status")
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        keep(new["metadata"], old["metadata"], name)


def _take_resources(containers: list[Any], wanted: list[Any]) -> None:
    by_name = {container.get("name"): container for container in wanted}
    for container in containers:
        asked = by_name.get(container.get("name"))
        if asked is not None:
            for field in ("resources", "resizePolicy"):
                keep(container, asked, field)


def _keep_qos(new: Document, old: Document) -> None:
    """The class is decided at creation; an update that leaves it out does not clear it."""
    have = (old.get("status") or {}).get("qosClass")
    if have and isinstance(new.get("status"), dict):
        new["status"].setdefault("qosClass", have)
