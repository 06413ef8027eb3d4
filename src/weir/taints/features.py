"""Feature gates that an object needs, read from its fields.

Spec: KEP-5471, KEP-5721 and KEP-5500 (tolerations and node affinity), KEP-5055 (device taints and their rules). The
result for an object that needs no gate does not depend on the cluster's gates. Whether gates are enabled is in
weir.gates and weir.client.cluster_gates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from weir.gates import DEVICE_TAINT_RULES, DEVICE_TAINTS, TOLERATION_CEL
from weir.objects.envelope import mapping
from weir.objects.templates import find_template
from weir.taints.operators import find_comparison, find_in_affinity


def needed_gates(documents: Iterable[Any]) -> frozenset[str]:
    """Return the gates that *documents* need.

    >>> sorted(needed_gates([{"kind": "Pod", "spec": {"tolerations": [{"key": "a", "operator": "Gt"}]}}]))
    ['TaintTolerationComparisonOperators']
    """
    return frozenset(gate for document in documents for gate in _needed(document))


def _needed(document: Any) -> Iterator[str]:
    kind = document.get("kind") if isinstance(document, dict) else None
    spec = mapping(mapping(document).get("spec"))
    if kind == "DeviceTaintRule":
        yield DEVICE_TAINT_RULES
        yield DEVICE_TAINTS
    elif kind == "ResourceSlice":
        devices = _items(spec.get("devices"))
        if any(each.get("taints") or mapping(each.get("basic")).get("taints") for each in devices):
            yield DEVICE_TAINTS
    elif kind == "PersistentVolume":
        yield from _of_terms(mapping(mapping(spec.get("nodeAffinity")).get("required")))
    else:
        yield from _of_pod(mapping(mapping(find_template(document)).get("spec")))


def _of_pod(spec: dict[str, Any]) -> Iterator[str]:
    for toleration in _items(spec.get("tolerations")):
        operator = toleration.get("operator")
        if toleration.get("expression") or operator == "CEL":  # as a stock cluster's manifests spell it
            yield TOLERATION_CEL
        elif comparison := find_comparison(str(operator or "")):
            yield comparison.gate
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    yield from _of_terms(mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")))
    for preferred in _items(affinity.get("preferredDuringSchedulingIgnoredDuringExecution")):
        yield from _of_terms({"nodeSelectorTerms": [preferred.get("preference")]})


def _of_terms(selector: dict[str, Any]) -> Iterator[str]:
    for term in _items(selector.get("nodeSelectorTerms")):
        for requirement in _items(term.get("matchExpressions")):
            comparison = find_in_affinity(requirement.get("operator"))
            if comparison is not None and comparison.affinity_gate:
                yield comparison.affinity_gate


def _items(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
