"""NodeUnschedulable: keep pods off cordoned nodes, unless they tolerate the cordon's taint.

Spec: core.md 3.7.2. The taint is virtual: it is asked about whether or not the node carries it, with an empty value,
so no comparison can match it; an expression can.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weir.gates import Gates
from weir.objects.core import Taint
from weir.scheduler.framework import Code, Status
from weir.scheduler.node_table import Ids, NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.reasons import Cordoned, Reason
from weir.taints.toleration import Evaluate, find_tolerating
from weir.taints.wellknown import UNSCHEDULABLE

NAME: Final = "NodeUnschedulable"
CORDONED: Final = Taint(UNSCHEDULABLE, "", "NoSchedule")
_REJECTED: Final = Status(Code.UNRESOLVABLE, (Cordoned.words,), NAME)


class NodeUnschedulable:
    name = NAME

    def __init__(self, gates: Gates, evaluate: Evaluate | None = None) -> None:
        self._gates, self._evaluate = gates, evaluate

    def bind(self, pod: PodClass, table: NodeTable) -> BoundNodeUnschedulable | None:
        """Return the check, or None for a pod that tolerates the cordon."""
        if find_tolerating(pod.tolerations, CORDONED, self._gates, self._evaluate):
            return None
        return BoundNodeUnschedulable(table)


class BoundNodeUnschedulable:
    name = NAME
    dynamic = False

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def codes(self, rows: Any) -> Ids:
        return self._table.unschedulable[rows].astype(np.int32)

    def status(self, code: int) -> Status:
        return _REJECTED

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        return (Cordoned(),)
