"""NodeDeclaredFeatures: a pod that needs a kubelet feature goes to nodes that declare it.

Spec: KEP-5328 "Node Declared Features"; the reason is Kubernetes'. It is the last of the filters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from weir.objects.core import Node, Pod
from weir.objects.declared_features import declared_features, required_features
from weir.scheduler.framework import Code, Extensions, FilterPlugin, Plugin, Scope, Status
from weir.scheduler.node_columns import Ids
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import NODE_ADD, NODE_FEATURE, ClusterEvent, QueueingHint
from weir.scheduler.reasons import Reason, UndeclaredFeatures

NAME: Final = "NodeDeclaredFeatures"
_REJECTED: Final = Status(Code.UNRESOLVABLE, (UndeclaredFeatures.words,), NAME)


class NodeDeclaredFeatures(Plugin):
    name = NAME

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod that needs nothing new."""
        needed = required_features(pod.pod)
        return Extensions(filter=_Filter(needed, self._table)) if needed else Extensions()

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {NODE_ADD: self._has_features, NODE_FEATURE: self._has_features}

    def _has_features(self, pod: Pod, event: ClusterEvent) -> bool:
        return required_features(pod) <= declared_features(event.new)


class _Filter(FilterPlugin):
    name = NAME
    scope = Scope.NODE

    def __init__(self, needed: frozenset[str], table: NodeTable) -> None:
        self._needed, self._table = needed, table

    def codes(self, rows: Any) -> Ids:
        nodes = self._table.nodes
        wanted = np.arange(len(self._table.alive))[rows].tolist()
        return np.array([row < len(nodes) and self._lacks(nodes[row]) for row in wanted], np.int32)

    def _lacks(self, node: Node | None) -> bool:
        return node is not None and not self._needed <= declared_features(node)

    def status(self, code: int) -> Status:
        return _REJECTED

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        node = self._table.nodes[row]
        assert node is not None
        return (UndeclaredFeatures(tuple(sorted(self._needed - declared_features(node)))),)
