"""DaemonSet eligibility of a node: whether it should run the pod, and whether a running one may continue.

Spec: core.md 5 "DaemonSet controller". A NoSchedule taint added later does not remove a running daemon pod, a
NoExecute one does. A cordoned node still gets its pod. Pods get a node affinity instead of a node name; the scheduler
binds them. `EligibleNodes` answers for all nodes at once what `should_run` defines for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir.controllers.runtime.views import Node, Pod
from weir.gates import Gates
from weir.objects import core
from weir.objects.core import Taint, Toleration, ViewError, read
from weir.selectors.node import pod_selects_node, required_selector
from weir.taints import wellknown
from weir.taints.toleration import BLOCKING, EVICTING, Evaluate, untolerated


@dataclass(frozen=True, slots=True)
class ShouldRun:
    """Whether a node should get a daemon pod, and whether one that runs there may go on."""

    run: bool
    go_on: bool


NEITHER: Final = ShouldRun(False, False)


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
        return NEITHER
    if not pod_selects_node(pod, node.labels, node.name, gates):
        return NEITHER
    return _under_taints(pod, node.taints, gates, evaluate)


def _under_taints(
    pod: core.Pod, taints: Sequence[Taint], gates: Gates, evaluate: Evaluate | None
) -> ShouldRun:
    if untolerated(taints, pod.tolerations, gates, BLOCKING, evaluate):
        return ShouldRun(False, not untolerated(taints, pod.tolerations, gates, EVICTING, evaluate))
    return ShouldRun(True, True)


class EligibleNodes:
    """Some nodes, and which of them run the pods of a template.

    Nodes that a template selects are found by label value, and its tolerations are held against every list of taints
    once. tests/unit/controllers/workloads/test_daemon_nodes.py compares it with `should_run`.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.by_name: dict[str, Node] = dict(sorted((str(node.name), node) for node in nodes))
        self._by_label: dict[str, dict[str, list[Node]]] = {}

    def verdicts(
        self, pod: core.Pod, gates: Gates, evaluate: Evaluate | None = None
    ) -> Iterator[tuple[Node, ShouldRun]]:
        """Yield what `should_run` says of every node for which it is not `NEITHER`, maybe of others, too."""
        known: dict[tuple[Taint, ...], ShouldRun] = {}
        for node in self._candidates(pod):
            if not pod_selects_node(pod, node.labels, node.name, gates):
                continue
            taints = tuple(node.taints)
            if taints not in known:
                known[taints] = _under_taints(pod, taints, gates, evaluate)
            yield node, known[taints]

    def _candidates(self, pod: core.Pod) -> Iterable[Node]:
        """Return all nodes that *pod* may select, each once."""
        if pod.spec.node_name:
            return self._called((pod.spec.node_name,))
        for key, value in (pod.spec.node_selector or {}).items():
            return self._labelled(key, (value,))
        required = required_selector(pod)
        if required is None:
            return self.by_name.values()
        found: dict[str, Node] = {}
        for term in required.node_selector_terms or ():
            nodes: Iterable[Node] = self.by_name.values()
            for requirement in (*(term.match_fields or ()), *(term.match_expressions or ())):
                if requirement.operator == "In":
                    in_fields = requirement in (term.match_fields or ())
                    values = requirement.values or ()
                    nodes = self._called(values) if in_fields else self._labelled(requirement.key, values)
                    break
            found.update((node.name, node) for node in nodes)
        return found.values()

    def _called(self, names: Iterable[str]) -> list[Node]:
        return [self.by_name[name] for name in names if name in self.by_name]

    def _labelled(self, key: str, values: Iterable[str]) -> list[Node]:
        """Return the nodes whose label *key* has one of *values*."""
        groups = self._by_label.get(key)
        if groups is None:
            groups = {}
            for node in self.by_name.values():
                if key in node.labels:
                    groups.setdefault(node.labels[key], []).append(node)
            if groups:
                self._by_label[key] = groups
        return [node for value in dict.fromkeys(values) for node in groups.get(value, ())]


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
