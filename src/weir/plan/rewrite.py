"""A cluster in which no object uses a feature any more, as it has to be before components lose the feature.

Extended tolerations are written as Equal ones for the taints that nodes carry now: in templates and, as after a
rollout, in pods. DeviceTaintRules are deleted.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from weir.explain.phrases import counted, listed
from weir.lowering.tolerations import as_equal
from weir.lowering.triples import Triple, triples_of
from weir.objects.templates import find_template
from weir.plan.state import ClusterState
from weir.taints.features import needed_gates
from weir.whatif.upgrade_order import DEVICE_GATES, is_owned, name_of

Document = dict[str, Any]
_SHOWN = 5


def without_features(
    state: ClusterState, lost: frozenset[str], *, is_older: bool
) -> tuple[list[str], ClusterState]:
    """Return what to do before the gates *lost* are, in words, and the cluster in which it is done."""
    nodes = [each for each in state.objects if each.get("kind") == "Node"]
    taints = dict.fromkeys(triple for each in nodes for triple in triples_of(each))
    deletes_rules = is_older or bool(lost & DEVICE_GATES)
    objects: list[Document] = []
    workloads: list[str] = []
    rules: list[str] = []
    for each in state.objects:
        if each.get("kind") == "DeviceTaintRule" and deletes_rules:
            rules.append(name_of(each))
        elif find_template(each) and needed_gates([each]) & lost:
            objects.append(_with_equal(each, taints))
            if not is_owned(each):
                workloads.append(name_of(each))
        else:
            objects.append(each)
    pods = {
        key: _with_equal(pod, taints) if needed_gates([pod]) & lost else source
        for key, source in state.pods.items()
        for pod in (state.pod(key),)
    }
    words = []
    if workloads:
        many = counted(len(workloads), "workload")
        words.append(f"rewrite the tolerations of {many} with Equal first ({listed(workloads, _SHOWN)})")
    if rules:
        words.append(f"delete {listed(rules, _SHOWN)} first")
    return words, ClusterState(objects, pods, state.options)


def _with_equal(document: Document, taints: Iterable[Triple]) -> Document:
    """Return a pod or workload with its tolerations as Equal ones."""
    document = copy.deepcopy(document)
    spec = (find_template(document) or {}).get("spec") or {}
    if spec.get("tolerations"):
        spec["tolerations"] = as_equal(spec["tolerations"], taints)
    return document
