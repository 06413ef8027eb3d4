"""NodeUnschedulable: keeps pods off cordoned nodes unless they tolerate the unschedulable taint.

Spec: core.md 3.7.2. The taint is virtual: it is matched whether or not the node carries it, with an empty value, so
no comparison can match it; an expression can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from weir.gates import Gates
from weir.objects.core import Pod, Taint
from weir.scheduler.framework import Code, Extensions, FilterPlugin, Plugin, Scope, Status
from weir.scheduler.node_columns import Ids
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import NODE_ADD, NODE_TAINT, OWN_TOLERATION, ClusterEvent, QueueingHint
from weir.scheduler.reasons import Cordoned, Reason
from weir.taints.toleration import Evaluate, find_tolerating
from weir.taints.wellknown import UNSCHEDULABLE

NAME: Final = "NodeUnschedulable"
CORDONED: Final = Taint(UNSCHEDULABLE, "", "NoSchedule")
_REJECTED: Final = Status(Code.UNRESOLVABLE, (Cordoned.words,), NAME)


class NodeUnschedulable(Plugin):
    name = NAME

    def __init__(self, table: NodeTable, gates: Gates, evaluate: Evaluate | None = None) -> None:
        self._table, self._gates, self._evaluate = table, gates, evaluate

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod that tolerates the cordon."""
        if find_tolerating(pod.tolerations, CORDONED, self._gates, self._evaluate):
            return Extensions()
        return Extensions(filter=_Filter(self._table))

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {
            NODE_ADD: self._now_schedulable,
            NODE_TAINT: self._now_schedulable,
            OWN_TOLERATION: self._now_tolerates_cordon,
        }

    def _now_schedulable(self, pod: Pod, event: ClusterEvent) -> bool:
        was_cordoned = event.old is None or bool(event.old.spec.unschedulable)
        return was_cordoned and not event.new.spec.unschedulable

    def _now_tolerates_cordon(self, pod: Pod, event: ClusterEvent) -> bool:
        return find_tolerating(event.new.tolerations, CORDONED, self._gates, self._evaluate) is not None


class _Filter(FilterPlugin):
    name = NAME
    scope = Scope.NODE

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def codes(self, rows: Any) -> Ids:
        return self._table.unschedulable[rows].astype(np.int32)

    def status(self, code: int) -> Status:
        return _REJECTED

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        return (Cordoned(),)
