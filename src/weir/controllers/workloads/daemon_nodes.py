"""DaemonSet eligibility of a node: whether it should run the pod, and whether a running one may continue.

Spec: core.md 5 "DaemonSet controller". A NoSchedule taint added later does not remove a running daemon pod, a
NoExecute one does. A cordoned node still gets its pod. Pods get a node affinity instead of a node name; the scheduler
binds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from weir.controllers.runtime.views import Node, Pod
from weir.gates import Gates
from weir.objects import core
from weir.objects.core import Toleration, ViewError, read
from weir.selectors.node import pod_selects_node
from weir.taints import wellknown
from weir.taints.toleration import BLOCKING, EVICTING, Evaluate, untolerated


@dataclass(frozen=True, slots=True)
class ShouldRun:
    """Whether a node should get a daemon pod, and whether one that runs there may go on."""

    run: bool
    go_on: bool


def daemon_tolerations(tolerations: Sequence[Toleration], *, host_network: bool) -> list[Toleration]:
    """Return a template's tolerations with those every daemon pod has.

    >>> mine = Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute", 30)
    >>> daemon_tolerations([mine], host_network=False)[0].toleration_seconds is None
    True
    """
    merged = list(tolerations)
    for key, effect in wellknown.daemon_taints(host_network=host_network):
        entry = Toleration(key, "Exists", "", effect)
        for position, present in enumerate(merged):
            if present.identity == entry.identity:
                merged[position] = entry
                break
        else:
            merged.append(entry)
    return merged


def should_run(pod: core.Pod, node: Node, gates: Gates, evaluate: Evaluate | None = None) -> ShouldRun:
    """Return whether *node* should run the pod of a template (its tolerations complete)."""
    if pod.spec.node_name and pod.spec.node_name != node.name:
        return ShouldRun(False, False)
    if not pod_selects_node(pod, node.labels, node.name, gates):
        return ShouldRun(False, False)
    if untolerated(node.taints, pod.tolerations, gates, BLOCKING, evaluate):
        return ShouldRun(False, not untolerated(node.taints, pod.tolerations, gates, EVICTING, evaluate))
    return ShouldRun(True, True)


def template_pod(daemonset: Mapping[str, Any]) -> core.Pod | None:
    """Return the pod a DaemonSet's template describes, tolerations complete; None when it cannot be read."""
    try:
        pod = read(core.Pod, {"spec": daemonset["spec"]["template"]["spec"]})
    except ViewError:
        return None
    host_network = bool(pod.spec.host_network)
    tolerations = tuple(daemon_tolerations(pod.tolerations, host_network=host_network))
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, tolerations=tolerations))


def node_of(pod: Pod) -> str:
    """Return the node a daemon pod is on, or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity.required if affinity else None
    for term in (required.node_selector_terms or ()) if required else ():
        for requirement in term.match_fields or ():
            if requirement.key == "metadata.name" and requirement.operator == "In" and requirement.values:
                return requirement.values[0]
    return ""


def spec_for(template: Mapping[str, Any], node: str, tolerations: Sequence[Toleration]) -> dict[str, Any]:
    """Return what of the template's spec differs in a pod meant for *node*."""
    affinity = dict(template["spec"].get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [{"matchFields": [field]}]
    }
    affinity["nodeAffinity"] = node_affinity
    return {"affinity": affinity, "tolerations": msgspec.to_builtins(list(tolerations))}
